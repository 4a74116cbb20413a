"""What does the application get of an uplink, and under which identity?

The message of `lorawan/<lns id>/<dev_eui>/up`. Its id can be rebuilt from the frame, so that a
message that is sent again after a crash is the same message: DevEUI, session and its life, 32-bit
counter, and for every further copy of a frame the station and the number of the copy. The Remove
Duplicates key names the frame, and is the same for all its copies from all servers.
"""

from collections import Counter, deque
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from lns.clock import within
from lns.dedup.session import Lived, Session
from lns.lorawan.frame import Data, mic_of
from lns.lorawan.mac_commands import DevStatusAns
from lns.station.protocol import Reception


class UpstreamUnavailable(Exception):
    """The message could not be made durable on its way to the application."""


class Message(Struct, frozen=True, gc=False):
    """One message for the application; `dup_msg` marks a copy (ADR 007, strategy Mark).

    `remove_duplicates_key`: the id of the first message of the frame. `unverified`: nobody could
    say whether another server has forwarded the same frame.
    """

    message_id: str
    remove_duplicates_key: str
    lns: str
    dev_eui: str
    dev_addr: str
    f_cnt: int
    f_port: int | None
    confirmed: bool
    payload: bytes
    station: str
    rssi_dbm: float
    snr_db: float
    freq_hz: int
    dr: int
    received_at: datetime
    dup_msg: bool
    unverified: bool = False

    @property
    def topic(self) -> str:
        return f"lorawan/{self.lns}/{self.dev_eui}/up"

    def body(self, sequence_number: int) -> dict[str, object]:
        """The JSON body; `dupMsg` and `unverified` are present only as true."""
        body: dict[str, object] = {
            "messageId": self.message_id,
            "removeDuplicatesKey": self.remove_duplicates_key,
            "partitionKey": self.dev_eui,
            "sequenceNumber": sequence_number,
            "lns": self.lns,
            "devEui": self.dev_eui,
            "devAddr": self.dev_addr,
            "fCnt": self.f_cnt,
            "fPort": self.f_port,
            "confirmed": self.confirmed,
            "payload": self.payload.hex(),
            "station": self.station,
            "rssi": _number(self.rssi_dbm),
            "snr": _number(self.snr_db),
            "freqHz": self.freq_hz,
            "dr": self.dr,
            "receivedAt": _time(self.received_at),
        }
        if self.dup_msg:
            body["dupMsg"] = True
        if self.unverified:
            body["unverified"] = True
        return body


class StatusMessage(Struct, frozen=True):
    """What a device tells of itself, for the application: DevStatusAns (LoRaWAN 1.0.4, 5.5).

    `battery` is 0 on external power, 1 to 254 from empty to full, 255 where the device cannot
    tell; `margin_db` is the SNR of the DevStatusReq, -32 to 31 dB.
    """

    message_id: str
    lns: str
    dev_eui: str
    dev_addr: str
    f_cnt: int
    battery: int
    margin_db: int
    station: str
    received_at: datetime
    unverified: bool = False

    @property
    def topic(self) -> str:
        return f"lorawan/{self.lns}/{self.dev_eui}/status"

    @property
    def remove_duplicates_key(self) -> str:
        """The same through whichever server it goes."""
        return self.message_id

    def body(self, sequence_number: int) -> dict[str, object]:
        """The JSON body; `unverified` is present only as true."""
        body: dict[str, object] = {
            "messageId": self.message_id,
            "removeDuplicatesKey": self.message_id,
            "partitionKey": self.dev_eui,
            "sequenceNumber": sequence_number,
            "lns": self.lns,
            "devEui": self.dev_eui,
            "devAddr": self.dev_addr,
            "fCnt": self.f_cnt,
            "battery": self.battery,
            "margin": self.margin_db,
            "station": self.station,
            "receivedAt": _time(self.received_at),
        }
        if self.unverified:
            body["unverified"] = True
        return body


ForApplication = Message | StatusMessage


class Upstream(Protocol):
    """Whoever takes messages to the application; durable when `publish` returns."""

    async def publish(self, message: ForApplication) -> None:
        """Take one message; UpstreamUnavailable when it cannot be made durable."""


