"""What becomes of a message that is offered to a consumer, and what does the consumer tell of it?

Each one is unreadable, recognised by a detector, or has its effect. An effect that raises is tried
again later, and put aside when that has been in vain too often; meanwhile nothing of its stream is
decided on. An event is told when what it says is kept in the store: a consumer that is killed in
between tells `inbox.ignored` when the message comes again, whose `first_position` is that of the
`inbox.accepted` nobody was told.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from inspect import isawaitable
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct

from lns.clock import StoreUnavailable, Trouble, now_us, since_1970_us, utc_of_this_host
from lns.delivery.detectors import NUM_DUP_MSGS_RCVD, PERFORMS, Detector, Detectors
from lns.delivery.effect import Effect, EffectUnavailable, Handle, effect_of
from lns.delivery.incoming import Incoming, Offered, Stream, Unfit, Unreadable, WaitingMessages
from lns.delivery.mqtt_session import doubled_us
from lns.store import inbox_store
from lns.store.inbox_store import (
    BATCH_MAX,
    EVICTED,
    OVERRUNS,
    POSITION,
    Batch,
    InboxStore,
    ParkedMessage,
    Place,
    Size,
    Summary,
    Table,
    TransactionLost,
)
from lns.store.sqlite import look, unusable_as

log = logging.getLogger(__name__)


class OfMessage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What each event says of the message that it is about."""

    channel: str
    message_id: str
    partition_key: str
    sequence_number: int | None = None
    key: str | None = None


class Accepted(OfMessage, frozen=True, kw_only=True):
    """A message had its effect (`inbox.accepted`), as the `position`-th of this inbox, from 1."""

    kind: ClassVar[str] = "inbox.accepted"
    position: int


class Ignored(OfMessage, frozen=True, kw_only=True):
    """A message had no effect, as it was there before (`inbox.ignored`).

    `by` is the detector that recognised it; `first_position` is where it has had its effect, and
    for a sequence number the position of the newest message of its stream.
    """

    kind: ClassVar[str] = "inbox.ignored"
    by: Detector
    first_position: int


class Unread(Struct, frozen=True, kw_only=True):
    """A message that cannot be told from others had no effect (`inbox.unreadable`)."""

    kind: ClassVar[str] = "inbox.unreadable"
    channel: str
    reason: Unfit
    detail: str
    bytes_count: int


class Parked(OfMessage, frozen=True, kw_only=True):
    """The effect of a message failed `tries` times; it was put aside (`inbox.parked`)."""

    kind: ClassVar[str] = "inbox.parked"
    reason: str
    tries: int


Event = Accepted | Ignored | Unread | Parked
OnEvent = Callable[[Event], None]


def _identity(message: Incoming) -> dict[str, Any]:
    return {
        "channel": message.channel,
        "message_id": message.message_id,
        "partition_key": message.partition_key,
        "sequence_number": message.sequence_number,
        "key": message.remove_duplicates_key,
    }


ACCEPTED = "accepted"
UNREADABLE = "unreadable"
TRIES_FAILED = "tries_failed"
IGNORED = {detector: f"ignored_by_{detector}" for detector in Detector}


class Figures(Struct, frozen=True, kw_only=True):
    """The counts of an inbox; they are in its store, and outlive the process.

    `remembered`: by detector, how many marks there are and when the first was made (UTC, µs).
    `evicted` marks left before their time, as their table was full: a repeat of those is accepted.
    `overruns` are effects that took longer than the lease of the message; another consumer may have
    had them too. `window_us` is None where ids are not compared. `waiting` is not in the store.
    """

    accepted: int
    ignored: dict[str, int]
    unreadable: int
    parked: int
    tries_failed: int
    evicted: int
    overruns: int
    num_dup_msgs_rcvd: int
    window_us: int | None
    remembered: dict[str, Size]
    waiting: int = 0


