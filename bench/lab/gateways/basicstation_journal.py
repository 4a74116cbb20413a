"""What did a station say, and when was that on the clock of this host?

A gateway has a clock of its own: it is asked for its time first, and its lines are put onto the
clock of this host.
"""

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from bench.lab.gateways.basicstation_shell import shell_of
from bench.lab.inventory.entries import GatewayEntry, GatewayKind
from lns.clock import utc_of_this_host

LINES_MAX = 2000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CLOCK = "date +%s.%N"
# A station writes the file that station.conf names; one that an emulated lab started, `log`.
_LOG_FILE = (
    "cd {home} && for file in station.log log; do if [ -f $file ]; then"
    " tail -n {lines_max} $file; exit; fi; done;"
    ' echo "neither station.log nor log is in $PWD" >&2; exit 1'
)
# short-unix: "1763690000.123456 host station[7]: text"
_JOURNAL = re.compile(r"(?P<at>\d+(?:\.\d+)?) \S+ \S+?: (?P<text>.*)")
# The station's own: "2026-11-21 03:50:14.123 [SYS:INFO] text", on the clock and zone of its host.
_OWN = re.compile(r"(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?) (?P<text>\[.*)")


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line; `at` is the clock of this host, None where the gateway did not say when."""

    at: datetime | None
    text: str

    def __str__(self) -> str:
        at = f"{self.at:%Y-%m-%dT%H:%M:%S}.{self.at.microsecond // 1000:03}Z" if self.at else "-"
        return f"{at:24} {self.text}"


@dataclass(frozen=True, slots=True)
class Journal:
    """What a station said, oldest first.

    `ahead_us`: how far the clock of the gateway is ahead of this host's, `within_us` either way;
    None where it cannot be asked to the microsecond.
    """

    name: str
    lines: tuple[LogLine, ...]
    ahead_us: int | None
    within_us: int

    @property
    def texts(self) -> tuple[str, ...]:
        """The lines without their time."""
        return tuple(line.text for line in self.lines)


async def journal(gateway: GatewayEntry, lines_max: int = LINES_MAX) -> Journal:
    """The newest lines of the log of a gateway; GatewayFailed."""
    shell = shell_of(gateway)
    before = utc_of_this_host()
    told = await shell.run(_CLOCK)
    after = utc_of_this_host()
    within_us = max(1, (after - before) // timedelta(microseconds=2))
    ahead_us = None
    if re.fullmatch(r"\d+\.\d{9}\s*", told):
        middle = before + timedelta(microseconds=within_us)
        ahead_us = (_at(told) - middle) // timedelta(microseconds=1)
    match gateway.kind:
        case GatewayKind.RASPBERRY_PI:
            words = f"journalctl -u basicstation --no-pager -o short-unix -n {lines_max}"
        case GatewayKind.WISGATE:
            words = f"logread | tail -n {lines_max}"
        case GatewayKind.PROGRAM:
            words = _LOG_FILE.format(home=shlex.quote(gateway.home), lines_max=lines_max)
    said = await shell.run(words)
    return Journal(gateway.name, _lines(said.splitlines(), ahead_us or 0), ahead_us, within_us)


def _lines(said: Sequence[str], ahead_us: int) -> tuple[LogLine, ...]:
    return tuple(_line(text, ahead_us) for text in said if text.strip())


def _line(text: str, ahead_us: int) -> LogLine:
    ways: tuple[tuple[re.Pattern[str], Callable[[str], datetime]], ...]
    ways = ((_JOURNAL, _at), (_OWN, _own))
    for pattern, when in ways:
        found = pattern.fullmatch(text)
        if found:
            at = when(found["at"]) - timedelta(microseconds=ahead_us)
            return LogLine(at, _printable(found["text"]))
    return LogLine(None, _printable(text))


def _at(text: str) -> datetime:
    seconds, _, fraction = text.strip().partition(".")
    micros = int(fraction[:6].ljust(6, "0"))
    return _EPOCH + timedelta(seconds=int(seconds), microseconds=micros)


def _own(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _printable(text: str) -> str:
    """The text without what a terminal would obey."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
