"""A consumer in this process, which crashes at any point a scenario names, and starts again."""

import asyncio
from collections.abc import Callable

import msgspec

from bench.capture import Record
from bench.host.program import ConsumerDied
from bench.rig.broker import MemoryBroker
from bench.rig.case_setup import CaseSetup
from bench.rig.consumer_settings import ConsumerSettings
from bench.rig.interfaces import Consumer
from lns.clock import now_us
from lns.delivery import Incoming
from lns.delivery.inbox import Event, Inbox
from lns.store.inbox_entries import InboxStore, Transaction

CRASHES = ("effect", "commit", "ack")


class Crashed(BaseException):
    """The consumer is gone; no part of it catches this."""


class Refused(Exception):
    """The application cannot have this message."""


class Lines:
    """The effect: one line for each message, written to the capture once nobody takes it back.

    `elsewhere` nobody can, whatever becomes of the transaction. The one that it `refuses` fails,
    the first `refusals` times (None: always).
    """

    def __init__(self, name: str, record: Record, crashes: Callable[[str], None], *,
                 elsewhere: bool, refuses: str | None,
                 refusals: int | None = None) -> None:  # fmt: skip
        self._name = name
        self._record = record
        self._crashes = crashes
        self._elsewhere = elsewhere
        self._refuses = refuses
        self._refusals = refusals
        self._lines: list[dict[str, object]] = []

    def open(self, transaction: Transaction) -> None:
        """Cut off what was never kept."""
        self._lines = []

    def handle(self, message: Incoming, transaction: Transaction) -> None:
        """Have one more line."""
        self._crashes("effect")
        if message.message_id == self._refuses and self._refusals != 0:
            if self._refusals is not None:
                self._refusals -= 1
            raise Refused(message.message_id)
        line = {"consumer": self._name, "channel": message.channel}
        self._lines.append(
            {**line, "message_id": message.message_id, "position": transaction.position}
        )
        if self._elsewhere:
            self._write()
        self._crashes("commit")

    def flush(self, transaction: Transaction) -> None:
        """The lines are as durable as the transaction."""

    def end(self, *, kept: bool) -> None:
        """Keep the lines or none of them."""
        if kept:
            self._write()
        self._lines = []

    def _write(self) -> None:
        for line in self._lines:
            self._record("application", "application.effect", line)
        self._lines = []


class MemoryConsumer(Consumer):
    """One consumer with its store, which outlives it as a disk does."""

    def __init__(
        self,
        settings: ConsumerSettings,
        store: InboxStore,
        broker: MemoryBroker,
        setup: CaseSetup,
        utc_us: Callable[[], int],
    ) -> None:
        self.settings = settings
        self._store = store
        self._broker = broker
        self._setup = setup
        self._utc_us = utc_us
        self._crash_at: str | None = None
        self._running: asyncio.Task[None] | None = None
        self._inbox: Inbox | None = None
        broker.expect(settings.name)

    async def start(self) -> None:
        lines = Lines(
            self.settings.name, self._setup.record, self._crashes,
            elsewhere=self.settings.elsewhere, refuses=self.settings.refuses,
            refusals=self.settings.refusals,
        )  # fmt: skip
        inbox = Inbox(
            self._store, lines, self.settings.detectors(self._oldest_us),
            told=self._tell, utc_us=self._utc_us,
        )  # fmt: skip
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running = self._setup.tasks.create_task(self._run(inbox, begun))
        await begun

    async def kill(self) -> None:
        self._broker.disconnect(self.settings.name)
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})

    async def crash(self, at: str) -> None:
        self._setup.case.fault("consumer", "crash", consumer=self.settings.name, at=at)
        if at not in CRASHES:
            raise ValueError(f"{at!r} is none of {', '.join(CRASHES)}")
        self._crash_at = at

    async def until_crashed(self) -> None:
        if self._crash_at is not None and self._running is not None:
            await asyncio.wait({self._running})

    async def lose_acks(self) -> None:
        name = self.settings.name
        self._setup.case.fault("broker", "lose acknowledgements", consumer=name)
        self._broker.lose_acks(name)

    async def redeliver(self) -> None:
        if self._inbox is not None:
            await self._inbox.settled()
        self._broker.redeliver(self.settings.name)

    async def _run(self, inbox: Inbox, begun: "asyncio.Future[None]") -> None:
        name = self.settings.name
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            async with inbox:
                self._inbox = inbox
                self._broker.connect(name, lambda *message: self._offer(inbox, ended, *message))
                begun.set_result(None)
                await ended
        except* Crashed:
            self._broker.disconnect(name)
            self._crash_at = None
        except* Exception as error:
            cause = error.exceptions[0]
            if not begun.done():
                begun.set_exception(cause)
            else:
                told = f"consumer {name} ended: {type(cause).__name__}: {cause}"
                raise ConsumerDied(told) from error
        finally:
            self._inbox = None

    def _offer(
        self,
        inbox: Inbox,
        ended: asyncio.Future[None],
        topic: str,
        payload: bytes,
        acknowledge: Callable[[], None],
    ) -> None:
        def keep() -> None:
            self._crashes("ack")
            acknowledge()

        try:
            inbox.offer(topic, payload, {}, 1, keep)
        except Exception as error:
            if not ended.done():
                ended.set_exception(error)

    def _crashes(self, at: str) -> None:
        if at == self._crash_at:
            self._broker.disconnect(self.settings.name)
            raise Crashed

    def _tell(self, event: Event) -> None:
        fields = {"consumer": self.settings.name, **msgspec.to_builtins(event)}
        self._setup.record("inbox", event.kind, fields)

    def _oldest_us(self) -> int | None:
        """When the oldest message was sent that is not consumed, by the consumer's wall clock."""
        then_us = self._broker.oldest_us(self.settings.name)
        return None if then_us is None else self._utc_us() - (now_us() - then_us)
