"""What does a broker say to a client, octet by octet (MQTT 5.0)?

A part of one: it takes messages of QoS 1 and acknowledges each, brings what clients ask for, and
keeps what is retained. What is against the specification it tells, and ends the connection.
"""

import asyncio
import os
import select
import socket
import ssl
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from math import inf
from pathlib import Path

from bench.clock import virtual_loop
from bench.sockets import LOCALHOST
from bench.tls_line import TlsLine, TlsListener
from bench.virtual.mqtt_packets import (
    USER_PROPERTY,
    Login,
    Published,
    Reader,
    Violation,
    length_of,
    packets,
    published,
    text_of,
)
from lns.clock import now_us

_LOGIN_US = 5_100_000  # what a login is waited for, and a moment
_AT_ONCE = 65_536  # octets
_CONNECT, _CONNACK, _PUBLISH, _PUBACK = 1, 2, 3, 4
_SUBSCRIBE, _SUBACK, _UNSUBSCRIBE, _UNSUBACK = 8, 9, 10, 11
_PINGREQ, _PINGRESP, _DISCONNECT = 12, 13, 14
_NOT_AUTHORIZED, _SHUTTING_DOWN, _QUOTA_EXCEEDED = 0x87, 0x8B, 0x97
_REFUSED = _NOT_AUTHORIZED, 0x80  # in turn, with a reason and without one (2.4)
_NOT_GRANTED = b"", *(bytes([code]) for code in _REFUSED)
"""A SUBACK has a reason code for each filter (3.9.3); one without any grants nothing either."""
_NAMELESS = "a client without a name"
_MOMENT_US, _SECOND_US = 100_000, 1_000_000
RECEIVE_MAX = 0xFFFF  # of a client that says nothing of it (3.1.2.11.3)
_SESSION_EXPIRY, _RECEIVE_MAXIMUM, _PACKET_MAXIMUM = 0x11, 0x21, 0x27
_OF_CONNECT = {_SESSION_EXPIRY: 4, _RECEIVE_MAXIMUM: 2, _PACKET_MAXIMUM: 4}
"""The octets of what a client may say of itself when it connects."""


