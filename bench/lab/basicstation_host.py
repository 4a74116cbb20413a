"""How is a gateway with a Basics Station reached, and what does the log of its station say?"""

import asyncio
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from bench.lab.inventory.sections import GatewayKind, GatewaySection
from bench.lab.power import said_by
from lns.clock import EPOCH, utc_of_this_host
from lns.complaints import printable
from lns.lorawan.identifiers import Eui, eui

_LIMIT_US = 60_000_000
_CONNECT_S = 10
_OUTPUT_BYTES_MAX = 50_000_000
_UNREACHABLE = 255  # the exit code of ssh itself
_SSH = ("ssh", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_S}")
_ADVICE = {
    "Host key verification failed": "log in once by hand, `ssh {host}`, and compare the key",
    "Permission denied": "give it your public key: `ssh-copy-id {host}`",
    "Could not resolve hostname": "is the name right? An address always is",
    "Connection refused": "is its SSH server on?",
    "Connection timed out": "is it on, and in this network?",
    "No route to host": "is it on, and in this network?",
    "password is required": "let that user use sudo without a password, or log in as root",
    "not allowed to execute": "let that user use sudo without a password, or log in as root",
}


class GatewayFailed(Exception):
    """A gateway cannot be reached, or a command on it failed; the text says what to do."""


@dataclass(frozen=True, slots=True)
class GatewayShell:
    """A shell on a gateway: `ssh` says where, None is this host; `home` is that of the station."""

    name: str
    ssh: str | None
    home: str

    def command(self, words: str) -> list[str]:
        """The command line of this host that runs a command there."""
        return ["sh", "-c", words] if self.ssh is None else [*_SSH, self.ssh, words]

    async def run(self, words: str, stdin: bytes = b"", limit_us: int = _LIMIT_US) -> str:
        """What a command there says; GatewayFailed if it fails, or not in time."""
        command = self.command(words)
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=_OUTPUT_BYTES_MAX,
            )
        except FileNotFoundError:
            raise GatewayFailed(
                f"{self.name}: there is no program {command[0]}; install openssh-client"
            ) from None
        try:
            output, complaint = await said_by(process, limit_us, stdin)
        except TimeoutError:
            raise GatewayFailed(
                f"{self.name}: no end of {words.split(';')[0]!r} within {limit_us // 1_000_000} s"
            ) from None
        if process.returncode:
            raise GatewayFailed(self._why(process.returncode, complaint or output))
        return output.decode("utf-8", "replace")

    async def run_script(self, script: str) -> str:
        """`run`, for a script of sh as somebody who may write into the home of the station."""
        return await self.run(self.entering, script.encode())

    @property
    def entering(self) -> str:
        """The command that takes a script; as root unless the home can be written without."""
        home = shlex.quote(self.home)
        return (
            f'h={home}; if [ "$(id -u)" = 0 ] || [ -w "$h" ] ||'
            ' { [ ! -e "$h" ] && [ -w "$(dirname "$h")" ]; };'
            " then exec sh -s; else exec sudo -n sh -s; fi"
        )

    def _why(self, code: int, complaint: bytes) -> str:
        said = printable(" ".join(complaint.decode("utf-8", "replace").split())[-200:])
        host = self.ssh or "this host"
        advice = next((text for part, text in _ADVICE.items() if part in said), "")
        where = f"{host} cannot be reached" if code == _UNREACHABLE else f"{host} ended with {code}"
        return f"{self.name}: {where}: {said}" + (f"; {advice.format(host=host)}" if advice else "")


def shell_of(gateway: GatewaySection) -> GatewayShell:
    """The shell of a gateway; GatewayFailed for one that the bench cannot log in to."""
    if gateway.ssh is None and gateway.kind is not GatewayKind.PROGRAM:
        raise GatewayFailed(
            f'{gateway.name}: bench.toml does not say where to log in; give ssh = "user@host"'
        )
    return GatewayShell(gateway.name, gateway.ssh, gateway.home)


def restart_words(gateway: GatewaySection) -> str:
    """The command that restarts the station of a gateway; GatewayFailed if there is none."""
    if gateway.restart is not None:
        return shlex.join(gateway.restart)
    match gateway.kind:
        case GatewayKind.RASPBERRY_PI:
            return (
                'if [ "$(id -u)" = 0 ]; then systemctl restart basicstation;'
                " else sudo -n systemctl restart basicstation; fi"
            )
        case GatewayKind.WISGATE:
            # Later, or the connection would break before the end of the command is told.
            return "(sleep 1; reboot) > /dev/null 2>&1 &"
        case GatewayKind.PROGRAM:
            raise GatewayFailed(
                f"{gateway.name}: bench.toml does not say how it is restarted; give"
                ' restart = ["program", "word", …]'
            )


