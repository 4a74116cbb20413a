"""Which run was it, and how is it repeated?"""

import shlex
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath
from typing import Any

from bench.report.foreign_text import shown, shown_arguments
from bench.report.score_file import Score

UNCOMMITTED = "Uncommitted changes"
NOTICES_MAX = 50
ITEMS_MAX = 40  # devices or stations of the inventory that are named


@dataclass(frozen=True, slots=True)
class Facts:
    """Name and value of each fact, the command that repeats the run, licence notices.

    `alarming`: the names of facts that are to be red.
    """

    rows: tuple[tuple[str, str], ...]
    command: str
    notices: tuple[str, ...]
    alarming: frozenset[str] = frozenset()


def facts(score: Score, manifest: dict[str, Any]) -> Facts:
    """The facts of a run. What the manifest does not say is left out; keys are never printed."""
    commit = manifest.get("git_commit") or manifest.get("commit") or manifest.get("git")
    found = manifest.get("dut")
    dut = found if isinstance(found, dict) else {}
    rows = [
        ("Night", manifest.get("night")),
        ("Line", manifest.get("line")),
        ("Run", score.run),
        ("Run id", score.run_id or manifest.get("run_id")),
        ("Rig", _rig(score, manifest)),
        ("Seed", _seed(score, manifest)),
        ("Started", manifest.get("started") or manifest.get("started_at")),
        ("Ended", _ended(manifest.get("ended"))),
        ("Wall time", _wall_time(manifest)),
        ("Host", manifest.get("host")),
        ("Server under test", _server(dut)),
        ("Git commit", commit),
        (UNCOMMITTED, _uncommitted(dut) or _uncommitted(manifest.get("bench_code"))),
        ("Duration", _duration(score)),
        ("Scored by", _spark(score)),
        ("Versions", _versions(manifest.get("versions"))),
        ("Inventory", _inventory(manifest.get("inventory"))),
    ]
    return Facts(
        rows=tuple((name, shown(_flat(value))) for name, value in rows if value not in (None, "")),
        command=_command(score, manifest),
        notices=tuple(_notices(manifest.get("notices"))),
        alarming=frozenset({UNCOMMITTED}),
    )


def _ended(ended: object) -> str:
    if not isinstance(ended, dict):
        return ""
    reason = ended.get("reason")
    return f"{ended.get('at')}, {ended.get('how')}" + (f": {reason}" if reason else "")


def _wall_time(manifest: dict[str, Any]) -> str:
    """How long the run took by the clock on the wall."""
    ended = manifest.get("ended")
    at = ended.get("at") if isinstance(ended, dict) else None
    try:
        took = datetime.fromisoformat(str(at)) - datetime.fromisoformat(str(manifest["started"]))
    except (KeyError, ValueError, TypeError):
        return ""
    minutes, whole_s = divmod(max(0, int(took.total_seconds())), 60)
    return f"{minutes} min {whole_s:02d} s" if minutes else f"{whole_s} s"


def _server(dut: dict[str, Any]) -> str:
    return " ".join(str(dut[name]) for name in ("name", "version") if dut.get(name))


def _uncommitted(code: object) -> str:
    if not isinstance(code, dict) or code.get("dirty") is not True:
        return ""
    return f"the code that ran is not that commit; hash of the difference {code.get('difference')}"


def _command(score: Score, manifest: dict[str, Any]) -> str:
    rig, seed = _rig(score, manifest), _seed(score, manifest)
    argv = manifest.get("argv")
    if isinstance(argv, list) and argv:
        words = shown_arguments([str(word) for word in argv])
        program = PurePath(words[0])
        # `python -m bench` leaves the path of __main__.py there.
        name = program.parent.name if program.name == "__main__.py" else program.name
        words = ["lorabench" if name == "bench" else name, *words[1:]]
    else:
        words = ["lorabench", "run", *(["--rig", str(rig)] if rig else [])]
    if seed not in (None, "") and not any(word.split("=")[0] == "--seed" for word in words):
        words += ["--seed", str(seed)]
    return shlex.join(shown(word) for word in words).replace("'****'", "****")


def _rig(score: Score, manifest: dict[str, Any]) -> object:
    return score.rig or manifest.get("rig")


def _seed(score: Score, manifest: dict[str, Any]) -> object:
    return score.seed if score.seed is not None else manifest.get("seed")


def _duration(score: Score) -> str:
    begins = [v.begin_us for v in score.verdicts if v.begin_us is not None]
    ends = [v.end_us for v in score.verdicts if v.end_us is not None]
    if not begins or not ends:
        return ""
    whole_s = max(0, max(ends) - min(begins)) // 1_000_000
    hours, minutes = divmod(whole_s // 60, 60)
    clock = "of the run's own clock"
    if whole_s < 60:
        return f"{whole_s} s {clock}"
    return f"{hours} h {minutes:02d} min {clock}" if hours else f"{minutes} min {clock}"


def _spark(score: Score) -> str:
    if not score.spark.version:
        return ""
    return f"Spark {score.spark.version} in {score.spark.seconds:.1f} s"


def _versions(versions: object) -> str:
    if isinstance(versions, dict):
        return ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    return str(versions) if isinstance(versions, str) else ""


def _inventory(inventory: object) -> str:
    """Only names, EUIs, kinds and firmware: an inventory may hold keys and addresses."""
    parts = []
    if isinstance(inventory, dict):
        for kind in sorted(inventory):
            items = inventory[kind]
            named = items.items() if isinstance(items, dict) else enumerate(_listed(items))
            told = [_item(str(name), item) for name, item in named if isinstance(item, dict)]
            if told:
                parts.append(f"{kind}: {', '.join(told[:ITEMS_MAX])}")
    return "; ".join(parts)


def _item(name: str, item: dict[str, Any]) -> str:
    titles = (item.get(key) for key in ("name", "eui", "dev_eui", "file"))
    title = str(next((title for title in titles if title), name))
    more = [str(item[key]) for key in ("model", "kind", "firmware", "format") if item.get(key)]
    return f"{title} ({', '.join(more)})" if more else title


def _notices(notices: object) -> list[str]:
    told = []
    for notice in _listed(notices)[:NOTICES_MAX]:
        if isinstance(notice, dict):
            told.append(" — ".join(str(value) for value in notice.values() if value))
        else:
            told.append(str(notice))
    return [shown(notice, 2000) for notice in told]


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _flat(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    return str(value)
