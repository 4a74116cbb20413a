"""What runs while `lorabench inbox` runs, and how does it end?"""

import asyncio
import logging
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, NoReturn, cast

from bench.cli.output import Refused, print_error, refusing
from lns.capture import Capture
from lns.clock import StoreUnavailable, now_us
from lns.delivery import ConfigurationError, Detectors, Inbox
from lns.delivery.detectors import TOPIC, MinMsgTime, RemoveDuplicatesKeys, known_us, time_us
from lns.delivery.effect import Effect, EffectUnavailable, Republishing, json_lines
from lns.delivery.inbox import Event, Figures, figures_in, figures_of
from lns.delivery.incoming import InboxFull
from lns.delivery.mqtt_sender import MqttSender
from lns.delivery.mqtt_session import Broker
from lns.delivery.subscription import Delivery, HeldSubscription
from lns.store.inbox_redis import RedisInboxStore
from lns.store.inbox_store import ENTRIES_MAX, InboxStore, ParkedMessage, SqliteInboxStore
from lns.store.redis_wire import redis_server

_LOOK_S = 0.1
_SETTLE_S = 10
_REPUBLISH = "mqtt:"
_COMMAND = "command:"
_ASK_S = 2.0
_COMMAND_S = 60

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Store:
    """What remembers, as a person names it: a path, or the URL of a Redis; and how much."""

    name: str
    entries_max: int = ENTRIES_MAX

    @property
    def is_redis(self) -> bool:
        return self.name.startswith(("redis:", "rediss:", "redis+sentinel:", "rediss+sentinel:"))

    @asynccontextmanager
    async def opened(self, client_id: str) -> AsyncIterator[InboxStore]:
        """The store until it is left; Refused."""
        store: InboxStore
        with refusing(StoreUnavailable, ValueError, said="--store: {}."):
            if self.is_redis:
                server = redis_server(self.name)
                store = RedisInboxStore(
                    server, "inbox", consumer=client_id, entries_max=self.entries_max
                )
            else:
                path = Path(self.name.removeprefix("sqlite://"))
                store = SqliteInboxStore(path, entries_max=self.entries_max)
        try:
            yield store
        finally:
            await store.close()


@dataclass(frozen=True, slots=True)
class KeyTimes:
    """How long Remove Duplicates keys are remembered (µs).

    `oldest` tells of what time the oldest message is that may still come (CMQ's second formula): a
    topic filter of retained messages, `command:…`, or None: the first formula.
    """

    retention_us: int
    retry_us: int
    network_us: int
    oldest: str | None = None

    @property
    def command(self) -> str | None:
        oldest = self.oldest or ""
        return oldest.removeprefix(_COMMAND) if oldest.startswith(_COMMAND) else None

    @property
    def topic(self) -> str:
        """Where producers say how long they try, and perhaps of what time their oldest is."""
        return TOPIC if self.oldest is None or self.command is not None else self.oldest

    def detector(self, oldest_us: Callable[[], int | None]) -> RemoveDuplicatesKeys:
        return RemoveDuplicatesKeys(
            retention_us=self.retention_us,
            retry_us=self.retry_us,
            network_us=self.network_us,
            min_msg_time_us=None if self.oldest is None else oldest_us,
        )


@dataclass(frozen=True, slots=True)
class Consumer:
    """What a person asked for; `idle_us` None: until somebody stops it.

    `keeps_window`: the store has its own window, if it has been created already.
    """

    broker: Broker
    topic: str
    client_id: str
    store: Store
    to: str
    detectors: Detectors
    keeps_window: bool
    keys: KeyTimes | None
    capture: Path | None
    idle_us: int | None
    every_us: int


async def consume(asked: Consumer) -> None:
    running = _Running(asked)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.stopped.set)
    async with AsyncExitStack() as stack:
        if asked.capture is not None:
            stack.callback(running.open_capture(asked.capture).close)
        store = await stack.enter_async_context(asked.store.opened(asked.client_id))
        effect = running.effect(store)
        try:
            await running.consume(store, effect)
        except (ConfigurationError, EffectUnavailable, StoreUnavailable) as error:
            raise Refused(_sentence(error)) from None
    if running.failed:
        raise Refused(running.failed)


