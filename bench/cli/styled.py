"""How does text reach stdout with colours on a terminal, and without them anywhere else?"""

import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from lns.complaints import without_controls

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
    """The text in characters that stdout can encode."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAINER).encode(encoding, errors="replace").decode(encoding)
    return text
