"""What means the same in every command: options, exit codes, how a result reaches a terminal?"""

import json
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, Self, TextIO

from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

from bench.night.record import ExitCode
from lns.capture import naming
from lns.complaints import without_controls
from lns.lorawan.region import REGIONS, Region, region


class Refused(Exception):
    """The command cannot do what was asked; the text says why, and what to do next."""

    exit_code = ExitCode.USAGE


class BenchBroken(Refused):
    """The bench cannot work, through no mistake of the person who asked."""

    exit_code = ExitCode.BENCH_ERROR


@contextmanager
def refusing(
    *errors: type[Exception], said: str = "{}", by: type[Refused] = Refused
) -> Iterator[None]:
    """Each of these errors refuses the command: `said` has a place for what it says."""
    try:
        yield
    except errors as error:
        raise by(said.format(error)) from None


def why(error: OSError | UnicodeDecodeError) -> str:
    """Why something cannot be read or written, in words and without a number of the system."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    return error.strerror or str(error)


PROGRAM = "lorabench"
STDOUT = Path("stdout")
_RAW = re.compile(r"[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def print_json(document: Any) -> None:
    """One JSON document on stdout; paths become text."""
    text = json.dumps(document, indent=2, ensure_ascii=False, default=str)
    if printable(text) != text:  # there is a spelling of JSON for what the encoding does not have
        text = json.dumps(document, indent=2, default=str)
    # JSON leaves some of what a terminal obeys as it is.
    text = _RAW.sub(lambda found: json.dumps(found[0])[1:-1], text)
    with naming(STDOUT):
        sys.stdout.write(text + "\n")


def print_lines(lines: Iterable[str]) -> None:
    """Lines of text on stdout, without what moves a cursor in the names of files.

    What its encoding has no sign for is spelled with those that it has.
    """
    with naming(STDOUT):
        sys.stdout.writelines(f"{printable(without_controls(line))}\n" for line in lines)


def answer(
    document: Any, lines: Iterable[str], code: ExitCode = ExitCode.PASSED, *, as_json: bool
) -> ExitCode:
    """Print what a command has found, for a program or for a person; the exit code it came to."""
    if as_json:
        print_json(document)
    else:
        print_lines(lines)
    return code


def facts_of(of: object, *names: str) -> dict[str, Any]:
    """These of its attributes, for a document."""
    return {name: getattr(of, name) for name in names}


def print_error(text: object) -> None:
    print(without_controls(str(text)), file=sys.stderr, flush=True)


def labelled(rows: Sequence[tuple[str, object]]) -> list[str]:
    """Rows as `label   value`, the values in one column."""
    width = max((len(label) for label, _ in rows), default=0)
    return [f"{label:{width}}  {value}" for label, value in rows]


def command_line(command: str, *words: object) -> str:
    """A command as one can paste it into a shell."""
    return shlex.join([PROGRAM, command, *(str(word) for word in words)])


def options(**said: object) -> list[str]:
    """Options as one types them: a flag for True, nothing for None, False and no text."""
    return [word for name, *value in _options(said) for word in (name, *value)]


def joined_options(**said: object) -> list[str]:
    """The same for pytest, for which a word of its own that begins with @ names a file."""
    return ["=".join(option) for option in _options(said)]


def _options(said: Mapping[str, object]) -> Iterator[tuple[str, ...]]:
    for name, value in said.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            yield (option,)
        elif value is not None and value is not False and value != "":
            for one in value if isinstance(value, tuple) else (value,):
                yield option, str(one)


def shown_path(path: Path) -> str:
    """A path as short as it stays right from the current folder."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


RUNS = Path("runs")
LAKE = "lake"

Strategy = Literal["Drop", "Mark", "None"]


def region_of(name: str) -> Region:
    """The region of this name; Refused."""
    with refusing(ValueError, said="{}."):
        return region(name)


Flag = Annotated[bool, Parameter(negative=(), show_default=False)]
AsJson = Annotated[
    bool,
    Parameter(
        name="--json",
        negative=(),
        show_default=False,
        help="Print the result as one JSON document.",
    ),
]
Lake = Annotated[
    str, Parameter(name="--lake", help="Where the Parquet tables are written: a folder or a URI.")
]
RegionName = Annotated[
    str, Parameter(name="--region", help=f"Where it stands: {', '.join(REGIONS)}.")
]
RunNames = Annotated[list[str], Parameter(help="Run folders, or `latest`.")]
RunsRead = Annotated[
    Path, Parameter(name="--runs", help="Where `latest` and bare names are looked up.")
]
RunsWritten = Annotated[
    Path, Parameter(name=("--runs", "--capture-dir"), help="Where run folders are made.")
]
Seed = Annotated[int, Parameter(name="--seed", help="All chance of the run comes from it.")]
Line = Annotated[
    str | None,
    Parameter(
        name="--line",
        help="What is tested, from night to night, such as lns@main; the branch, if left out.",
    ),
]
Dut = Annotated[
    str | None,
    Parameter(
        name="--dut",
        help="NAME@VERSION or NAME@VERSION+COMMIT of the server under test, if not of this tree.",
    ),
]
Without = Annotated[
    tuple[str, ...],
    Parameter(
        name="--without",
        negative="",
        help="Leave this board or gateway of the bench out, and with it the cases that need it.",
    ),
]
LIMIT_WANTED = "--limit is a number of cases, 1 at least."
Limit = Annotated[
    int | None,
    Parameter(name="--limit", help="At most so many cases, the first ones. All if left out."),
]


