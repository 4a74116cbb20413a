"""Which lines end the reply to a command? Each dialect has its own answer."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from bench.device.at import RUI3_LINES, LineSpelling

NOTHING = re.compile(r"(?!)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The lines that end one reply: `accepted` or `refused`, each matched in full.

    `perhaps` ends it too, unless another line follows within `quiet_us`; it counts as accepted.
    """

    accepted: re.Pattern[str]
    refused: re.Pattern[str]
    perhaps: re.Pattern[str] = NOTHING
    quiet_us: int = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """How a dialect frames commands and replies.

    `question` is a query whose answer begins with `answer` and so cannot be that of an earlier
    command. `forbidden`: commands that the bench never writes.
    """

    lines: LineSpelling
    reply_to: Callable[[str], Reply]
    question: str
    answer: str
    forbidden: re.Pattern[str]


_RUI3_REPLY = Reply(
    accepted=re.compile(r"OK"),
    refused=re.compile(r"AT_[A-Z0-9_]+|.*: Command not found!!|COMMAND_LOCKED"),
)

# AT+BOOT waits in the boot loader for a new firmware; AT+BAUD changes its speed before its OK.
RUI3 = Grammar(
    lines=RUI3_LINES,
    reply_to=lambda command: _RUI3_REPLY,
    question="AT+VER=?",
    answer="AT+VER=",
    forbidden=re.compile(r"AT\+BOOT\b.*|AT\+BAUD=(?!\?).*", re.I),
)
