"""What does the program of a network server say to a person?"""

import io
import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType

from bench.capture.reading import Event
from bench.inspection.sentences import disagreements, half_told, oddities
from bench.plan import Item, needs
from bench.rig.case_setup import CaseSetup
from bench.rig.in_memory.mistakes import SECRET, far_from_utc
from bench.verdict.owner import Found, Scrutiny
from lns.__main__ import main
from lns.clock import now_us, utc_of_this_host
from lns.complaints import SafeFormatter, place_of
from lns.lorawan.__main__ import main as read_frame

_LOG, _SOCKETS = logging.getLogger("lns"), logging.getLogger("websockets")
_OF_DOORS = re.compile(r"[A-Z]+ \S+: (CUPS: )?(refused: |connected from|disconnected \()")
_OF_CUPS = re.compile(r"INFO (?:[0-9A-F]{16}: )?CUPS: (.*)")
LINES_MAX = 60
"""So many lines of a kind are logged in a minute."""
_LOGGED = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})Z ([A-Z]+ \S.*)")
_MISTAKE = re.compile(r"(?:\S+\.toml(:\d+)?|stdout): (?!\S+, [A-Z]+\d{3}\b)")
_HOW_IT_IS_CALLED = re.compile(r"^usage: .*\n(?: .*\n)*", re.MULTILINE)
_MINUTE = timedelta(minutes=1)
_SHOWN = 30
"""As much of what is as it should be stands before what is not."""
_NOTHING: Mapping[str, str] = MappingProxyType({})
_FOLDER = re.compile(r"/\S*/lorabench-[^/]+/")


@dataclass(frozen=True, slots=True)
class Said:
    """How a run of the program of a network server has ended, and what it has said where."""

    status: object
    out: str
    wrong_out: str
    logged: Sequence[str]
    began: datetime
    levels: str

    def wrong(self, due: str, check: Scrutiny, folder: Path) -> Iterator[Found]:
        """What is not as it has to be: `due` has a line for each mistake, or what is right.

        Mistakes go where they are in nobody's way, and so does the log, with its time in UTC.
        """
        is_mistake = _MISTAKE.match(due) is not None
        mistakes = [line for line in self.wrong_out.splitlines() if not _LOGGED.match(line)]
        logged = [found for found in map(_LOGGED.match, self.wrong_out.splitlines()) if found]
        yield from check.same("levels of the log, and of its sockets", "INFO CRITICAL", self.levels)
        yield from check.same("lines that are logged", [*self.logged], [one[2] for one in logged])
        yield from check.same("status", 4 if is_mistake else 0, self.status)
        lines, besides = mistakes, self.out.splitlines()
        if not is_mistake:
            lines, besides = besides, lines
        yield from check.same("besides", [], besides)
        lines = [line.replace(f"{folder}/", "") for line in lines]
        if is_mistake:
            yield from half_told(lines, check)
        for observed, expected in zip_longest(lines, due.splitlines(), fillvalue=""):
            if not (expected and observed.startswith(expected)) or SECRET in observed:
                pairs = enumerate(zip(expected, observed, strict=False))
                alike = next((number for number, (one, other) in pairs if one != other), 0)
                begin = max(0, alike - _SHOWN)
                yield check.wrong("line", expected[begin:], observed[begin:])
        for time in (one[1] for one in logged):
            late = datetime.fromisoformat(time).replace(tzinfo=UTC) - self.began
            if abs(late) > _MINUTE:
                yield check.wrong("time of a line", self.began.isoformat(), time)


def run_program(
    *arguments: str, environment: Mapping[str, str] = _NOTHING, has_room: bool = True
) -> Said:
    """Let the program of a network server run to its end, on a host whose time is not UTC.

    Unless it `has_room`, nobody can be told anything.
    """
    root, began = logging.getLogger(), utc_of_this_host()
    handlers, level = root.handlers[:], root.level
    root.handlers.clear()
    out, wrong = io.StringIO(), io.StringIO()
    status: object
    logged: list[str] = []
    told = redirect_stdout(out) if has_room else nobody_is_told()
    try:
        with far_from_utc(environment), told, redirect_stderr(wrong):
            with listened(logging.NOTSET) as logged:  # how much it logs is up to the program
                status = main([*arguments])
    except SystemExit as stop:
        status = stop.code
    except Exception as error:  # nothing that somebody writes may end so
        status = place_of(error)
    finally:
        levels = " ".join(logging.getLevelName(one.level) for one in (root, _SOCKETS))
        root.handlers[:] = handlers
        root.setLevel(level)
    return Said(status, out.getvalue(), wrong.getvalue(), logged, began, levels)


@contextmanager
def nobody_is_told() -> Iterator[None]:
    """There is no room for what is said on standard output."""
    with Path("/dev/full").open("w") as full, redirect_stdout(full):
        yield