async def figures_at(store: Store) -> tuple[Figures, list[ParkedMessage]]:
    """What a store has counted and put aside, also while a consumer runs; Refused."""
    try:
        if not store.is_redis:
            return figures_in(Path(store.name.removeprefix("sqlite://")))
        async with store.opened("show") as opened:
            return await figures_of(opened), await opened.parked()
    except StoreUnavailable as unavailable:
        raise Refused(_sentence(unavailable)) from None


class _Running:
    def __init__(self, asked: Consumer) -> None:
        self._asked = asked
        self.stopped = asyncio.Event()
        self.failed = ""
        self._capture: Capture | None = None
        self._source = ""
        self._inbox: Inbox | None = None
        self._subscription: HeldSubscription | None = None
        self._heard_us = now_us()
        self._told = ""
        self._oldest = MinMsgTime(None, self._compare_retries)
        self._warned: set[str] = set()

    def open_capture(self, path: Path) -> Capture:
        if path.suffix != ".jsonl":
            raise Refused(f"--capture: a capture is a file of JSON Lines, such as {path}.jsonl.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("ab").close()
        self._source = path.stem
        self._capture = Capture(path.parent, self._asked.client_id, now_us)
        return self._capture

    def effect(self, store: InboxStore) -> Effect:
        to = self._asked.to
        with refusing(EffectUnavailable, ValueError, said="--to: {}."):
            if not to.startswith(_REPUBLISH):
                return json_lines(to, cast(BinaryIO, _Output(self._reader_gone)))
            if isinstance(store, SqliteInboxStore):
                self._expect_no_circle(to.removeprefix(_REPUBLISH))
                return Republishing(store, to.removeprefix(_REPUBLISH))
        raise Refused(f"--to {_REPUBLISH}… needs a SQLite file as --store, to wait in.")

    def _expect_no_circle(self, prefix: str) -> None:
        heard, sent = self._asked.topic.split("/")[0], prefix.split("/")[0]
        if heard in ("#", "+", sent):
            raise ValueError(
                f"what is published as {prefix}/… would come back by the topic filter"
                f" {self._asked.topic}; choose another topic, or a filter that begins with lorawan/"
            )

    async def consume(self, store: InboxStore, effect: Effect) -> None:
        asked = self._asked
        subscription = self._subscription = HeldSubscription(
            asked.broker,
            asked.topic,
            asked.client_id,
            self._deliver,
            patient=True,
            retained=None if asked.keys is None else asked.keys.topic,
            on_retained=self._hear_producer,
        )
        async with AsyncExitStack() as stack:
            inbox = self._inbox = await stack.enter_async_context(
                Inbox(store, effect, await self._detectors(store), on_event=self._tell)
            )
            if isinstance(effect, Republishing):
                sender = MqttSender(
                    asked.broker,
                    effect,
                    client_id=f"{asked.client_id}-out",
                    chance=random.SystemRandom(),
                )
                effect.look = (await stack.enter_async_context(sender)).look
            if asked.keys is not None and asked.keys.command is not None:
                await self._run(asked.keys.command)  # before anything is decided on
            await stack.enter_async_context(subscription)
            if asked.keys is not None:
                asking = asyncio.create_task(self._ask(asked.keys, subscription))
                stack.push_async_callback(_end, asking)
            await self._wait(inbox, subscription)
            subscription.stop_listening()
            if not self.failed:
                # What is not decided on in time comes again.
                with suppress(TimeoutError):
                    async with asyncio.timeout(_SETTLE_S):
                        await inbox.settled()
        await self._statistics(inbox)

    async def _detectors(self, store: InboxStore) -> Detectors:
        asked, numbers = self._asked, (await store.summary()).numbers
        detectors = (
            asked.detectors.with_window_of(numbers) if asked.keeps_window else asked.detectors
        )
        if asked.keys is None:
            return detectors
        self._oldest = MinMsgTime(known_us(numbers), self._compare_retries)
        return replace(detectors, keys=asked.keys.detector(lambda: self._oldest.oldest_us))

    async def _ask(self, keys: KeyTimes, subscription: HeldSubscription) -> NoReturn:
        while True:
            if subscription.connected:
                if keys.command is None:
                    self._oldest.next_round()
                subscription.ask()
            await asyncio.sleep(_ASK_S)
            if keys.command is not None:
                await self._run(keys.command)

    async def _run(self, command: str) -> None:
        program = await asyncio.create_subprocess_shell(
            command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
        )
        try:
            async with asyncio.timeout(_COMMAND_S):
                said, _ = await program.communicate()
            if program.returncode:
                raise ValueError(f"it ended with {program.returncode}")
            self._oldest.set(time_us(said.decode()))
        except (ValueError, TimeoutError) as error:
            log.warning("--min-msg-time: %s: %s", command, str(error) or "no answer in time")
        finally:
            if program.returncode is None:
                program.kill()
                await program.wait()

    def _hear_producer(self, topic: str, payload: bytes) -> None:
        try:
            if self._asked.keys is not None and self._asked.keys.command is not None:
                MinMsgTime(None, self._compare_retries).hear(topic, payload)
            else:
                self._oldest.hear(topic, payload)
        except ValueError as error:
            self._warn(topic, f"{topic} holds no time: {error}")

    def _compare_retries(self, topic: str, retry_us: int) -> None:
        keys = self._asked.keys
        if keys is not None and keys.retry_us < retry_us:
            self._warn(
                topic,
                f"--retry is {keys.retry_us // 1_000_000} s, and whoever retains {topic} sends a"
                f" message again for {retry_us // 1_000_000} s: a key may be forgotten too early",
            )

    def _warn(self, topic: str, said: str) -> None:
        if topic not in self._warned:
            self._warned.add(topic)
            log.warning("%s", said)

    async def _wait(self, inbox: Inbox, subscription: HeldSubscription) -> None:
        told_us = now_us()
        while not self.stopped.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self.stopped.wait()
            if now_us() - told_us >= self._asked.every_us:
                await self._statistics(inbox)
                told_us = now_us()
            if not subscription.connected or inbox.waiting:
                self._heard_us = now_us()
            idle_us = now_us() - self._heard_us
            if self._asked.idle_us is not None and idle_us >= self._asked.idle_us:
                return

    def _deliver(self, delivery: Delivery) -> None:
        assert self._inbox is not None and self._subscription is not None
        self._heard_us = now_us()
        try:
            self._inbox.offer(
                delivery.topic,
                delivery.payload,
                delivery.properties,
                delivery.qos,
                delivery.acknowledge,
            )
        except InboxFull as full:
            self._subscription.renew(f"is left for a moment: {full}")

    def _tell(self, event: Event) -> None:
        if self._capture is None:
            return
        try:
            self._capture.record_event(self._source, event.kind, event)
        except OSError as error:
            # The message has had its effect; what is missing is the line that says so.
            self.failed = f"--capture: {self._asked.capture} cannot be written: {error.strerror}."
            self.stopped.set()

    def _reader_gone(self) -> None:
        self.failed = "Nobody reads the output any more."
        self.stopped.set()

    async def _statistics(self, inbox: Inbox) -> None:
        try:
            line = _line(await inbox.figures())
        except StoreUnavailable as unavailable:
            line = str(unavailable)
        if line != self._told:
            self._told = line
            print_error(line)


class _Output:
    def __init__(self, gone: Callable[[], None]) -> None:
        self._gone = gone

    def write(self, octets: bytes) -> int:
        view = memoryview(octets)
        try:
            while view:
                view = view[os.write(sys.stdout.fileno(), view) :]
        except BrokenPipeError:
            self._gone()
            raise
        return len(octets)

    def flush(self) -> None:
        """Nothing is kept back."""


async def _end(task: asyncio.Task[NoReturn]) -> None:
    task.cancel()
    await asyncio.wait({task})


def _sentence(error: Exception) -> str:
    return f"{str(error).rstrip('.')}."


def _line(figures: Figures) -> str:
    ignored = ", ".join(f"{name} {count}" for name, count in figures.ignored.items())
    known = ", ".join(f"{name} {size.count}" for name, size in figures.remembered.items())
    line = (
        f"accepted {figures.accepted}, ignored {sum(figures.ignored.values())} ({ignored}),"
        f" unreadable {figures.unreadable}, parked {figures.parked}, waiting {figures.waiting};"
        f" NumDupMsgsRcvd {figures.num_dup_msgs_rcvd}; remembered: {known}"
    )
    if figures.evicted:
        line += f"; {figures.evicted} left too early"
    return line
