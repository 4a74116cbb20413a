"""How does a message reach the application over MQTT, and what if the broker is away?

The outbox makes a message durable; a sender takes the outbox, in order, to the broker (MQTT 5.0,
QoS 1) and clears what the broker has acknowledged. Whatever is unacknowledged when a connection
or the process ends goes out again with the same id, so each arrives at least once.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from lns.clock import now_us
from lns.delivery.broker import Broker
from lns.delivery.mqtt_connection import MqttConnection
from lns.delivery.mqtt_wire import BrokerLost, Patience
from lns.delivery.outbox import MESSAGES_MAX, Entry, Outbox
from lns.delivery.publisher import Message, UpstreamUnavailable

log = logging.getLogger(__name__)

_READY_MAX = 1000  # messages held in memory beside those in flight
_GATHER_S = 0.02  # acknowledgements wait so long for others to be removed with
_AGAIN_S = 1.0  # a disk that refused is asked again after this


@dataclass(frozen=True, slots=True)
class BackOff:
    """Waits before another connection: doubled with every failure, and half of each is chance."""

    first_us: int = 500_000
    max_us: int = 30_000_000

    def wait_us(self, failures: int, chance: random.Random) -> int:
        """The wait after the n-th failure in a row, n from 1, in µs."""
        whole = min(self.max_us, self.first_us << min(failures - 1, 32))
        return chance.randint(whole // 2, whole)


class MqttUpstream:
    """The way to the application over a broker; an `Upstream`, running as `async with`.

    `client_id` must be this server's own. `chance` draws the jitter of the back-off. Entering
    opens the outbox: UpstreamUnavailable when it is in use or unusable; a broker that is away is
    no error. `acknowledged` is told of every message that the broker has taken, and how many it has
    not. At the end, what is on its way gets `drain_us` to be acknowledged; the rest stays in the
    outbox for the next start.
    """

    def __init__(
        self,
        broker: Broker,
        outbox: Path,
        *,
        client_id: str,
        chance: random.Random,
        messages_max: int = MESSAGES_MAX,
        acknowledged: Callable[[Entry, int], None] | None = None,
        patience: Patience | None = None,
        back_off: BackOff | None = None,
        drain_us: int = 1_000_000,
    ) -> None:
        self._broker = broker
        self._client_id = client_id
        self._tell_acknowledged = acknowledged
        self._chance = chance
        self._patience = patience or Patience()
        self._back_off = back_off or BackOff()
        self._drain_us = drain_us
        self._path, self._messages_max = outbox, messages_max
        self._opened: Outbox | None = None
        self._connection: MqttConnection | None = None
        self._ready: deque[Entry] = deque()
        self._read_to = 0
        self._acknowledged: list[int] = []
        self._more, self._tidy = asyncio.Event(), asyncio.Event()
        self._empty = asyncio.Event()
        self._state: str | None = "is not connected yet"
        self._work: list[asyncio.Task[None]] = []
        self._tasks = asyncio.TaskGroup()

    @property
    def connected(self) -> bool:
        """Whether the broker takes messages now."""
        return self._connection is not None

    @property
    def waiting(self) -> int:
        """How many messages are durable here and not yet acknowledged by the broker."""
        return self._outbox.waiting

    @property
    def _outbox(self) -> Outbox:
        assert self._opened is not None, "only inside `async with`"
        return self._opened

    async def __aenter__(self) -> "MqttUpstream":
        self._opened = Outbox(self._path, messages_max=self._messages_max)
        await self._tasks.__aenter__()
        work = (self._deliver(), self._read_on(), self._clear())
        self._work = [self._tasks.create_task(task) for task in work]
        self._more.set()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None and self.connected:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._drain_us / 1_000_000):
                        await self.drained()
        finally:
            for task in self._work:
                task.cancel()
            try:
                await self._tasks.__aexit__(kind, error, traceback)
                with suppress(UpstreamUnavailable):
                    await self._outbox.remove(self._acknowledged)
            finally:
                self._outbox.close()

    async def publish(self, message: Message) -> None:
        """Take one message; it is on the disk when this returns, else UpstreamUnavailable."""
        self._empty.clear()
        try:
            await self._outbox.add(message)
        except UpstreamUnavailable as unavailable:
            if self._state is None:
                raise
            raise UpstreamUnavailable(f"{unavailable}; {self._broker} {self._state}") from None
        self._more.set()

    async def drained(self) -> None:
        """Wait until the broker has acknowledged everything; for as long as that takes."""
        while self.waiting:
            await self._empty.wait()

    async def _deliver(self) -> None:
        """Connect, send, and begin again whenever the broker is lost."""
        failures = 0
        while True:
            connection = MqttConnection(
                self._broker, self._client_id, self._patience, self._take_acknowledged
            )
            began_us = now_us()
            try:
                await connection.open()
                self._connection = connection
                self._say(None)
                self._send()
                await connection.watch()
            except BrokerLost as lost:
                self._say(str(lost))
            finally:
                self._connection = None
                connection.close()
                self._ready.extendleft(reversed(connection.unacknowledged()))
            proved = connection.useful or now_us() - began_us > self._back_off.max_us
            failures = 1 if proved else failures + 1
            await asyncio.sleep(self._back_off.wait_us(failures, self._chance) / 1_000_000)

    async def _read_on(self) -> None:
        """Keep messages ready to be sent, in the order of the outbox."""
        while True:
            await self._more.wait()
            self._more.clear()
            limit = _READY_MAX - len(self._ready)
            if limit <= 0:
                continue
            try:
                entries = await self._outbox.after(self._read_to, limit)
            except UpstreamUnavailable as unavailable:
                log.warning("%s", unavailable)
                await asyncio.sleep(_AGAIN_S)
                self._more.set()
                continue
            if entries:
                self._read_to = entries[-1].position
                self._ready.extend(entries)
                self._more.set()
                self._send()

    async def _clear(self) -> None:
        """Remove from the outbox what was acknowledged, many at a time."""
        while True:
            await self._tidy.wait()
            self._tidy.clear()
            await asyncio.sleep(_GATHER_S)
            done = len(self._acknowledged)
            try:
                await self._outbox.remove(self._acknowledged[:done])
            except UpstreamUnavailable as unavailable:
                log.warning("%s", unavailable)
                await asyncio.sleep(_AGAIN_S)
                self._tidy.set()
                continue
            del self._acknowledged[:done]
            if not self.waiting:
                self._empty.set()

    def _take_acknowledged(self, entries: Sequence[Entry]) -> None:
        if self._tell_acknowledged is not None:
            waiting = self.waiting - len(self._acknowledged)
            for number, entry in enumerate(entries, start=1):
                self._tell_acknowledged(entry, waiting - number)
        self._acknowledged += [entry.position for entry in entries]
        self._tidy.set()
        self._send()

    def _send(self) -> None:
        """Send as much as the broker takes at once."""
        connection = self._connection
        if connection is None:
            return
        count = min(connection.room, len(self._ready))
        if count > 0:
            connection.send([self._ready.popleft() for _ in range(count)])
        if len(self._ready) < _READY_MAX // 2:
            self._more.set()

    def _say(self, state: str | None) -> None:
        """Tell the person at the console once what has become of the broker."""
        if state == self._state:
            return
        self._state = state
        if state is None:
            log.info("%s is connected; %d messages wait", self._broker, self.waiting)
        else:
            log.warning("%s %s; %d messages wait", self._broker, state, self.waiting)
