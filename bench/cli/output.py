"""How does a result reach stdout: as text for people or as JSON for programs?"""

import json
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from lns.complaints import without_controls

PROGRAM = "lorabench"
_RAW = re.compile(r"[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def print_json(document: Any) -> None:
    """One JSON document on stdout; paths become text."""
    text = json.dumps(document, indent=2, ensure_ascii=False, default=str)
    # JSON leaves some of what a terminal obeys as it is.
    sys.stdout.write(_RAW.sub(lambda found: json.dumps(found[0])[1:-1], text) + "\n")


def print_lines(lines: Iterable[str]) -> None:
    """Lines of text on stdout, without what moves a cursor in the names of files."""
    sys.stdout.writelines(f"{without_controls(line)}\n" for line in lines)


def print_error(text: object) -> None:
    """A message on stderr, likewise."""
    print(without_controls(str(text)), file=sys.stderr, flush=True)


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
