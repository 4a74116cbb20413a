"""What does the application want sent, and what of it waits for a device?

An application asks on the MQTT topic `lorawan/<lns id>/<dev_eui>/down` with UTF-8 JSON, or calls
`Downlinks.enqueue` itself:

    {"fPort": 1..223, "payload": "<hex>", "confirmed": false}
    {"devStatus": true}

`confirmed` may be left out; any other key is a mistake. The second asks the device for its status:
DevStatusReq goes with the next answer to an uplink (LoRaWAN 1.0.4, 5.5). The queue is in memory:
what still waits when the server ends is lost.
"""

import asyncio
from binascii import unhexlify
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from lns.events import Request
from lns.lorawan.identifiers import Eui, eui

QUEUE_MAX = 16
QUEUE_FULL = "QueueFull"
"""Downlinks that wait for one device; more are refused."""
SENDINGS_MAX = 3
"""How often one downlink is handed to a station until it is proven."""
_BODY_BYTES_MAX = 2048

Record = Callable[[Request], None]


@dataclass(frozen=True, slots=True)
class ApplicationDownlink:
    """What the application says to a device: FPort 1..223, the payload in clear."""

    f_port: int
    payload: bytes
    confirmed: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that is none, and what is wrong with it; what was sent is not repeated."""

    why: str


@dataclass(slots=True, eq=False)
class Waiting:
    """A downlink in its queue: how often it was sent, and until when it is under way (µs).

    `proof_until_us`: so long nobody sends it again unasked; an answer may carry it before.
    """

    downlink: ApplicationDownlink
    sendings: int = 0
    busy_until_us: int = 0
    proof_until_us: int = 0
    proven: asyncio.Event = field(default_factory=asyncio.Event)


class StatusWanted(Struct, frozen=True, forbid_unknown_fields=True):
    """The application wants a device to tell its status."""

    dev_status: Literal[True] = msgspec.field(name="devStatus")


class _Body(Struct, frozen=True, forbid_unknown_fields=True):
    f_port: Annotated[int, Meta(ge=1, le=223)] = msgspec.field(name="fPort")
    payload: str
    confirmed: bool = False


_decode = msgspec.json.Decoder(_Body).decode
_decode_status = msgspec.json.Decoder(StatusWanted).decode
_STATUS = b'"devStatus"'


def topic_filter(lns: str) -> str:
    """The topics on which applications ask for downlinks."""
    return f"lorawan/{lns}/+/down"


def parse_request(
    topic: str, body: bytes
) -> tuple[Eui, ApplicationDownlink | StatusWanted] | Refused:
    """What an application asks for, and for which device; never raises."""
    try:
        dev_eui = eui(topic.split("/")[-2])
    except (ValueError, IndexError):
        return Refused("the topic does not name a DevEUI")
    if len(body) > _BODY_BYTES_MAX:
        return Refused(f"more than {_BODY_BYTES_MAX} bytes")
    try:
        if _STATUS in body:
            return dev_eui, _decode_status(body)
        asked = _decode(body)
        payload = unhexlify(asked.payload)
    except (ValueError, RecursionError) as error:
        return Refused(f"not a downlink: {error}")
    return dev_eui, ApplicationDownlink(asked.f_port, payload, asked.confirmed)


class DownlinkQueues:
    """The downlinks that wait, per device, oldest first; every change of state is an event.

    One is done when it is proven: an unconfirmed one by the station's report that it is on the air,
    a confirmed one by the device's acknowledgement. Sent three times without proof it is given up.
    `devices` are those that something waits for.
    """

    def __init__(self, lns: str, record: Record) -> None:
        self._lns = lns
        self._record = record
        self._queues: dict[Eui, deque[Waiting]] = {}
        self.devices = self._queues.keys()

    def add(self, dev_eui: Eui, downlink: ApplicationDownlink) -> bool:
        """Queue a downlink; False when too many wait already."""
        queue = self._queues.setdefault(dev_eui, deque())
        if len(queue) >= QUEUE_MAX:
            self.refuse(QUEUE_FULL, dev_eui, downlink)
            return False
        queue.append(Waiting(downlink))
        self._tell("queued", dev_eui, downlink)
        return True

    def refuse(
        self, reason: str, dev_eui: Eui | None = None, downlink: ApplicationDownlink | None = None
    ) -> None:
        """Tell of a downlink that was never queued."""
        self._tell("refused", dev_eui, downlink, reason)

    def waiting(self, dev_eui: Eui) -> int:
        """How many wait for this device, the one under way included."""
        return len(self._queues.get(dev_eui, ()))

    def due(self, dev_eui: Eui, at_us: int, *, unasked: bool = False) -> Waiting | None:
        """The one to send next; None while there is none, or one is under way."""
        while queue := self._queues.get(dev_eui):
            oldest = queue[0]
            proof_until_us = oldest.proof_until_us if unasked else 0
            if max(oldest.busy_until_us, proof_until_us) > at_us:
                return None
            if oldest.sendings < SENDINGS_MAX:
                return oldest
            self.give_up(dev_eui, oldest, "NotProven")
        return None

    def take(self, waiting: Waiting, busy_until_us: int) -> None:
        """It is on its way to a station; until then nothing else of its device is sent."""
        waiting.sendings += 1
        waiting.busy_until_us = busy_until_us

    def put_back(self, waiting: Waiting) -> None:
        """It did not leave after all."""
        waiting.sendings -= 1
        waiting.busy_until_us = 0

    def prove(self, dev_eui: Eui, waiting: Waiting) -> None:
        """It is done; once only."""
        if self._remove(dev_eui, waiting):
            self._tell("done", dev_eui, waiting.downlink)

    def acknowledge(self, dev_eui: Eui) -> None:
        """The device acknowledged the confirmed downlink that it was sent, if it was sent one."""
        queue = self._queues.get(dev_eui)
        if queue and queue[0].downlink.confirmed and queue[0].sendings:
            self.prove(dev_eui, queue[0])

    def give_up(self, dev_eui: Eui, waiting: Waiting, reason: str) -> None:
        """It will not be sent any more."""
        if self._remove(dev_eui, waiting):
            self._tell("given_up", dev_eui, waiting.downlink, reason)

    def _remove(self, dev_eui: Eui, waiting: Waiting) -> bool:
        queue = self._queues.get(dev_eui, deque())
        if waiting not in queue:
            return False
        queue.remove(waiting)
        if not queue:
            del self._queues[dev_eui]
        waiting.proven.set()
        return True

    def _tell(
        self,
        stage: str,
        dev_eui: Eui | None,
        downlink: ApplicationDownlink | None,
        reason: str | None = None,
    ) -> None:
        said = downlink
        self._record(
            Request(
                stage=stage,
                lns=self._lns,
                dev_eui=dev_eui,
                f_port=said.f_port if said else None,
                confirmed=said.confirmed if said else None,
                payload_bytes=len(said.payload) if said else None,
                waiting=self.waiting(dev_eui) if dev_eui else None,
                reason=reason,
            )
        )