def figures(found: Summary, *, waiting: int = 0, checks_sequence: bool | None = None) -> Figures:
    """The figures in a summary; NumDupMsgsRcvd is 0 for who checks no sequence numbers.

    Where nobody says whether he does (None), the consumer counts who opened the store last.
    """
    numbers = found.numbers
    if checks_sequence is None:
        checks_sequence = bool(numbers.get(PERFORMS, 1))
    return Figures(
        accepted=numbers.get(ACCEPTED, 0),
        ignored={str(detector): numbers.get(IGNORED[detector], 0) for detector in Detector},
        unreadable=numbers.get(UNREADABLE, 0),
        parked=found.parked,
        tries_failed=numbers.get(TRIES_FAILED, 0),
        evicted=numbers.get(EVICTED, 0),
        overruns=numbers.get(OVERRUNS, 0),
        num_dup_msgs_rcvd=numbers.get(NUM_DUP_MSGS_RCVD, 0) if checks_sequence else 0,
        window_us=numbers.get("window_us", 0) or None,
        remembered={str(table): found.sizes[table] for table in Table},
        waiting=waiting,
    )


async def figures_of(store: InboxStore) -> Figures:
    """The figures of a store that this process has opened; StoreUnavailable."""
    return figures(await store.summary())


def figures_in(path: Path) -> tuple[Figures, list[ParkedMessage]]:
    """The figures and the parked messages in a file, also while another process owns it.

    StoreUnavailable when it is no inbox, or cannot be read.
    """
    with unusable_as(StoreUnavailable, "the inbox"):
        return look(
            path,
            inbox_store.KIND,
            lambda db: (figures(inbox_store.summary(db)), inbox_store.parked(db)),
        )


_FORGET_MIN = 64  # marks that may go with one transaction, or four for each of its messages
_REASON_MAX = 1000


