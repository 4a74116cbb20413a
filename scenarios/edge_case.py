"""A stimulus in one line: which station delivers which frame when, and what the rules make of it.

`S1@4:C10` is a confirmed frame with FCnt 10 that station S1 delivers four seconds after the start;
`U` unconfirmed, `J` a join with this DevNonce, `.x` another content (so another MIC), `!` a wrong
MIC, `p0` port 0, `a~` a device, `restart@5=10` a restart of the server with persisted counter 10.

`due` says what each reception must become. It is the policy of ADR 007 in a list of everything
heard and a few lines of obvious code, apart from the network server it judges.
"""

import re
from dataclasses import dataclass, field

RETENTION_S = 60.0
GAP_MAX = 16384
RESUBMISSIONS_MAX = 3
NUMBERS = {"U": 1 << 32, "C": 1 << 32, "J": 1 << 16}
"""How many numbers there are: a counter has 32 bits, a DevNonce 16."""

_STEP = re.compile(
    r"(?:(?P<device>[a-z])~)?(?P<station>S\d)@(?P<at>\d+(?:\.\d+)?):"
    r"(?P<forged>!)?(?P<kind>[UCJ])(?P<number>\d+)(?:p(?P<port>\d+))?(?:\.(?P<variant>[a-z]))?"
)
_RESTART = re.compile(r"restart@(?P<at>\d+(?:\.\d+)?)(?:=(?P<f_cnt>\d+))?")


@dataclass(frozen=True, slots=True)
class Step:
    """One reception; `number` is the FCnt, or the DevNonce of a join. Times in seconds."""

    at_s: float
    station: str
    kind: str
    number: int
    device: str = "a"
    port: int = 1
    variant: str = ""
    forged: bool = False


@dataclass(frozen=True, slots=True)
class Restart:
    """The server starts again; `f_cnt` is the counter it had persisted, None: the newest."""

    at_s: float
    f_cnt: int | None


@dataclass(frozen=True, slots=True)
class Setup:
    """The device of a case: relaxed ABP unless it says otherwise; `srv` is the server's counter."""

    otaa: bool = False
    relaxed: bool = True
    srv: int | None = None

    @property
    def restarts(self) -> bool:
        """Whether the device may begin its counter again."""
        return self.relaxed and not self.otaa


@dataclass(slots=True)
class _Device:
    """What the rules must remember of one device."""

    last: int | None
    answered: dict[int, int] = field(default_factory=dict)
    nonces: set[int] = field(default_factory=set)
    session: int = 0
    joined: int = 0


def steps(events: str) -> list[Step | Restart]:
    """Read a stimulus; ValueError names what cannot be read."""
    return [_step(text) for text in events.split()]


def first_f_cnt(stimulus: list[Step | Restart], device: str) -> int:
    """The counter of the first data frame of a device; 1 if it sends none."""
    data = (s for s in stimulus if isinstance(s, Step) and s.device == device and s.kind != "J")
    return next((step.number for step in data), 1)


def joins(stimulus: list[Step | Restart]) -> bool:
    """Whether anything joins, so that the device is an OTAA device."""
    return any(isinstance(step, Step) and step.kind == "J" for step in stimulus)


def due(stimulus: list[Step | Restart], setup: Setup, strategy: str) -> list[str]:
    """The words of each reception in order, "status upstream(reason) answer"."""
    heard: list[tuple[float, tuple[object, ...], str]] = []
    devices: dict[str, _Device] = {}
    words = []
    for step in stimulus:
        if isinstance(step, Restart):
            heard.clear()
            for device in devices.values():
                device.last = device.last if step.f_cnt is None else step.f_cnt
            continue
        device = devices.setdefault(step.device, _new_device(stimulus, setup, step.device))
        words.append(_words(step, device, heard, setup, strategy))
    return words


def totals(words: list[str]) -> tuple[int, int, int]:
    """How many messages went up, how many of them marked, how many answers went down."""
    up = sum(" forwarded " in text or " marked " in text for text in words)
    marked = sum(" marked " in text for text in words)
    down = sum(text.endswith(("RX1", "RX2")) for text in words)
    return up, marked, down


