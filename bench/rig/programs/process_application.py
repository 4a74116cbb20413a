"""What lies behind network servers that are programs: a real broker, and `lorabench inbox`.

Both are one case's alone.
"""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from bench.capture import Record
from bench.capture.reading import CaptureFollower, Event
from bench.clock import until
from bench.host.lns_process import Mosquitto, Valkey, source_folder
from bench.host.program import LOOPBACK, ConsumerDied, ConsumerSilent, Program, ProgramDied, Starter
from bench.host.relay import Relay
from bench.rig.case_setup import CaseSetup
from bench.rig.configuration import ConsumerSettings
from bench.rig.in_memory.application import PUBLISHED, Witness, spelled
from bench.rig.interfaces import Application, Consumer
from bench.rig.programs.process_bench import ProcessBench, heard, subfolder
from lns.clock import now_us
from lns.delivery import ConfigurationError
from lns.delivery.mqtt_session import broker, post

START_S = 60
QUIET_US = 500_000
_DECIDED_WITHIN_US = 20_000_000
_SUBSCRIBED = " brings "
_REFUSED = "was created"


class OwnBroker(Mosquitto):
    """A real broker with its files in `folder`, and the bench as one of its subscribers.

    `watch` is told of each of its processes. What it has acknowledged outlives them, on the disk.
    """

    def __init__(self, folder: Path, record: Record, watch: Callable[[Program], None]) -> None:
        super().__init__(folder)
        self.folder = folder
        self._watch = watch
        self._witness = Witness(record)
        self._injected: Counter[tuple[str, bytes]] = Counter()
        self._over = asyncio.Event()
        self._hearing: asyncio.Task[None] | None = None

    async def open(self, tasks: asyncio.TaskGroup) -> None:
        """Start it and hear every message from now on; HostError."""
        await self.start()
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._hearing = tasks.create_task(self._hear(begun))
        await begun

    async def start(self) -> Self:
        await super().start()
        self._watch(self)
        return self

    async def post(self, topic: str, body: bytes) -> None:
        """Publish something as an application does; BrokerLost."""
        await post(broker(self.url), topic, body)

    async def inject(self, topic: str, body: dict[str, object]) -> None:
        """Publish one message of the bench; BrokerLost."""
        payload = spelled(body)
        self._injected[topic, payload] += 1
        await self.post(topic, payload)

    async def end(self) -> None:
        self._over.set()
        if self._hearing is not None:
            await asyncio.wait({self._hearing})
        await self.stop()

    async def _hear(self, begun: "asyncio.Future[None]") -> None:
        async with heard(self.url, "witness", self._heard):
            begun.set_result(None)
            await self._over.wait()

    def _heard(self, topic: str, payload: bytes, properties: dict[str, str]) -> None:
        injected = self._injected[topic, payload] > 0
        self._injected[topic, payload] -= injected
        self._witness.hear(topic, json.loads(payload), properties, injected=injected)


