"""What is one server's way to the broker, with the real outbox in a file and the real sender?"""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from sqlite3 import Connection, connect

from paho.mqtt import client as paho

from bench.chance import stream
from bench.clock import awaited_in, is_disk_slow
from bench.host.lns_process import alive
from bench.inspection.message import PUT_ASIDE_US
from bench.inspection.statement import Overtaking
from bench.rig.case_setup import LNS, CaseSetup
from bench.rig.in_memory.promises import broken_turns, ill_refused
from bench.rig.in_memory.written_files import (
    age,
    all_of,
    facts_of,
    how_many_wait,
    is_held,
    listed,
    new_folder,
    parts,
    refused,
    remove,
    seize,
    spare,
)
from bench.verdict.owner import Found
from bench.virtual.mqtt_broker import Client, MqttBroker
from bench.virtual.mqtt_packets import Login, Published
from lns.clock import now_us
from lns.config import UpstreamSection
from lns.delivery.mqtt_sender import MqttUpstream
from lns.delivery.mqtt_session import broker
from lns.delivery.outbox import Outbox, state_of
from lns.delivery.publisher import ForApplication, UpstreamUnavailable
from lns.events import Acknowledged, Parked, as_fields
from lns.startup import mqtt_upstream

NAMED = "messageId", "removeDuplicatesKey", "partitionKey", "sequenceNumber"
"""What of the body of a server's message stands in its user properties as well."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_USER, _PASSWORD = "network server", "a:b/c%41"
_URL = "mqtt://network%20server:a%3Ab%2Fc%2541@broker"
_KEEP_ALIVE_S, _PACKET_BYTES_MAX, _WAIT_US, _WAIT_MAX_US = 30, 65_536, 500_000, 30_000_000
_SENT_WITHIN_US, _DRAIN_US = 100_000, 1_000_000
_WAITS_MIN = 3  # by chance they are hardly alike
_TELL_US, _DECIDED_US = 10_000_000, 9_000_000
_REMOVED_US = 1_500_000  # a disk that took nothing is asked again after a second
RETRY_S = 86_400
Body = dict[str, object]
Took = Callable[[str, Body, Mapping[str, str]], None]


def _now_s() -> float:
    """What paho reads its keep alive from: the clock of the loop that runs, or that of a thread."""
    try:
        return now_us() / 1_000_000
    except RuntimeError:
        return time.monotonic()


paho.time_func = _now_s


class _Killed(Exception):
    """The server is gone; nothing is on its way any more."""


class DiskOutbox:
    """One server's outbox, which outlives it, and the end of the wire at which the broker is.

    `took` is told every uplink and status that the broker has taken. Finds what is wrong with how
    messages come: what their properties say, and what the server says of all that is to come.
    """

    def __init__(self, setup: CaseSetup, utc_us: Callable[[], int], lns: str, took: Took) -> None:
        self.lns = lns
        self._own_topic = f"lorawan/{lns}/min_msg_time"
        self._folder = new_folder("outbox")
        self.broker = MqttBroker(self._folder / "broker", self._take, self._wrong)
        self.broker.refused, self.broker.crowded = self._refuse, self._crowd
        self.broker.greeted, self.broker.left_by = self._greet, self._lose
        self.broker.turned_away = self._turn_away
        # One names itself to the broker by its id, and others as somebody wants it.
        self._client_id = lns if lns == LNS else f"{lns} at the broker"
        self.upstream = {"keep_s": 0}
        """The keys of its `[upstream]` that have another value than usual."""
        self.breaks_after: int | None = None
        self._setup = setup
        self._file = self._folder / "outbox"
        self._took = took
        self._clock_us = utc_us
        self._stepped_us = self._latest_us = self._starts = self._waiting = 0
        # Of what waits, by its id: since when, and since when here.
        self._since: dict[str, tuple[datetime, int]] = {}
        self._topics: dict[str, str] = {}
        self._sent, self._troubled = set[str](), set[str]()  # topics: on its way, was refused
        self._answered_us: dict[str, int] = {}
        self._put_aside: dict[str, int] = {}
        self._freed_us = self._opened_us = 0
        self._client: Client | None = None
        self._came_us = 0
        self._lost_us: int | None = None
        self._in_vain, self._was_useful, self._useful_us = 0, False, -1
        self._waits: list[tuple[int, int]] = []  # in vain; waited for, and at most
        self._known, self._parked, self._held = set[str](), set[str](), set[str]()
        self._released: dict[str, datetime] = {}
        self._oldest: datetime | None = None
        self._told_us, self._overtaking = 0, Overtaking()
        self._gone_us: dict[tuple[object, object], int] = {}
        self._refused: dict[str, tuple[int, int]] = {}  # how often in a row, and when last
        self._connections = 0
        self._newest: dict[str, int] = {}
        self._full: Connection | None = None
        self._wrong(*ill_refused(), *broken_turns())
        self._upstream: MqttUpstream | None = None
        self._running: asyncio.Task[None] | None = None
        self._ended: asyncio.Future[None] | None = None

    async def open(self) -> None:
        """Start what the server starts with."""
        self._starts += 1
        self._opened_us = now_us()
        self._client, self._lost_us, self._in_vain = None, None, 0
        if self._file.exists():  # what it had acknowledged may not be removed yet
            self._waiting = state_of(self._file).waiting
            if self._full is None and self.breaks_after is None:
                self._wrong(*age(self._file, version=(self._starts + 1) % 3))
        chance = stream(self._setup.seed, self.lns, "broker", str(self._starts))
        name = None if self._client_id == self.lns else self._client_id
        section = UpstreamSection.model_validate({"url": _URL, "client_id": name, **self.upstream})
        there = replace(broker(_URL), host=str(self.broker.path))
        way = mqtt_upstream(self.lns, section, there, self._file, self._tell, chance, self._utc_us)
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ended = asyncio.get_running_loop().create_future()
        self._running = self._setup.tasks.create_task(self._run(way, begun, self._ended))
        await begun

    async def kill(self) -> None:
        """End it at once: nobody waits for what is on its way, and nothing more is written."""
        self._look_at_connections()
        self._look_at_state()
        if self._ended is not None and not self._ended.done():
            with closing(connect(self._file, timeout=0, isolation_level=None)) as held:
                while self._full is None and not is_held(held):  # noqa: ASYNC110
                    await asyncio.sleep(0.001 if is_disk_slow(now_us()) else 0)  # a commit goes on
                self._look_at_connections()  # it was served until now
                self._ended.set_exception(_Killed())
                await self._until_over()
            await self._look_at_parts()
        self._refused.clear()
        # What was removed just before is not sure, and nothing is of a disk that took nothing.
        kept_us = self._keep_us + _REMOVED_US
        sure_us = 0 if self._full or self.breaks_after == 0 else now_us() - kept_us
        self._gone_us = {what: us for what, us in self._gone_us.items() if us < sure_us}

    async def end(self) -> None:
        """End it as a server does that is stopped."""
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)
        due_us = self._due_at_once_us
        self._look_at_silence()
        self._look_at_connections()
        self._look_at_rest()
        self._look_at_state()
        curt, asked_us = self.broker.without_a_word, now_us()
        await self._until_over()
        if now_us() > asked_us + _DRAIN_US + _SENT_WITHIN_US and not is_disk_slow():
            late_us = now_us() - asked_us
            self._wrong(f"in the end: expected within {_DRAIN_US} us, observed {late_us}")
        if due_us is not None and (self._waiting or now_us() > due_us + _SENT_WITHIN_US):
            due = "0 messages wait when the last is acknowledged"
            seen = f"{self._waiting}, and that it has ended {now_us() - due_us} us after that"
            self._wrong(f"in the end: expected {due}, observed {seen}")
        if self.broker.without_a_word > curt:
            self._wrong("in the end: expected a goodbye to the broker, observed none")
        self._look_at_file()
        await self._look_at_parts()
        self._look_at_chance()
        self.broker.go()
        self._wrong(*(text for text in remove(self._folder) if self._full is None))

    def look_at_loop(self, room: str = "lns.delivery") -> None:
        """Whoever has ended, server or consumer, is called no more, whatever comes."""
        for name in awaited_in(room):
            self._wrong(f"in the end: expected nobody to be called, observed {name}")

    async def publish(self, message: ForApplication) -> None:
        """Take one message; UpstreamUnavailable."""
        upstream = self._upstream
        if upstream is None:
            raise UpstreamUnavailable("the server does not run")
        self._waiting += 1
        since_us, is_slow = now_us(), is_disk_slow()
        try:
            await upstream.publish(message)
        except UpstreamUnavailable as unavailable:
            self._waiting -= 1
            away = None if upstream.connected else self.broker.path
            self._wrong(*refused(self._file, str(unavailable), self.upstream, away))
            raise
        finally:
            if now_us() - since_us > _DECIDED_US and not is_slow:
                self._wrong(f"{message.message_id}: expected taken or refused, observed neither")
        self._since[message.message_id] = message.received_at, now_us()
        self._topics[message.message_id] = message.topic
        if self.breaks_after:
            self.breaks_after -= 1
            if self.breaks_after == 0:
                self._rename("message", "away")

    def hold(self, message_id: str) -> None:
        """A scenario has held a message up: its server said meanwhile how far it is, without it."""
        self._known.add(message_id)
        self._held.add(message_id)
        self._oldest = None

    async def release(self) -> None:
        """Let what is put aside be sent after all; the server must not run."""
        self.upstream.pop("retry_max_s", None)
        self._parked = set()
        at_us = self._utc_us()
        at = _EPOCH + timedelta(microseconds=at_us)
        before = state_of(self._file)
        for one in before.parked:
            self._released[one.message_id], self._since[one.message_id] = at, (at, now_us())
        with closing(Outbox(self._file)) as outbox:
            count = await outbox.release(at_us)
            seen = count, outbox.waiting, outbox.parked
            again = await outbox.release(at_us), outbox.waiting, outbox.parked
        due = len(before.parked), before.waiting + len(before.parked), 0
        if left := [one.message_id for one in state_of(self._file).parked]:
            self._wrong(f"put aside: expected nothing when all is released, observed {left}")
        if (seen, again) != (due, (0, *due[1:])):
            self._wrong(
                f"released, waiting, put aside: expected {all_of(due)}, observed {all_of(seen)},"
                f" and once more {all_of(again)}"
            )
        self._look_at_state()

    def fill(self) -> None:
        """Let nothing more be written, until `free`."""
        self._full = seize(self._file)

    def free(self) -> None:
        """Let everything be written and read again."""
        if self._full is not None:
            self._full.close()
            self._full = None
        self._freed_us = now_us()
        self._gone_us = dict.fromkeys(self._gone_us, now_us())
        if self.breaks_after == 0:
            self._rename("away", "message")
            self._told_us = now_us()  # a server knows nothing of what it cannot read
        self.breaks_after = None

    def step_wall_clock(self, us: int) -> None:
        """Set the server's wall clock forward or back: what it has said was by another one."""
        self._latest_us = max(self._latest_us, self._utc_us())
        self._stepped_us += us
        self._oldest = None

    @property
    def _keep_us(self) -> int:
        return self.upstream["keep_s"] * 1_000_000

    def _utc_us(self) -> int:
        return self._clock_us() + self._stepped_us

    def _rename(self, name: str, other: str) -> None:
        with closing(connect(self._file, isolation_level=None)) as db:
            db.execute(f"ALTER TABLE {name} RENAME TO {other}")

    def wipe(self) -> None:
        """Forget everything; the server must not run."""
        self._known, self._parked, self._gone_us = set(), set(), {}
        self._put_aside.clear()
        self._since.clear()
        self._waiting = 0
        for file in self._folder.glob("outbox*"):
            file.unlink()

    async def _run(
        self, upstream: MqttUpstream, begun: "asyncio.Future[None]", ended: "asyncio.Future[None]"
    ) -> None:
        with alive(self.lns), how_many_wait(self.broker.path, self._look_at_count):
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
        since, since_us = self._since.pop(event.message_id, (None, 0))
        self._answered_us[event.topic] = now_us()
        self._sent.discard(event.topic)
        # Those that are put aside together are told with how many wait in the end.
        due, seen = self._waiting, event.waiting
        if seen > due or (seen < due and isinstance(event, Acknowledged)):
            self._wrong(f"{event.message_id}: expected {due}, observed {seen} messages wait")
        if isinstance(event, Acknowledged):
            self._gone_us[event.topic, event.sequence_number] = now_us()
            self._was_useful = True
        if isinstance(event, Parked):
            self._look_at_age(event.message_id, since, since_us)
            if event.message_id in self._parked:
                self._wrong(f"{event.message_id} was put aside before")
            self._parked.add(event.message_id)
            if event.sequence_number <= (before := self._put_aside.get(event.topic, 0)):
                self._wrong(f"{event.message_id}: put aside behind {before} of its topic")
            self._put_aside[event.topic] = event.sequence_number
            if all(self._topics[one] != event.topic for one in self._since):
                self._refused.pop(event.topic, None)

    def _greet(self, client: Client) -> None:
        """It begins anew each time: what is not acknowledged it has itself."""
        if self._upstream is not None and self._upstream.connected:
            self._wrong("connected: expected not before the broker has said so, observed before")
        due = Login(
            self._client_id, True, _KEEP_ALIVE_S, packet_bytes_max=_PACKET_BYTES_MAX,
            user=_USER, password=_PASSWORD,
        )  # fmt: skip
        if client.login != due:
            self._wrong(f"expected {due}, observed {client.login}")
        least_us = min(_WAIT_US << max(0, self._in_vain - 1), _WAIT_MAX_US) // 2
        if self._lost_us is not None and self.broker.deaf_us < self._came_us:
            waited_us = now_us() - self._lost_us
            self._waits.append((waited_us, 2 * least_us))
            is_late = waited_us > 2 * least_us + _SENT_WITHIN_US and not is_disk_slow(self._lost_us)
            is_late = is_late and self.broker.listens_us <= self._useful_us  # all were heard
            if waited_us < least_us or (is_late and self.broker.open_us <= self._lost_us):
                self._wrong(
                    f"after {self._in_vain} connections in vain: expected {least_us} to"
                    f" {2 * least_us} us until the next, observed {waited_us}"
                )
        self._client, self._came_us, self._was_useful = client, now_us(), False

    def _turn_away(self, client: Client) -> None:
        """A login that is refused has come in its time, where the broker was there all the time."""
        if self.broker.listens_us <= self._useful_us:
            self._greet(client)

    def _lose(self, client: Client) -> None:
        """One that took messages, or was there for long, was not in vain: the waits begin anew."""
        if client is not self._client:
            return  # of a server that was killed
        was_useful = self._was_useful or now_us() - self._came_us > _WAIT_MAX_US
        self._in_vain = 1 if was_useful else self._in_vain + 1
        self._useful_us = now_us() if was_useful else self._useful_us
        self._lost_us = now_us()

    def _take(self, message: Published) -> None:
        try:
            body = json.loads(message.payload)
        except ValueError:
            return self._wrong(f"what is on {message.topic} is no JSON")
        if message.retain:
            return self._take_statement(message.topic, body)
        due = {name: str(body.get(name)) for name in NAMED}
        if message.properties != tuple(due.items()):
            seen = facts_of(dict(message.properties))
            self._wrong(f"user properties: expected {facts_of(due)}, observed {seen}")
        self._look_at_order(message.topic, body.get("sequenceNumber"))
        self._look_at_wait(message.topic)
        message_id = str(body.get("messageId"))
        self._look_at_haste(message.topic, message_id)
        self._look_at_turn(message.topic, message_id)
        self._refused.pop(message.topic, None)
        if (message.topic, body.get("sequenceNumber")) in self._gone_us:
            self._wrong(f"{body.get('messageId')} was acknowledged, and is sent again")
        self._look_at_time(body)
        due_us = max(self._came_us, self._told_us) + _TELL_US
        if self._overtaking.is_wrong(now_us(), due_us) and not is_disk_slow(due_us):
            self._wrong(f"statement: due at {due_us} us, {message_id} goes before it")
        self._took(message.topic, body, dict(message.properties))

    def _look_at_order(self, topic: str, number: object) -> None:
        """On one connection a message never goes out behind a later one of its topic."""
        if self._connections != self.broker.connections:
            self._connections = self.broker.connections
            self._newest.clear()
            self._sent.clear()
            self._take_back()
        newest = self._newest.setdefault(topic, 0)
        if isinstance(number, int):
            if number <= newest:
                due = f"expected more than {newest}, observed {number}"
                self._wrong(f"{topic}: sequenceNumber: {due}")
            self._newest[topic] = number

    def _take_back(self) -> None:
        """What was acknowledged just before the connection was lost goes out again."""
        since_us = self.broker.lost_us - self._keep_us
        again = [what for what, us in self._gone_us.items() if self._keep_us and us > since_us]
        for what in again:
            del self._gone_us[what]
        self._waiting += len(again)

    def _look_at_haste(self, topic: str, message_id: str) -> None:
        """What may be sent is sent at once: the broker is there, and has room for its topic."""
        well_us, (_, since_us) = self.broker.well_since_us, self._since.get(message_id, (0, None))
        if well_us is None or since_us is None or topic in self._troubled or self._is_stuck:
            return
        since_us = max(since_us, well_us, self.broker.full_us, self._answered_us.get(topic, 0))
        waited_us = now_us() - max(since_us, self._freed_us + _REMOVED_US)
        is_late = waited_us > _SENT_WITHIN_US and not is_disk_slow(since_us)
        if message_id not in self._known and is_late:
            self._wrong(f"{message_id} may be sent, and waits for {waited_us} us")

    def _look_at_turn(self, topic: str, message_id: str) -> None:
        """Of several topics that may send, the one goes whose message has waited longest."""
        came_us = max(self._came_us, self._freed_us + _REMOVED_US)
        busy = self._sent | self._troubled | {topic}
        for other_id, (since, since_us) in self._since.items():
            if other_id == message_id:
                break
            other = self._topics[other_id]
            # Of two that are acknowledged at one moment nobody knows which came first.
            free_us = max(came_us, since_us, self._answered_us.get(other, 0) + 1)
            is_over = self._waited_us(since) > self._retry_us
            if other not in busy and free_us <= now_us() and not is_over:
                self._wrong(f"{other_id} may be sent before {message_id}")
        self._sent.add(topic)

    @property
    def _due_at_once_us(self) -> int | None:
        """When the only message that waits is acknowledged, if that is while its server ends."""
        if self.broker.well_since_us is None or self._is_stuck or len(self._since) != 1:
            return None
        [(_, since_us)] = self._since.values()
        due_us = max(since_us, self._came_us) + self.broker.puback_us
        return due_us if now_us() < due_us < now_us() + _DRAIN_US else None

    @property
    def _is_stuck(self) -> bool:
        return self._full is not None or self.breaks_after == 0

    @property
    def _is_unread(self) -> bool:
        return self._is_stuck or not self._file.exists()

    def _look_at_chance(self) -> None:
        """Half of each wait is chance, so that not all servers come at once."""
        shares = {1000 * waited_us // most_us for waited_us, most_us in self._waits}
        if len(self._waits) >= _WAITS_MIN and len(shares) == 1:
            self._wrong(f"waits: expected half of each is chance, observed {self._waits}")

    def _look_at_file(self) -> None:
        """What the broker has had for long enough is in the file no more, and the rest is."""
        if not self._is_unread:
            least, most = (
                self._waiting + sum(us > now_us() - kept_us for us in self._gone_us.values())
                for kept_us in (self._keep_us, self._keep_us and self._keep_us + _REMOVED_US)
            )
            if not least <= (seen := state_of(self._file).waiting) <= most:
                due = least if least == most else f"{least} to {most}"
                self._wrong(f"in the file in the end: expected {due}, observed {seen}")
            self._wrong(*spare(self._file))

    async def _look_at_parts(self) -> None:
        self._wrong(*[] if self._is_unread else await parts(self._file))

    def _look_at_state(self) -> None:
        self._wrong(*[] if self._is_unread else listed(self._file, list(self._since)))

    def _look_at_age(self, message_id: str, since: datetime | None, since_us: int) -> None:
        """What is put aside has waited for longer than it may, by its server's clock at some time.

        And not for much longer, unless something has kept its server from that, or set its clock.
        """
        if since is None:
            return
        retry_us, waited_us = self._retry_us, self._waited_us(since)
        _, refused_us = self._refused.get(self._topics[message_id], (0, 0))
        free_us = max(self._opened_us, self._freed_us, self.broker.lost_us, refused_us, since_us)
        is_late = min(waited_us - retry_us, now_us() - free_us) > PUT_ASIDE_US
        if waited_us <= retry_us or (is_late and not self._stepped_us and not is_disk_slow()):
            self._wrong(
                f"{message_id}: expected put aside after {retry_us} us, or {PUT_ASIDE_US} more,"
                f" observed {waited_us}"
            )

    def _waited_us(self, since: datetime) -> int:
        since_us = (since - _EPOCH) // timedelta(milliseconds=1) * 1_000
        return max(self._latest_us, self._utc_us()) - since_us

    @property
    def _retry_us(self) -> int:
        return self.upstream.get("retry_max_s", RETRY_S) * 1_000_000

    def _refuse(self, topic: str) -> None:
        if topic == self._own_topic:  # a later statement says more than this one again
            return self._look_at_silence()
        self._troubled.add(topic)
        self._look_at_wait(topic)
        in_a_row, _ = self._refused.get(topic, (0, 0))
        self._refused[topic] = in_a_row + 1, now_us() + self.broker.puback_us

    def _crowd(self, topic: str) -> None:
        """Of a topic one message is on its way at a time: the broker may refuse it."""
        if topic != self._own_topic:
            self._wrong(f"{topic}: expected one message on its way, observed more")

    def _look_at_wait(self, topic: str) -> None:
        """What was refused is tried again after a wait that doubles, half of which is chance."""
        in_a_row, since_us = self._refused.get(topic, (0, 0))
        if not in_a_row:
            return
        most_us = min(_WAIT_US << in_a_row - 1, _WAIT_MAX_US)
        served_us, waited_us = self.broker.well_since_us, now_us() - since_us
        is_late = now_us() > max(since_us + most_us, self.broker.full_us) + _SENT_WITHIN_US
        is_late &= served_us is not None and served_us <= since_us
        of_topic = [since for one, (since, _) in self._since.items() if self._topics[one] == topic]
        is_late &= all(self._waited_us(since) <= self._retry_us for since in of_topic)
        if is_late or waited_us < most_us // 2:
            due = f"expected {most_us // 2} to {most_us} us until it is tried again"
            self._wrong(f"{topic}: after {in_a_row} refusals: {due}, observed {waited_us}")

    def _look_at_time(self, body: Body) -> None:
        """Nothing is new that is older than what the server has said of itself.

        What was put aside is as old as its release.
        """
        message_id = str(body["messageId"])
        since = datetime.fromisoformat(str(self._released.get(message_id, body["receivedAt"])))
        if message_id not in self._known and self._oldest is not None and since < self._oldest:
            said = f"all of before {self._oldest} was said to be with the broker"
            self._wrong(f"{message_id} waited since {since}, and {said}")
        self._known.add(message_id)

    def _take_statement(self, topic: str, body: Body) -> None:
        self._look_at_silence()
        due = self._own_topic, self.lns, self.upstream.get("retry_max_s", RETRY_S)
        said = topic, body.get("lns"), body.get("retryMaxS")
        if said != due:
            self._wrong(f"statement: expected {all_of(due)}, observed {all_of(said)}")
        at = datetime.fromisoformat(str(body.get("minMsgTime")))
        now = _EPOCH + timedelta(microseconds=self._utc_us())
        if at > now or (self._oldest is not None and at < self._oldest):
            self._wrong(f"min_msg_time: {at} at {now}, after {self._oldest}")
        self._oldest = at
        for message_id, (since, _) in self._since.items():
            if since < at and message_id not in self._held:
                self._wrong(f"min_msg_time: {at}, and {message_id} waits since {since}")

    def _look_at_silence(self) -> None:
        """How far its messages have come is told at once, and again while the broker is there."""
        since_us = self.broker.well_since_us
        if since_us is not None:
            silent_us = now_us() - max(since_us, self._told_us, self.broker.full_us)
            is_first = self._told_us < since_us and not self._is_stuck
            most_us = _SENT_WITHIN_US if is_first else _TELL_US
            if silent_us > most_us and not is_disk_slow(now_us() - silent_us):
                since = ", since it is connected" if is_first else ""
                every = f"expected every {_TELL_US} us, none for {silent_us} us"
                self._wrong(f"statement: {every}{since}")
        self._told_us = now_us()

    def _look_at_rest(self) -> None:
        """A broker that is there for long has taken all that waits, but for what it refuses."""
        since_us = self.broker.well_since_us
        is_stuck = self._is_stuck or self._refused
        if since_us is not None and now_us() - since_us > _WAIT_MAX_US and not is_stuck:
            if self._waiting:
                self._wrong(f"in the end: expected 0, observed {self._waiting} messages wait")

    def _look_at_count(self, line: str, seen: int) -> None:
        """A person is told how many wait; of those that may go out again nobody knows yet."""
        again = sum(us > self.broker.lost_us - self._keep_us for us in self._gone_us.values())
        if not 0 <= seen - self._waiting <= (again if self._keep_us else 0):
            self._wrong(f"{line}: expected {self._waiting}, observed {seen}")

    def _look_at_connections(self) -> None:
        """A server that runs stays with a broker that serves it; this one is about to end."""
        deserted = self.broker.let_go()
        if deserted:
            self._wrong(f"a broker that serves it: expected 0 times left, {deserted}")

    def _wrong(self, *texts: str) -> None:
        for text in texts:
            self._setup.case.find(Found(rule="outbox", text=f"{self.lns}: {text}", t_us=now_us()))
