"""What do the effects of a consumer come to: lines of a file, or messages on other topics?

What is wrong with them is found when they are had, kept or taken back, and once more in the end.
"""

import sys
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, nullcontext, suppress
from pathlib import Path
from sqlite3 import OperationalError, connect
from typing import BinaryIO

from bench.capture import Record
from bench.chance import stream
from bench.clock import is_disk_slow
from bench.host.program import ConsumerDied
from bench.inspection.consumer import ConsumerBooks, refusal
from bench.rig.case_setup import CaseSetup
from bench.rig.configuration import ConsumerSettings
from bench.rig.in_memory.mistakes import no_file_beyond, syncs
from bench.verdict.wire import json_of
from bench.virtual.mqtt_broker import RECEIVE_MAX, Client, MqttBroker
from bench.virtual.mqtt_packets import Published
from lns.clock import now_us
from lns.delivery import Incoming
from lns.delivery.effect import (
    EffectUnavailable,
    JsonLinesFile,
    JsonLinesStream,
    Republishing,
    json_lines,
)
from lns.delivery.inbox import Accepted, Event
from lns.delivery.mqtt_sender import MqttSender
from lns.delivery.mqtt_session import Broker, BrokerLost, post
from lns.store.inbox_store import SqliteInboxStore, Transaction

_TOGETHER_MAX = 500  # share a transaction of a store of one consumer


class Refused(Exception):
    """The application cannot have this message."""


