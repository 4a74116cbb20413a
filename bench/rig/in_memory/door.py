"""Through which door do stations come to a network server in this process, and what else knocks?

The listeners are those of the program, made from its configuration in files; WebSockets, TLS and
CUPS are real, and what is between them lies in `bench.sockets`. Who knocks says what is due: the
answer, when it is over, and the sentence with which the server tells that it refused.
"""

import asyncio
from base64 import b64decode
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from shutil import rmtree
from ssl import TLSVersion
from typing import Any, cast

from bench.clock import network
from bench.host.lns_files import (
    CLIENT,
    SERVER,
    Authority,
    Pair,
    any_authority,
    toml_text,
    write_server_files,
    write_station_files,
)
from bench.host.lns_process import alive
from bench.rig.case_setup import DoorRules
from bench.rig.in_memory.written_files import configuration_in, new_folder
from bench.station.web_socket import StationTls, WebSocketLink, connect, discover, station_files
from bench.verdict.owner import Found
from bench.virtual.visitor import HALF_AT_HOME, Answer, longest_uri
from lns.clock import now_us
from lns.events import Connection, Event
from lns.lorawan.identifiers import Eui
from lns.running import serve_stations
from lns.server.station_server import ForStations
from lns.startup import prepare

HOST, IPV6_HOST = "127.0.0.1", "::1"
DISCOVERY = "/router-info"
_APART_US, _ENDS_WITHIN_S, _HEAD_BYTES = 10_000, 60, 9
_ENDED_WITHIN_S = 0.001
"""By then the connections of a dead server have ended."""
_FIRST_PORT, _CUPS_PORT = 6090, 6190
_AWAY_US = 1  # what a server says of a text comes behind it in the books


_SPELLED = {
    "with dashes": "00-16-C0-01-F1-50-00-01",
    "with blanks": " 0016c001f1500001 ",
    "with a tab": "\t0016c001f1500001",
    "in groups": "0016 c001 f150 0001",
    "for both sides": "0016C001F1500001",
}
_ODD = (
    *("nobody", "two names", "a server", "a server only"),
    *("a foreigner", "one of his own", "an expired one", "one of tomorrow"),
)


def _odd(kind: str) -> Pair:
    """A certificate that is good for nobody, or names a station in another way than others."""
    match kind:
        case "with dashes" | "with blanks" | "with a tab" | "in groups":
            return any_authority().issue([_SPELLED[kind]], usages=[CLIENT])
        case "for both sides":
            return any_authority().issue([_SPELLED[kind]], usages=[SERVER, CLIENT])
        case "nobody":
            return any_authority().issue(["somebody"], usages=[CLIENT])
        case "two names":
            return any_authority().issue(["0016C001F1500001", "0016C001F1500001"], usages=[CLIENT])
        case "a server":
            return any_authority().issue(["0016C001F1500001"], usages=[])
        case "a server only":
            return any_authority().issue(["0016C001F1500001"], usages=[SERVER])
        case "one of tomorrow":
            tomorrow = timedelta(days=1)
            return any_authority().issue(["0016C001F1500001"], usages=[CLIENT], begins_in=tomorrow)
        case "an expired one":
            past = timedelta(hours=-1)
            return any_authority().issue(["0016C001F1500001"], usages=[CLIENT], ends_in=past)
        case "one of his own":
            return Authority("another").itself()
        case _:
            return Authority("another").client(Eui("0016C001F1500001"))


def token_of(station: str) -> str:
    """The `Authorization` of a station."""
    return f"Bearer {station}"


def _der(pem: bytes) -> bytes:
    """What stands in a PEM, or the lines of a token; four zeros for nothing (CUPS protocol)."""
    if b"-----" not in pem:
        lines = [line.strip() for line in pem.split(b"\n") if line.strip()]
        return b"".join(line + b"\r\n" for line in lines) or bytes(4)
    return b64decode(b"".join(pem.split(b"-----")[2].split()))


@dataclass(slots=True)
class _Visit(asyncio.Protocol):
    says: bytes
    """What goes with the last words of a TLS handshake, if there is one."""
    over: asyncio.Future[None]
    octets: bytearray = field(default_factory=bytearray)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        for part in (self.says[:_HEAD_BYTES], self.says[_HEAD_BYTES:]):  # as a network may
            cast(asyncio.Transport, transport).write(part)

    def data_received(self, data: bytes) -> None:
        self.octets += data

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.over.done():
            self.over.set_result(None)