# How long the application may take: the copies of a frame wait for the fate of its first one.
PUBLISH_US = 10_000_000


class InTime:
    """An `Upstream` that fails when another one takes `PUBLISH_US` or longer."""

    def __init__(self, application: Upstream) -> None:
        self._application = application

    async def publish(self, message: ForApplication) -> None:
        """Let the application have a message, durably; UpstreamUnavailable.

        One that comes too late may become durable yet; the copy that takes its place has its id.
        """
        try:
            await within(PUBLISH_US, self._application.publish(message))
        except TimeoutError:
            raise UpstreamUnavailable(f"not durable within {PUBLISH_US} us") from None


def message_of(
    lns: str,
    session: Session,
    f_cnt: int,
    frame: Data,
    reception: Reception,
    *,
    lived: Lived,
    received_at: datetime,
    first: bool,
    dup_msg: bool,
    unverified: bool = False,
) -> Message:
    """The message that forwards one copy of an uplink, its payload decrypted.

    `lived` says which of the frames with this counter it is.
    `first` is the one message that every accepted frame owes; all others are copies of it.
    """
    key = _first_id(session, f_cnt, frame, lived)
    copy = "" if first else f"-{reception.station}-{session.number_copy(f_cnt)}"
    return Message(
        key + copy,  # of more than fifteen names Python would make a dictionary first
        key,
        lns=lns,
        dev_eui=session.dev_eui,
        dev_addr=session.dev_addr,
        f_cnt=f_cnt,
        f_port=frame.f_port,
        confirmed=frame.confirmed,
        payload=frame.payload(session.keys, f_cnt),
        station=reception.station,
        rssi_dbm=reception.rssi_dbm,
        snr_db=reception.snr_db,
        freq_hz=reception.freq_hz,
        dr=reception.dr,
        received_at=received_at,
        dup_msg=dup_msg,
        unverified=unverified,
    )


def status_of_device(
    lns: str,
    session: Session,
    f_cnt: int,
    frame: Data,
    status: DevStatusAns,
    reception: Reception,
    *,
    lived: Lived,
    received_at: datetime,
    unverified: bool = False,
) -> StatusMessage:
    """The message that tells what a device said of itself in one frame; `lived` as it has."""
    return StatusMessage(
        message_id=f"{_first_id(session, f_cnt, frame, lived)}-status",
        lns=lns,
        dev_eui=session.dev_eui,
        dev_addr=session.dev_addr,
        f_cnt=f_cnt,
        battery=status.battery,
        margin_db=status.margin_db,
        station=reception.station,
        received_at=received_at,
        unverified=unverified,
    )


def remove_duplicates_key(message_id: str) -> str:
    """The key of a message that was written without one: the id of its frame's first message."""
    return "-".join(message_id.split("-")[:3])


def _first_id(session: Session, f_cnt: int, frame: Data, lived: Lived) -> str:
    life = f".{lived.life}" if lived.life else ""
    mic = f".{mic_of(frame)}" if lived.odd else ""  # other bytes had this counter before
    return f"{session.dev_eui}-{session.dev_addr}{life}-{f_cnt}{mic}"


def _time(at: datetime) -> str:
    return at.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def _number(value: float) -> float:
    return int(value) if value == int(value) else value


MESSAGES_MAX = 1000


class MemoryUpstream:
    """Keeps the newest messages and never refuses one; `numbered` counts each topic from 1."""

    def __init__(self, messages_max: int = MESSAGES_MAX) -> None:
        self._numbers: Counter[str] = Counter()
        self._newest: deque[tuple[int, ForApplication]] = deque(maxlen=messages_max)
        self.taken = 0

    async def publish(self, message: ForApplication) -> None:
        self.taken += 1
        topic = message.topic
        number = self._numbers[topic] = self._numbers[topic] + 1
        self._newest.append((number, message))

    @property
    def numbered(self) -> tuple[tuple[int, ForApplication], ...]:
        """The newest messages, oldest first, each with its sequence number."""
        return tuple(self._newest)
