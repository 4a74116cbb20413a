"""How does a result reach stdout: as text for people or as JSON for programs?"""

import json
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

PROGRAM = "lorabench"


def print_json(document: Any) -> None:
    """One JSON document on stdout; paths become text."""
    json.dump(document, sys.stdout, indent=2, ensure_ascii=False, default=str)
    sys.stdout.write("\n")


def print_lines(lines: Iterable[str]) -> None:
    """Lines of text on stdout."""
    sys.stdout.writelines(f"{line}\n" for line in lines)


def labelled(rows: Sequence[tuple[str, object]]) -> list[str]:
    """Rows as `label   value`, the values in one column."""
    width = max((len(label) for label, _ in rows), default=0)
    return [f"{label:{width}}  {value}" for label, value in rows]


def command_line(command: str, *words: object) -> str:
    """A command as one can paste it into a shell."""
    return shlex.join([PROGRAM, command, *(str(word) for word in words)])


def shown_path(path: Path) -> str:
    """A path as short as it stays right from the current folder."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