class Lines:
    """The effect: a line of JSON in a file for each message, written to the capture once it stays.

    What a kill took back is cut off, unless the file is `elsewhere`: a pipe, which keeps all that
    it was given. Messages whose id begins with what the effect `refuses` fail, the first `refusals`
    times (None: always).
    """

    def __init__(
        self,
        settings: ConsumerSettings,
        folder: Path,
        setup: CaseSetup,
        crashes: Callable[[str], None],
        books: ConsumerBooks,
        found: Callable[[str], None],
        kept: Callable[[], None],
    ) -> None:
        self._kept = kept
        self._name = settings.name
        self._books = books
        self._found = found
        self._setup = setup
        self._crashes = crashes
        self._refuses = settings.refuses
        self._refusals = settings.refusals
        self._elsewhere = settings.elsewhere
        self.path = folder / f"{settings.name}.jsonl"
        self._told_octets = 0
        self._had = 0
        self.room: int | None = None
        self.spare_octets: int | None = None
        self._pipe: BinaryIO | None = None
        self._lines: JsonLinesFile | JsonLinesStream

    def begin(self) -> None:
        """Open the file, as a consumer does that starts; ConsumerDied where it opens another."""
        self._had, self._is_open, self._is_full = 0, False, False
        if self._elsewhere:
            # A pipe that is named has no buffer, standard output has one.
            buffering = 0 if self._setup.on_disk else -1
            self._pipe = self.path.open("ab", buffering)
            self._lines = JsonLinesStream(self._pipe, owned=True)
        else:
            is_new = not self.path.exists()
            self._lines = json_lines(str(self.path), sys.stdout.buffer)
            if not self.path.exists():
                raise ConsumerDied(f"consumer {self._name} has no file for its effects")
            if is_new and self.path.stat().st_mode & 0o077:
                self._found(f"{self._name}: its effects are for others to read")

    def give_up(self) -> None:
        """The consumer is gone, and with it what it had opened."""
        self._lines.close()
        if self._pipe is not None and not self._pipe.closed:
            self._pipe.close()
            self._found(f"{self._name}: expected its pipe closed when it is gone, observed open")

    def open(self, transaction: Transaction) -> None:
        """What was never kept is no more in the file; EffectUnavailable."""
        self._lines.open(transaction)
        self._is_open = True
        self._look("when it is opened")

    def handle(self, message: Incoming, transaction: Transaction) -> None:
        """Have one more line; EffectUnavailable while there is no room."""
        self._crashes("effect")
        if not self._is_open:
            self._found(f"{self._name}: an effect is had before it is opened")
        self._books.is_slow |= is_disk_slow()
        for text in self._books.tried(self._name, message.channel, message.message_id, now_us()):
            self._found(text)
        if self.room is not None and self._had >= self.room:
            if self._is_full:
                self._found(f"{self._name}: {message.message_id}: asked for behind no room")
            self._is_full = True
            raise EffectUnavailable("the application has no room")
        refuses = self._refuses is not None and message.message_id.startswith(self._refuses)
        if refuses and self._refusals != 0:
            if self._refusals is not None:
                self._refusals -= 1
            self._books.failed(self._name, message.channel, message.message_id, now_us())
            raise Refused(refusal(message.message_id))
        self._lines.handle(message, transaction)
        self._had += 1

    def flush(self, transaction: Transaction) -> None:
        """The lines are in the file, and those that are taken back on its disk."""
        spare, octets = self.spare_octets, self.path.stat().st_size
        beyond = nullcontext() if spare is None else no_file_beyond(octets + spare)
        with beyond, syncs() as synced:
            self._lines.flush(transaction)
        is_synced = self._elsewhere or self.path.stat().st_size in synced
        if self._had and not is_synced:
            self._found(f"{self._name}: {self._had} effects are kept before they are on the disk")
        if self._had > (most := 1 if self._setup.on_redis else _TOGETHER_MAX):
            self._found(f"{self._name}: expected {most} effects together, observed {self._had}")
        if self._elsewhere:
            self._tell()
        if self._had:
            self._crashes("commit")

    def end(self, *, kept: bool) -> None:
        """Keep the lines or none of them."""
        self._lines.end(kept=kept)
        if self._is_full or (self._had and not kept):
            self._books.unavailable(self._name, now_us(), kept=kept)
        if self._had and not kept:
            self._take_back()
        if self.room is not None:
            self.room -= self._had
        self._had, self._is_full = 0, False
        if kept:
            self._tell()
            self._kept()

    def _tell(self) -> None:
        octets = self.path.read_bytes()[self._told_octets :]
        self._told_octets += len(octets)
        if b"\r" in octets:  # neither ends one a line nor is there one left of a body
            self._found(f"{self._name}: expected lines that end with \\n, observed {octets!r}")
        for text in octets.splitlines():
            line = json_of(text.decode(errors="replace")) or {}
            self._books.had(self._name, line)
            fields = {"consumer": self._name, "channel": line.get("channel", "")}
            fields |= {"message_id": line.get("messageId", ""), "position": line.get("position")}
            self._setup.record("application", "application.effect", fields)

    def _take_back(self) -> None:
        """None of the lines stays, as what belongs to them could not be written."""
        if not self._setup.breaks_writes and self.spare_octets is None:
            self._found(f"{self._name}: {self._had} effects were had and are not kept")
        self._look("that are taken back")

    def look_at_the_end(self) -> None:
        """Nothing has become of the file but what was told."""
        if self.path.exists():
            self._look("in the end")

    def _look(self, when: str) -> None:
        octets = self.path.stat().st_size
        if octets != self._told_octets:
            due = self._told_octets
            self._found(f"{self._name}: effects {when}: expected {due} octets, observed {octets}")


_PREFIX, _ALONE, _USER = "once/more", "alone", "relay"
_NO_PREFIXES = "", "/", "/a", "a/", "+", "a/#", "a\0"
_REMOVED_US = 100_000
Said = tuple[Published, dict[str, object]]