def _step(text: str) -> Step | Restart:
    if (found := _STEP.fullmatch(text)) and int(found["number"]) < NUMBERS[found["kind"]]:
        return Step(
            float(found["at"]),
            found["station"],
            found["kind"],
            int(found["number"]),
            found["device"] or "a",
            int(found["port"] or 1),
            found["variant"] or "",
            found["forged"] is not None,
        )
    found = _RESTART.fullmatch(text)
    if found and int(found["f_cnt"] or 0) < NUMBERS["U"]:
        return Restart(float(found["at"]), int(found["f_cnt"]) if found["f_cnt"] else None)
    raise ValueError(f"cannot read the step {text!r}")


def _new_device(stimulus: list[Step | Restart], setup: Setup, name: str) -> _Device:
    srv = first_f_cnt(stimulus, name) - 1 if setup.srv is None else setup.srv
    return _Device(last=None if srv < 0 else srv)


def _words(
    step: Step,
    device: _Device,
    heard: list[tuple[float, tuple[object, ...], str]],
    setup: Setup,
    strategy: str,
) -> str:
    if step.forged:
        return "- dropped(MicMismatch) NotAsked"
    session = device.joined if step.kind != "J" else 0
    key = (step.device, session, step.kind, step.number & 0xFFFF, step.port, step.variant)
    copy = _copy(step, key, heard)
    heard.append((step.at_s, key, step.station))
    if step.kind == "J":
        return _join_words(step, device, copy)
    if device.session != device.joined:  # the first frame of a new session
        device.session, device.last = device.joined, None
        device.answered.clear()
    return _data_words(step, device, copy, setup, strategy)


def _copy(
    step: Step, key: tuple[object, ...], heard: list[tuple[float, tuple[object, ...], str]]
) -> str:
    first, last_s = None, None
    for at_s, other, station in heard:
        if other == key:
            if last_s is None or at_s - last_s >= RETENTION_S:
                first = station
            last_s = at_s
    if last_s is None or step.at_s - last_s >= RETENTION_S:
        return "first"
    return "same" if first == step.station else "other"


def _join_words(step: Step, device: _Device, copy: str) -> str:
    if copy != "first":
        return "Duplicate dropped(Duplicate) Suppressed"
    if device.nonces and step.number <= max(device.nonces):
        return "NonDuplicate dropped(DevNonceUsed) Suppressed"
    if step.variant == "b":  # another JoinEUI than the device's
        return "NonDuplicate dropped(UnknownDevice) Suppressed"
    device.nonces.add(step.number)
    device.joined += 1
    return "NonDuplicate dropped RX1"


def _data_words(step: Step, device: _Device, copy: str, setup: Setup, strategy: str) -> str:
    confirmed = step.kind == "C"
    f_cnt, last = step.number, device.last
    withheld = "Suppressed" if confirmed else "NotAsked"
    restarts = setup.restarts and f_cnt <= 1
    if copy == "other" and strategy == "Drop":
        return f"Duplicate dropped(Duplicate) {withheld}"
    status = {
        "first": "NonDuplicate", "other": "SoftDuplicate", "same": "DuplicateDueToResubmission"
    }[copy]  # fmt: skip
    invalid = f"{status} dropped(InvalidFrameCounter) {withheld}"
    up = "dropped" if step.port == 0 else "forwarded"
    copied = "dropped" if step.port == 0 else {"Mark": "marked"}.get(strategy, "forwarded")
    newer = (last is None or f_cnt > last) and f_cnt - (last or 0) <= GAP_MAX
    if copy == "first" and (newer or restarts):
        device.last = f_cnt
        device.answered.clear()
        return f"{status} {up} {'RX1' if confirmed else 'NotAsked'}"
    if copy == "other":
        return f"{status} {copied} {withheld}" if f_cnt == last or restarts else invalid
    if not confirmed:
        if copy == "first" or not restarts:
            return invalid
        return (
            f"{status} dropped(ResubmissionSuppressed) NotAsked"
            if strategy == "Drop"
            else f"{status} {copied} NotAsked"
        )
    if f_cnt != last and not (restarts and copy == "same"):
        return invalid
    if device.answered.get(f_cnt, 0) >= RESUBMISSIONS_MAX:
        return f"{status} dropped(ResubmissionLimit) Suppressed"
    device.answered[f_cnt] = device.answered.get(f_cnt, 0) + 1
    if copy == "first":
        return f"{status} {up} RX1"
    if strategy == "Drop":
        return f"{status} dropped(ResubmissionSuppressed) RX1"
    return f"{status} {copied} RX1"
