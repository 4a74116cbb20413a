"""The rules of the bench in one sequential model: a list of everything heard, and obvious code.

It is fed one reception after the other, in order of arrival, and says what is due. It shares no
code with the network server nor with the Spark oracle; both must agree with it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

GAP_MAX = 16384
LIVES_MAX = 8  # former lives that are remembered
Due = tuple[str, str, str, str]  # status, upstream, reason, answer ("due" for RX1, RX2, TooLate)


@dataclass(frozen=True)
class Heard:
    """A frame as one station delivered it; `counter` is the FCnt, or the DevNonce of a join."""

    t_us: int
    station: str
    identity: str
    counter: int
    confirmed: bool = False
    session: int = 0
    f_port: int = 2
    join: bool = False
    genuine: bool = True


@dataclass
class Device:
    """One device at the network server; `last` is None while nothing was heard in the session.

    `former` is how far its former lives came, those that came farther first.
    """

    strategy: str
    relaxed: bool = False
    lorawan: str = "1.0.4"
    last: dict[int, int | None] = field(default_factory=dict)
    former: dict[int, list[int]] = field(default_factory=dict)
    repeats: dict[tuple[int, int], int] = field(default_factory=dict)
    nonces: list[int] = field(default_factory=list)
    newest_session: int = 0
    sessions_heard: set[int] = field(default_factory=set)


@dataclass
class DedupModel:
    """One network server; `heard` is level 1 as a plain list of (when, identity, station)."""

    retention_us: int
    heard: list[tuple[int, str, str]] = field(default_factory=list)

    def restart(self, devices: Iterable[Device] = (), f_cnt_up: int | None = None) -> None:
        """The server forgets level 1; `f_cnt_up` replaces the counters it had kept."""
        self.heard.clear()
        if f_cnt_up is None:
            return
        for device in devices:
            for session in sorted(device.sessions_heard | device.last.keys()):
                device.last[session] = f_cnt_up
            device.repeats.clear()

    def receive(self, device: Device, frame: Heard) -> Due:
        """What is due for one reception."""
        if not frame.genuine:
            return "-", "dropped", "MicMismatch", "NotAsked"
        if not frame.join and frame.session < device.newest_session:
            return "-", "dropped", "UnknownDevice", "NotAsked"
        if not frame.join:
            device.sessions_heard.add(frame.session)
        status = self._status(device.strategy, frame)
        if frame.join:
            return _join(device, frame, status)
        return _data(device, frame, status)

    def _status(self, strategy: str, frame: Heard) -> str:
        copies = [(when, station) for when, name, station in self.heard if name == frame.identity]
        self.heard.append((frame.t_us, frame.identity, frame.station))
        island: list[str] = []
        since: int | None = None
        for when, station in copies:
            if since is None or when - since >= self.retention_us:
                island = []
            island.append(station)
            since = when
        if since is None or frame.t_us - since >= self.retention_us:
            return "NonDuplicate"
        if frame.join:
            return "Duplicate"
        if frame.station == island[0]:
            return "DuplicateDueToResubmission"
        return "Duplicate" if strategy == "Drop" else "SoftDuplicate"


def _join(device: Device, frame: Heard, status: str) -> Due:
    if status == "Duplicate":
        return status, "dropped", "Duplicate", "Suppressed"
    too_low = device.lorawan == "1.0.4" and any(n >= frame.counter for n in device.nonces)
    if frame.counter in device.nonces or too_low:
        return status, "dropped", "DevNonceUsed", "Suppressed"
    device.nonces.append(frame.counter)
    return status, "dropped", "-", "due"


def _data(device: Device, frame: Heard, status: str) -> Due:
    withheld = "Suppressed" if frame.confirmed else "NotAsked"
    if status == "Duplicate":
        return status, "dropped", "Duplicate", withheld
    reason = _refusal(device, frame, status)
    if reason is not None:
        return status, "dropped", reason, withheld
    if status == "NonDuplicate":
        device.newest_session = max(device.newest_session, frame.session)
    copy = status != "NonDuplicate"
    word = {"Drop": "dropped", "Mark": "marked", "None": "forwarded"}[device.strategy]
    upstream = word if copy else "forwarded"
    hidden = copy and device.strategy == "Drop"
    answer = "due" if frame.confirmed and status != "SoftDuplicate" else withheld
    if frame.f_port == 0:
        upstream = "dropped"
    return status, upstream, "ResubmissionSuppressed" if hidden else "-", answer


def _refusal(device: Device, frame: Heard, status: str) -> str | None:
    counter, session = frame.counter, frame.session
    former = device.former.setdefault(session, [])
    continued = [far for far in former if counter > far]
    last = continued[0] if continued else device.last.get(session)
    first_message = device.relaxed and counter <= 1
    newer = (last is None or counter > last) and counter - (last or 0) <= GAP_MAX
    if status == "SoftDuplicate":
        return None if newer or counter == last or first_message else "InvalidFrameCounter"
    if newer or (status == "NonDuplicate" and first_message):
        ended = device.last.get(session)
        if newer:
            device.former[session] = [far for far in former if counter <= far]
        elif ended is not None and ended > counter and all(ended < far for far in former):
            device.former[session] = [*former, ended][-LIVES_MAX:]
        device.last[session] = counter
        device.repeats = {key: n for key, n in device.repeats.items() if key[0] != session}
        return None
    allowed = counter == last or (first_message and status != "NonDuplicate")
    if not allowed or not (frame.confirmed or first_message):
        return "InvalidFrameCounter"
    if not frame.confirmed:
        return None
    spent = device.repeats.get((session, counter), 0)
    if spent >= 3:
        return "ResubmissionLimit"
    device.repeats[session, counter] = spent + 1
    return None
