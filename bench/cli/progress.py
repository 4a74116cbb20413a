"""What does a person see of long work, and how does styled text reach a terminal?"""

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, Self, TextIO

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

from lns.complaints import without_controls

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
        self._console = Console(file=stream or sys.stderr, highlight=False, soft_wrap=True)
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
    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
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