@dataclass(frozen=True, slots=True)
class Tries:
    """How often an effect is tried, and how long after the first failure again; then twice that."""

    most: int = 5
    first_us: int = 100_000
    max_us: int = 10_000_000

    def wait_us(self, failures: int) -> int:
        """The wait after the n-th failure, n from 1, in µs."""
        return doubled_us(self.first_us, self.max_us, failures)


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of one message; without an event it still waits, perhaps as its effect failed."""

    offered: Offered
    event: Event | None
    failed: bool = False


class Decisions:
    """Decides on messages by detectors, and lets them have their effect."""

    def __init__(self, detectors: Detectors, effect: Effect, tries: Tries) -> None:
        self._detectors = detectors
        self._effect = effect
        self._tries = tries

    def wanted(self, batch: Sequence[Offered]) -> list[tuple[Place, ...]]:
        """What must not change while these messages are decided on, message by message."""
        return [
            self._detectors.places(offered.message) if isinstance(offered.message, Incoming) else ()
            for offered in batch
        ]

    async def decide(self, tx: Batch, batch: Sequence[Offered], at_us: int) -> list[Decision]:
        """The decisions on messages, in order; everything they change is in the transaction.

        EffectUnavailable when not even the first one can have its effect.
        """
        counts: Counter[str] = Counter()
        held: set[Stream] = set()
        self._detectors = self._detectors.as_kept(tx)
        decisions: list[Decision] = []
        before = tx.number(POSITION)
        is_available = True
        for number, offered in enumerate(batch):
            tx.position = before + counts[ACCEPTED] + 1
            decision = Decision(offered, None)
            is_free = offered.stream not in held and not tx.is_held_elsewhere(number)
            if is_available and is_free and tx.has_time():
                try:
                    decision = await self._decide_on(tx, offered, at_us, counts)
                except EffectUnavailable:
                    if not counts:
                        raise
                    is_available = False
            if decision.event is None:
                held.add(offered.stream)
            decisions.append(decision)
        self._detectors.forget(tx, at_us, max(_FORGET_MIN, 4 * len(batch)))
        self._effect.flush(tx)
        counts[POSITION] = counts[ACCEPTED]
        for name, by in sorted(counts.items()):
            if by:
                tx.add(name, by)
        return decisions

    async def _decide_on(
        self, tx: Batch, offered: Offered, at_us: int, counts: Counter[str]
    ) -> Decision:
        message = offered.message
        if isinstance(message, Unreadable):
            counts[UNREADABLE] += 1
            unread = Unread(
                channel=message.channel,
                reason=message.reason,
                detail=message.detail,
                bytes_count=message.bytes_count,
            )
            return Decision(offered, unread)
        duplicate = self._detectors.judge(tx, message, at_us)
        if duplicate is not None:
            counts[IGNORED[duplicate.by]] += 1
            counts[NUM_DUP_MSGS_RCVD] += self._detectors.ignore(tx, message, at_us, duplicate)
            by, first = duplicate.by, duplicate.first_position
            return Decision(offered, Ignored(**_identity(message), by=by, first_position=first))
        try:
            await self._accept(tx, message, at_us)
        except _EffectFailed as failed:
            return self._fail(tx, offered, message, str(failed), at_us, counts)
        counts[ACCEPTED] += 1
        return Decision(offered, Accepted(**_identity(message), position=tx.position))

    async def _accept(self, tx: Batch, message: Incoming, at_us: int) -> None:
        """Remember a message and let it have its effect, both or none; _EffectFailed."""
        with tx.attempt():
            self._detectors.remember(tx, message, at_us, tx.position)
            tx.unpark((*message.stream, message.message_id, message.partition_key))
            try:
                done = self._effect.handle(message, tx)
                if isawaitable(done):
                    await done
            except (TransactionLost, EffectUnavailable):
                raise
            except Exception as error:
                raise _EffectFailed(f"{type(error).__name__}: {error}"[:_REASON_MAX]) from error

    def _fail(
        self,
        tx: Batch,
        offered: Offered,
        message: Incoming,
        reason: str,
        at_us: int,
        counts: Counter[str],
    ) -> Decision:
        counts[TRIES_FAILED] += 1
        tries = offered.tries + 1
        if tries < self._tries.most:
            return Decision(offered, None, failed=True)
        tx.park(
            ParkedMessage(
                *message.stream,
                message.message_id,
                message.partition_key,
                message.sequence_number,
                message.remove_duplicates_key,
                reason,
                tries,
                at_us,
                message.body,
            )
        )
        return Decision(offered, Parked(**_identity(message), reason=reason, tries=tries))


class _EffectFailed(Exception):
    """The effect of one message raised; the text says what."""


WAITING_MAX = 10_000
_SETTLING = Place(Table.WINDOW, "")  # no message has an empty id
_AGAIN_US = 500_000  # a store that is away is asked again after this
_ELSEWHERE_US = 100_000  # so is one where another consumer has a message
_LEAVE_US = 10_000_000


def utc_us() -> int:
    """The wall clock of this host, in µs since 1970."""
    return since_1970_us(utc_of_this_host())


class Inbox:
    """Offers every message to an effect exactly once, as long as `async with` lasts.

    `effect` is asked with a message and the transaction. In a SQLite store everything it writes
    with `transaction.execute` has the same fate as the state of the inbox; it must not await then.
    Effects anywhere else cannot be taken back: a kill exactly between such an effect and the commit
    makes the message come again, and the effect happen twice. With several consumers on one Redis a
    message is reserved before its effect, so the same holds there, and for an effect that outlasts
    the lease (`overruns`).

    An effect that raises is tried again, `tries` in all, and meanwhile its stream (bus, channel,
    QoS) waits; then the message is parked in the store with the reason, and the stream goes on.
    The tries are counted in this process only. A message that cannot be read is counted.

    Entering raises ConfigurationError for a store that was created without a window and is to have
    one, or the other way round, or with other partitions or sessions, and StoreUnavailable. Later
    outages of the store are waited for: nothing is acknowledged meanwhile.
    `on_event` gets an event of every decision once it is kept. `utc_us` is the wall clock in µs.
    """

    def __init__(
        self,
        store: InboxStore,
        effect: Effect | Handle,
        detectors: Detectors | None = None,
        *,
        on_event: OnEvent | None = None,
        utc_us: Callable[[], int] = utc_us,
        tries: Tries | None = None,
        batch_max: int = BATCH_MAX,
        waiting_max: int = WAITING_MAX,
    ) -> None:
        self._store = store
        self._effect = effect_of(effect)
        self._detectors = detectors or Detectors()
        self._on_event = on_event
        self._utc_us = utc_us
        self._tries = tries or Tries()
        self._decisions = Decisions(self._detectors, self._effect, self._tries)
        self._batch_max = min(batch_max, store.batch_max)
        self._waiting = WaitingMessages(waiting_max)
        self._more, self._left, self._empty = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._empty.set()
        self._trouble = Trouble(log)
        self._work: asyncio.Task[None] | None = None
        self._tasks = asyncio.TaskGroup()

    async def __aenter__(self) -> "Inbox":
        while not await self._store.transact([(_SETTLING,)], self._open):  # noqa: ASYNC110
            await asyncio.sleep(_ELSEWHERE_US / 1_000_000)
        await self._tasks.__aenter__()
        self._work = self._tasks.create_task(self._decide_on_everything())
        return self

    async def __aexit__(self, *raised: Any) -> None:
        assert self._work is not None
        self._left.set()
        self._more.set()
        await asyncio.wait({self._work}, timeout=_LEAVE_US / 1_000_000)
        self._work.cancel()
        await self._tasks.__aexit__(*raised)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def offer(
        self,
        topic: str,
        payload: bytes,
        properties: Mapping[str, str],
        qos: int,
        acknowledge: Callable[[], None],
    ) -> None:
        """Take a message as the broker brought it; InboxFull, then it was not taken.

        `acknowledge` is called on the event loop once the decision is kept. It must not raise.
        """
        message = Incoming.of(topic, payload, properties, qos)
        if isinstance(message, Incoming) and not self._detectors.fits(message):
            said = "with sessions, partition key and session id must be equal"
            stream = message.bus, topic, qos
            reason = Unfit.SESSION_IS_NOT_PARTITION
            message = Unreadable(*stream, reason, said, len(payload))
        self._waiting.add(message, acknowledge)
        self._empty.clear()
        self._more.set()

    async def settled(self) -> None:
        """Wait until every message that was offered is decided on, for as long as that takes."""
        await self._empty.wait()

    async def figures(self) -> Figures:
        """The counts until now; StoreUnavailable."""
        sequence = self._detectors.sequence
        return figures(
            await self._store.summary(),
            waiting=self.waiting,
            checks_sequence=sequence is not None and sequence.performs_duplicate_checking,
        )

    async def _open(self, batch: Batch) -> bool:
        """Whether nobody else was opening the store at the same time."""
        if batch.is_held_elsewhere(0):
            return False
        self._detectors.settle(batch, str(self._store), self._utc_us())
        detectors = self._detectors.as_kept(batch)
        self._decisions = Decisions(detectors, self._effect, self._tries)
        self._effect.open(batch)
        return True

    async def _decide_on_everything(self) -> None:
        while not self._left.is_set():
            batch = self._waiting.take(self._batch_max, now_us())
            if not batch:
                await self._wait_for_more()
                continue
            try:
                decisions = await self._commit(batch)
            except (StoreUnavailable, EffectUnavailable) as unavailable:
                self._effect.end(kept=False)
                self._waiting.give_back(batch)
                self._say(str(unavailable))
                with suppress(TimeoutError):
                    async with asyncio.timeout(_AGAIN_US / 1_000_000):
                        await self._left.wait()
                continue
            self._effect.end(kept=True)
            self._say(None)
            self._finish(decisions)

    async def _wait_for_more(self) -> None:
        due_us = self._waiting.next_due_us()
        wait_s = None if due_us is None else max(0, due_us - now_us()) / 1_000_000
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._more.wait()
        self._more.clear()

    async def _commit(self, batch: Sequence[Offered]) -> list[Decision]:
        at_us = self._utc_us()
        wanted = self._decisions.wanted(batch)
        return await self._store.transact(
            wanted, lambda tx: self._decisions.decide(tx, batch, at_us)
        )

    def _finish(self, decisions: Sequence[Decision]) -> None:
        later = []
        for decision in decisions:
            offered = decision.offered
            if decision.event is None:
                wait_us = _ELSEWHERE_US
                if decision.failed:
                    offered.tries += 1
                    wait_us = self._tries.wait_us(offered.tries)
                offered.due_us = now_us() + wait_us
                later.append(offered)
                continue
            if self._on_event is not None:
                self._on_event(decision.event)
            offered.acknowledge()
        self._waiting.give_back(later)
        if not self._waiting:
            self._empty.set()

    def _say(self, state: str | None) -> None:
        said = f"{self._store} is back" if state is None else state
        self._trouble.is_now(state, "%s; %d messages wait", said, self.waiting)
