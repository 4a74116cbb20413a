"""Which scenarios are there, and what does each require?

Read from the source without importing it: the list is there at once, also when one is broken.
"""

import ast
import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import bench
from bench.cli.exit_code import BenchBroken, Refused


class NoSuchScenario(Refused):
    """No scenario has this name, or stands in this file."""


class ScenariosMissing(BenchBroken):
    """The folder with the scenarios is not where the program expects it."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario: the group is its file's name, the title the first line of its docstring."""

    group: str
    name: str
    title: str
    file: str
    line: int
    requires: tuple[str, ...] = ()


def scenarios_folder() -> Path:
    """The folder `scenarios` beside the package; ScenariosMissing if it is not there."""
    folder = Path(bench.__path__[0]).resolve().parent / "scenarios"
    if not folder.is_dir():
        raise ScenariosMissing(f"There is no folder {folder}: install lorabench anew.")
    return folder


def chosen(pattern: str | None, *, catalogue: Path | None = None) -> list[str]:
    """What pytest is told to collect, and with which settings.

    Part of a name, a `-k` expression, a file or a folder; None: all that come with the bench.
    With `catalogue` the edge cases of that file. NoSuchScenario for a file that is not there.
    """
    folder = scenarios_folder()
    if catalogue is not None:
        if not catalogue.is_file():
            raise NoSuchScenario(f"--catalogue: there is no file {catalogue}.")
        only = [] if pattern is None else ["-k", pattern]
        return [str(folder / _CATALOGUE), *only, "--catalogue", str(catalogue), *_settings(folder)]
    if pattern is None:
        return [str(folder), *_settings(folder)]
    file, _, function = pattern.partition("::")
    if Path(file).is_dir() and not _is_word(file):
        return [file]
    if not file.endswith(".py"):
        return [str(folder), "-k", pattern, *_settings(folder)]
    for path in (Path(file), folder.parent / file, folder / file):
        if path.is_file():
            own = not path.resolve().is_relative_to(folder)
            which = f"{path}::{function}".removesuffix("::")
            return [which, *([] if own else _settings(folder))]
    raise NoSuchScenario(_no_file(file, folder))


_CATALOGUE = "test_catalogue.py"


def _is_word(name: str) -> bool:
    """Whether a name is one of scenarios, though a folder has it too."""
    return "/" not in name and any(name in one.name for one in scenarios_in(scenarios_folder()))


def _settings(folder: Path) -> list[str]:
    """How pytest plays what comes with the bench, in whatever folder it is started."""
    ini = Path(bench.__path__[0]) / "run" / "scenarios.ini"
    return ["-c", str(ini), "--rootdir", str(folder.parent)]


def matching(pattern: str | None) -> list[Scenario]:
    """The scenarios whose name, title or group has `pattern` in it, or all of a file or folder.

    NoSuchScenario where there is none.
    """
    folder = scenarios_folder()
    if pattern is None:
        return scenarios_in(folder)
    place = Path(pattern)
    if place.is_dir() and not _is_word(pattern):
        return scenarios_in(place.resolve())
    if pattern.endswith(".py"):
        for path in (place, folder.parent / pattern, folder / pattern):
            if path.is_file():
                return list(_scenarios_of(path.resolve(), path.resolve().parent))
        raise NoSuchScenario(_no_file(pattern, folder))
    wanted = pattern.lower()
    known = scenarios_in(folder)
    found = [one for one in known if wanted in f"{one.group} {one.name} {one.title}".lower()]
    if not found:
        raise NoSuchScenario(nothing_fits(pattern))
    return found


def _no_file(file: str, folder: Path) -> str:
    meant = difflib.get_close_matches(Path(file).name, [p.name for p in folder.glob("test_*.py")])
    told = f" Near it: {', '.join(meant)}." if meant else ""
    return f"There is no file {file}.{told} `lorabench scenarios` lists all scenarios."


def nothing_fits(pattern: str | None) -> str:
    """What to say of a pattern that no scenario fits: which ones may be meant."""
    meant = _near(pattern or "", scenarios_in(scenarios_folder()))
    told = f" Near it: {', '.join(meant)}." if meant else ""
    return f"No scenario fits {pattern!r}.{told} `lorabench scenarios` lists all of them."


def _near(pattern: str, known: Sequence[Scenario], most: int = 3) -> list[str]:
    wanted = [word for word in pattern.lower().split("_") if word]
    ranked = sorted((-_likeness(wanted, one.name), one.name) for one in known)
    return [name.removeprefix("test_") for score, name in ranked if -score >= _NEAR][:most]


_NEAR = 0.8


def _likeness(wanted: Sequence[str], name: str) -> float:
    words = name.removeprefix("test_").split("_")
    best = [
        max(difflib.SequenceMatcher(None, one, word).ratio() for word in words) for one in wanted
    ]
    return sum(best) / len(best) if best else 0.0


def scenarios_in(folder: Path) -> list[Scenario]:
    """Every scenario below `folder`, by file and line."""
    files = sorted(folder.rglob("test_*.py"))
    return [scenario for file in files for scenario in _scenarios_of(file, folder)]


def _scenarios_of(file: Path, folder: Path) -> Iterator[Scenario]:
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
    except (SyntaxError, UnicodeDecodeError) as error:
        raise BenchBroken(f"{file} cannot be read as Python: {error}") from None
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if not node.name.startswith("test_"):
            continue
        yield Scenario(
            group=file.stem.removeprefix("test_"),
            name=node.name,
            title=" ".join((ast.get_docstring(node) or "").split("\n\n")[0].split()),
            file=file.relative_to(folder.parent).as_posix(),
            line=node.lineno,
            requires=tuple(_required(node)),
        )


def _required(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """The words of `@pytest.mark.requires("word", ...)`."""
    for decorator in node.decorator_list:
        if not isinstance(decorator, ast.Call) or not isinstance(decorator.func, ast.Attribute):
            continue
        if decorator.func.attr != "requires":
            continue
        for argument in decorator.args:
            if isinstance(argument, ast.Constant):
                yield str(argument.value)