class Client:
    """One connection: what it has said so far, and who it says it is."""

    def __init__(self, broker: "MqttBroker", line: socket.socket | TlsLine) -> None:
        self._broker = broker
        self._line = line
        self._said = bytearray()
        self._name = ""
        self._taken: set[tuple[str, bytes]] = set()
        self._unanswered: list[str] = []
        self._owed: dict[bytes, tuple[int, bool]] = {}  # PUBACK: when, and whether it may refuse
        self._brought: deque[tuple[int, int]] = deque()  # which, and when
        self._to_say = bytearray()
        self._kept_back: deque[tuple[int, int, bytes]] = deque()
        self._heard_us = now_us()
        self._asked_us: int | None = None
        self._waits_us: int | None = None
        self.answered_us: int | None = None
        self.refused_us: int | None = None
        self.login = Login("", True, 0)
        self.filters: dict[str, int] = {}

    def listen(self, *, listening: bool) -> None:
        loop = asyncio.get_running_loop()
        if listening:
            self._heard_us = now_us()
            loop.add_reader(self._line, self._readable)
        else:
            loop.remove_reader(self._line)

    def leave(self) -> None:
        self.listen(listening=False)
        asyncio.get_running_loop().remove_writer(self._line)
        self._line.close()

    def dismiss(self) -> None:
        """Tell it that there is no broker any more."""
        if self.login.client:
            self._say(_DISCONNECT << 4, bytes([_SHUTTING_DOWN, 0]))

    @property
    def is_gone(self) -> bool:
        """Whether it has ended the connection, heard or not."""
        line = select.poll()
        line.register(self._line, 0)
        return any(told & select.POLLHUP for _, told in line.poll(0))

    def bring(
        self,
        topic: str,
        payload: bytes,
        properties: Iterable[tuple[str, str]],
        qos: int,
        *,
        retain: bool = False,
        again: bool = False,
    ) -> int:
        """Send it a message, once it has acknowledged enough of those before (Receive Maximum).

        The packet identifier; 0 for QoS 0. `again`: it was sent on an earlier connection (3.3.1.1).
        """
        number = self._free_number() if qos else 0
        told = b"".join(
            bytes([USER_PROPERTY]) + text_of(name) + text_of(value) for name, value in properties
        )
        named = number.to_bytes(2, "big") if qos else b""
        body = text_of(topic) + named + length_of(len(told)) + told + payload
        first = _PUBLISH << 4 | again << 3 | qos << 1 | retain
        if not qos:
            self._say(first, body)
            return 0
        self._kept_back.append((number, first, body))
        self._bring_on()
        return number

    def _free_number(self) -> int:
        """Whatever is acknowledged is free again, and the least is as good as any (2.2.1)."""
        taken = {one for one, *_ in (*self._brought, *self._kept_back)}
        return next(n for n in range(1, 0x10000) if n not in taken)

    def _bring_on(self) -> None:
        """Send it what it may have (4.9), or all there is, as Mosquitto (2.0.11) does."""
        most = inf if self._broker.is_unlimited else self.login.receive_max
        while self._kept_back and len(self._brought) < most:
            number, first, body = self._kept_back.popleft()
            self._brought.append((number, now_us()))
            self._say(first, body)

    def look_at_silence(self) -> None:
        """It says something within its keep alive and a half (3.1.2.10), and waits no longer.

        Else a broker takes it for gone, or it would never find that the broker is.
        """
        keep_alive_us = self.login.keep_alive_s * 1_000_000
        silent_us, most_us = now_us() - self._heard_us, keep_alive_us * 3 // 2
        if keep_alive_us and silent_us > most_us:
            self._broker.wrong(
                f"{self._name}: expected a word every {most_us} us, observed none for {silent_us}"
            )
        for what, since_us, patience_us in (
            ("PINGREQ", self._asked_us, keep_alive_us),
            ("PUBLISH", self._waits_us, self._broker.patience_us),
        ):
            waited_us, most_us = now_us() - (since_us or now_us()), patience_us + _SECOND_US
            if waited_us > most_us:
                self._broker.wrong(
                    f"{self._name}: expected it leaves when its {what} is not answered for"
                    f" {most_us} us, observed {waited_us}"
                )

    def _readable(self) -> None:
        try:
            octets = self._line.recv(_AT_ONCE)
        except BlockingIOError:
            return
        except OSError:
            octets = b""
        if not octets:
            self._broker.without_a_word += bool(self._name)
            return self._broker.goodbye(self)
        self._said += octets
        self._broker.look_at_refused(self)
        self.look_at_silence()
        self._heard_us = now_us()
        try:
            said = list(packets(self._said))
            # All of it was sent before anything of it is answered.
            self._count([body for first, body in said if first >> 4 == _PUBLISH])
            for first, body in said:
                self._take(first >> 4, first & 0xF, body)
        except Violation as violation:
            self._broker.wrong(f"{self._name or 'a client'}: {violation}")
            self._broker.left(self)

    def _take(self, kind: int, flags: int, body: bytes) -> None:
        match kind:
            case _ if (kind == _CONNECT) is bool(self._name):
                raise Violation("CONNECT is the first packet, and comes once")
            case _ if self.refused_us is not None and kind != _DISCONNECT:
                raise Violation("something is said after a login that was refused")
            case 1:
                self._connect(Reader(body))
            case 3:
                self._publish(flags, body)
            case 8 | 10:
                self._subscribe(kind, Reader(body))
            case 12:
                self._asked_us = now_us() if self._broker.is_mute else None
                self._say(_PINGRESP << 4, b"")
            case 14:
                self._broker.goodbye(self)
            case 4:
                self._acknowledged(Reader(body).number(2))
            case _:
                raise Violation(f"a packet of type {kind}")

    def _connect(self, reader: Reader) -> None:
        protocol, level, flags, keep_alive_s = (
            reader.text(),
            reader.number(1),
            reader.number(1),
            reader.number(2),
        )
        told, asked = Reader(reader.take(reader.length())), dict[int, int]()
        while not told.is_over:
            what = told.number(1)
            if what not in _OF_CONNECT:
                raise Violation(f"CONNECT with the property {what:#x}")
            asked[what] = told.number(_OF_CONNECT[what])
        begins_anew = bool(flags & 2)
        self._name = reader.text() or (_NAMELESS if begins_anew else "")  # 3.1.3.1
        if (protocol, level) != ("MQTT", 5) or not self._name:
            raise Violation(f"CONNECT of {self._name!r} with {protocol} {level}")
        user, password = (reader.text() if flags & bit else None for bit in (0x80, 0x40))
        if flags & 0x3D or not reader.is_over:
            raise Violation(f"CONNECT with the flags {flags:#x} and more than they say")
        self.login = Login(
            self._name,
            begins_anew,
            keep_alive_s,
            asked.get(_SESSION_EXPIRY, 0),
            asked.get(_RECEIVE_MAXIMUM, RECEIVE_MAX),
            asked.get(_PACKET_MAXIMUM),
            user,
            password,
        )
        if self._broker.login_refusals and not self._broker.is_mute:
            self._broker.login_refusals -= 1
            self._broker.open_us = now_us()
            self.refused_us = now_us()
            self._broker.turned_away(self)
            self._say(_CONNACK << 4, bytes([0, _REFUSED[self._broker.login_refusals % 2], 0]))
            self.answered_us = None
            return
        known = self._broker.came(self)
        most = self._broker.receive_max
        # 3.2.2.3.3: a broker that says nothing of it takes as many as there can be.
        limit = b"" if most == RECEIVE_MAX else bytes([_RECEIVE_MAXIMUM]) + most.to_bytes(2, "big")
        self._say(_CONNACK << 4, bytes([known, 0, len(limit)]) + limit)
        if known:
            self._broker.resumed(self)

    def _acknowledged(self, number: int) -> None:
        """4.6: in the order in which the messages came."""
        due, since_us = self._brought.popleft() if self._brought else (None, 0)
        if due != number:
            raise Violation(f"PUBACK of {number}, not of {due}")
        late_us, keeps = now_us() - since_us, self.login.receive_max < RECEIVE_MAX
        if late_us > _MOMENT_US and not keeps:  # it says how much it holds for a while
            raise Violation(f"PUBACK {late_us} us after its message")
        self._broker.acknowledged(self, number)
        self._bring_on()

    def _count(self, published: list[bytes]) -> None:
        topics = self._unanswered
        topics += [Reader(body).text() for body in published]
        if len(topics) > self._broker.receive_max:
            raise Violation(f"{len(topics)} messages at once, not {self._broker.receive_max}")
        for topic in sorted({one for one in topics if topics.count(one) > 1}):
            self._broker.crowded(topic)

    def _publish(self, flags: int, body: bytes) -> None:
        number, message = published(self._name, flags, body)
        if self._broker.is_mute and not message.retain and self._waits_us is None:
            self._waits_us = now_us()
        if not self._broker.is_mute:
            due_us = now_us() + self._broker.puback_us
            self._owed[number.to_bytes(2, "big")] = due_us, self._broker.may_refuse(message.topic)
        what = message.topic, message.payload
        if what in self._taken:  # 4.4: only a new connection is a reason to send it again
            raise Violation(f"a message on {message.topic} twice in one connection")
        said = self._broker.take(message)
        if not (said or message.retain):
            self._taken.add(what)
        body = number.to_bytes(2, "big") + (bytes([said, 0]) if said else b"")
        if self._broker.puback_us:
            delay_s = self._broker.puback_us / 1_000_000
            asyncio.get_running_loop().call_later(delay_s, self._answer, message.topic, body)
        else:
            self._answer(message.topic, body)

    def _answer(self, topic: str, body: bytes) -> None:
        if not self._broker.is_mute:
            if len(self._unanswered) >= self._broker.receive_max:
                self._broker.full_us = now_us()
            self._unanswered.remove(topic)
        self._say(_PUBACK << 4, body)

    def _subscribe(self, kind: int, reader: Reader) -> None:
        number = reader.take(2)
        reader.take(reader.length())
        granted, asked = bytearray(), list[tuple[str, int]]()
        while not reader.is_over:
            topic_filter = reader.text()
            if kind == _SUBSCRIBE:
                asked.append((topic_filter, reader.number(1)))
                granted.append(asked[-1][1] & 3)
            else:
                granted.append(0 if topic_filter in self.filters else 0x11)
                self.filters.pop(topic_filter, None)
        if asked and self._broker.subscription_refusals and not self._broker.is_mute:
            self._broker.subscription_refusals -= 1
            self.refused_us = now_us()
            asked, granted = [], bytearray(_NOT_GRANTED[self._broker.subscription_refusals % 3])
        self.filters.update(asked)
        answer = _SUBACK if kind == _SUBSCRIBE else _UNSUBACK
        self._say(answer << 4, number + b"\0" + bytes(granted))
        for topic_filter, options in asked:
            self._broker.subscribed(self, topic_filter, options)

    def _look_at_puback(self, body: bytes) -> None:
        """It acknowledges what it owes that for, when it does, and refuses what it is to refuse."""
        due_us, may_refuse = self._owed.pop(body[:2], (None, False))
        number = int.from_bytes(body[:2], "big")
        if due_us is None:
            self._broker.missed(f"PUBACK of {number}: expected none, observed one")
        elif now_us() > due_us + _MOMENT_US:
            self._broker.missed(f"PUBACK of {number}: {now_us() - due_us} us later than it was due")
        elif body[2:3] > b"\x7f" and not may_refuse:
            self._broker.missed(f"PUBACK of {number}: expected taken, observed refused")

    def look_at_owed(self) -> None:
        """What it owes is said in its time, unless nothing is said at all."""
        for number, (due_us, _) in self._owed.items():
            if now_us() > due_us + _MOMENT_US and not self._broker.is_mute:
                missed = int.from_bytes(number, "big")
                self._broker.missed(f"PUBACK of {missed}: expected one, observed none")
        self._owed.clear()

    def _say(self, first: int, body: bytes) -> None:
        if not self._broker.is_mute:
            if first >> 4 == _PUBACK and self._line.fileno() >= 0:  # else nobody hears it
                self._look_at_puback(body)
            self.answered_us = now_us()
            self._to_say += bytes([first]) + length_of(len(body)) + body
            self._write()

    def _write(self) -> None:
        """Send what fits; the rest when there is room again."""
        loop = asyncio.get_running_loop()
        try:
            del self._to_say[: self._line.send(self._to_say)]
        except BlockingIOError:
            pass
        except OSError:
            self._to_say.clear()
        if self._to_say:
            loop.add_writer(self._line, self._write)
        else:
            loop.remove_writer(self._line)


