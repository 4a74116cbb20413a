"""Where do the histories stay that once broke a law?

A file in the manner of a catalogue: `{"cases": [{"id", "title", "history"}]}`. The scenarios play
each of them on every rig (`scenarios/test_explored.py`).
"""

import json
from dataclasses import dataclass
from pathlib import Path

from bench.explore.history import History, read_history


@dataclass(frozen=True, slots=True)
class KeptHistory:
    """A history that is played for ever, and why."""

    id: str
    title: str
    history: History

    def as_json(self) -> dict[str, str]:
        """The case as it stands in the file."""
        return {"id": self.id, "title": self.title, "history": str(self.history)}


def read_kept(path: Path) -> list[KeptHistory]:
    """Every history of a file; OSError or ValueError with the place of what cannot be read."""
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))["cases"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        why = f"{path} keeps no histories, a JSON object with `cases`: {error!r}"
        raise ValueError(why) from None
    cases = []
    for place, case in enumerate(listed, 1):
        try:
            cases.append(KeptHistory(case["id"], case["title"], read_history(case["history"])))
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path}: case {place} cannot be read: {error}") from None
    return cases


def keep(path: Path, found: list[tuple[str, History]]) -> list[KeptHistory]:
    """Add histories, each with its title; those that are there already are not added again."""
    cases = read_kept(path) if path.exists() else []
    known = {str(case.history) for case in cases}
    added: list[KeptHistory] = []
    for title, history in found:
        if str(history) not in known:
            known.add(str(history))
            added.append(KeptHistory(f"X{len(cases) + len(added) + 1:02}", title, history))
    document = {"cases": [case.as_json() for case in (*cases, *added)]}
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")
    return added