async def restart_gateway(gateway: GatewaySection) -> None:
    """Restart the station of a gateway, the whole gateway if it is a WisGate; GatewayFailed."""
    await restart_shell(gateway).run(restart_words(gateway))


def restart_shell(gateway: GatewaySection) -> GatewayShell:
    """Where the command runs that restarts a gateway; GatewayFailed if there is no way in."""
    if gateway.ssh is None and gateway.restart is not None:
        # A command of this host, whatever kind of gateway it restarts.
        return GatewayShell(gateway.name, None, gateway.home)
    return shell_of(gateway)


# What is said at a healthy start, in this order.
HEALTHY = (
    ("the station has an EUI", re.compile(r"Station EUI\s*:\s*(?P<eui>\S+)")),
    ("the connection to the network server begins", re.compile(r"Starting TC engine")),
    ("the discovery endpoint is asked", re.compile(r"Connecting to INFOS: (?P<uri>\S+)")),
    ("the discovery endpoint has answered", re.compile(r"Infos: ")),
    ("the channels have arrived", re.compile(r"Configuring for region: (?P<region>\w+)")),
    ("the concentrator runs", re.compile(r"Concentrator started")),
)
STEPS = tuple(step for step, _ in HEALTHY)
_STARTED = re.compile(r"Station Ver\s*:")
_NO_DUTY_CYCLE = re.compile(r"Dev/test settings:.*nodc=1")

# What tells of trouble: the marker, its cause, and what to do.
TROUBLE = (
    (
        r"Concentrator start failed",
        "the concentrator does not answer",
        "check the reset line and the board in bench.toml, and that SPI and I2C are on"
        " (`sudo raspi-config`)",
    ),
    (
        r"ral_config failed with status",
        "the channel plan or the device path is refused",
        "compare `device` in station.conf with `ls /dev/spidev* /dev/ttyACM*`",
    ),
    (
        r"Radio device .* in use by process",
        "another station or packet forwarder has the concentrator",
        "end it: `sudo systemctl disable --now` its service",
    ),
    (
        r"Unsupported hwspec",
        "the configuration is for other hardware",
        "the network server has to send hwspec sx1301/1, also for SX1302",
    ),
    (
        r"missed TX time|too late for RX2 by",
        "a downlink came too late",
        "look for what slows the network down: WLAN, a busy host, a delay left in `tc qdisc`",
    ),
    (
        r"Received '\w+' before 'router_config'",
        "the network server sent a downlink too early",
        "a mistake of the network server: keep its log",
    ),
    (
        r"no DC in band",
        "the station keeps to the duty cycle",
        "wait; with cables or a shield box, `conducted = true` in bench.toml",
    ),
    (
        r"Cannot convert xtime",
        "the network server used the time of an earlier radio session",
        "send one uplink anew; downlinks of before the restart are lost",
    ),
    (
        r"Feature not supported in production level code",
        "the build refuses settings for tests, such as nodc",
        "build the station without production level, or leave `conducted` out",
    ),
)
# The same for what passes as soon as the station is connected: the first that fits what it said at
# its latest attempt.
PASSING = (
    (
        r"No TC URI configured|Bad TC URI",
        "the station does not know the network server",
        "lorabench stations provision",
    ),
    (
        r"TLS server certificate verification failed",
        "the station does not trust the certificate",
        "check its clock first (`date -u`), then tc.trust and the host name in tc.uri",
    ),
    (
        r"Infos error:",
        "the network server refuses this EUI",
        "compare the EUI with the one in bench.toml",
    ),
    (
        r"TC connect failed|INFOS reconnect backoff|TC engine timed out",
        "nobody answers at the tap",
        "it listens during a run only (or `lorabench stations check --wait-s 90`); else compare"
        " tc.uri with the address of this host, and look for a firewall",
    ),
    (
        r"MUXS reconnect backoff",
        "the network server closed the connection",
        "so it is at the end of a run; during one, keep the log of the network server",
    ),
)
_PATTERNS = tuple((re.compile(marker), cause, remedy) for marker, cause, remedy in TROUBLE)
_PASSING = tuple((re.compile(marker), cause, remedy) for marker, cause, remedy in PASSING)
_CONNECTED = re.compile(r"Connected to MUXS|Configuring for region")
_ATTEMPT = re.compile(r"Connecting to INFOS: ")
_LOST = re.compile(
    r"Connection to MUXS closed|(?:MUXS|INFOS) reconnect backoff|TC connect failed"
    r"|Infos error:|No TC URI configured|Bad TC URI|TLS server certificate verification failed"
)


