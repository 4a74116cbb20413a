"""Which failures does somebody know of, and until when?

`known.toml` has a table `[[known]]` for each of them: `case` (a name, `*` for any characters),
`issue`, and if wanted `rule`, `signature`, `owner` and `until`, a date.
"""

import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path

from bench.capture.run_folder import replace

KEYS = frozenset({"case", "rule", "signature", "issue", "owner", "until"})


class KnownUnreadable(Exception):
    """`known.toml` cannot be used; the text says where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A failure that somebody knows of; `until` is the last day on which it is excused."""

    case: str
    issue: str
    rule: str | None = None
    signature: str | None = None
    owner: str | None = None
    until: date | None = None

    def names(self, case: str) -> bool:
        """Whether it is about a case of this name."""
        return self.case == case or fnmatchcase(case, self.case.replace("[", "[[]"))

    def fits(self, case: str, signature: str, rules: Iterable[str] = ()) -> bool:
        """Whether this is the failure, by the name of its case and whatever else is said."""
        return (
            self.names(case)
            and self.signature in (None, signature)
            and (self.rule is None or self.rule in rules)
        )

    def is_over(self, night: str) -> bool:
        """Whether a night (it begins with its date) is past `until`."""
        return self.until is not None and night[:10] > self.until.isoformat()

    @property
    def told(self) -> str:
        return self.issue + (f" until {self.until}" if self.until else "")


def read_known(path: Path) -> tuple[Known, ...]:
    """What is known; nothing without the file. KnownUnreadable."""
    try:
        found = tomllib.loads(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        return ()
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError, RecursionError) as error:
        raise KnownUnreadable(f"{path}: {error}") from None
    tables = found.pop("known", [])
    if found or not isinstance(tables, list):
        raise KnownUnreadable(f"{path}: it has tables [[known]] and nothing else")
    return tuple(_known(path, number, table) for number, table in enumerate(tables, 1))


def _known(path: Path, number: int, table: object) -> Known:
    where = f"{path}, [[known]] number {number}"
    if not isinstance(table, dict):
        raise KnownUnreadable(f"{where}: it is a table")
    if strange := sorted(set(table) - KEYS):
        raise KnownUnreadable(f"{where}: {strange[0]} is none of {', '.join(sorted(KEYS))}")
    if missing := sorted({"case", "issue"} - set(table)):
        raise KnownUnreadable(f"{where}: it lacks {missing[0]}")
    until = table.get("until")
    if until is not None and type(until) is not date:
        raise KnownUnreadable(f"{where}: until is a date, such as 2026-12-24")
    if wrong := [
        key for key in sorted(KEYS - {"until"}) if not isinstance(table.get(key, ""), str)
    ]:
        raise KnownUnreadable(f"{where}: {wrong[0]} is a text")
    return Known(**table)


def add_known(path: Path, known: Known) -> None:
    """Write one more at the end of the file; what stands there stays as it is."""
    said = {"case": known.case, "rule": known.rule, "signature": known.signature}
    said |= {"issue": known.issue, "owner": known.owner}
    lines = [f"{key} = {json.dumps(value)}" for key, value in said.items() if value is not None]
    lines += [f"until = {known.until}"] if known.until is not None else []
    before = path.read_text("utf-8") if path.is_file() else ""
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    replace(path.resolve(), (before + gap + "\n".join(["[[known]]", *lines]) + "\n").encode())
