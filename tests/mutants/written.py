"""Where in its module does a fault stand that somebody wrote by hand?

So it can be planted as those that are generated are: `python -m tests.mutants.generated --written`.
"""

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.mutants import edges
from tests.mutants.faults import Fault, octets_of
from tests.mutants.mutant import Mutant
from tests.mutants.planting import codes

_BEFORE_CODE = ("else:", "try:", "finally:")
"""Lines that nobody comes past: what stands behind them tells whether somebody does."""
_ENDS = (")", "]", "}", "else:", "elif ", "except ", "finally:", "case ")
"""What a line begins with that belongs to another part than what is put in before it."""


@dataclass(frozen=True, slots=True)
class Written(Fault):
    """A fault of the list; `text` replaces what stands at `span` as it is.

    Whoever notices it must say `says` (a regular expression); `scenario` is the file of who did.
    """

    called: str = ""
    text: str = ""
    says: str = ""
    scenario: str = ""

    @property
    def name(self) -> str:
        return f"{self.file}: {self.called}"

    def broken(self) -> str:
        begin, end = self.span
        octets = octets_of(self.file)
        return (octets[:begin] + self.text.encode() + octets[end:]).decode()


def all_written(file: Path = edges.FILE) -> Iterator[Written]:
    """The faults of a list; ValueError for one that fits its module no more."""
    yield from map(written, edges.listed(file))


def written(mutant: Mutant) -> Written:
    """The edit of a mutant, with where in its file that is."""
    octets = octets_of(mutant.file)
    if octets.count(mutant.old.encode()) != 1:
        raise ValueError(f"{mutant.name}: {mutant.file} has not its line exactly once any more")
    begin = octets.index(mutant.old.encode())
    end = begin + len(mutant.old.encode())
    # What both have in common at either end is no part of the edit.
    before = len(_common(mutant.old, mutant.new))
    first = octets[:begin].count(b"\n") + mutant.old[:before].count("\n") + 1
    after = len(_common(mutant.old[before:][::-1], mutant.new[before:][::-1]))
    last = first + mutant.old[before : len(mutant.old) - after].rstrip("\n").count("\n")
    lines = octets.decode().splitlines()
    first, last = min(first, len(lines)), min(last, len(lines))  # it may be put in at the end
    while lines[last - 1].strip() in _BEFORE_CODE:
        last += 1
    is_put_in = before + after >= len(mutant.old)
    if is_put_in and lines[first - 1].lstrip().startswith(_ENDS):
        first -= 1
    run = _lines_run(mutant.file)
    while first > 1 and run.isdisjoint(range(first, last + 1)):
        first -= 1
    path, in_body, assigned = _place(ast.parse(octets.decode()), first)
    return Written(
        mutant.file, path, mutant.old, mutant.new, 0, first, (first, last), in_body, assigned,
        (begin, end), mutant.name, mutant.new, mutant.says, mutant.noticed_by,
    )  # fmt: skip


@functools.cache
def _lines_run(file: str) -> frozenset[int]:
    """The lines that somebody can come past: no blank ones, and none of a bracket alone."""
    module = compile(octets_of(file), file, "exec")
    found = (module, *codes(module))
    return frozenset(line for code in found for *_, line in code.co_lines() if line)


def _common(one: str, other: str) -> str:
    n = 0
    while n < min(len(one), len(other)) and one[n] == other[n]:
        n += 1
    return one[:n]


def _place(tree: ast.Module, line: int) -> tuple[str, bool, str]:
    """The function or class that a line stands in, whether in a body, and what it assigns."""
    path: list[str] = []
    in_body, assigned, nodes = False, "", tree.body
    while True:
        node = next((n for n in nodes if n.lineno <= line <= (n.end_lineno or 0)), None)
        if isinstance(node, ast.ClassDef) and not in_body:
            path.append(node.name)
            nodes = node.body
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not in_body:
            path.append(node.name)
            return ".".join(path), line >= node.body[0].lineno, ""
        else:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)]):
                    assigned = name
                case ast.AnnAssign(target=ast.Name(id=name)):
                    assigned = name
            return ".".join(path), False, assigned