class Relay:
    """The effect: each message on another topic, where the application takes it once.

    Finds what is wrong with what arrives there: it is what the consumer was brought, of each topic
    in order, and comes a second time only where its acknowledgement was lost. At most `room`
    messages wait for that.
    """

    def __init__(
        self,
        name: str,
        seed: int,
        folder: Path,
        room: int,
        record: Record,
        found: Callable[[str], None],
    ) -> None:
        self._name, self._client_id = name, f"{name.replace(' ', '-')}-out"
        self._chance = stream(seed, name, "relay")
        self._room, self._record, self._found = room, record, found
        self._broker = MqttBroker(folder / "relay", self._take, found)
        self._broker.receive_max = RECEIVE_MAX  # a broker says nothing of that
        self._broker.greeted = self._greet
        self._brought: defaultdict[tuple[str, str], deque[bytes]] = defaultdict(deque)
        self._owed: defaultdict[str, deque[Said]] = defaultdict(deque)
        self._taken_us: dict[Published, int] = {}
        self._posted: list[bytes] = []
        self.start = self._broker.listen
        self.start()

    def effect(self, store: SqliteInboxStore) -> Republishing:
        """What a consumer that starts has its messages done by."""
        self._file = store.path
        for prefix in _NO_PREFIXES:
            with suppress(ValueError):
                Republishing(store, prefix)
                self._wrong(f"no prefix, {prefix!r}", "one")
        try:
            self._effect = Republishing(store, _PREFIX, messages_max=self._room)
        except ValueError as error:
            raise ConsumerDied(f"consumer {self._name} ended: {error}") from error
        return self._effect

    @asynccontextmanager
    async def open(self, effect: Republishing) -> AsyncIterator[None]:
        """Send what waits, as a consumer does as long as it runs."""
        sender = MqttSender(self._there, effect, client_id=self._client_id, chance=self._chance)
        async with sender:
            effect.look = sender.look
            yield

    def brought(self, topic: str, message_id: object, payload: bytes) -> None:
        """The consumer is brought a message."""
        self._brought[topic, str(message_id)].append(payload)

    def told(self, event: Event) -> None:
        """The consumer has decided: what it accepts is owed to the application from now on."""
        if not isinstance(event, Accepted):
            return
        payload = self._brought.pop((event.channel, event.message_id), deque([b""]))[0]
        properties = {
            "messageId": event.message_id,
            "removeDuplicatesKey": event.key or event.message_id,
            "partitionKey": event.partition_key,
            "sequenceNumber": str(event.sequence_number or 0),
        }
        topic = f"{_PREFIX}/{event.channel}"
        due = Published(self._client_id, topic, payload, tuple(properties.items()), False, False)
        fields: dict[str, object] = {"consumer": self._name, "channel": event.channel}
        fields |= {"message_id": event.message_id, "position": event.position}
        self._owed[topic].append((due, fields))
        if self._owing > self._room:
            self._wrong(f"at most {self._room} messages that wait", self._owing)

    def stop(self) -> None:
        """The broker is away, until `start`."""
        self._broker.stop()

    async def end(self) -> None:
        """The case is over, and the consumer has ended."""
        self.start()
        await self._look_at_post("")
        self._broker.refusals_on[_ALONE] = 1
        await self._look_at_post(f"refuses a message on {_ALONE}: Not authorized")
        self._broker.go()
        await self._look_at_post("cannot be reached: No such file or directory")
        count = -1  # there is no such table
        with closing(connect(self._file)) as db, suppress(OperationalError):
            [count] = db.execute("SELECT count(*) FROM inbox_republished").fetchone()
        if count != self._owing:
            self._wrong(f"{self._owing} messages in the file in the end", count)
        if count >= 0 and self._effect.waiting != count:
            self._wrong(f"{count} messages that wait in the end", self._effect.waiting)

    async def _look_at_post(self, due: str) -> None:
        """Whoever publishes one message alone knows whether the broker has it."""
        said, self._posted = "", []
        try:
            await post(self._there, _ALONE, b"{}")
        except BrokerLost as lost:
            said = str(lost)
        if (said, self._posted) != (due, [b"{}"] * (not due)):
            self._wrong(f"{due or 'taken'} when it is posted", f"{said or 'taken'}: {self._posted}")

    @property
    def _there(self) -> Broker:
        return Broker(str(self._broker.path), 1, user=_USER)

    def _greet(self, client: Client) -> None:
        """Whoever is somebody needs no password (3.1.2.8 and 9)."""
        said = client.login.user, client.login.password
        if said != (_USER, None):
            self._wrong(f"{_USER} without a password", said)

    @property
    def _owing(self) -> int:
        return sum(map(len, self._owed.values()))

    def _take(self, message: Published) -> None:
        if message.topic == _ALONE:
            return self._posted.append(message.payload)
        owed = self._owed[message.topic]
        if owed and owed[0][0] == message:
            _, fields = owed.popleft()
            self._taken_us[message] = now_us()
            self._record("application", "application.effect", fields)
        elif message not in self._taken_us:
            self._wrong(owed[0][0] if owed else f"nothing on {message.topic}", message)
        elif self._broker.lost_us - self._taken_us[message] > _REMOVED_US:
            self._wrong(f"{dict(message.properties)} once, as it was acknowledged", "it again")

    def _wrong(self, due: object, observed: object) -> None:
        self._found(f"{self._name}: published once more: expected {due}, observed {observed}")
