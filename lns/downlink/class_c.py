"""When does a device that always listens get what the application has for it?

A class C device listens in RX2 whenever it does not send: what waits is sent at once, one after
the other, through the station that heard the device last. A station that has never heard it would
send into the void, so a device that nobody has heard in its session waits for its next uplink.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from lns.clock import now_us
from lns.dedup.session import Session
from lns.downlink.downlink_queue import DownlinkQueues, Waiting
from lns.lorawan.identifiers import Eui
from lns.outage import StoreUnavailable
from lns.uplink.end_device import DeviceClass
from lns.uplink.registry import Registry

log = logging.getLogger(__name__)

# A station tries a blocked class C downlink for about a second, then drops it without a word.
REPORT_US = 3_000_000
# Time for the device to acknowledge: it may have to wait for its own duty cycle.
ACK_US = 8_000_000


class Connected(Protocol):
    """The stations connected right now."""

    def soon(self, station: Eui, errand: Callable[[], Awaitable[None]]) -> bool:
        """Begin something that ends with a station's connection; False without one."""


class ClassC:
    """Sends what waits for class C devices; remembers which station heard each device last.

    `send` hands one over to a station, if it fits, and tells whether it did.
    """

    def __init__(
        self,
        registry: Registry,
        stations: Connected,
        queues: DownlinkQueues,
        send: Callable[[Session, Eui, Waiting], Awaitable[bool]],
    ) -> None:
        self._registry = registry
        self._stations = stations
        self._queues = queues
        self._send = send
        self._last_heard: dict[Eui, Eui] = {}
        self._sending: set[Eui] = set()
        self._on_air_until_us: dict[Eui, int] = {}

    def heard(self, dev_eui: Eui, station: Eui) -> None:
        """A new frame of a device was accepted through this station."""
        self._last_heard[dev_eui] = station

    def on_air(self, dev_eui: Eui, airtime_us: int) -> None:
        """A downlink of a device is on the air from now on: it hears no other one meanwhile."""
        device = self._registry.device(dev_eui)
        if device is not None and device.device_class is DeviceClass.C:
            self._on_air_until_us[dev_eui] = now_us() + airtime_us

    def stir(self, dev_eui: Eui) -> None:
        """Something may be due: begin to send, unless that is under way already."""
        device = self._registry.device(dev_eui)
        station = self._last_heard.get(dev_eui)
        if device is None or device.device_class is not DeviceClass.C or station is None:
            return
        if dev_eui in self._queues and dev_eui not in self._sending:
            self._stations.soon(station, partial(self._send_all, dev_eui, station))

    async def _send_all(self, dev_eui: Eui, station: Eui) -> None:
        if dev_eui in self._sending:
            return
        self._sending.add(dev_eui)
        try:
            while await self._send_next(dev_eui, station):
                pass
        finally:
            self._sending.discard(dev_eui)

    async def _send_next(self, dev_eui: Eui, station: Eui) -> bool:
        """Send the oldest and wait for its proof; False when there is nothing more to do now.

        Not before the one that is on the air is over.
        """
        wait_us = self._on_air_until_us.pop(dev_eui, 0) - now_us()
        if wait_us > 0 and dev_eui in self._queues:
            await asyncio.sleep(wait_us / 1_000_000)
        session = self._registry.session_heard(dev_eui)
        due = self._queues.due(dev_eui, now_us())
        if session is None or due is None:
            return False
        wait_us = ACK_US if due.downlink.confirmed else REPORT_US
        self._queues.take(due, now_us() + wait_us)
        sent = False
        try:
            sent = await self._send(session, station, due)
        except StoreUnavailable as error:
            log.warning("%s: nothing is sent: %s", dev_eui, error)
        finally:
            if not sent:
                self._queues.put_back(due)
        if sent:
            try:
                async with asyncio.timeout(wait_us / 1_000_000):
                    await due.proven.wait()
            except TimeoutError:
                pass  # the next turn sends it again, or gives it up
        return sent