_UNITS_US = {
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}


def time_span_us(text: str, option: str) -> int:
    """`10min`, `15d`, `0.5s` in µs; Refused, which names the option."""
    found = re.fullmatch(r"(\d{1,9})(?:\.(\d{1,6}))?\s*([a-z]+)", text.strip())
    if found is None or found[3] not in _UNITS_US:
        raise Refused(f"{option} is a number and a unit ({', '.join(_UNITS_US)}), such as 10min.")
    unit_us = _UNITS_US[found[3]]
    fraction = (found[2] or "").ljust(6, "0")
    return int(found[1]) * unit_us + int(fraction) * unit_us // 1_000_000


SILENCE_MAX_S = 5.0


class Progress(Protocol):
    """What long work calls while it goes on: a text, steps done, steps in all (0: not known)."""

    def __call__(self, text: str, done: int = 0, total: int = 0) -> None: ...


class ProgressDisplay:
    """A bar on a terminal, plain lines otherwise; always on stderr, so that stdout stays clean.

    It remembers the step shown last. Without a terminal a step that only counts on is printed at
    most every five seconds, so that the log of a night stays short.
    """

    def __init__(
        self, stream: TextIO | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = Console(
            file=stream or sys.stderr, highlight=False, soft_wrap=True, emoji=False
        )
        self._clock = clock
        self._shown_text = ""
        self._shown_at_s = 0.0
        self._bar: RichProgress | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            # Refreshed by hand: a thread that paints while pytest holds the streams would be lost.
            self._bar = RichProgress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                console=self._console,
                auto_refresh=False,
                transient=True,
            )
            self._bar.add_task("", total=None)
            self._bar.start()
        return self

    def __exit__(self, *raised: Any) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    @property
    def is_terminal(self) -> bool:
        """Whether there is a bar, which makes a line for each step needless."""
        return self._console.is_terminal

    def __call__(self, text: str, done: int = 0, total: int = 0) -> None:
        text = without_controls(text)
        if self._bar is not None:
            task = self._bar.task_ids[0]
            self._bar.update(task, description=escape(text), completed=done, total=total or None)
            self._bar.refresh()
        elif self._due(text, done, total):
            counted = f" ({done}/{total})" if total else f" ({done})" if done else ""
            self._console.print(f"{text}{counted}", markup=False)

    def line(self, text: str) -> None:
        self._console.print(without_controls(text), markup=False)

    def _due(self, text: str, done: int, total: int) -> bool:
        now_s = self._clock()
        last = 0 < total <= done
        if text == self._shown_text and not last and now_s - self._shown_at_s < SILENCE_MAX_S:
            return False
        self._shown_text, self._shown_at_s = text, now_s
        return True


Span = tuple[str, str]  # a text and its style in rich's words; "" for none

# What stands for a character that the encoding of stdout does not have.
_PLAINER = str.maketrans(
    {
        "│": "|", "─": "-", "┼": "+", "├": "|", "┤": "|", "►": ">", "◄": "<", "●": "o",
        "✗": "x", "✓": "+", "═": "=", "╪": "=", "⋮": ":", "▶": ">", "·": "-", "…": "~",
        "“": '"', "”": '"', "→": ">", "–": "-", "—": "-", "−": "-",
    }
)  # fmt: skip


def print_styled(lines: Iterable[Sequence[Span]]) -> None:
    """Lines of styled text on stdout; the styles only on a terminal, colours not with NO_COLOR."""
    console = Console(file=sys.stdout, highlight=False, soft_wrap=True, emoji=False)
    for line in lines:
        spans = [(printable(without_controls(text)), style) for text, style in line]
        if console.is_terminal:
            console.print(Text.assemble(*spans), markup=False)
        else:
            sys.stdout.write("".join(text for text, _ in spans) + "\n")


def printable(text: str) -> str:
    encoding = sys.stdout.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAINER).encode(encoding, errors="replace").decode(encoding)
    return text
