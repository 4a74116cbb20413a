"""What may a scenario ask of the consumers of an application, and of the broker before them?

The chain: station, network server, outbox, broker, inbox, effect. A scenario that has a consumer
gets network servers and a broker of its own. What is disturbed is written to the capture as
`fault.begin` and `fault.end`.
"""

from abc import ABC, abstractmethod
from typing import Any

from bench.device.interfaces import Sent
from bench.rig.injected import Injected
from lns.delivery.detectors import NETWORK_US, RETENTION_MAX_US, RETRY_US, WINDOW_US

CONSUMER = "application"
Named = Sent | Injected
"""An uplink with all its messages, or one message of the bench."""


class Consuming(ABC):
    """The verbs for what happens between network server and application."""

    @abstractmethod
    def consumer(
        self,
        name: str = CONSUMER,
        *,
        window: int | None = WINDOW_US,
        partitioned: bool = False,
        sessions: bool = False,
        sequence: bool = True,
        keys: bool = False,
        retention: int = RETENTION_MAX_US,
        retry: int = RETRY_US,
        network: int = NETWORK_US,
        knows_oldest: bool = False,
        store: str | None = None,
        elsewhere: bool = False,
        refuses: str | None = None,
        refusals: int | None = None,
    ) -> None:
        """Let a consumer take every message, with these detectors; before the first act.

        `window` in µs, None: ids are not compared; ConfigurationError outside of 20 s to 7 d. With
        `sessions` a message is taken only if its session id is its partition key.
        `keys` live for retention, retry and network (µs); with `knows_oldest` as long as the oldest
        message that was not consumed demands. Consumers with the same `store` share one. The effect
        has the fate of the transaction, unless it is `elsewhere`, where nobody can take it back.
        The effect of the message with the id `refuses` fails, however often it is tried, or the
        first `refusals` times.
        """

    @abstractmethod
    async def kill_consumer(self, name: str = CONSUMER) -> None:
        """End a consumer at once, until `start_consumer`; its store is on the disk."""

    @abstractmethod
    async def start_consumer(self, name: str = CONSUMER, *, window: int | None = None) -> None:
        """Start a consumer that was killed, or that is about to crash, as soon as it has.

        With `window` it has another one than before: ConfigurationError.
        """

    @abstractmethod
    async def crash_consumer(self, at: str, name: str = CONSUMER) -> None:
        """Let a consumer crash at its next message: before the "effect", "commit" or "ack".

        At "commit" it has had the effect. `start_consumer` waits until it has happened.
        """

    @abstractmethod
    async def lose_acks(self, name: str = CONSUMER) -> None:
        """Let the broker not hear what a consumer acknowledges, until `redeliver`."""

    @abstractmethod
    async def redeliver(self, name: str = CONSUMER) -> None:
        """Let the broker bring a consumer again what it has not heard to be acknowledged.

        What a queue does when its visibility time is over, and a broker on the next connection.
        Waits until the consumer has decided on what was brought before.
        """

    @abstractmethod
    async def stop_broker(self) -> None:
        """End the broker, until `start_broker`; it remembers what it has acknowledged."""

    @abstractmethod
    async def start_broker(self) -> None:
        """Start the broker again."""

    @abstractmethod
    async def lose_pubacks(self, lns: str = "lns-a") -> None:
        """Let a server's messages reach the broker, and nothing come back, until `find_broker`."""

    @abstractmethod
    async def hold_messages(self, lns: str = "lns-a") -> None:
        """Let a server's messages not reach the broker, until `find_broker`."""

    @abstractmethod
    async def find_broker(self, lns: str = "lns-a") -> None:
        """Undo `lose_pubacks` and `hold_messages`: a server sends what it knows nothing about."""

    @abstractmethod
    async def wipe_producer(self, lns: str = "lns-a") -> None:
        """Restart a server without its outbox: it numbers the messages of every topic from 1."""

    @abstractmethod
    def share_client_id(self, *lns: str) -> None:
        """Let several servers name themselves alike to the broker; before the first act."""

    @abstractmethod
    async def until_published(self, uplink: Named, times: int = 1, *, lns: str = "") -> None:
        """Wait until the broker has had messages of an uplink so many times, of one server or all.

        TimeoutError when that takes too long.
        """

    @abstractmethod
    async def republish(self, uplink: Sent, *, after: int) -> None:
        """Publish the first message of an uplink again, `after` µs since it was, never retimed."""

    @abstractmethod
    async def inject(
        self,
        device: Any,
        *,
        message_id: str | None = None,
        number: int | None = None,
        key: str | None = None,
        session: str | None = None,
        partition: str | None = None,
        body: str = "21.5",
    ) -> Injected:
        """Publish one message in the name of another producer, on a topic of its own.

        By default its id is new, and it has neither sequence number, Remove Duplicates key nor
        session id; its partition key is the DevEUI, as its topic is.
        """

    @abstractmethod
    def expect_effects(
        self, message: Named, times: int = 1, *, consumer: str | None = None
    ) -> None:
        """Expect the messages of an uplink to have so many effects, at one consumer or all.

        Copies are messages of their own.
        """

    @abstractmethod
    def expect_ignored(
        self, message: Named, *, by: str, times: int = 1, consumer: str | None = None
    ) -> None:
        """Expect so many to be ignored as duplicates, by "window", "sequence" or "key"."""