class ProcessConsumer(Consumer):
    """One process with its files in a folder, at the end of a wire of its own to the broker.

    Every line of its capture goes to that of the case; what the application has is told at the end.
    `published`: the ids of all messages that the broker has had. `starter` starts it, `watch` is
    told of each process.
    """

    def __init__(
        self,
        settings: ConsumerSettings,
        setup: CaseSetup,
        published: Callable[[], Set[str]],
        watch: Callable[[Program], None],
        starter: Starter | None = None,
    ) -> None:
        self._watch = watch
        self._starter = starter
        self.settings = settings
        self._setup = setup
        self._published = published
        self._crash_at: str | None = None
        self._said_us = 0
        self._decided: set[str] = set()
        self._unreadable = 0
        self._folder: Path | None = None
        self._wire: Relay | None = None
        self._program: Program | None = None
        self._follower: CaptureFollower | None = None
        self._following: asyncio.Task[None] | None = None
        self._store = "inbox.sqlite"

    async def prepare(self, folder: Path, broker_port: int, store_url: str | None) -> None:
        """Make what outlives the process: its folder, its wire, the follower of its capture."""
        self._folder = folder
        self._store = store_url or str(folder / "inbox.sqlite")

        def note(kind: str, fields: Any) -> None:
            self._setup.record("bench", kind, {"consumer": self.settings.name, **fields})

        self._wire = await Relay(LOOPBACK, broker_port, name="consumer", note=note).start()
        self._program = self._new_program()
        self._follower = CaptureFollower(folder / "inbox.jsonl", self._take)
        self._following = self._setup.tasks.create_task(self._follower.run())

    async def start(self) -> None:
        said_before = self._said().count(_SUBSCRIBED)
        await self.program.begin(self._command(), env={"PYTHONPATH": source_folder()})
        self._watch(self.program)
        try:
            await self.program.until(lambda: self._said().count(_SUBSCRIBED) > said_before, START_S)
        except ProgramDied as died:
            if _REFUSED not in self.program.tail(1):
                raise
            self._program = self._new_program()
            raise ConfigurationError(self._program.tail(1)) from died

    async def kill(self) -> None:
        await self.program.kill()

    async def crash(self, at: str) -> None:
        await self.until_decided()
        self._setup.case.fault("consumer", "crash", consumer=self.settings.name, at=at)
        if at == "effect":
            self.program.pause()
        elif at == "ack":
            self.wire.swallow("up")
        else:
            raise ValueError(f"a process cannot be killed at {at!r}: effect, ack")
        self._crash_at = at

    async def until_crashed(self) -> None:
        if self._crash_at == "ack":
            await self.until_decided()
        if self._crash_at is not None:
            self._crash_at = None
            await self.kill()
            await self.wire.restore()

    async def lose_acks(self) -> None:
        await self.until_decided()
        self.wire.swallow("up")

    async def redeliver(self) -> None:
        await self.until_decided()
        await self.wire.restore()

    async def until_decided(self) -> None:
        """Wait until it has decided on all messages that there are; ConsumerSilent."""

        def has_decided() -> bool:
            return len(self._published() - self._decided) <= self._unreadable

        await until(
            lambda: not self.runs or has_decided(),
            _DECIDED_WITHIN_US,
            lambda: ConsumerSilent(f"{self.settings.name} has not decided on every message"),
        )

    @property
    def is_quiet(self) -> bool:
        return now_us() - self._said_us > QUIET_US

    @property
    def runs(self) -> bool:
        return self._program is not None and self._program.running

    @property
    def died(self) -> Exception | None:
        return None if self._program is None else self._program.died

    async def stop(self) -> None:
        """End it as a service is ended, and tell what the application has in the end."""
        if self._program is None:
            return
        if self._following is not None:
            self._following.cancel()
        await self.program.stop()
        assert self._follower is not None and self._folder is not None
        self._follower.read()
        self._program = None
        await self.wire.stop()
        with suppress(FileNotFoundError):
            for line in (self._folder / "effects.jsonl").read_text("utf-8").splitlines():
                self._tell(json.loads(line))

    @property
    def program(self) -> Program:
        assert self._program is not None, "it is started by the first act"
        return self._program

    @property
    def wire(self) -> Relay:
        assert self._wire is not None, "it is started by the first act"
        return self._wire

    def _command(self) -> list[str]:
        assert self._folder is not None
        name, folder = self.settings.name, self._folder
        return [
            sys.executable, "-m", "bench", "inbox", "--broker", f"mqtt://{LOOPBACK}:{self.wire.port}",
            "--client-id", name.replace(" ", "-"), "--store", self._store,
            "--to", str(folder / "effects.jsonl"), "--capture", str(folder / "inbox.jsonl"),
            *self.settings.options(),
        ]  # fmt: skip

    def _new_program(self) -> Program:
        assert self._folder is not None
        name, log = f"consumer {self.settings.name}", self._folder / "inbox.log"
        return Program(name, log, starter=self._starter)

    def _said(self) -> str:
        log = self.program.log
        return log.read_text("utf-8", "replace") if log.exists() else ""

    def _take(self, event: Event) -> None:
        self._said_us = now_us()
        self._decided.add(event.get("message_id", ""))
        self._unreadable += event["kind"] == "inbox.unreadable"
        self._setup.case.collect(event | {"consumer": self.settings.name})

    def _tell(self, line: dict[str, Any]) -> None:
        fields = {"consumer": self.settings.name, "channel": line["channel"]}
        fields |= {"message_id": line["messageId"], "position": line["position"]}
        self._setup.record("application", "application.effect", fields)