class Door:
    """The listeners of one server, as long as it runs; its books are closed when it ends.

    `stations` by name. `find` is told what is not as it has to be.
    """

    def __init__(
        self,
        lns: str,
        number: int,
        rules: DoorRules,
        stations: Mapping[str, Eui],
        record: Callable[[Event], None],
        find: Callable[[Found], None],
    ) -> None:
        self.lns = lns
        self._rules, self._stations = rules, stations
        self._host = IPV6_HOST if rules.ipv6 else HOST
        self._record, self._find = record, find
        self._port, self._cups_port = self._ports = _FIRST_PORT + number, _CUPS_PORT + number
        self._folder = new_folder("door")
        self._uris: dict[Eui, str] = {}
        self._links: dict[Eui, WebSocketLink] = {}
        self._due: Counter[tuple[str, str | None]] = Counter()
        self._hosts = {HOST: None}
        self._goodbyes: list[tuple[str, str]] = []
        self._brought: list[tuple[str, tuple[int, int]]] = []
        self._refused: Counter[tuple[str, str | None]] = Counter()
        self.refusals = 0
        self._refused_at: defaultdict[tuple[str, str | None], list[int]] = defaultdict(list)
        self._due_in: list[tuple[str, str | None, int, int]] = []
        self._here: Counter[str | None] = Counter()
        self._ended: list[Connection] = []
        self._stopped = asyncio.Event()
        self._limit = asyncio.timeout(None)
        self._is_over = False
        self._task: asyncio.Task[None] | None = None

    @property
    def uri(self) -> str:
        """Where stations ask for their server."""
        return f"{'wss' if self._rules.shows else 'ws'}://{self._address}:{self._port}"

    @property
    def cups_uri(self) -> str:
        """Where they ask for their credentials."""
        return f"{'https' if self._rules.shows else 'http'}://{self._address}:{self._cups_port}"

    @property
    def public_uri(self) -> str:
        """Where stations are told to go."""
        return self.uri.replace(self._address, self._rules.public_host or self._address)

    @property
    def _address(self) -> str:
        return f"[{self._host}]" if ":" in self._host else self._host

    async def open(self, server: ForStations, tasks: asyncio.TaskGroup) -> None:
        """Listen until `close` or `cut`."""
        with alive(self.lns):
            startup = prepare(configuration_in(self._written()))
        network().away_us |= dict.fromkeys(self._ports, _AWAY_US)
        listening: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        serving = serve_stations(startup, server, self._take, listening.set_result, self._stopped)
        self._task = tasks.create_task(self._serve(serving))
        await asyncio.wait((self._task, listening), return_when=asyncio.FIRST_COMPLETED)
        told, due = listening.result() if listening.done() else None, self.uri + DISCOVERY
        if told != due:
            self._wrong(f"it listens at {due}, and says {told or 'nothing'}")

    async def _serve(self, serving: Coroutine[Any, Any, None]) -> None:
        try:
            with alive(self.lns):
                async with self._limit:
                    await serving
        except TimeoutError:
            self._wrong(f"it does not end within {_ENDS_WITHIN_S} s")
        finally:
            rmtree(self._folder, ignore_errors=True)
        if not self._is_over:
            self._judge(is_whole=True)

    def close(self) -> None:
        """Let the server go away, as it does when it is asked to."""
        if self._task is not None and not (self._is_over or self._stopped.is_set()):
            self._stopped.set()
            self._limit.reschedule(asyncio.get_running_loop().time() + _ENDS_WITHIN_S)

    async def closed(self) -> None:
        """Let it go away, and wait until it is gone."""
        self.close()
        if self._task is not None:
            await self._task

    async def cut(self, kill: Callable[[], None]) -> None:
        """The server is dead: nothing more is told of it, and once its connections end, `kill`."""
        if self._task is not None and not self._is_over:
            self._judge(is_whole=False)
            self._is_over = True
            self._task.cancel()
            await asyncio.wait([self._task], timeout=_ENDED_WITHIN_S)
            kill()
            await asyncio.wait([self._task])

    # --- who comes ------------------------------------------------------------------------------

    async def connect(self, station: Eui) -> WebSocketLink:
        """A station's connection, for which it asks at discovery once; LinkClosed."""
        tls = self.shown(station)
        if station not in self._uris:
            self._uris[station] = await discover(self.uri, station, tls=tls)
        link = self._links[station] = await connect(self._uris[station], tls=tls)
        return link

    def leave_half_open(self, station: Eui, noticed_after_us: int) -> None:
        """A station is gone, and its socket stays for so long."""
        self._links[station].vanish(noticed_after_us)

    def shown(self, who: str | None) -> StationTls | None:
        """What a station shows, or somebody with an odd certificate, or with none.

        None where there is no TLS.
        """
        trust = self._folder / "stations-ca.crt"
        if who in _ODD or who in _SPELLED:
            pair = _odd(who)
            pair.write(self._folder, "odd")
            return StationTls(trust, self._folder / "odd.crt", self._folder / "odd.key")
        if who is not None:
            return station_files(self.home(Eui(who)))[1]
        return StationTls(trust) if self._rules.shows else None

    def home(self, station: Eui) -> Path:
        """Where the files of a station are."""
        return self._folder / "stations" / station

    async def knock(
        self,
        says: Sequence[bytes],
        *,
        shows: StationTls | None,
        host: str,
        at_cups: bool,
        reads: bool,
        leaves_after_us: int,
    ) -> Answer:
        """Come from a host, say this, and hear what comes until either side leaves."""
        loop = asyncio.get_running_loop()
        self._hosts[host] = None
        over: asyncio.Future[None] = loop.create_future()
        first, *later = says
        began_us = now_us()
        tls: Any = {}
        if shows is not None:  # whoever is no station may speak first (RFC 8446, 2)
            shows.context.maximum_version = TLSVersion.MAXIMUM_SUPPORTED
            tls = {"ssl": shows.context, "server_hostname": self._host}
        port = self._cups_port if at_cups else self._port
        try:
            transport, visit = await loop.create_connection(
                lambda: _Visit(first, over), self._host, port, local_addr=(host, 0), **tls
            )
        except OSError:  # refused in the TLS handshake
            return Answer(b"", now_us() - began_us)
        if not reads:
            transport.pause_reading()
        for octets in later:
            await asyncio.sleep(_APART_US / 1_000_000)
            transport.write(octets)
        with suppress(TimeoutError):
            async with asyncio.timeout(leaves_after_us / 1_000_000):
                await over
        transport.abort()
        await asyncio.sleep(2 * _AWAY_US / 1_000_000)
        return Answer(bytes(visit.octets), now_us() - began_us)

    def expect_refused(self, why: str, station: Eui | None, times: int) -> None:
        """Be refused so often for this reason; whatever else is refused is wrong."""
        self._due[why, station] += times

    def expect_refused_since(self, why: str, station: Eui | None, number: int) -> None:
        """That is told of who came then and has left now, and not of another one."""
        # Virtual time may stand still meanwhile.
        self._due_in.append((why, station, number, max(self.refusals, number + 1)))

    def expect_goodbye(self, station: Eui, why: str) -> None:
        """A connection of a station ends, and these words are in the reason."""
        self._goodbyes.append((station, why))

    def expect_brought(self, station: Eui, counts: tuple[tuple[int, int], ...]) -> None:
        """So many texts and other messages come over each connection of a station."""
        self._brought += [(station, count) for count in counts]

    def credentials(self, station: Eui) -> tuple[bytes, bytes]:
        """The files of a station, as CUPS is told of them by a CRC, and as CUPS hands them out."""
        files = [self.home(station) / f"tc.{suffix}" for suffix in ("trust", "crt", "key")]
        has = [file.read_bytes() if file.exists() else b"" for file in files]
        return b"".join(one or bytes(4) for one in has), b"".join(_der(one) for one in has)

    # --- the books ------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        if self._is_over:
            return
        self._record(event)
        if not isinstance(event, Connection):
            return
        host, _, port = event.peer.rpartition(":")
        if host not in self._hosts or not port.isdigit() or int(port) in self._ports:
            self._wrong(f"somebody came from {event.peer}: expected {', '.join(self._hosts)}")
        if event.stage == "refused":
            self._refused[event.cause or "", event.station] += 1
            self._refused_at[event.cause or "", event.station].append(self.refusals)
            self.refusals += 1
        elif event.stage == "connected":
            self._here[event.station] += 1
        else:
            self._here[event.station] -= 1
            self._ended.append(event)

    def _judge(self, *, is_whole: bool) -> None:
        for (why, station), times in (self._due - self._refused).items():
            self._wrong(f"{station or 'somebody'} is refused ({why}): expected {times} more times")
        for (why, station), times in (self._refused - self._due).items():
            self._wrong(f"{station or 'somebody'} is refused ({why}): observed {times} too many")
        for why, station, first, end in self._due_in:
            numbers = self._refused_at[why, station]
            if numbers and not any(first <= number < end for number in numbers):
                self._wrong(f"{station or 'somebody'} is refused ({why}): observed another one")
        for station, why in self._goodbyes:
            causes = [one.cause or "none" for one in self._ended if one.station == station]
            if not any(why in cause for cause in causes):
                seen = "; ".join(causes) or "none"
                self._wrong(f"the end of {station}: expected {why}, observed {seen}")
        for station in dict.fromkeys(station for station, _ in self._brought):
            wanted = [counts for of, counts in self._brought if of == station]
            brought = [(one.texts, one.binaries) for one in self._ended if one.station == station]
            if brought != wanted:
                self._wrong(f"what {station} brought: expected {wanted}, observed {brought}")
        for port in self._ports:
            if (most := network().most_begun[port]) > 1:
                self._wrong(f"TLS handshakes begun in one turn: expected 1, observed {most}")
        if is_whole:
            for station, number in self._here.items():
                if number:
                    self._wrong(f"{station}: {number} connections without an end")

    def _wrong(self, text: str) -> None:
        self._find(Found(rule="door", text=f"door of {self.lns}: {text}", t_us=now_us()))

    # --- its configuration ----------------------------------------------------------------------

    def _written(self) -> Path:
        rules, folder = self._rules, self._folder
        lns: dict[str, object] = {"id": self.lns, "listen": f"{self._address}:{self._port}"}
        if rules.public_host:
            lns["public_uri"] = f"{self.public_uri}/"  # a station is told it without the slash
        if rules.only is not None:
            lns["stations"] = [self._stations[name] for name in rules.only]
        settings: dict[str, dict[str, object]] = {"lns": lns}
        if rules.shows:
            write_server_files(folder, any_authority(), HOST, rules.public_host or HOST)
            settings["tls"] = {"cert": "server.crt", "key": "server.key"} | self._asked()
        for station in self._stations.values():
            self._write_home(station)
        if rules.cups:
            self._write_half_a_home()
            listen = f"{self._address}:{self._cups_port}"
            settings["cups"] = {"listen": listen, "credentials": "stations"}
        (folder / "devices.toml").write_text("device = []\n", "utf-8")
        (folder / "lns.toml").write_text(toml_text(settings), "utf-8")
        return folder / "lns.toml"

    def _asked(self) -> dict[str, object]:
        """What `[tls]` says of what a station shows."""
        match self._rules.shows:
            case "token":
                # One is written out, the others are in the files of their stations.
                stations = [*self._stations.values()] if self._rules.only != () else []
                tokens = {one: f"file:stations/{one}/tc.key" for one in stations}
                tokens |= {one: token_of(one) for one in stations[:1]}
                text = "".join(f'"{one}" = "{token}"\n' for one, token in tokens.items())
                (self._folder / "tokens.toml").write_text(text, "utf-8")
                return {"tokens": "tokens.toml"}
            case "certificate" | "any certificate":
                asked: dict[str, object] = {"client_ca": "stations-ca.crt"}
                return asked | ({"any_station": True} if "any" in self._rules.shows else {})
            case _:
                return {}

    def _write_half_a_home(self) -> None:
        """With nothing about where the network server is, and much of what there may be."""
        home, scheme = self.home(Eui(HALF_AT_HOME)), self.cups_uri.partition("://")[0]
        home.mkdir(parents=True)
        (home / "cups.uri").write_text(f" {longest_uri(scheme)}\n", "ascii")
        (home / "tc.trust").write_bytes(any_authority().certificate)
        (home / "tc.key").write_bytes(b"\n Authorization: geheim\r\n\nX-More: yes \t")

    def _write_home(self, station: Eui) -> None:
        shows, authority = self._rules.shows, any_authority()
        uris = {"tc": self.uri} | ({"cups": self.cups_uri} if self._rules.cups else {})
        client = authority.client(station) if "certificate" in shows else None
        for category, uri in uris.items():
            write_station_files(
                self.home(station),
                category,
                uri,
                trust=authority.certificate if shows else None,
                client=client,
                token=token_of(station) if shows == "token" else None,
            )
