"""What lies behind the servers of this process: outboxes and a broker."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bench.capture import Record
from bench.inspection.accounts import REFUSED
from bench.rig.in_memory.disk_outbox import NAMED, DiskOutbox, Took
from bench.rig.in_memory.mistakes import stumble
from bench.rig.interfaces import Wire
from bench.verdict.case import fault_fields
from bench.verdict.owner import Owner
from bench.virtual.mqtt_broker import MqttBroker
from lns.clock import now_us
from lns.delivery.publisher import ForApplication, MemoryUpstream, UpstreamUnavailable

_MOMENT_US = 1_000
_FEW = 8
"""So many may be brought by what is done about one of them."""
UP_TOPIC, STATUS_TOPIC = "/up", "/status"
"""How the topics of uplinks, and of what devices tell of themselves, end."""

# At least once (MQTT QoS 1): each message stays with the broker until its consumer has acknowledged
# it on the connection that brought it; the next connection brings it again.
Properties = Mapping[str, str]
Take = Callable[[str, bytes, Properties, int, Callable[[], None]], None]
"""Topic, payload, user properties, QoS, and how to acknowledge."""
PUBLISHED = ("upstream.published", "upstream.repeated", "upstream.injected")
"""The kinds of what a broker has had."""


def spelled(body: Mapping[str, object]) -> bytes:
    """The JSON of another producer: on several lines, and with octets that are no UTF-8, if any."""
    text = json.dumps(body, indent=1, ensure_ascii=False)
    return text.replace("\n", "\r\n").encode("utf-8", "surrogateescape")


class Witness:
    """Hears every message at the broker and writes which kind it is of; remembers all of them.

    `upstream.published`: a server's message. `upstream.repeated`: the same one, by its number in
    its topic, sent again. `upstream.injected`: none of a server's. `upstream.status`: what a device
    told of itself, which is no uplink.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self._published: set[tuple[object, ...]] = set()
        self.heard: dict[str, list[tuple[str, Mapping[str, object]]]] = {}
        """What it has heard of servers, by its id: topics and bodies."""

    def miss(self, reason: str) -> None:
        """Write down that the broker does not do as it ought to."""
        fields: dict[str, object] = {"owner": Owner.BROKER, "reason": reason}
        self._record("bench", "stimulus.missed", fields)

    def forget(self, lns: str) -> None:
        """A server numbers its messages from one again."""
        of_server = f"lorawan/{lns}/"
        self._published = {one for one in self._published if not str(one[0]).startswith(of_server)}

    def hear(
        self,
        topic: str,
        body: Mapping[str, object],
        properties: Properties,
        *,
        injected: bool = False,
    ) -> None:
        """Write down one message as the broker has it; `injected`: the bench has published it.

        With the id that its user properties give it, where its body has none.
        """
        kind = "upstream.injected" if injected else "upstream.published"
        if not injected:
            same = topic, body["messageId"], body["sequenceNumber"]
            kind = "upstream.repeated" if same in self._published else kind
            self._published.add(same)
            self.heard.setdefault(str(body["messageId"]), []).append((topic, body))
        if topic.endswith(STATUS_TOPIC):
            kind = "upstream.status"
        fields: dict[str, object] = {"topic": topic, "body": body}
        if "messageId" not in body and (named := properties.get("messageId")):
            fields["message_id"] = named
        self._record("upstream", kind, fields)


@dataclass(slots=True)
class _Kept:
    """One message that was not acknowledged, and when it was sent (µs)."""

    topic: str
    payload: bytes
    properties: Properties
    qos: int
    sent_us: int


@dataclass(slots=True)
class _Session:
    kept: dict[int, _Kept] = field(default_factory=dict)
    take: Take | None = None
    connection: int = 0
    loses_acks: bool = False
    brought: list[int] = field(default_factory=list)
    """What its consumer was brought on this connection."""


