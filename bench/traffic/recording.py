"""What is real traffic, once it was read from whatever file it lay in?

A file holds logs; a log becomes one case: devices with their keys, and uplinks in order of time,
each with one hearing per report of a station. Times are µs since the first uplink of the log.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lns.lorawan.frame import Data, JoinRequest, MalformedFrame, parse
from lns.lorawan.identifiers import Eui, eui
from lns.lorawan.mac_commands import LinkCheckReq, parse_uplink
from lns.lorawan.region import EU868
from lns.uplink.registry import EndDevice, LoRaWanVersion

SAINT_EYNARD = (
    "Contains information from The Saint Eynard LoRaWAN frames dataset (CampusIoT datasets;"
    " D. Donsez, P. Dubois, M. Langlais, O. Alphand), which is made available here under the Open"
    " Database License (ODbL) 1.0: https://opendatacommons.org/licenses/odbl/1-0/. The frames were"
    " built anew with keys of this bench."
)
REGION = EU868
"""Where all traffic has to be from."""
SAINT_EYNARD_DEVICES = ("D1D1E80000000033",)

_MIT = """\
Permission is hereby granted, free of charge, to any person obtaining a copy of this software and \
associated documentation files (the "Software"), to deal in the Software without restriction, \
including without limitation the rights to use, copy, modify, merge, publish, distribute, \
sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is \
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or \
substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT \
NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND \
NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, \
DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT \
OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE."""

CONFORMANCE = f"""\
Traffic of lorawan_conformance_testing. MIT License.

Copyright (c) 2018 Pablo Modernell, UOC, UdelaR

{_MIT}"""
CONFORMANCE_REPOSITORY = "lorawan_conformance_testing"


def notice_of(repository: str, licence: str) -> str:
    """The notice for a file of conformance traffic that says where it is from ("" where not)."""
    if CONFORMANCE_REPOSITORY in repository:
        return CONFORMANCE
    said = [part for part in (repository, licence) if part]
    return f"Traffic of {': '.join(said)}" if said else ""


class TrafficError(ValueError):
    """Traffic that cannot be used: which file, where in it, and what is wrong there."""

    def __init__(self, file: Path, place: str, wrong: str) -> None:
        super().__init__(": ".join(part for part in (file.name, place, wrong) if part))
        self.file = file
        self.place = place
        self.wrong = wrong


@dataclass(frozen=True, slots=True)
class Hearing:
    """One report of one uplink by one station; `arrival_us` is when it reached the server."""

    station: Eui
    arrival_us: int
    rssi_dbm: float
    snr_db: float


@dataclass(frozen=True, slots=True)
class Uplink:
    """One frame that a device sent once; `at_us` is its end on the air.

    `f_cnt` has 32 bits and is None for a join request. `genuine` is False where the capture says
    that the MIC is wrong. `wants_answer`: confirmed, ADRACKReq or LinkCheckReq.
    """

    at_us: int
    phy: bytes
    frame_id: str
    dev_eui: Eui
    dr: int
    freq_hz: int
    hearings: tuple[Hearing, ...]
    f_cnt: int | None
    f_port: int | None = None
    join_eui: Eui | None = None
    confirmed: bool = False
    wants_answer: bool = False
    genuine: bool = True


def uplink_of(
    phy: bytes, *, dr: int, freq_hz: int, plain: bytes = b"", genuine: bool = True
) -> Uplink:
    """What an uplink says, heard by nobody yet; ValueError for bytes that no station passes on.

    And for a frequency outside `REGION`: traffic of another one would be judged by wrong windows,
    data rates and answers. `plain` is FRMPayload in clear, needed for the commands of a frame on
    FPort 0.
    """
    low_hz, high_hz = REGION.freq_range_hz
    if not low_hz <= freq_hz <= high_hz:
        raise ValueError(
            f"{freq_hz / 1e6:g} MHz is outside {REGION.name} ({low_hz / 1e6:g} to"
            f" {high_hz / 1e6:g} MHz), the only region whose traffic is played"
        )
    try:
        frame = parse(phy)
    except MalformedFrame as error:
        raise ValueError(f"this is no LoRaWAN frame: {error}") from error
    if isinstance(frame, JoinRequest):
        return Uplink(
            0, phy, frame.frame_id, frame.dev_eui, dr, freq_hz, (), None,
            join_eui=frame.join_eui, wants_answer=True, genuine=genuine,
        )  # fmt: skip
    if not isinstance(frame, Data) or not frame.is_uplink:
        raise ValueError("this frame is neither a data uplink nor a join request")
    commands = parse_uplink(plain if frame.f_port == 0 else frame.f_opts)
    return Uplink(
        0, phy, frame.frame_id, session_eui(frame.dev_addr), dr, freq_hz, (), frame.f_cnt,
        f_port=frame.f_port,
        confirmed=frame.confirmed,
        wants_answer=frame.confirmed or frame.adr_ack_req or LinkCheckReq() in commands,
        genuine=genuine,
    )  # fmt: skip


def session_eui(address: str) -> Eui:
    """The DevEUI of a session whose device is not known."""
    return eui(f"00000000{address}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device(EndDevice):
    """A device as the network server is to know it; `f_cnt_up`: its newest counter, None for none.

    `relaxed_f_cnt`: an ABP device that may begin again at FCnt 0 or 1.
    """

    lorawan: LoRaWanVersion = LoRaWanVersion.V1_0_2  # DevNonces were drawn at random then
    relaxed_f_cnt: bool = False
    f_cnt_up: int | None = None


@dataclass(frozen=True, slots=True)
class Log:
    """One continuous piece of traffic: `name` is unique in its file, `title` is for people."""

    name: str
    title: str
    devices: tuple[Device, ...]
    stations: dict[Eui, str]
    uplinks: tuple[Uplink, ...]
    facts: dict[str, int] = field(default_factory=dict)

    @property
    def receptions(self) -> int:
        return sum(len(uplink.hearings) for uplink in self.uplinks)


@dataclass(frozen=True, slots=True)
class TrafficFile:
    """What one file held: its logs, the records left out and why, the licence it stands under."""

    path: Path
    file_format: str
    logs: tuple[Log, ...]
    notices: tuple[str, ...] = ()
    left_out: tuple[TrafficError, ...] = ()

    def facts(self) -> dict[str, object]:
        return {
            "file": self.path.name,
            "format": self.file_format,
            "logs": len(self.logs),
            "uplinks": sum(len(log.uplinks) for log in self.logs),
            "receptions": sum(log.receptions for log in self.logs),
            **self._sums(),
            "left_out": [str(error) for error in self.left_out],
        }

    def _sums(self) -> dict[str, int]:
        sums: dict[str, int] = {}
        for log in self.logs:
            for name, count in log.facts.items():
                sums[name] = sums.get(name, 0) + count
        return sums


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens: an uplink ends (`hearing` None), or a report of it arrives."""

    at_us: int
    uplink: Uplink
    hearing: Hearing | None


def steps(log: Log) -> Iterator[Step]:
    """Everything that happens in a log, in order, no two things at the same µs.

    So the order of arrival at the server is certain, and the order of the capture too.
    """
    due: list[tuple[int, int, int, Hearing | None]] = []
    for number, uplink in enumerate(log.uplinks):
        due.append((uplink.at_us, number, -1, None))
        for place, hearing in enumerate(uplink.hearings):
            due.append((max(hearing.arrival_us, uplink.at_us), number, place, hearing))
    due.sort(key=lambda entry: entry[:3])
    now_us = -1
    for at_us, number, _, heard in due:
        now_us = max(at_us, now_us + 1)
        yield Step(now_us, log.uplinks[number], heard)
