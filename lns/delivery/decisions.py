"""What becomes of the messages of one transaction?

Each one is unreadable, recognised by a detector, or has its effect. An effect that raises is tried
again later, and put aside when that has been in vain too often; meanwhile nothing of its stream is
decided on.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import isawaitable

from lns.delivery.back_off import doubled_us
from lns.delivery.detectors import Detectors
from lns.delivery.effect import Effect, EffectUnavailable
from lns.delivery.inbox_events import Event, accepted, ignored, parked, unread
from lns.delivery.inbox_figures import ACCEPTED, IGNORED, TRIES_FAILED, UNREADABLE
from lns.delivery.incoming import Incoming, Stream, Unreadable
from lns.delivery.sequence_tracker import NUM_DUP_MSGS_RCVD
from lns.delivery.waiting_messages import Offered
from lns.store.inbox_entries import POSITION, Batch, ParkedMessage, Place, TransactionLost

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
            return Decision(offered, unread(message))
        duplicate = self._detectors.judge(tx, message, at_us)
        if duplicate is not None:
            counts[IGNORED[duplicate.by]] += 1
            counts[NUM_DUP_MSGS_RCVD] += self._detectors.ignore(tx, message, at_us, duplicate)
            return Decision(offered, ignored(message, duplicate))
        try:
            await self._accept(tx, message, at_us)
        except _EffectFailed as failed:
            return self._fail(tx, offered, message, str(failed), at_us, counts)
        counts[ACCEPTED] += 1
        return Decision(offered, accepted(message, tx.position))

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
        return Decision(offered, parked(message, reason, tries))


class _EffectFailed(Exception):
    """The effect of one message raised; the text says what."""
