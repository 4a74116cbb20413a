"""Is a line of the log one that a network server or a consumer has, whole and at its level?

Whatever it says of others is printable, and what a person may type into a shell means what it says
there. Nothing is logged as an error: that would be a mistake of the program itself.
"""

import re
import shlex
from collections.abc import Iterable, Iterator

from bench.verdict.owner import Found, Scrutiny

_EUI, _SAID, _N = r"[0-9A-F]{16}", r"[ -~]{1,200}", r"\d+"
_MANY, _PEER = r"[1-9]\d*", rf"(?:{_EUI}|[0-9a-f.:]+|-)"
_LATE = "|".join(
    (
        "the clock of the station is not known",
        "the frame is of a radio session that does not run",
        "the frame was told too late",
    )
)
_REFUSED = "(?:QueueFull|TooLong|UnknownDevice|BelongsToAnotherServer)"
_OPEN = r"the (?:devices|store|outbox|tokens|key) file (?P<file>.+) can be"
_SHAPES = {
    "INFO": (
        rf"{_EUI}: station [ -~]{{0,200}}",
        rf"{_PEER}: connected from \S+",
        rf"{_PEER}: disconnected \({_SAID}\); {_N} texts, {_N} binary",
        rf"{_EUI}: CUPS: [A-Za-z, ]+",
        r"CUPS: listening https?://\S+:\d+/update-info",
        rf"{_MANY} more lines were not logged",
        "the store(?: of the claims)? is back",
        rf".+ is written again; {_MANY} events are missing",
        r".+ is full; it goes on in a new file, this one is .+\.1 now",
        r".+ takes messages on \S+ again",
        rf".+ is (?:connected|back); {_N} messages wait",
        r"\S+ brings \S+",
        "stopping",
        r"listening wss?://\S+ \(nobody can be told: .+\)",
    ),
    "WARNING": (
        rf"{_EUI}: unreadable message: {_SAID}",
        rf"{_EUI}: TooLate \([^()]+\): (?:{_LATE})",
        rf"{_EUI}: cannot answer: {_MANY} TooLate in a row, at last because (?:{_LATE});"
        " what it hears first stays unanswered",
        rf"{_EUI}: answers again, after {_MANY} TooLate",
        rf"{_EUI}: internal error \((?:reception|message|downlink)\): \w+(?: at \S+\.py:\d+)?\n"
        r"(?:.+\n)*",
        rf"{_SAID}: the downlink is refused: {_REFUSED}",
        rf"{_SAID}: (?:the topic does not name a DevEUI|more than {_MANY} bytes)",
        rf"{_SAID}: not a downlink: {_SAID}",
        rf"{_PEER}: (?:CUPS: )?refused: {_SAID}",
        rf"{_MANY} more complaints were not logged",
        r".+; nobody can say who owns a frame until it is back",
        r".+; devices are not answered until it is back",
        rf".+ cannot be written: .+; {_MANY} events are missing by now",
        rf"{_OPEN} (?:read|written|read and written) by others \(mode [0-7]{{3}}\): (?P<does>.+)",
        r".+ has no DNS name \S+ \(it has: .+\): stations will refuse it",
        rf"{_MANY} messages are parked: they wait for longer than {_MANY} s",
        r".+ refuses messages on \S+: .+",
        rf".+; {_N} messages wait",
        r".+; \S+ is not heard",
        r".+ lets nobody read \S+: .+",
        "the (?:outbox|inbox|store) .+",
        rf"{_EUI}: frame {_N} stays claimed",
        rf"{_EUI}: nothing is sent: .+",
    ),
}  # fmt: skip
_LINES = re.compile(
    "|".join(f"{level} (?:{one})" for level, shapes in _SHAPES.items() for one in shapes)
)

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def oddities(lines: Iterable[str], check: Scrutiny) -> Iterator[Found]:
    """What no server says, or says in other words."""
    for line in dict.fromkeys(lines):
        found = _LINES.fullmatch(line)
        if found is None or _CONTROL.search(line):
            yield check.wrong("line", "one that a network server has", line)
        elif does := found["does"]:
            yield from check.same("what to do", shlex.join(["chmod", "600", found["file"]]), does)
