"""What is one server's way to the broker, with the real outbox in a file and the real sender?"""

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import rmtree
from sqlite3 import Connection, connect
from tempfile import mkdtemp

from bench.chance import stream
from bench.host.lns_process import alive
from bench.rig.case_setup import CaseSetup
from bench.verdict.owner import Found
from bench.virtual.mqtt_broker import MqttBroker, Published
from lns.clock import now_us
from lns.config import UpstreamSection
from lns.delivery.mqtt_sender import MqttUpstream
from lns.delivery.mqtt_session import Broker
from lns.delivery.outbox import Outbox, state_of
from lns.delivery.publisher import ForApplication, UpstreamUnavailable
from lns.events import Acknowledged, Parked, as_fields
from lns.startup import mqtt_upstream

_NAMED = "messageId", "removeDuplicatesKey", "partitionKey", "sequenceNumber"
"""What of the body of a server's message stands in its user properties as well."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_URL = "mqtt://broker"
_IN_MEMORY = Path("/dev/shm")
_TELL_US = 10_000_000
RETRY_S = UpstreamSection().retry_max_s
Body = dict[str, object]
Took = Callable[[str, Body, Mapping[str, str]], None]


def memory_of_this_host() -> Path | None:
    """Where files are kept without a disk; None: where any others are."""
    return _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None


class _Killed(Exception):
    """The server is gone; nothing is on its way any more."""


class DiskOutbox:
    """One server's outbox, which outlives it, and the end of the wire at which the broker is.

    `took` is told every uplink and status that the broker has taken. Finds what is wrong with how
    messages come: what their properties say, and what the server says of all that is to come.
    """

    def __init__(self, setup: CaseSetup, utc_us: Callable[[], int], lns: str, took: Took) -> None:
        self.lns = lns
        self._folder = Path(mkdtemp(prefix="lorabench-outbox-", dir=memory_of_this_host()))
        self.broker = MqttBroker(self._folder / "broker", self._take, self._wrong)
        self.retry_s = RETRY_S
        self.messages_max: int | None = None
        self._setup = setup
        self._file = self._folder / "outbox"
        self._took = took
        self._utc_us = utc_us
        self._starts = 0
        self._waiting = 0
        self._known: set[str] = set()
        self._parked: set[str] = set()
        self._released: dict[str, datetime] = {}
        self._oldest: datetime | None = None
        self._told_us = 0
        self._full: Connection | None = None
        self._upstream: MqttUpstream | None = None
        self._running: asyncio.Task[None] | None = None
        self._ended: asyncio.Future[None] | None = None

    async def open(self) -> None:
        """Start what the server starts with."""
        self._starts += 1
        if self._file.exists():  # what it had acknowledged may not be removed yet
            self._waiting = state_of(self._file).waiting
        chance = stream(self._setup.seed, self.lns, "broker", str(self._starts))
        section = UpstreamSection(
            url=_URL, keep_s=0, retry_max_s=self.retry_s, messages_max=self.messages_max
        )
        there = Broker(str(self.broker.path), 1)
        upstream = mqtt_upstream(
            self.lns, section, there, self._file, self._tell, chance, self._utc_us
        )
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ended = asyncio.get_running_loop().create_future()
        self._running = self._setup.tasks.create_task(self._run(upstream, begun, self._ended))
        await begun

    async def kill(self) -> None:
        """End it at once: nobody waits for what is on its way."""
        self._look_at_connections()
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(_Killed())
        await self._until_over()

    async def end(self) -> None:
        """End it as a server does that is stopped."""
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)
        self._look_at_silence()
        self._look_at_connections()
        await self._until_over()
        self.broker.go()
        rmtree(self._folder)

    async def publish(self, message: ForApplication) -> None:
        """Take one message; UpstreamUnavailable."""
        if self._upstream is None:
            raise UpstreamUnavailable("the server does not run")
        self._waiting += 1
        try:
            await self._upstream.publish(message)
        except UpstreamUnavailable:
            self._waiting -= 1
            raise

    async def release(self) -> None:
        """Let what is put aside be sent after all; the server must not run."""
        self.retry_s = RETRY_S
        self._parked = set()
        at_us = self._utc_us()
        at = _EPOCH + timedelta(microseconds=at_us)
        self._released |= {one.message_id: at for one in state_of(self._file).parked}
        outbox = Outbox(self._file)
        try:
            await outbox.release(at_us)
        finally:
            outbox.close()

    def fill(self) -> None:
        """Let nothing more be written, until `free`: somebody else is about to, and never does."""
        self._full = connect(self._file, isolation_level=None)
        self._full.execute("BEGIN IMMEDIATE")

    def free(self) -> None:
        """Let everything be written again."""
        if self._full is not None:
            self._full.close()

    def wipe(self) -> None:
        """Forget everything; the server must not run."""
        self._known, self._parked = set(), set()
        self._waiting = 0
        for file in self._folder.glob("outbox*"):
            file.unlink()

    async def _run(
        self,
        upstream: MqttUpstream,
        begun: "asyncio.Future[None]",
        ended: "asyncio.Future[None]",
    ) -> None:
        with alive(self.lns):
            try:
                async with upstream:
                    self._upstream = upstream
                    begun.set_result(None)
                    await ended
            except* _Killed:
                pass
            finally:
                self._upstream = None

    async def _until_over(self) -> None:
        if self._running is not None:
            await asyncio.wait({self._running})
        self._running = self._ended = None

    def _tell(self, event: Acknowledged | Parked) -> None:
        self._setup.record(self.lns, event.kind, as_fields(event))
        self._waiting -= 1
        # Those that are put aside together are told with how many wait in the end.
        if isinstance(event, Acknowledged) and event.waiting != self._waiting:
            self._wrong(
                f"{event.message_id}: expected {self._waiting}, observed {event.waiting}"
                " messages wait"
            )
        if isinstance(event, Parked):
            if event.message_id in self._parked:
                self._wrong(f"{event.message_id} was put aside before")
            self._parked.add(event.message_id)

    def _take(self, message: Published) -> None:
        try:
            body = json.loads(message.payload)
        except ValueError:
            return self._wrong(f"what is on {message.topic} is no JSON")
        if message.retain:
            return self._take_statement(message.topic, body)
        due = {name: str(body.get(name)) for name in _NAMED}
        if message.properties != tuple(due.items()):
            self._wrong(
                f"user properties: expected {_told(due)},"
                f" observed {_told(dict(message.properties))}"
            )
        if message.client != self.lns:
            self._wrong(f"client id: expected {self.lns}, observed {message.client}")
        self._look_at_time(body)
        self._took(message.topic, body, dict(message.properties))

    def _look_at_time(self, body: Body) -> None:
        """Nothing is new that is older than what the server has said of itself.

        What was put aside is as old as its release.
        """
        message_id = str(body["messageId"])
        since = self._released.get(message_id) or _time(body["receivedAt"])
        if message_id not in self._known and self._oldest is not None and since < self._oldest:
            self._wrong(
                f"{message_id} waited since {since}, and all of before {self._oldest} was"
                " said to be with the broker"
            )
        self._known.add(message_id)

    def _take_statement(self, topic: str, body: Body) -> None:
        self._look_at_silence()
        self._told_us = now_us()
        due = f"lorawan/{self.lns}/min_msg_time", self.lns, self.retry_s
        said = topic, body.get("lns"), body.get("retryMaxS")
        if said != due:
            self._wrong(f"statement: expected {_all(due)}, observed {_all(said)}")
        at = _time(body.get("minMsgTime"))
        now = _EPOCH + timedelta(microseconds=self._utc_us())
        if at > now or (self._oldest is not None and at < self._oldest):
            self._wrong(f"min_msg_time: {at} at {now}, after {self._oldest}")
        self._oldest = at

    def _look_at_silence(self) -> None:
        """How far its messages have come is told again and again while the broker is there."""
        since_us = self.broker.well_since_us
        if since_us is not None:
            silent_us = now_us() - max(since_us, self._told_us)
            if silent_us > _TELL_US:
                self._wrong(f"statement: expected every {_TELL_US} us, none for {silent_us} us")

    def _look_at_connections(self) -> None:
        """A server that runs stays with a broker that serves it; this one is about to end."""
        self.broker.well_since_us = None
        if self.broker.deserted:
            self._wrong(f"a broker that serves it: expected 0 times left, {self.broker.deserted}")
            self.broker.deserted = 0

    def _wrong(self, text: str) -> None:
        self._setup.case.find(Found(rule="outbox", text=f"{self.lns}: {text}", t_us=now_us()))


def _time(text: object) -> datetime:
    return datetime.fromisoformat(str(text))


def _told(facts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def _all(facts: tuple[object, ...]) -> str:
    return ", ".join(map(str, facts))
