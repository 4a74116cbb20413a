"""How does each message have its effect once, when the broker may bring it many times?

A message goes through the detectors. One that none of them recognises has its effect, and the
detectors remember it, in one transaction of the store; after that, and not before, the broker is
told that the message arrived. Killed before the commit, neither is there, and the message comes
again. Killed after it, the message comes again, and is recognised.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from types import TracebackType

from lns.clock import now_us, utc_of_this_host
from lns.delivery.decisions import Decision, Decisions, Tries
from lns.delivery.detectors import Detectors
from lns.delivery.effect import Effect, EffectUnavailable, Handle, effect_of
from lns.delivery.inbox_events import Told
from lns.delivery.inbox_figures import Figures, figures
from lns.delivery.incoming import Incoming, Unfit, Unreadable
from lns.delivery.waiting_messages import Offered, WaitingMessages
from lns.outage import StoreUnavailable, Trouble
from lns.store.inbox_entries import BATCH_MAX, Batch, InboxStore, Place, Table

log = logging.getLogger(__name__)

WAITING_MAX = 10_000
_SETTLING = Place(Table.WINDOW, "")  # no message has an empty id
_AGAIN_US = 500_000  # a store that is away is asked again after this
_ELSEWHERE_US = 100_000  # so is one where another consumer has a message
_LEAVE_US = 10_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def utc_us() -> int:
    """The wall clock of this host, in µs since 1970."""
    return (utc_of_this_host() - _EPOCH) // timedelta(microseconds=1)


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
    `told` gets an event of every decision once it is kept. `utc_us` is the wall clock in µs.
    """

    def __init__(
        self,
        store: InboxStore,
        effect: Effect | Handle,
        detectors: Detectors | None = None,
        *,
        told: Told | None = None,
        utc_us: Callable[[], int] = utc_us,
        tries: Tries | None = None,
        batch_max: int = BATCH_MAX,
        waiting_max: int = WAITING_MAX,
    ) -> None:
        self._store = store
        self._effect = effect_of(effect)
        self._detectors = detectors or Detectors()
        self._told = told
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

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._work is not None
        self._left.set()
        self._more.set()
        await asyncio.wait({self._work}, timeout=_LEAVE_US / 1_000_000)
        self._work.cancel()
        await self._tasks.__aexit__(kind, error, traceback)

    @property
    def waiting(self) -> int:
        """How many messages were offered and are not decided on."""
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
        """Decide on messages and let them have their effects, in one transaction."""
        at_us = self._utc_us()
        wanted = self._decisions.wanted(batch)
        return await self._store.transact(
            wanted, lambda tx: self._decisions.decide(tx, batch, at_us)
        )

    def _finish(self, decisions: Sequence[Decision]) -> None:
        """Tell what was decided and kept; the rest waits for its turn."""
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
            if self._told is not None:
                self._told(decision.event)
            offered.acknowledge()
        self._waiting.give_back(later)
        if not self._waiting:
            self._empty.set()

    def _say(self, state: str | None) -> None:
        """Tell the person at the console once that nothing is accepted, and once that it is."""
        said = f"{self._store} is back" if state is None else state
        self._trouble.is_now(state, "%s; %d messages wait", said, self.waiting)