class _Lines(logging.Handler):
    """Remembers what is logged, as a terminal would show it, each with its level."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(SafeFormatter("%(levelname)s %(message)s"))
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@contextmanager
def listened(level: int = logging.INFO) -> Iterator[list[str]]:
    """What network servers of this process log meanwhile, and how much they do."""
    said, before = _Lines(), _LOG.level
    _LOG.addHandler(said)
    _LOG.setLevel(level)
    try:
        yield said.lines
    finally:
        _LOG.removeHandler(said)
        _LOG.setLevel(before)


class Log:
    """The verbs about what a program says.

    Whatever is said in a case has no key of its devices in it.
    """

    def __init__(self, setup: CaseSetup) -> None:
        self.setup = setup
        self.must_have = setup.must_have
        self._due: list[str] = []

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Listen for as long as a case lasts, and find what is wrong in the end."""
        with listened() as lines:
            try:
                yield
            finally:
                self.look_for_keys(lines)
                self._look_for_doors(lines)
                self._look_for_events(lines)
        # A folder of the case has another name in each run.
        self._compare([_FOLDER.sub("", line) for line in lines])

    @needs(Item.VIRTUAL_TIME)
    def expect_logged(self, *lines: str) -> None:
        """Expect the network servers of the case to log these lines next, and no others at all.

        Each as far as it matters, after its level: "WARNING ..."; to its end if that is a "\\n".
        """
        self._due += lines

    @needs(Item.VIRTUAL_TIME)
    def read_frame(self, phy: bytes, *options: str, says: Sequence[str], status: int = 0) -> None:
        """Let a person have a frame read (`python -m lns.lorawan`); `says` has every line.

        Blanks between the name of a field and its value are one, and how it is called stands in no
        line.
        """
        out, wrong = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(wrong):
            ended: object
            try:
                ended = read_frame([phy.hex(), *options])
            except SystemExit as stop:  # of what is no option
                ended = stop.code
            except Exception as error:  # as Python ends a program that breaks
                ended = 1
                print(f"{type(error).__name__}: {error}", file=wrong)
        texts = _HOW_IT_IS_CALLED.sub("", out.getvalue() + wrong.getvalue())
        said = [" ".join(line.split()) for line in texts.splitlines()]
        check = Scrutiny(rule="frame reader", of=f"what is read in {phy.hex()}", t_us=now_us())
        found = [*check.same("status", status, ended)]
        other = "standard output" if status else "standard error"  # who reads a pipe sees it alone
        found += check.same(other, None, (out if status else wrong).getvalue() or None)
        for due, line in zip_longest(says, said, fillvalue=""):
            found += check.same("line", due, line)
        for one in found:
            self.setup.case.find(one)

    def _compare(self, lines: Sequence[str]) -> None:
        if not self._due:
            return
        check = Scrutiny(rule="log", of="what is logged", t_us=now_us())
        for due, line in zip_longest(self._due, lines, fillvalue=""):
            if not (due and f"{line}\n".startswith(due)):
                self.setup.case.find(check.wrong("line", due or None, line or None))

    def _look_for_doors(self, lines: Sequence[str]) -> None:
        """Whether the log tells of whoever came, and who left, what the capture tells.

        And where CUPS listens, and what it hands out.

        Only where the program is in this process, stations come through a door, all is told of,
        and nobody is killed, who tells nothing more.
        """
        if Item.VIRTUAL_TIME not in self.setup.capabilities:
            return
        events = self.setup.case.events
        due = Counter(_line_of(one) for one in events if one["kind"] == "lns.connection")
        killed = any(one["kind"] == "case.lns" and one["event"] == "kill" for one in events)
        if killed or not due or due.total() > LINES_MAX:
            return
        seen = Counter(line for line in lines if _OF_DOORS.match(line))
        check = Scrutiny(rule="log", of="what is logged", t_us=now_us())
        for line in sorted(due | seen):
            self.setup.case.find(*check.same(f"lines of {line!r}", due[line], seen[line]))
        told = Counter(found[1] for found in map(_OF_CUPS.match, lines) if found)
        for line in sorted(Counter(self.setup.cups_says) - told):
            self.setup.case.find(check.wrong("line of CUPS", line, None))

    def _look_for_events(self, lines: Sequence[str]) -> None:
        """Whether the capture tells the same, where the program is in this process."""
        if Item.VIRTUAL_TIME not in self.setup.capabilities:
            return
        check = Scrutiny(rule="log", of="what is logged", t_us=now_us())
        events, waits_s = self.setup.case.events, self.setup.puts_aside_s
        self.setup.case.find(*disagreements(lines, events, waits_s, check), *oddities(lines, check))

    def look_for_keys(self, lines: Sequence[str]) -> None:
        """Whether there is a key of a device of the case in what was logged, whoever logs it."""
        if not lines:
            return
        said = "\n".join(lines).lower()
        check = Scrutiny(rule="log", of="what is logged", t_us=now_us())
        for device in self.setup.devices.values():
            record = device.provisioned.record
            keys = [record.app_key]
            if record.session_keys is not None:
                keys += [record.session_keys.nwk_s_key, record.session_keys.app_s_key]
            if SECRET in said or any(key is not None and key.hex() in said for key in keys):
                found = check.wrong(f"keys of {record.dev_eui}", "none", "one")
                self.setup.case.find(found)


def _line_of(event: Event) -> str:
    who, cause = event.get("station") or event["peer"], event.get("cause", "")
    match event["stage"]:
        case "refused":
            why = cause.removeprefix("CUPS: ")
            return f"WARNING {who}: {cause.removesuffix(why)}refused: {why}"
        case "connected":
            return f"INFO {who}: connected from {event['peer']}"
        case _:
            said = f"{event.get('texts')} texts, {event.get('binaries')} binary"
            return f"INFO {who}: disconnected ({cause}); {said}"