class MqttBroker:
    """A broker as clients of one Unix socket meet it: there, away, silent or deaf.

    Without a `path` it is at a `port` of this host, as soon as it listens, and with `tls` over TLS.

    `took` is told every message, once it has come; `wrong` what is against the specification. A
    client that is here twice loses its older connection (3.1.4); what it subscribes to is kept for
    the next one, if it wants that. `greeted` is told how it connects, `resumed` that it goes on
    with its session, `subscribed` of each topic filter with its options, `acknowledged` of each
    message that was brought, `left_by` of its end. `without_a_word`: how often one has left without
    a goodbye. `refusals`: so many of the next messages are refused, `refusals_on`: so many on a
    topic; `refused` is told the topic, `crowded` one of which two messages wait at a time.
    `receive_max`: so many may wait for their PUBACK (3.2.2.3.3), which comes `puback_us` after its
    message; `full_us`: when last so many did, `deaf_us`: when it last was deaf. `well_since_us`:
    since when a client is here and is served. `deserted`: how often one has left or has waited for
    less than `patience_us`; `missed` is told what it does itself that a broker does not do, or does
    not in its time; `connections`: how many there were, `lost_us`: when the latest ended.
    `login_refusals`, `subscription_refusals`: so many of the next are refused; who is refused has
    to leave at once, and `turned_away` is told of a login. `open_us`: since when every login is
    taken, `listens_us`: since when one is heard. `is_unlimited`: it brings more at a time than a
    client takes.
    """

    def __init__(
        self, path: Path | None, took: Callable[[Published], None], wrong: Callable[[str], None]
    ) -> None:
        self.path = path
        self.port = 0
        self.wrong = wrong
        self.is_mute = self.is_unlimited = False
        self.refusals = self.login_refusals = self.subscription_refusals = 0
        self.refusals_on: Counter[str] = Counter()
        self.refused: Callable[[str], None] = lambda topic: None
        self.crowded: Callable[[str], None] = lambda topic: None
        self.greeted: Callable[[Client], None] = lambda client: None
        self.subscribed: Callable[[Client, str, int], None] = lambda client, asked, options: None
        self.resumed: Callable[[Client], None] = lambda client: None
        self.turned_away: Callable[[Client], None] = lambda client: None
        self.acknowledged: Callable[[Client, int], None] = lambda client, number: None
        self.left_by: Callable[[Client], None] = lambda client: None
        self.missed: Callable[[str], None] = lambda reason: None
        self.full_us = self.deaf_us = self.open_us = self.without_a_word = self.listens_us = 0
        self.well_since_us: int | None = None
        self.deserted = 0
        self.connections = self.lost_us = 0
        self.receive_max = 3
        self.patience_us = 20_000_000
        self.puback_us = 0
        self._took = took
        self._is_deaf = False
        self._listener: socket.socket | None = None
        self.tls: ssl.SSLContext | None = None
        self._clients: dict[Client, str] = {}
        self._in_vain_us: dict[Client, int] = {}
        self._sessions: dict[str, dict[str, int]] = {}

    def listen(self) -> None:
        """Be there, if it is not."""
        if self._listener is not None:
            return
        self.open_us = self.listens_us = now_us()
        if self.path is None:
            listener = socket.create_server((LOCALHOST, self.port))
            self.port = listener.getsockname()[1]
        else:
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(str(self.path))
            listener.listen()
        listener.setblocking(False)
        self._listener = listener
        if self.tls is not None:
            hears = TlsListener(listener, self.tls, self._serve)
            virtual_loop().in_thread = hears.in_thread
            return
        asyncio.get_running_loop().add_reader(listener, self._accept)

    def stop(self) -> None:
        """Say to each client that it shuts down (3.14.2.1), and be away."""
        for client in self._clients:
            client.dismiss()
        self.go()

    def go(self) -> None:
        """Be away: connections end, and nobody can connect."""
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None
            if self.tls is not None:
                virtual_loop().in_thread = nullcontext
            if self.path is not None:
                os.unlink(self.path)
        self.hang_up()

    def hang_up(self) -> None:
        """End every connection."""
        self._in_vain_us.clear()
        for client in list(self._clients):
            self.left(client)

    def be_deaf(self) -> None:
        """Read nothing of what clients say, until `be_well`."""
        self._is_deaf = True
        self.well_since_us = None
        for client in self._clients:
            client.listen(listening=False)

    def be_mute(self) -> None:
        """Take everything and answer nothing, until `be_well`."""
        self.is_mute = True
        self.well_since_us = None

    def be_well(self) -> None:
        """Undo both, and answer at once; who waits for an answer that never came connects again."""
        self.puback_us = 0
        if self.is_mute:
            self.is_mute = False
            self.hang_up()
        if self._is_deaf:
            self._is_deaf, self.deaf_us = False, now_us()
            for client in self._clients:
                if client.is_gone:
                    self.deserted += self._is_early(client)
                    client.answered_us = None
                client.listen(listening=True)

    def came(self, client: Client) -> bool:
        """A client says who it is; whether the broker knows it of before."""
        login = client.login
        older = next((one for one, of in self._clients.items() if of == login.client), None)
        if older is not None:
            if not older.is_gone:
                self.wrong(f"{login.client}: expected one connection at a time, observed two")
            self.left(older)
        kept = self._sessions.pop(login.client, None)
        is_known = kept is not None and not login.begins_anew
        client.filters = kept if kept is not None and is_known else {}
        self._clients[client] = login.client
        if self.is_mute:
            self._in_vain_us[client] = now_us()
        self.connections += 1
        self.well_since_us = None if self.is_mute else now_us()
        self.greeted(client)
        return is_known

    def goodbye(self, client: Client) -> None:
        """A client ends its connection; one that had left before it was heard deserts nobody."""
        since_us = self.well_since_us
        served = since_us is not None and since_us < now_us()
        self.deserted += client in self._clients and (served or self._is_early(client))
        self.left(client)

    def let_go(self) -> int:
        """Clients may leave from now on; how often one has left until now, and should not have."""
        deserted, self.deserted = self.deserted, 0
        self.well_since_us = None
        self._in_vain_us.clear()
        for client in self._clients:
            client.answered_us = None
        return deserted

    def left(self, client: Client) -> None:
        """A connection is over."""
        if client in self._clients:
            del self._clients[client]
            self._look_at_login(client)
            self.look_at_refused(client)
            client.look_at_owed()
            if not self._is_deaf:
                client.look_at_silence()
            client.leave()
            if client.login.session_s:
                self._sessions[client.login.client] = client.filters
            self.left_by(client)
            self.lost_us = now_us()
            self.well_since_us = self.well_since_us if self._clients else None

    def look_at_refused(self, client: Client) -> None:
        """Who was refused leaves."""
        refused_us = client.refused_us
        if refused_us is not None and (stayed_us := now_us() - refused_us) > _MOMENT_US:
            self.wrong(
                f"{client.login.client}: expected it leaves when it is refused, observed"
                f" {stayed_us} us later"
            )

    def _look_at_login(self, client: Client) -> None:
        """A broker that says nothing is waited for, and not for long."""
        waited_us = now_us() - self._in_vain_us.pop(client, now_us() - _LOGIN_US)
        if not _LOGIN_US - _MOMENT_US <= waited_us <= _LOGIN_US:
            self.wrong(
                f"{client.login.client}: expected {_LOGIN_US} us after a login that nobody"
                f" answers until it leaves, observed {waited_us}"
            )

    def _is_early(self, client: Client) -> bool:
        """Whether a client that leaves was answered, so lately that it has to wait for more."""
        said_us = client.answered_us
        return said_us is not None and 0 < now_us() - said_us < self.patience_us

    def may_refuse(self, topic: str) -> bool:
        """Whether it is to refuse the next message on a topic."""
        return bool(self.refusals or self.refusals_on[topic] > 0)

    def take(self, message: Published) -> int:
        """Take one message; the reason code of its PUBACK."""
        if not self.may_refuse(message.topic):
            self._took(message)
            return 0
        if not self.is_mute:  # else nobody hears of it
            self.refused(message.topic)
        if self.refusals_on[message.topic] > 0:
            self.refusals_on[message.topic] -= 1
            return _REFUSED[self.refusals_on[message.topic] % 2]
        self.refusals -= 1
        return _QUOTA_EXCEEDED

    def _accept(self) -> None:
        assert self._listener is not None
        line, _ = self._listener.accept()
        line.setblocking(False)
        if self.path is None:  # no word waits for the acknowledgement of the one before
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._serve(line)

    def _serve(self, line: socket.socket | TlsLine) -> None:
        client = Client(self, line)
        self._clients[client] = ""
        client.listen(listening=not self._is_deaf)