class MemoryBroker:
    """Brings each message to each consumer, in order; `is_up` False: it takes and brings nothing.

    A session begins with its name (`expect`) and has no end, so that nothing is missed.
    """

    def __init__(self, witness: Witness) -> None:
        self.is_up = True
        self.witness = witness
        self._sessions: dict[str, _Session] = {}
        self._numbers = 0
        self._handed: dict[int, tuple[int, tuple[str, bytes, Properties]]] = {}

    def expect(self, consumer: str) -> None:
        """Keep every message for a consumer from now on."""
        self._sessions[consumer] = _Session()

    def publish(
        self,
        topic: str,
        body: Mapping[str, object],
        properties: Properties | None = None,
        *,
        injected: bool = False,
        qos: int = 1,
    ) -> None:
        """Take one message, and bring it to whoever is connected; `injected`: of the bench.

        With `qos` 0 it is brought once, and kept for nobody.
        """
        assert self.is_up, "whoever publishes waits until it is"
        foreign = spelled(body) if injected else None
        read = body if foreign is None else json.loads(foreign.decode(errors="replace"))
        self.witness.hear(topic, read, properties or {}, injected=injected)
        if not self._sessions or topic.endswith(STATUS_TOPIC):
            return  # consumers ask for uplinks only
        payload = json.dumps(body).encode() if foreign is None else foreign
        self._numbers += 1
        number, handed = self._numbers, (topic, payload, properties or {})
        self._handed[id(payload)] = number, handed  # one object for as long as it is kept there
        for session in self._sessions.values():
            kept = _Kept(topic, payload, properties or {}, qos, now_us())
            session.kept[self._numbers] = kept
            self._bring(session, self._numbers)
            if not qos:
                session.kept.pop(self._numbers, None)
            if session.take is not None and number not in session.brought[-_FEW:]:
                self.miss(f"message {number}: expected brought at once, observed not")

    def connect(self, consumer: str, take: Take) -> None:
        """Bring a consumer what it has not acknowledged, and what comes."""
        session = self._sessions[consumer]
        session.connection += 1
        session.take, session.loses_acks = self._looked_at(session, take), False
        self._bring_all(session)

    def disconnect(self, consumer: str) -> None:
        session = self._sessions[consumer]
        session.connection += 1
        session.take = None

    def lose_acks(self, consumer: str) -> None:
        """Do not hear what a consumer acknowledges, until `redeliver`."""
        self._sessions[consumer].loses_acks = True

    def redeliver(self, consumer: str) -> None:
        session = self._sessions[consumer]
        session.connection += 1
        session.loses_acks = False
        self._bring_all(session)

    def stop(self) -> None:
        """Bring nothing until `start`, and hear no acknowledgement."""
        self.is_up = False
        for session in self._sessions.values():
            session.connection += 1

    def start(self) -> None:
        self.is_up = True
        for session in self._sessions.values():
            self._bring_all(session)

    def oldest_us(self, consumer: str) -> int | None:
        """When the oldest message was sent that a consumer has not acknowledged; None: none is."""
        return min((kept.sent_us for kept in self._sessions[consumer].kept.values()), default=None)

    def _looked_at(self, session: _Session, take: Take) -> Take:
        """What takes messages, and finds what is not as it was handed over, or comes again."""
        acknowledged: set[int] = set()

        def look(
            topic: str, payload: bytes, properties: Properties, qos: int, done: Callable[[], None]
        ) -> None:
            number, handed = self._handed.get(id(payload), (0, None))
            newest = session.brought[-1] if session.brought else 0
            if handed != (topic, payload, properties):
                self.miss("a message: expected as it was handed over, observed otherwise")
            elif number <= newest or number in acknowledged:
                self.miss(f"message {number}: expected behind {newest}, and once, observed again")
            session.brought.append(number)
            connection = session.connection

            def acknowledge() -> None:
                if session.connection == connection and not session.loses_acks:
                    acknowledged.add(number)
                done()

            take(topic, payload, properties, qos, acknowledge)

        return look

    def miss(self, reason: str) -> None:
        """Write down that it does not do as it ought to."""
        self.witness.miss(f"the broker in memory: {reason}")

    def _bring_all(self, session: _Session) -> None:
        session.brought.clear()
        for number in list(session.kept):
            self._bring(session, number)

    def _bring(self, session: _Session, number: int) -> None:
        if session.take is None or not self.is_up:
            return
        connection, kept = session.connection, session.kept[number]

        def acknowledge() -> None:
            if session.connection == connection and not session.loses_acks:
                session.kept.pop(number, None)

        session.take(kept.topic, kept.payload, kept.properties, kept.qos, acknowledge)