class ProcessApplication(Application):
    """The broker and the consumers of one case; the broker is its own as soon as it has consumers.

    `needs_own_servers` is called then: its network servers publish there.
    """

    capabilities: frozenset[str] = frozenset()

    def __init__(self, setup: CaseSetup, bench: ProcessBench) -> None:
        self._setup = setup
        self._bench = bench
        self.needs_own_servers: Callable[[], None] = lambda: None
        self._broker: OwnBroker | None = None
        self._inbox_store: Valkey | None = None
        self._consumers: dict[str, ProcessConsumer] = {}

    @property
    def port(self) -> int | None:
        """Where the broker of this case listens; None: it has that of the bench."""
        return None if self._broker is None else self._broker.port

    @property
    def consumer_count(self) -> int:
        return len(self._consumers)

    async def post(self, topic: str, body: bytes) -> None:
        """Publish something as an application does; BrokerLost."""
        place = self._bench if self._broker is None else self._broker
        await place.post(topic, body)

    def new_consumer(self, settings: ConsumerSettings) -> Consumer:
        self.needs_own_servers()
        consumer = ProcessConsumer(
            settings, self._setup, self._published, self._bench.watch, self._bench.consumers
        )
        self._consumers[settings.name] = consumer
        return consumer

    async def ready(self) -> None:
        if not self._consumers:
            return
        folder = self._bench.new_folder("broker")
        self._broker = OwnBroker(folder, self._setup.record, self._bench.watch)
        await self._broker.open(self._setup.tasks)
        if any(consumer.settings.store for consumer in self._consumers.values()):
            self._inbox_store = await self._bench.new_store()
            if self._inbox_store is None:
                raise RuntimeError("this bench was given its store: it has none for consumers")
        for name, consumer in self._consumers.items():
            store = self._inbox_store if consumer.settings.store else None
            folder = subfolder(self._broker.folder, name.replace(" ", "-"))
            await consumer.prepare(folder, self._broker.port, None if store is None else store.url)
            await consumer.start()

    async def publish(
        self,
        topic: str,
        body: dict[str, object],
        properties: Mapping[str, str] | None = None,
        qos: int = 1,
    ) -> None:
        assert self._broker is not None
        await self._broker.inject(topic, body)

    async def stop_broker(self) -> None:
        assert self._broker is not None
        await self._broker.stop()

    async def start_broker(self) -> None:
        assert self._broker is not None
        await self._broker.start()

    async def settle(self) -> None:
        for consumer in self._consumers.values():
            with suppress(TimeoutError):  # then what is missing is told as such
                await consumer.until_decided()
            while consumer.runs and not consumer.is_quiet:  # noqa: ASYNC110 - it ends with the case
                await asyncio.sleep(0.02)
        for consumer in self._consumers.values():
            if consumer.died is not None:
                raise ConsumerDied(str(consumer.died)) from consumer.died
            await consumer.stop()

    def _published(self) -> set[str]:
        lines = self._setup.case.events
        return {line["body"]["messageId"] for line in lines if line["kind"] in PUBLISHED}

    async def end(self) -> None:
        for consumer in self._consumers.values():
            await consumer.stop()
        if self._broker is not None:
            await self._broker.end()
        if self._inbox_store is not None:
            await self._inbox_store.stop()
