"""What do logs of LoRaWAN conformance tests hold: frames as they were on the air, and their keys?

One JSON document (`conformance-frames.json`, Semtech packet forwarder fields):

    {"meta": {"about", "source": {"repo", "license"}, "app_key": hex},
     "logs": [{"log": name, "sessions": {DevAddr: {"NwkSKey": hex, "AppSKey": hex}}, "events": [
       {"t": "2020-08-11 22:17:31,291", "dir": "up"|"down", "tmst": µs mod 2**32, "freq": MHz,
        "datr": "SF8BW125", "phy": hex, "mic_ok": bool, "rssi": dBm, "lsnr": dB,
        "plain": hex, ...}]}]}

Each log is a case of its own. Each session is a device of its own, an ABP one: a join accept of our
network server would give other keys. Join requests go to one OTAA device more, which has `app_key`.
DevAddr 01010101 is the personalised session of the device under test; it may begin again at FCnt 0.
Only uplinks are played; the FCnt on the wire is taken for the whole counter.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct, field

from bench.chance import stream
from bench.traffic.recording import (
    REGION,
    Device,
    Hearing,
    Log,
    TrafficError,
    TrafficFile,
    Uplink,
    notice_of,
    session_eui,
    uplink_of,
)
from lns.clock import since_1970_us
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.identifiers import DevAddr, Eui, dev_addr, eui
from lns.lorawan.region import data_rate
from lns.uplink.registry import Activation

# `tmst` is the concentrator's counter: exact, but it wraps every 71.6 minutes and starts anew with
# the gateway. `t` is the wall clock of whoever wrote the log: late by some hundred milliseconds.
# So `t` tells how often `tmst` has wrapped, and steps in where the two do not go together.
WRAP_US = 1 << 32
APART_MAX_US = 10_000_000


@dataclass(frozen=True, slots=True)
class Stamp:
    """The time of one frame on each clock (µs), None where the log does not tell it."""

    wall_us: int | None
    counter_us: int | None

    @classmethod
    def of(cls, t: str | None, tmst: int | None) -> "Stamp":
        """Read the fields of a record; ValueError for an unknown spelling, or neither clock."""
        if t is None and tmst is None:
            raise ValueError("neither `t` nor `tmst` tells when the frame was heard")
        return cls(None if t is None else _wall_us(t), None if tmst is None else tmst % WRAP_US)


def times_us(stamps: Sequence[Stamp]) -> list[int]:
    """The time of each frame, in the order given, in µs since the earliest of them."""
    times: list[int] = []
    for before, stamp in zip([None, *stamps], stamps, strict=False):
        times.append(0 if before is None else times[-1] + _step_us(before, stamp))
    earliest = min(times, default=0)
    return [time - earliest for time in times]


def _step_us(before: Stamp, stamp: Stamp) -> int:
    wall_us = None
    if before.wall_us is not None and stamp.wall_us is not None:
        wall_us = stamp.wall_us - before.wall_us
    if before.counter_us is None or stamp.counter_us is None:
        return wall_us or 0
    counter_us = (stamp.counter_us - before.counter_us) % WRAP_US
    if wall_us is None:
        return counter_us
    counter_us += round((wall_us - counter_us) / WRAP_US) * WRAP_US
    return counter_us if abs(counter_us - wall_us) <= APART_MAX_US else wall_us


def _wall_us(text: str) -> int:
    # Python's logging writes "2020-08-11 22:17:31,291", others a dot or a T.
    try:
        return since_1970_us(datetime.fromisoformat(text.replace(",", ".")))
    except ValueError:
        raise ValueError(f"`t` is no time: {text!r}") from None


FORMAT = "LoRaWAN conformance logs"
PERSONALISED = DevAddr("01010101")
BACKHAUL_US = (5_000, 400_000)
_HERTZ = 1_000_000
_GATEWAY = re.compile(r"(?:[0-9A-Fa-f]{2}:){7}[0-9A-Fa-f]{2}")
_BYTE = re.compile(r"\(byte ([0-9]+)\)")
_FIRST_STATION = "0016C001F1510001"


class _Source(Struct):
    repo: str = ""
    licence: str = field(name="license", default="")


class _Meta(Struct):
    about: str = ""
    source: _Source = field(default_factory=_Source)
    app_key: str | None = None


class _Keys(Struct):
    nwk_s_key: str = field(name="NwkSKey")
    app_s_key: str = field(name="AppSKey")


class _Log(Struct):
    log: str
    sessions: dict[str, msgspec.Raw]
    events: list[msgspec.Raw]


class _Document(Struct):
    logs: list[_Log]
    meta: _Meta = field(default_factory=_Meta)


class _Event(Struct):
    direction: str = field(name="dir")
    phy: str
    freq_mhz: float = field(name="freq")
    datr: str
    rssi: float = 0.0
    lsnr: float = 0.0
    t: str | None = None
    tmst: int | None = None
    mic_ok: bool = True
    plain: str = ""


@dataclass(frozen=True, slots=True)
class _Heard:
    uplink: Uplink
    stamp: Stamp
    rssi_dbm: float
    snr_db: float


def read(path: Path, text: bytes, *, seed: int, limit: int | None, stations: int) -> TrafficFile:
    """The logs of a document; TrafficError where it is broken or keys are missing.

    A record that cannot be used is left out. `limit`: at most so many uplinks. Every uplink is
    delivered by `stations` stations, each with a delay of its own, drawn from the seed.
    """
    try:
        document = msgspec.json.decode(text, type=_Document)
    except (msgspec.DecodeError, RecursionError) as error:
        wrong = f"the document cannot be read: {error}"
        raise TrafficError(path, _line(text, error), wrong) from error
    left_out: list[TrafficError] = []
    posts = _stations(document.meta.about, stations, seed)
    logs: list[Log] = []
    for log in document.logs:
        reader = _LogReader(path, log, document.meta.app_key, left_out)
        left = None if limit is None else limit - sum(len(done.uplinks) for done in logs)
        logs.append(reader.read(posts, left))
    notice = notice_of(document.meta.source.repo, document.meta.source.licence)
    return TrafficFile(
        path=path,
        file_format=FORMAT,
        logs=tuple(log for log in logs if log.uplinks),
        notices=(notice,) if notice else (),
        left_out=tuple(left_out),
    )


def _line(text: bytes, error: msgspec.DecodeError | RecursionError) -> str:
    if isinstance(error, msgspec.ValidationError | RecursionError):
        return ""
    place = _BYTE.search(str(error))
    before = text if place is None else text[: int(place[1])]
    lines = 1 + before.count(b"\n")
    return f"line {lines}"


def _stations(about: str, count: int, seed: int) -> dict[Eui, int]:
    """The delay (µs) of each station: the gateway that the log names, and the EUIs after it."""
    named = _GATEWAY.search(about)
    first = int(eui(named[0] if named else _FIRST_STATION), 16)
    euis = [eui((first + number) % (1 << 64)) for number in range(count)]
    return {name: stream(seed, "backhaul", name).randint(*BACKHAUL_US) for name in euis}


class _LogReader:
    def __init__(
        self, path: Path, log: _Log, app_key: str | None, left_out: list[TrafficError]
    ) -> None:
        self._path = path
        self._log = log
        self._app_key = app_key
        self._left_out = left_out
        self._sessions = {self._address(name): keys for name, keys in self._keys()}

    def read(self, posts: dict[Eui, int], limit: int | None) -> Log:
        heard: list[_Heard] = []
        frames = 0
        for number, raw in enumerate(self._log.events):
            if limit is not None and len(heard) >= limit:
                break
            try:
                event = msgspec.json.decode(raw, type=_Event)
                frames += 1
                if event.direction == "down":
                    continue
                heard.append(self._heard(event))
            except (ValueError, RecursionError) as error:
                self._left_out.append(self._error(f"events[{number}]", str(error)))
        uplinks = _placed(heard, posts)
        devices = tuple(self._devices(uplinks))
        name = Path(self._log.log).stem
        counted = f"{len(uplinks)} uplink{'s' * (len(uplinks) != 1)}"
        through = f"{len(posts)} station{'s' * (len(posts) != 1)}"
        return Log(
            name=name,
            title=f"Conformance log {name}: {counted} through {through}",
            devices=devices,
            stations={station: f"gateway {at}" for at, station in enumerate(posts, 1)},
            uplinks=uplinks,
            facts={"frames": frames, "downlinks": frames - len(heard)},
        )

    def _keys(self) -> Iterator[tuple[str, SessionKeys]]:
        for name, raw in self._log.sessions.items():
            try:
                keys = msgspec.json.decode(raw, type=_Keys)
                yield name, SessionKeys(_key(keys.nwk_s_key), _key(keys.app_s_key))
            except ValueError as error:
                raise self._error(f"sessions[{name!r}]", f"keys are missing: {error}") from error

    def _address(self, name: str) -> DevAddr:
        try:
            return dev_addr(name)
        except ValueError as error:
            raise self._error(f"sessions[{name!r}]", str(error)) from error

    def _heard(self, event: _Event) -> _Heard:
        """ValueError, with the reason, for a record that no station could have delivered."""
        if event.direction != "up":
            raise ValueError(f'`dir` is neither "up" nor "down": {event.direction!r}')
        phy = bytes.fromhex(event.phy)
        spec = data_rate(event.datr)
        if spec not in REGION.data_rates:
            raise ValueError(f"{REGION.name} has no data rate {event.datr}")
        uplink = uplink_of(
            phy,
            dr=REGION.data_rates.index(spec),
            freq_hz=round(event.freq_mhz * _HERTZ),
            plain=bytes.fromhex(event.plain),
            genuine=event.mic_ok,
        )
        return _Heard(uplink, Stamp.of(event.t, event.tmst), event.rssi, event.lsnr)

    def _devices(self, uplinks: tuple[Uplink, ...]) -> Iterator[Device]:
        for address, keys in self._sessions.items():
            yield Device(
                name=f"session {address}",
                dev_eui=session_eui(address),
                activation=Activation.ABP,
                relaxed_f_cnt=address == PERSONALISED,
                dev_addr=address,
                session_keys=keys,
            )
        joins = {uplink.dev_eui: uplink for uplink in reversed(uplinks) if uplink.join_eui}
        if joins and self._app_key is None:
            raise TrafficError(self._path, "meta", "`app_key` is missing, and devices join")
        for dev_eui, first in sorted(joins.items()):
            yield Device(
                name=f"joins as {dev_eui}",
                dev_eui=dev_eui,
                activation=Activation.OTAA,
                join_eui=first.join_eui,
                app_key=self._join_key(),
            )

    def _join_key(self) -> bytes:
        try:
            return _key(self._app_key or "")
        except ValueError as error:
            raise TrafficError(self._path, "meta.app_key", str(error)) from error

    def _error(self, place: str, wrong: str) -> TrafficError:
        return TrafficError(self._path, f"log {self._log.log!r}, {place}", wrong)


def _placed(heard: list[_Heard], posts: dict[Eui, int]) -> tuple[Uplink, ...]:
    placed = []
    at_all_us = times_us([one.stamp for one in heard])
    for one, at_us in sorted(zip(heard, at_all_us, strict=True), key=lambda pair: pair[1]):
        hearings = tuple(
            Hearing(station, at_us + delay_us, one.rssi_dbm, one.snr_db)
            for station, delay_us in posts.items()
        )
        placed.append(replace(one.uplink, at_us=at_us, hearings=hearings))
    return tuple(placed)


def _key(text: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 16:
        raise ValueError("a key has 32 hexadecimal digits")
    return key