_Body = dict[str, object]
_Published = tuple[str, _Body]


class Outboxes:
    """The outboxes of all servers: take messages durably and bring them to the broker.

    Numbers the messages of each topic from 1. `refuse` and `delay` force an outbox that cannot be
    written, or is slow; both act on the next `messages` messages of a server, or of any (None).
    With `on_disk` each server has the real one, in a file of its own, and a wire to the broker.
    """

    def __init__(
        self,
        record: Record,
        broker: MemoryBroker | None = None,
        on_disk: Callable[[str, Took], DiskOutbox] | None = None,
    ) -> None:
        self._record = record
        self._on_disk = on_disk
        self._disks: dict[str, DiskOutbox] = {}
        self._broker = broker or MemoryBroker(Witness(record))
        self._upstreams: dict[str, MemoryUpstream] = {}
        self._refusals: list[str | None] = []
        self._full: set[str] = set()
        self._delays_us: list[tuple[str | None, int]] = []
        self._away: dict[str, str] = {}
        self._kept: list[_Published] = []
        self._mistakes: list[str] = []

    @property
    def are_on_disk(self) -> bool:
        return self._on_disk is not None

    def refuse(self, messages: int = 1, lns: str | None = None) -> None:
        self._refusals += [lns] * messages
        self.note("refuse", messages=messages, **_of(lns))

    def delay(self, us: int, messages: int = 1, lns: str | None = None) -> None:
        """Take each of the next messages only after `us`."""
        self._delays_us += [(lns, us)] * messages
        self.note("delay", us=us, messages=messages, **_of(lns))

    def fill_disk(self, lns: str, breaks_after: int = 0) -> None:
        """Take nothing of a server, until `free_disk`.

        With `breaks_after` take so many messages more, and neither take nor give anything then.
        """
        if breaks_after:
            self.disk(lns).breaks_after = breaks_after
        elif self.are_on_disk:
            self.disk(lns).fill()
        else:
            self._full.add(lns)
        later: dict[str, int | str] = {"breaks_after": breaks_after} if breaks_after else {}
        self.note("disk full", "fault.begin", lns=lns, **later)

    def stumble(self, lns: str) -> None:
        """Let a server make a mistake over its next message."""
        self._mistakes.append(lns)

    def step_wall_clock(self, lns: str, us: int) -> None:
        """Set the wall clock that an outbox looks at forward or back."""
        if self.are_on_disk:
            self.disk(lns).step_wall_clock(us)

    def free_disk(self, lns: str) -> None:
        if self.are_on_disk:
            self.disk(lns).free()
        self._full.discard(lns)
        self.note("disk full", "fault.end", lns=lns)

    def refuse_at_broker(self, lns: str, messages: int, dev_eui: str) -> None:
        """Let the broker refuse the next messages of a server, or those of one device."""
        if dev_eui:
            self.disk(lns).broker.refusals_on[f"lorawan/{lns}/{dev_eui}/up"] += messages
            self.note("not authorized", lns=lns, messages=messages, dev_eui=dev_eui)
        else:
            self.disk(lns).broker.refusals += messages
            self.note("quota exceeded", lns=lns, messages=messages)

    def take_away(self, lns: str, fault: str) -> None:
        """Let the messages of a server not reach the broker, or nothing come back (`swallow`)."""
        self._away[lns] = fault
        self.note(fault, lns=lns)

    def bring_back(self, lns: str) -> None:
        self._away.pop(lns, None)
        if lns in self._disks:
            self._listen(lns)
        self._send_again()

    def _send_again(self) -> None:
        """Publish what was not acknowledged, as far as the broker can be reached."""
        kept, self._kept = self._kept, []
        for topic, body in kept:
            if body["lns"] in self._away:
                self._kept.append((topic, body))
            else:
                self._send(topic, body)

    def wipe(self, lns: str) -> None:
        self._kept = [(topic, body) for topic, body in self._kept if body["lns"] != lns]
        self._upstreams.pop(lns, None)
        if lns in self._disks:
            self._disks[lns].wipe()
        self._broker.witness.forget(lns)
        self.note("wipe", lns=lns)

    def disk(self, lns: str) -> DiskOutbox:
        """The outbox of one server in its file; RuntimeError where there is none."""
        if self._on_disk is None:
            raise RuntimeError(
                "this case has no outbox on a disk: mark the scenario with"
                ' @pytest.mark.fault("broker", …)'
            )
        if lns not in self._disks:
            self._disks[lns] = self._on_disk(lns, self._broker.publish)
            self._disks[lns].broker.missed = self._broker.miss
        return self._disks[lns]

    async def open(self, lns: str) -> None:
        """A server starts."""
        if self.are_on_disk:
            disk = self.disk(lns)
            self._listen(lns)
            await disk.open()

    def _listen(self, lns: str) -> None:
        if self._broker.is_up and self._away.get(lns) != "cut":
            self._disks[lns].broker.listen()

    async def kill(self, lns: str) -> None:
        """Whoever hands over for a server is gone; its outbox goes with it."""
        if lns in self._disks:
            await self._disks[lns].kill()
            if len(self._disks) == 1:  # whoever else is there may be tried again
                self._disks[lns].look_at_loop("lns.delivery.outbox")

    def stop_broker(self) -> None:
        """Nobody can connect."""
        self._broker.stop()
        for disk in self._disks.values():
            disk.broker.stop()

    def start_broker(self) -> None:
        self._broker.start()
        for lns in self._disks:
            self._listen(lns)
        self._send_again()

    async def end(self) -> None:
        """The case is over, and nobody runs any more."""
        for disk in self._disks.values():
            await disk.end()
        for disk in [*self._disks.values()][:1]:
            disk.look_at_loop()

    async def publish(self, message: ForApplication) -> None:
        """Take one message; UpstreamUnavailable where a scenario wants it so."""
        if message.lns in self._mistakes:
            stumble(self._mistakes, message.lns)
        delay = next((one for one in self._delays_us if one[0] in (None, message.lns)), None)
        if delay is not None:
            self._delays_us.remove(delay)
            await asyncio.sleep(delay[1] / 1_000_000)
            if self.are_on_disk:
                self._disks[message.lns].hold(message.message_id)
        refusal = next((n for n, of in enumerate(self._refusals) if of in (None, message.lns)), -1)
        if refusal >= 0 or message.lns in self._full:
            cause = REFUSED if refusal >= 0 else "the disk is full"
            del self._refusals[max(refusal, 0) : refusal + 1]
            fields: dict[str, object] = {"topic": message.topic, "cause": cause}
            fields["message_id"] = message.message_id
            self._record("upstream", "upstream.failed", fields)
            raise UpstreamUnavailable(cause)
        if self.are_on_disk:
            return await self._disks[message.lns].publish(message)
        if message.lns not in self._upstreams:
            self._upstreams[message.lns] = MemoryUpstream(messages_max=1)
        upstream = self._upstreams[message.lns]
        await upstream.publish(message)
        [(number, taken)] = upstream.numbered
        self._send(taken.topic, taken.body(number))

    def _send(self, topic: str, body: _Body) -> None:
        away = self._away.get(str(body["lns"]))
        if away is not None or not self._broker.is_up:
            self._kept.append((topic, body))
        if self._broker.is_up and away != "hold":
            self._broker.publish(topic, body, {name: str(body[name]) for name in NAMED})

    def may_refuse(self, lns: str, cause: str) -> bool:
        """Whether a server can be told this; how often its application refuses is counted."""
        return cause == REFUSED or lns in self._full

    @property
    def longest_wait_us(self) -> int:
        """For how long it was told to let a message wait, at most."""
        return max((us for _, us in self._delays_us), default=0)

    def heard(self, message: ForApplication) -> Sequence[tuple[str, Mapping[str, object]]]:
        """What the broker has heard of a message: on which topics, with which bodies."""
        return self._broker.witness.heard.get(message.message_id, ())

    def look(self, message: ForApplication, before: int) -> None:
        """The broker has heard it once more, as its server has numbered it, if it is there."""
        new, reached = self.heard(message)[before:], self._away.get(message.lns) != "hold"
        [(number, taken)] = self._upstreams[message.lns].numbered
        due = [(taken.topic, taken.body(number))] if self._broker.is_up and reached else []
        if [*new] != due and taken is message:
            seen = f"{len(new)} times" if len(new) != len(due) else "another topic, or number"
            self.miss(Owner.BROKER, message, f"heard {len(due)} times, as it was handed over", seen)

    def miss(self, owner: Owner, message: ForApplication, due: str, seen: object) -> None:
        """Tell who else is why a message does not come where its server has handed it over to."""
        reason = f"{message.message_id}: expected {due}, observed {seen}"
        self._record("bench", "stimulus.missed", {"owner": owner, "reason": reason})

    def note(self, fault: str, kind: str = "fault.begin", **detail: int | str) -> None:
        self._record("bench", kind, fault_fields("upstream", fault, detail))


