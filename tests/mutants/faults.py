"""What small faults can a module have? Every edit that turns one of its decisions around.

A comparison at its edge, a constant one off, a condition turned around, an effect left out, the
neighbouring word of a closed list, another name for a field. What people read (logs, complaints,
messages of errors, `__repr__`) is no decision and stays as it is.
"""

import ast
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAULTS_A_DRAW = 15
"""Of a function with more possible faults than so many, several are drawn."""

GREAT = 1000
"""A number from which on one more is no difference, and an eighth more is."""

SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.Mod: ast.FloorDiv,
}  # fmt: skip
SIBLINGS = {
    "Answer.RX1": "Answer.RX2", "Answer.RX2": "Answer.RX1", "Answer.TOO_LATE": "Answer.SUPPRESSED",
    "Answer.SUPPRESSED": "Answer.NOT_ASKED", "Answer.NOT_ASKED": "Answer.SUPPRESSED",
    "Upstream.FORWARDED": "Upstream.MARKED", "Upstream.MARKED": "Upstream.FORWARDED",
    "Upstream.DROPPED": "Upstream.FORWARDED",
    "Status.NON_DUPLICATE": "Status.SOFT_DUPLICATE",
    "Status.RESUBMISSION": "Status.SOFT_DUPLICATE",
    "Status.SOFT_DUPLICATE": "Status.RESUBMISSION", "Status.DUPLICATE": "Status.SOFT_DUPLICATE",
    "Standing.EQUAL": "Standing.OLDER", "Standing.OLDER": "Standing.EQUAL",
    "Standing.NEWER": "Standing.EQUAL", "Standing.TOO_FAR": "Standing.NEWER",
    "Copy.FIRST": "Copy.SAME_STATION", "Copy.SAME_STATION": "Copy.OTHER_STATION",
    "Copy.OTHER_STATION": "Copy.SAME_STATION",
    "Level2.OWNER": "Level2.NOT_OWNER", "Level2.NOT_OWNER": "Level2.OWNER",
    "Level2.UNAVAILABLE": "Level2.NOT_OWNER", "Level2.NOT_ASKED": "Level2.OWNER",
    "Strategy.DROP": "Strategy.MARK", "Strategy.MARK": "Strategy.NONE",
    "Strategy.NONE": "Strategy.MARK",
    "Reason.DUPLICATE": "Reason.RESUBMISSION_SUPPRESSED",
    "Reason.INVALID_FRAME_COUNTER": "Reason.RESUBMISSION_LIMIT",
    "Reason.MIC_MISMATCH": "Reason.UNKNOWN_DEVICE", "Reason.UNKNOWN_DEVICE": "Reason.MIC_MISMATCH",
    "OnOutage.OPEN": "OnOutage.CLOSED", "OnOutage.CLOSED": "OnOutage.OPEN",
}  # fmt: skip
"""Words of the closed lists, and the one that is most easily taken for each."""
BUILT_IN = ("str", "bytes", "int", "float", "list", "dict", "tuple")
FOR_PEOPLE = ("__repr__", "__str__")


@dataclass(frozen=True, slots=True)
class Fault:
    """One edit: where it stands, what stood there and what stands there now.

    `turn` tells it from its like in the same function. `statement`: the first and the last line of
    the statement that it is part of. `in_body`: whether it takes effect when its function is
    called, and not when the module is imported; `assigned`: the constant or field that it is then
    part of, if it is.
    """

    file: str
    function: str
    old: str
    new: str
    turn: int
    line: int
    statement: tuple[int, int]
    in_body: bool
    assigned: str
    span: tuple[int, int]

    @property
    def name(self) -> str:
        """The same as long as the function reads the same, wherever it stands in its file."""
        turn = f" #{self.turn}" if self.turn else ""
        return f"{self.file}::{self.function}: {self.old} -> {self.new}{turn}"

    def broken(self) -> str:
        """The text of the file with this fault."""
        begin, end = self.span
        octets = octets_of(self.file)
        text = self.new if self.new == "pass" else f"({self.new})"
        return (octets[:begin] + text.encode() + octets[end:]).decode()


@cache
def octets_of(file: str) -> bytes:
    """A module as it was when its faults were found, whoever edits it meanwhile."""
    return (ROOT / file).read_bytes()


def faults_in(file: Path) -> list[Fault]:
    """Every fault that can be planted in one module, in the order of its lines."""
    text = octets_of(file.relative_to(ROOT).as_posix()).decode()
    edits = _Edits()
    edits.visit(ast.parse(text))
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: list[Fault] = []
    turns: dict[tuple[str, str, str], int] = {}
    for edit in sorted(edits.found, key=lambda edit: (edit.node.lineno, edit.node.col_offset)):
        node = edit.node
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        old = " ".join(text.encode()[begin:end].decode().split())
        new = edit.new if isinstance(edit.new, str) else ast.unparse(edit.new)
        turn = turns[edit.function, old, new] = turns.get((edit.function, old, new), -1) + 1
        fault = Fault(
            file.relative_to(ROOT).as_posix(), edit.function, old, new, turn, node.lineno,
            edit.statement, edit.in_body, edit.assigned, (begin, end),
        )  # fmt: skip
        found.append(fault)
    return found


