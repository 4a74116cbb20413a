"""The tables of the reference pages, made from the code that they are about.

    python -m tests.pages        writes them anew (`make pages`); a test fails while one differs

A page says `<!-- made: verbs of a rig -->` where a table of that name begins, and `<!-- end -->`
where it ends; everything else in it is written by hand.
"""

import ast
import inspect
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import msgspec
from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

import bench.lab.inventory.sections as bench_toml
import lns.config as lns_toml
import lns.events as lns_events
from bench.cli.program import COMMANDS
from bench.lake.tables import TABLES
from bench.night.record import MEANINGS
from bench.plan import Abilities, board, from_json, lacking
from bench.rig.case_setup import Expectations
from bench.rig.interfaces import RigDevice, RigStation
from bench.rig.rig import Rig
from bench.run import PLAN
from lns.toml_file import Section

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "scenarios/README.md", "lns/README.md", "bench/README.md",
         "bench/score/README.md", "hardware.md")  # fmt: skip
_PART = re.compile(r"(<!-- made: (?P<name>[^>]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    lines = [list(head), *[[cell.replace("|", "\\|") for cell in row] for row in rows]]
    lines.insert(1, ["---"] * len(lines[0]))
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _first_paragraphs(doc: str | None) -> str:
    return " ".join((doc or "").split())


# --- verbs ----------------------------------------------------------------------------------------


IN_HISTORIES = ("announce", "deliver", "expect_due", "sessions_opened")
"""What the catalogue of edge cases and the kept histories ask of a rig besides."""
OF_CONSUMERS = ("expect_effects", "expect_ignored")


def _verbs_of_rig(first: str, last: str) -> str:
    """The verbs from one to another; what is due stands with what it is about."""
    names = list(vars(Rig))
    verbs = names[names.index(first) : names.index(last) + 1]
    due = [name for name in vars(Expectations) if name.startswith("expect")]
    if first == "consumer":
        verbs += OF_CONSUMERS
    elif first == "west":
        verbs += [name for name in due if name not in OF_CONSUMERS]
    return _verbs(Rig, "rig", [name for name in verbs if name not in IN_HISTORIES])


def _verbs(kind: type, own: str, only: Sequence[str] | None = None) -> str:
    rows = []
    for name in only or vars(kind):
        member = inspect.getattr_static(kind, name)
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            rows.append((f"`{own}.{name}`", _first_paragraphs(member.__doc__)))
        elif inspect.isfunction(member):
            waits = "await " if inspect.iscoroutinefunction(member) else ""
            rows.append((f"`{waits}{own}.{name}({_arguments(member)})`", _told(member)))
    return table(("verb", "what it does"), rows)


def _told(member: Callable[..., Any]) -> str:
    assert member.__doc__, f"{member.__qualname__} says nothing of itself"
    return _first_paragraphs(member.__doc__)


def _arguments(member: Callable[..., Any]) -> str:
    words: list[str] = []
    for parameter in list(inspect.signature(member).parameters.values())[1:]:
        is_first_by_name = not any(word.startswith("*") for word in words)
        if parameter.kind is parameter.KEYWORD_ONLY and is_first_by_name:
            words.append("*")
        words.append(_argument(parameter))
    return ", ".join(words)


def _argument(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    if parameter.default is parameter.empty:
        return f"{stars}{parameter.name}"
    default = "…" if parameter.default is ... else _literal(parameter.default)
    return f"{parameter.name}={default}"


# --- keys -----------------------------------------------------------------------------------------


def _keys(file: str, model: type[Section], module: Any) -> str:
    return table(
        ("key", "value", "default", "meaning"),
        ((f"`{key}`", *rest) for key, *rest in _keys_of(model, _attribute_docs(module))),
    )


def _keys_of(model: type[Section], docs: dict[str, dict[str, str]]) -> Iterator[tuple[str, ...]]:
    for name, found in model.model_fields.items():
        section, repeated = _section(found.annotation)
        if section is None:
            yield name, _type(found), _default(found), docs[model.__name__][name]
            continue
        place = f"[[{name}]]" if repeated else f"[{name}]"
        for key, info in section.model_fields.items():
            said = docs_of(section, key, docs)
            yield f"{place} {info.alias or key}", _type(info), _default(info), said


def docs_of(section: type[Section], key: str, docs: dict[str, dict[str, str]]) -> str:
    """What is said of a key, by its section or by what that is built on; KeyError if nothing is."""
    for kind in section.__mro__:
        if key in docs.get(kind.__name__, {}):
            return docs[kind.__name__][key]
    raise KeyError(f"{section.__name__}.{key} says nothing of itself")


def _section(annotation: Any) -> tuple[type[Section] | None, bool]:
    for one in (annotation, *get_args(annotation)):
        if inspect.isclass(one) and issubclass(one, Section):
            return one, get_origin(annotation) in (list, tuple)
    return None, False


def _attribute_docs(module: Any) -> dict[str, dict[str, str]]:
    """The text below each attribute of each class of a module."""
    found: dict[str, dict[str, str]] = {}
    tree = ast.parse(Path(module.__file__).read_text("utf-8"))
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        said = found[node.name] = {}
        for before, after in zip(node.body, node.body[1:], strict=False):
            if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name):
                if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                    said[before.target.id] = _first_paragraphs(str(after.value.value))
    return found


def _type(info: FieldInfo) -> str:
    kinds = [one for one in get_args(info.annotation) or (info.annotation,) if one is not NoneType]
    if get_origin(info.annotation) is Literal:
        return " or ".join(_value(word) for word in get_args(info.annotation))
    if info.examples:
        return " or ".join(_value(word) for word in info.examples)
    limits = [limit for one in (info, *kinds) for limit in _limits(one)]
    words = list(dict.fromkeys(_word(kind) for kind in kinds))
    return " or ".join(words) + (f", {' '.join(limits)}" if limits else "")


def _limits(one: Any) -> Iterator[str]:
    for limit in getattr(one, "metadata", None) or getattr(one, "__metadata__", ()):
        for part in (limit, *getattr(limit, "metadata", ())):
            match part:
                case Ge(ge=least):
                    yield f"≥ {least}"
                case Le(le=most):
                    yield f"≤ {most}"
                case MaxLen(max_length=most):
                    yield f"at most {most} long"
                case MinLen():
                    pass


_WORDS = {
    "Eui": "EUI", "DevAddr": "DevAddr", "bytes": "key", "str": "text", "int": "number",
    "float": "number", "bool": "true or false", "list": "list of words", "NewType": "text",
}  # fmt: skip


def _word(kind: Any) -> str:
    origin = get_origin(kind)
    if origin is Literal:
        return " or ".join(_value(word) for word in get_args(kind))
    if origin in (list, tuple):
        return "list of words"
    if hasattr(kind, "__metadata__"):
        return _word(get_args(kind)[0])
    if inspect.isclass(kind) and issubclass(kind, Enum):
        return " or ".join(_value(member.value) for member in kind)
    name = getattr(kind, "__name__", str(kind))
    return _WORDS.get(name, "text")


def _default(info: FieldInfo) -> str:
    if info.default is PydanticUndefined:
        return "needed"
    return "" if info.default is None else _value(info.default)


def _value(value: Any) -> str:
    """A value as it is written in TOML."""
    value = value.value if isinstance(value, Enum) else value
    return f"`{str(value).lower() if isinstance(value, bool) else _literal(value)}`"


def _literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


# --- events, commands, exit codes ------------------------------------------------------------


def _events() -> str:
    rows = []
    for kind in vars(lns_events).values():
        if (
            inspect.isclass(kind)
            and issubclass(kind, msgspec.Struct)
            and kind.__module__ == (lns_events.__name__)
        ):
            names = ", ".join(f"`{name}`" for name in kind.__struct_fields__)
            rows.append((f"`{kind.kind}`", _first_paragraphs(kind.__doc__), names))
    return table(("kind", "what it tells", "fields"), sorted(rows))


def _codes() -> str:
    return table(("code", "meaning"), ((f"{int(code)}", said) for code, said in MEANINGS.items()))


def _commands() -> str:
    from importlib import import_module

    rows = []
    for name, place in COMMANDS.items():
        module, _, function = place.rpartition(".")
        told = getattr(import_module(f"bench.cli.{module}"), function).__doc__ or ""
        rows.append((f"`lorabench {name}`", _first_paragraphs(told.split("\n\n")[0]).rstrip(".")))
    return table(("command", "what it does"), rows)


# --- what a lab can play -------------------------------------------------------------------------


def _lab(*dialects: str, stations: int = 2, replayers: int = 0, attenuators: int = 0) -> Abilities:
    boards = tuple(board(f"{name}-{n}", name) for n, name in enumerate(dialects, 1))
    return Abilities(boards=boards, stations=stations, replayers=replayers, attenuators=attenuators)


LABS: dict[str, Abilities] = {
    "one RUI3 board, one gateway": _lab("rui3", stations=1),
    "one RUI3 board, two gateways": _lab("rui3"),
    "one LoRa-E5, two gateways": _lab("lora-e5"),
    "an RUI3 board and a LoRa-E5, two gateways": _lab("rui3", "lora-e5"),
    "the same, and a replayer": _lab("rui3", "lora-e5", replayers=1),
    "two RUI3 boards, a LoRa-E5, a replayer, two gateways": _lab(
        "rui3", "rui3", "lora-e5", replayers=1
    ),
    "the same, and attenuators": _lab("rui3", "rui3", "lora-e5", replayers=1, attenuators=2),
    "the same, and a third gateway": _lab(
        "rui3", "rui3", "lora-e5", replayers=1, attenuators=3, stations=3
    ),
}


def _labs() -> str:
    with tempfile.TemporaryDirectory() as folder:
        words = ["--rig", "plan", "--capture-dir", folder, "-q", "-p", "no:cacheprovider"]
        command = [sys.executable, "-m", "pytest", str(ROOT / "scenarios"), *words]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        cases = [from_json(one) for one in json.loads(Path(folder, PLAN).read_text())["cases"]]
    rows = []
    for lab, abilities in LABS.items():
        lacks = Counter(word for case in cases for word in lacking(case, abilities))
        played = sum(not lacking(case, abilities) for case in cases)
        most = ", ".join(word for word, _ in lacks.most_common(3))
        rows.append((lab, f"{round(20 * played / len(cases)) * 5} %", most))
    return table(("parts", "of the scenarios", "what is missing most"), rows)


# --- tables of the lake ---------------------------------------------------------------------------


def _lake() -> str:
    partitions = (
        ("night", "DATE", "date at the head of the run's name; partition"),
        ("run", "STRING", "name of the run folder; partition"),
    )
    return "\n".join(
        f"## {name}\n\nOne row: {about.row}.\n\n"
        + table(
            ("column", "type", "what it says"),
            ((f"`{column}`", *rest) for column, *rest in (*about.columns, *partitions)),
        )
        for name, about in TABLES.items()
    )


PARTS: dict[str, Callable[[], str]] = {
    "verbs of a rig": lambda: _verbs_of_rig("west", "settle"),
    "verbs of a device": lambda: _verbs(RigDevice, "device"),
    "verbs of a station": lambda: _verbs(RigStation, "station"),
    "verbs for servers and store": lambda: _verbs_of_rig("on_outage", "step_wall_clock"),
    "verbs for consumers and broker": lambda: _verbs_of_rig("consumer", "inject"),
    "verbs at the door": lambda: _verbs_of_rig("open_door", "credentials"),
    "verbs for what is said to people": lambda: _verbs_of_rig("expect_logged", "read_frame"),
    "keys of lns.toml": lambda: _keys("lns.toml", lns_toml.LnsFile, lns_toml),
    "keys of devices.toml": lambda: _keys("devices.toml", lns_toml.DevicesFile, lns_toml),
    "keys of bench.toml": lambda: _keys("bench.toml", bench_toml.BenchFile, bench_toml),
    "events of a network server": _events,
    "what a lab can play": _labs,
    "exit codes": _codes,
    "commands": _commands,
    "tables of the lake": _lake,
}


def made(page: str, *, but: Container[str] = ()) -> str:
    """The text of a page with its tables made anew; KeyError for a table that nobody makes.

    `but`: the tables that stay as they are.
    """

    def anew(part: re.Match[str]) -> str:
        if part["name"] in but:
            return part[0]
        return f"{part[1]}\n{PARTS[part['name']]()}\n{part[3]}"

    return _PART.sub(anew, page)


def parts_in(page: str) -> list[str]:
    """The tables that a page has."""
    return [part["name"] for part in _PART.finditer(page)]


def main() -> int:
    """Write every page that differs."""
    for name in PAGES:
        path = ROOT / name
        before = path.read_text("utf-8")
        after = made(before)
        if after != before:
            path.write_text(after, "utf-8")
            print(f"{name}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