@dataclass(frozen=True, slots=True)
class Watched:
    """What network servers hand over, and whether it comes where it is to be."""

    outboxes: Outboxes

    async def publish(self, message: ForApplication) -> None:
        outboxes, began_us = self.outboxes, now_us()
        if outboxes.are_on_disk:
            return await outboxes.publish(message)
        wait_us = outboxes.longest_wait_us
        before = len(outboxes.heard(message))
        try:
            await outboxes.publish(message)
            outboxes.look(message, before)
        except UpstreamUnavailable as unavailable:
            if not outboxes.may_refuse(message.lns, str(unavailable)):
                outboxes.miss(Owner.APPLICATION, message, "taken", unavailable)
            raise
        finally:
            waited_us = now_us() - began_us
            if waited_us > wait_us + _MOMENT_US:
                due = f"taken or refused after {wait_us} us"
                outboxes.miss(Owner.APPLICATION, message, due, f"{waited_us} us")


def _of(lns: str | None) -> dict[str, str]:
    return {} if lns is None else {"lns": lns}


class OutboxWire(Wire):
    """The wire of one server; only a real outbox has one that can be cut or made slow."""

    def __init__(self, outboxes: Outboxes, lns: str) -> None:
        self._outboxes = outboxes
        self._lns = lns

    @property
    def _broker(self) -> MqttBroker:
        return self._outboxes.disk(self._lns).broker

    def lose_answers(self) -> None:
        if self._outboxes.are_on_disk:
            self._broker.be_mute()
        self._outboxes.take_away(self._lns, "swallow")

    def hold(self) -> None:
        if self._outboxes.are_on_disk:
            self._broker.be_deaf()
        self._outboxes.take_away(self._lns, "hold")

    def refuse(self, logins: int) -> None:
        self._broker.login_refusals += logins
        self._outboxes.note("login refused", lns=self._lns, logins=logins)

    def cut(self) -> None:
        self._broker.go()
        self._outboxes.take_away(self._lns, "cut")

    def delay(self, us: int) -> None:
        self._broker.puback_us = us
        self._outboxes.note("late", lns=self._lns, us=us)

    async def restore(self) -> None:
        if self._outboxes.are_on_disk:
            self._broker.be_well()
        self._outboxes.bring_back(self._lns)