def draw(faults: Sequence[Fault], seed: int) -> list[Fault]:
    """One fault of each function, of a long one several; a seed always draws the same."""
    functions: dict[tuple[str, str], list[Fault]] = {}
    for fault in faults:
        functions.setdefault((fault.file, fault.function), []).append(fault)
    drawn: list[Fault] = []
    for (file, function), possible in functions.items():
        chance = random.Random(f"{seed} {file} {function}")
        drawn += chance.sample(possible, -(-len(possible) // FAULTS_A_DRAW))
    return drawn


@dataclass(frozen=True, slots=True)
class _Edit:
    node: ast.expr | ast.stmt
    new: ast.AST | str
    function: str
    statement: tuple[int, int]
    in_body: bool
    assigned: str


class _Edits(ast.NodeVisitor):
    """Finds every edit of one module; remembers where in it the visit is."""

    def __init__(self) -> None:
        self.found: list[_Edit] = []
        self._path: list[str] = []
        self._depth = 0
        self._statement = (1, 1)
        self._assigned = ""

    def visit(self, node: ast.AST) -> None:
        if not isinstance(node, ast.stmt):
            super().visit(node)
            return
        before = self._statement, self._assigned
        self._statement = _lines(node)
        self._assigned = "" if self._depth else _assigned(node)
        super().visit(node)
        self._statement, self._assigned = before

    def _offer(self, node: ast.expr | ast.stmt, new: ast.AST | str) -> None:
        function = ".".join(self._path)
        in_body, assigned = self._depth > 0, self._assigned
        self.found.append(_Edit(node, new, function, self._statement, in_body, assigned))

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._path.append(node.name)
        self._each(node.body)
        self._path.pop()

    def visit_Module(self, node: ast.Module) -> None:
        self._each(node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name in FOR_PEOPLE:
            return
        self._path.append(node.name)
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                self.visit(default)
        self._depth += 1
        self._each(node.body)
        self._depth -= 1
        self._path.pop()

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def _each(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            if not _is_text(statement):
                self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        """What an error says is no decision; that it is raised is one."""
        if self._depth:
            self._offer(node, "pass")

    def visit_Assert(self, node: ast.Assert) -> None:
        """Asserted is what cannot be otherwise."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Most texts are for people."""

    def visit_Import(self, node: ast.Import) -> None:
        """No decision."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """No decision."""

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1:
            swapped = SWAPPED[type(node.ops[0])]()
            self._offer(node, ast.Compare(node.left, [swapped], node.comparators))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        other: ast.boolop = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._offer(node, ast.BoolOp(other, node.values))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._offer(node, node.operand)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        swapped = OPERATORS.get(type(node.op))
        parts = node.left, node.right
        if swapped is not None and not any(map(_joins, parts)) and not all(map(_is_type, parts)):
            self._offer(node, ast.BinOp(node.left, swapped(), node.right))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._offer(node, ast.Constant(not node.value))
        elif isinstance(node.value, int) and node.value >= GREAT:
            self._offer(node, ast.Constant(node.value + node.value // 8))
        elif isinstance(node.value, int):
            self._offer(node, ast.Constant(node.value + 1))
            if node.value > 1:
                self._offer(node, ast.Constant(node.value - 1))

    def visit_Dict(self, node: ast.Dict) -> None:
        for key in node.keys:
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                self._offer(key, ast.Constant(key.value + "x"))
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if not isinstance(node.test, ast.Compare | ast.UnaryOp):
            self._offer(node.test, ast.UnaryOp(ast.Not(), node.test))
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._offer(node, ast.IfExp(node.test, node.orelse, node.body))
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(value, ast.Call) and not _is_said(value):
            self._offer(node, "pass")
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        is_kept = any(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
        if is_kept and self._path[-1:] != ["__init__"]:  # where nothing works without it
            self._offer(node, "pass")
        self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._offer(node, "pass")
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        if not _is_said(node):
            self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        sibling = None
        if isinstance(node.value, ast.Name):
            sibling = SIBLINGS.get(f"{node.value.id}.{node.attr}")
        if sibling is not None:
            self._offer(node, sibling)
        self.generic_visit(node)


def _lines(statement: ast.stmt) -> tuple[int, int]:
    """A statement without what is indented below it."""
    last = statement.end_lineno or statement.lineno
    below = getattr(statement, "body", None) or getattr(statement, "cases", None)
    if isinstance(below, list) and below:
        first = below[0].pattern if isinstance(below[0], ast.match_case) else below[0]
        last = max(statement.lineno, first.lineno - 1)
    return statement.lineno, last


def _assigned(statement: ast.stmt) -> str:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return ""


def _is_text(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _joins(part: ast.expr) -> bool:
    """Whether `+` puts texts or rows together here."""
    is_text = isinstance(part, ast.Constant) and isinstance(part.value, str | bytes)
    return is_text or isinstance(part, ast.JoinedStr | ast.List | ast.Tuple)


def _is_type(part: ast.expr) -> bool:
    """Whether it is one of several types, as in `Data | Join`, or None."""
    if isinstance(part, ast.BinOp):
        return _is_type(part.left) and _is_type(part.right)
    name = ast.unparse(part).rpartition(".")[2]
    return name == "None" or name in BUILT_IN or (name[:1].isupper() and not name.isupper())


def _is_said(call: ast.Call) -> bool:
    """Whether it is about what people read: a log or a complaint."""
    if not isinstance(call.func, ast.Name | ast.Attribute):
        return False
    name = ast.unparse(call.func)
    return name.startswith(("log.", "logging.", "_log.", "logger.")) or "complain" in name


def all_faults(paths: Sequence[str]) -> Iterator[Fault]:
    """Of all modules with one of these paths, or below one of these folders."""
    given = [ROOT / path for path in paths]
    for file in sorted(f for g in given for f in ([g] if g.is_file() else g.rglob("*.py"))):
        yield from faults_in(file)