@dataclass(frozen=True, slots=True)
class Trouble:
    """One kind of trouble that a log tells of: its last line, how often, and what to do."""

    line: str
    times: int
    cause: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Health:
    """What a log says since the latest start of the station.

    `missing`: the first healthy step that was not reached, None if all were. `connected`: the last
    that it says of its connection is that it has one. `duty_cycle_off`: it says that nodc is
    active.
    """

    missing: str | None
    connected: bool
    eui: Eui | None
    troubles: tuple[Trouble, ...]
    duty_cycle_off: bool

    @property
    def is_healthy(self) -> bool:
        return self.missing is None


def health(lines: Sequence[str]) -> Health:
    starts = [number for number, line in enumerate(lines) if _STARTED.search(line)]
    lines = lines[starts[-1] :] if starts else lines
    reached, own = 0, None
    for line in lines:
        found = HEALTHY[reached][1].search(line) if reached < len(HEALTHY) else None
        if found:
            own = _eui(found["eui"]) if reached == 0 else own
            reached += 1
    connected = _last(lines, _CONNECTED) > _last(lines, _LOST)
    troubles = _troubles(lines, _PATTERNS)
    if not connected:
        troubles += _troubles_of_connection(lines[_last(lines, _CONNECTED) + 1 :])
    return Health(
        missing=STEPS[reached] if reached < len(STEPS) else None,
        connected=connected,
        eui=own,
        troubles=tuple(troubles),
        duty_cycle_off=any(_NO_DUTY_CYCLE.search(line) for line in lines),
    )


def advice(found: Health, expected: Eui, *, conducted: bool) -> list[str]:
    """What a person should know and do, a sentence each; nothing if all is well."""
    said = [
        f"{trouble.cause} ({trouble.times}x, at last: {trouble.line}); {trouble.remedy}"
        for trouble in found.troubles
    ]
    if found.missing is not None:
        said.append(f"its log does not say that {found.missing}; read it: lorabench stations logs")
    if found.eui is not None and found.eui != expected:
        said.append(
            f"it calls itself {found.eui}, bench.toml calls it {expected}; write the right EUI"
            " there, or let `lorabench stations provision` set it"
        )
    if conducted and found.is_healthy and not found.duty_cycle_off:
        said.append("it does not say that its duty cycle is off (nodc); acks may come in RX2")
    return said


def _last(lines: Sequence[str], pattern: re.Pattern[str]) -> int:
    return max((number for number, line in enumerate(lines) if pattern.search(line)), default=-1)


def _troubles(
    lines: Sequence[str], patterns: Sequence[tuple[re.Pattern[str], str, str]]
) -> list[Trouble]:
    found = []
    for pattern, cause, remedy in patterns:
        matching = [line for line in lines if pattern.search(line)]
        if matching:
            found.append(Trouble(printable(matching[-1].strip()), len(matching), cause, remedy))
    return found


def _troubles_of_connection(lines: Sequence[str]) -> list[Trouble]:
    begins = [number for number, line in enumerate(lines) if _ATTEMPT.search(line)]
    for begin, end in reversed(list(pairwise([0, *begins, len(lines)]))):
        for row in _PASSING:
            if _troubles(lines[begin:end], [row]):
                return _troubles(lines, [row])
    return []


def _eui(text: str) -> Eui | None:
    try:
        return eui(text)
    except ValueError:
        return None


LINES_MAX = 2000
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
        return tuple(line.text for line in self.lines)


async def journal(gateway: GatewaySection, lines_max: int = LINES_MAX) -> Journal:
    """The newest lines of the log of a gateway; GatewayFailed."""
    shell = shell_of(gateway)
    before = utc_of_this_host()
    answer = await shell.run(_CLOCK)
    after = utc_of_this_host()
    within_us = max(1, (after - before) // timedelta(microseconds=2))
    ahead_us = None
    if re.fullmatch(r"\d+\.\d{9}\s*", answer):
        middle = before + timedelta(microseconds=within_us)
        ahead_us = (_at(answer) - middle) // timedelta(microseconds=1)
    match gateway.kind:
        case GatewayKind.RASPBERRY_PI:
            words = f"journalctl -u basicstation --no-pager -o short-unix -n {lines_max}"
        case GatewayKind.WISGATE:
            words = f"logread | tail -n {lines_max}"
        case GatewayKind.PROGRAM:
            words = _LOG_FILE.format(home=shlex.quote(gateway.home), lines_max=lines_max)
    said = await shell.run(words)
    lines = tuple(_line(text, ahead_us or 0) for text in said.splitlines() if text.strip())
    return Journal(gateway.name, lines, ahead_us, within_us)


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
    return EPOCH + timedelta(seconds=int(seconds), microseconds=micros)


def _own(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)
