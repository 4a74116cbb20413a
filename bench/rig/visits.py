"""What is told to who comes to a network server: at its door, or with files for it to read?"""

import asyncio
import gc
import json
import os
import tomllib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from http.client import responses
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit
from shutil import rmtree
from signal import SIGTERM, Signals
from ssl import PROTOCOL_TLS_SERVER, SSLContext
from tempfile import TemporaryFile
from types import MappingProxyType
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from bench.capture.reading import Event
from bench.clock import VirtualTimeLoop
from bench.host.lns_files import Pair, any_authority, write_server_files, write_station_files
from bench.host.lns_process import alive
from bench.plan import Item, needs
from bench.rig import configuration
from bench.rig.case_setup import LNS, CaseSetup, DoorRules, Shows
from bench.rig.in_memory.mistakes import SECRET, far_from_utc
from bench.rig.in_memory.written_files import new_folder
from bench.rig.log import listened, nobody_is_told, run_program
from bench.verdict.owner import Found, Scrutiny, told
from bench.virtual.mqtt_broker import Client, MqttBroker
from bench.virtual.visitor import OPENED, Answer
from lns.__main__ import tell_where
from lns.clock import now_us, utc_of_this_host
from lns.complaints import place_of
from lns.config import ConfigError, device_of, load, load_tokens
from lns.delivery.detectors import time_us
from lns.delivery.mqtt_session import broker
from lns.delivery.subscription import expect_topic_filter
from lns.lorawan.identifiers import eui
from lns.running import run
from lns.server.address import without_login
from lns.startup import prepare
from lns.store.redis_wire import redis_server

ELSEWHERE = "198.51.100.7"
"""Where visitors come from who are no station of the case."""
_REFUSALS = frozenset({400, 401, 403, 404, 405, 411, 413, 503})
_GIVEN = "CUPS URI", "TC URI", "CUPS credentials", "TC credentials"
_LONGEST_US, _EXACT_US = 300_000_000, 50_000


class Visits:
    """The verbs about doors."""

    def __init__(self, setup: CaseSetup) -> None:
        self.setup = setup
        self.must_have = setup.must_have

    @needs(Item.VIRTUAL_TIME)
    def open_door(
        self,
        shows: Shows = "",
        *,
        only: tuple[str, ...] | None = None,
        cups: bool = False,
        public_host: str = "",
        ipv6: bool = False,
    ) -> None:
        """Let stations come over WebSockets, from discovery on; before the first act.

        `shows`: what they have to show, over TLS: nothing, a token (`Bearer` and their EUI), a
        certificate, or any of the authority. `only` these are listed. `cups`: credentials are to
        be had as well. `public_host`: where stations are told to go, if not to where the server
        listens, `ipv6`: on an address of IPv6, without TLS. From now on whoever is refused must be
        expected.
        """
        self.setup.before_start("how stations come")
        self.setup.door = DoorRules(
            shows=shows, only=only, cups=cups, public_host=public_host, ipv6=ipv6
        )

    @needs(Item.VIRTUAL_TIME)
    async def knock(
        self,
        *says: bytes,
        shows: str | None = None,
        plain: bool = False,
        host: str = ELSEWHERE,
        at_cups: bool = False,
        reads: bool = True,
        leaves: int = _LONGEST_US,
        status: int | None = None,
        closed_with: int | None = None,
        because: str | None = None,
        of: str | None = None,
        lasts: int | None = None,
        lns: str = LNS,
    ) -> Answer:
        """Come to the door from a `host` with these octets, a moment apart, and stay to the end.

        Over TLS where there is some, unless it is `plain`, with what the station that `shows` has,
        or with a certificate of "nobody", "two names", "a server", "a server only", "a foreigner",
        "one of his own", "an expired one" or "one of tomorrow", or with one of west "for both
        sides", or that spells it "with dashes", "with blanks", "with a tab" or "in groups". Who
        does not read (`reads`) is told nothing. `leaves` after so many µs. Due are the HTTP
        `status`, the code that a WebSocket is `closed_with`, how long it `lasts`, and `because` of
        what it is refused, as the station that it said to be (`of`); whoever is refused is told so.
        """
        await self.setup.begin()
        door = self._door(lns)
        if because is not None:
            door.expect_refused(because, self._eui(of), 1)
        number = door.refusals
        tls = None if plain else door.shown(self._eui(shows))
        answer: Answer = await door.knock(
            says, shows=tls, host=host, at_cups=at_cups, reads=reads, leaves_after_us=leaves
        )
        if status is not None:
            self.expect_said("status", status, answer.status)
        if because is not None:
            door.expect_refused_since(because, self._eui(of), number)
        self._look_at(answer, because, at_cups=at_cups)
        if closed_with is not None:
            self.expect_said("closed with", closed_with, answer.closed_with)
        if lasts is not None and abs(answer.lasted_us - lasts) > _EXACT_US:
            self.expect_said("lasts (us)", lasts, answer.lasted_us)
        return answer

    @needs(Item.VIRTUAL_TIME)
    def expect_refused(
        self, because: str, *, of: str | None = None, times: int = 1, lns: str = LNS
    ) -> None:
        """Expect the server to tell so often that it has refused somebody, or a station."""
        self._door(lns).expect_refused(because, self._eui(of), times)

    @needs(Item.VIRTUAL_TIME)
    def expect_goodbye(self, because: str, *, of: str, lns: str = LNS) -> None:
        """Expect a connection of a station to end with these words in the reason."""
        self._door(lns).expect_goodbye(self._eui(of), because)

    @needs(Item.VIRTUAL_TIME)
    def expect_brought(self, of: str, *counts: tuple[int, int], lns: str = LNS) -> None:
        """Expect so many texts and other messages to be told of each connection of a station."""
        self._door(lns).expect_brought(self._eui(of), counts)

    @needs(Item.VIRTUAL_TIME)
    def credentials(self, *, of: str, lns: str = LNS) -> tuple[bytes, bytes]:
        """What a station has of its own: as it tells of it, and as it is handed out."""
        found: tuple[bytes, bytes] = self._door(lns).credentials(self._eui(of))
        return found

    @needs(Item.VIRTUAL_TIME)
    async def close_door(self, lns: str = LNS, *, only: tuple[str, ...] | None = None) -> None:
        """Let a server end its connections in order, and listen again; `only` these are listed."""
        await self.setup.begin()
        assert self.setup.door is not None, "there is no door"
        self.setup.door = replace(self.setup.door, only=only)
        self.setup.case.fault("lns", "goes away", lns=lns)
        await cast(Any, self.setup.server(lns)).open_door_again()
        self.setup.case.fault("lns", "goes away", "fault.end", lns=lns)

    def expect_said(self, what: str, expected: object, observed: object) -> None:
        """Expect something of what a visitor was told."""
        if expected != observed:
            values = f"expected {told(expected)}, observed {told(observed)}"
            text = f"what a visitor is told: {what}: {values}"
            self.setup.case.find(Found(rule="door", text=text, t_us=now_us()))

    @needs(Item.VIRTUAL_TIME)
    def begin_knocking(self, /, *says: bytes, **facts: Any) -> "asyncio.Task[Answer]":
        """`knock`, while the scenario goes on; before the end it is to be awaited."""
        return self.setup.tasks.create_task(self.knock(*says, **facts))

    def _look_at(self, answer: Answer, because: str | None, *, at_cups: bool) -> None:
        """What holds of whatever anybody is told."""
        if answer.status is not None:
            self.expect_said("reason", responses.get(answer.status), answer.reason)
        if answer.status == OPENED:
            self.expect_said("a WebSocket for stations", True, answer.is_for_stations)
        if at_cups and answer.status is not None:
            self.expect_said("length", str(len(answer.body)), answer.header("Content-Length"))
            self.expect_said("connection", "close", answer.header("Connection"))
            kind = "application/octet-stream" if answer.status == HTTPStatus.OK else "text/plain"
            self.expect_said("type", kind, answer.header("Content-Type"))
        if at_cups and answer.status == HTTPStatus.OK:
            given = [what for what, part in zip(_GIVEN, answer.handed_out, strict=True) if part]
            self.setup.cups_says.append(", ".join(given) or "nothing changes")
        if because is not None and answer.status in _REFUSALS:
            why = because.removeprefix("CUPS: ")
            self.expect_said("body", f"{why}\n", answer.body.decode(errors="replace"))
            due = "Bearer" if answer.status == HTTPStatus.UNAUTHORIZED else None
            self.expect_said("what is asked for", due, answer.header("WWW-Authenticate"))

    def _door(self, lns: str) -> Any:
        return cast(Any, self.setup.server(lns)).door  # there is one where time is virtual

    def _eui(self, station: str | None) -> str | None:
        """A station of the case by its name, or anybody by his EUI."""
        if station is None or station not in self.setup.stations:
            return station
        return self.setup.station(station).eui


HOST = "lns.example"
"""The name in the certificate of the server."""
HOST_HERE = "127.0.0.1"
_ENDS_WITHIN_S = 60
_ENDS = "INFO stopping"
_UNTOLD = "nobody can be told: No space left on device"
_SPARE = 1_000
_NONE: Mapping[Any, Any] = MappingProxyType({})


class Configurations:
    """The verb about configurations."""

    def __init__(self, setup: CaseSetup) -> None:
        self.setup = setup
        self.must_have = setup.must_have

    @needs(Item.VIRTUAL_TIME)
    async def check_configuration(
        self,
        lns_toml: str,
        says: str,
        files: Mapping[str, str | bytes | Path] = _NONE,
        *,
        key_of: str | None = None,
        modes: Mapping[str, int] = _NONE,
        environment: Mapping[str, str] = _NONE,
        certificate: Pair | None = None,
        has_room: bool = True,
    ) -> None:
        """Let a server read its configuration, and serve nobody.

        Beside its `lns.toml` are an empty `devices.toml`, `server.crt` and its key, and
        `stations-ca.crt`; `files` come in their place or beside them, by their paths, where a
        `Path` is a link to another one, of the host if it is absolute. `key_of` a station there are
        credentials in `stations`; `modes` are those of files that others may read or write,
        `environment` has variables, `certificate` is another one of the server. `says` has a line
        for each mistake as far as it matters, or what is said of a configuration without one, which
        has to be taken for what stands in its files. No line has `SECRET` in it. What is right
        nobody can be told who has no room for it (`has_room`).
        """
        await self.setup.begin()
        folder = new_folder("configuration")
        about = " ".join(
            text.rstrip().rpartition("\n")[2]
            for text in (lns_toml, *files.values())
            if isinstance(text, str)
        )
        try:
            write_server_files(folder, any_authority(), HOST)
            if certificate is not None:
                certificate.write(folder, "server")
            if key_of is not None:
                home, trust = folder / "stations" / key_of, any_authority().certificate
                write_station_files(home, "tc", f"wss://{HOST}:1", trust=trust, token=SECRET)
            _write(folder, {"devices.toml": "device = []\n", **files, "lns.toml": lns_toml}, modes)
            checks = "--check", str(folder / "lns.toml")
            said = run_program(*checks, environment=environment, has_room=has_room)
            with far_from_utc(environment):
                misread = [*_misread(folder, about)] if said.status == 0 else []
        finally:
            rmtree(folder, ignore_errors=True)
        check = Scrutiny(rule="configuration", of=f"what is said of {about}", t_us=now_us())
        self.setup.case.find(*said.wrong(says, check, folder), *misread)

    @needs(Item.VIRTUAL_TIME)
    async def check_read(
        self,
        what: Literal[
            "broker", "Redis", "topic filter", "time", "EUI", "device", "text for people"
        ],
        text: str,
        due: object = None,
    ) -> None:
        """Let a text be read: "refused" is due where nobody could.

        The URL of a broker or a Redis is read as it is told, with user and password; a time as µs
        since 1970, one device as the first mistake in it, and what people shall see without any
        login.
        """
        await self.setup.begin()
        check = Scrutiny(rule="configuration", of=f"{what} {text}", t_us=now_us())
        self.setup.case.find(*check.same("is read as", repr(due), repr(_read(what, text))))

    @needs(Item.VIRTUAL_TIME)
    async def run_server(
        self,
        lns_toml: str,
        says: str,
        files: Mapping[str, str | bytes] = _NONE,
        *,
        asks: Mapping[int, bytes] = _NONE,
        ends_by: Signals = SIGTERM,
        writes: Sequence[Event] = (),
        begins_at: int = 0,
        turns_at: int | None = None,
        has_room: bool = True,
        keeps: Sequence[str] = (),
        at_broker: Mapping[str, Sequence[str]] = _NONE,
    ) -> None:
        """Let the program of another server serve until it `ends_by` a signal, or cannot begin.

        And once more, with what it has kept. `says` is where it listens, or the mistake. Meanwhile
        somebody `asks` at these ports, and is answered; when it has ended nobody listens there.
        Each time it `writes` these events into its capture, "a.jsonl", and nothing else; the first
        line has the number `begins_at`, behind those that are there already; as that of `turns_at`
        it tells that it goes on in a new file. Unless it `has_room`, only its log can say where it
        listens. Files that it `keeps` are there in the end, and
        nobody else's. `at_broker`, which is what `BROKER` in `lns_toml` stands for, are clients
        with these names, each with what it has subscribed to, and is brought something that nobody
        can read; of `mqtts://BROKER` a certificate of `broker-ca.crt` proves who it is.
        """
        await self.setup.begin()
        folder = new_folder("server")
        check = Scrutiny(rule="program", of=f"a server with {lns_toml!r}", t_us=now_us())
        broker = Clients()
        try:
            if "BROKER" in lns_toml:
                if "mqtts://BROKER" in lns_toml:
                    broker.secure(folder)
                lns_toml = lns_toml.replace("BROKER", broker.listen())
            _write(folder, {"devices.toml": "device = []\n", **files, "lns.toml": lns_toml}, {})
            serving, found = Serving(folder, asks, has_room), list[Found]()
            for _ in range(2):
                said = await serving.until(ends_by)
                found += check.same("says", says, said.replace(f"{folder}/", ""))
            found += check.same("at the broker", {**at_broker}, broker.filters)
            found += check.same("messages without a PUBACK", 0, broker.unread)
            for name in keeps:
                mode = (folder / name).stat().st_mode & 0o777 if (folder / name).exists() else 0
                found += check.same(f"mode of {name}", "600", f"{mode:o}")
            wrong = *serving.wrong, *broker.wrong
            found += [one for what in wrong for one in check.same(what, "none", "one")]
            due = [*writes, *writes]
            if turns_at is not None:
                due.insert(turns_at - begins_at, {"kind": "lns.turned", "file": "a.jsonl.1"})
            found += _written(folder / "a.jsonl", files, begins_at, turns_at, due, check)
        finally:
            broker.go()
            rmtree(folder, ignore_errors=True)
        for one in found:
            self.setup.case.find(one)

    @needs(Item.VIRTUAL_TIME)
    async def check_command(self, *arguments: str, status: int, says: str) -> None:
        """Let the program of a server be called so; `says` is in what it says, of status 0 or not.

        Nothing of a wrong call is where the answer to a right one would be.
        """
        await self.setup.begin()
        said = run_program(*arguments)
        of = f"what is said of {ascii(' '.join(arguments))[1:-1] or 'nothing'}"
        check = Scrutiny(rule="configuration", of=of, t_us=now_us())
        answer, besides = (said.wrong_out, said.out) if status else (said.out, said.wrong_out)
        found = [*check.same("status", status, said.status), *check.same("besides", "", besides)]
        for one in [*found, *check.same(f"{says!r} in it", True, says in answer)]:
            self.setup.case.find(one)


def _misread(folder: Path, about: str) -> Iterator[Found]:
    """What a server has taken another way than it stands in its files."""

    def meant(written: str) -> str:
        kind, _, where = written.partition(":")
        kept = {"env": lambda: os.environ[where], "file": lambda: (folder / where).read_text()}
        return kept.get(kind, lambda: written)().strip()

    check = Scrutiny(rule="configuration", of=f"what is made of {about}", t_us=now_us())
    off_s = int(utc_of_this_host().timestamp() - (folder / "lns.toml").stat().st_mtime)
    yield from check.same("hours since it was written", 0, abs(off_s) // 3_600)
    try:
        config = load(folder / "lns.toml")
    except ConfigError as mistake:
        yield check.wrong("mistake", "none", mistake)
        return
    settings = config.settings
    yield from configuration.settings(settings, (folder / "lns.toml").read_text("utf-8-sig"), check)
    devices_toml = (folder / settings.lns.devices).read_text("utf-8-sig")
    yield from configuration.devices(config.devices, devices_toml, meant, check)
    if settings.tls is not None and settings.tls.tokens is not None:
        file = folder / settings.tls.tokens
        yield from configuration.tokens(load_tokens(file), file.read_text(), meant, check)


def _write(folder: Path, files: Mapping[str, str | bytes | Path], modes: Mapping[str, int]) -> None:
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            file.unlink(missing_ok=True)
            file.symlink_to(folder / content)
            continue
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        file.chmod(modes.get(name, 0o600))


def _written(
    capture: Path,
    before: Mapping[str, str | bytes],
    begins_at: int,
    turns_at: int | None,
    due: Sequence[Event],
    check: Scrutiny,
) -> Iterator[Found]:
    there = len(before.get(capture.name, "").splitlines())
    lines = capture.read_text().splitlines() if capture.exists() else []
    if turns_at is not None:
        file = capture.with_name(f"{capture.name}.1")
        older = file.read_text().splitlines() if file.exists() else []
        yield from check.same("lines of the older one", there + turns_at - begins_at, len(older))
        lines = older + lines
    lines = lines[there:]
    yield from check.same("lines of the capture", len(due), len(lines))
    for seq, (expected, line) in enumerate(zip(due, lines, strict=False), begins_at):
        written = json.loads(line)
        for name, value in {"schema": 1, "source": "a", "seq": seq, **expected}.items():
            yield from check.same(f"line {seq}: {name}", value, written.get(name))


class Clients:
    """Who comes to a broker of this host."""

    def __init__(self) -> None:
        self.filters: dict[str, list[str]] = {}
        self.unread = 0
        self.wrong: list[str] = []
        self._broker = MqttBroker(None, lambda message: None, self.wrong.append)
        self._broker.greeted = lambda client: self.filters.update({client.login.client: []})
        self._broker.subscribed, self._broker.acknowledged = self._subscribed, self._acknowledged
        self.go = self._broker.go

    def secure(self, folder: Path) -> None:
        """Be there over TLS, by a certificate of whom `broker-ca.crt` in the folder names."""
        any_authority().server(HOST_HERE).write(folder, "broker")
        (folder / "broker-ca.crt").write_bytes(any_authority().certificate)
        self._broker.tls = context = SSLContext(PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "broker.crt", folder / "broker.key")

    def listen(self) -> str:
        """Be there; host and port, as a URL names them."""
        self._broker.listen()
        return f"{HOST_HERE}:{self._broker.port}"

    def _subscribed(self, client: Client, asked: str, options: int) -> None:
        self.filters[client.login.client].append(asked)
        if client.login.begins_anew or not client.login.session_s:
            self.wrong.append("subscription that nothing is kept for")
        client.bring(asked.replace("+", "0" * 16), b"x", (), 1)
        self.unread += 1

    def _acknowledged(self, client: Client, number: int) -> None:
        self.unread -= 1


class Serving:
    """A run of the program of a server in this process, and what is wrong with how it ends."""

    def __init__(self, folder: Path, asks: Mapping[int, bytes], has_room: bool) -> None:
        self._folder, self._asks, self._has_room = folder, asks, has_room
        self.wrong: list[str] = []

    async def until(self, number: Signals) -> str:
        """Where it listens, or why it does not."""
        with listened() as lines, warnings.catch_warnings(record=True) as left_open:
            warnings.simplefilter("always")
            said = await self._ended_by(number)
            gc.collect(1)
        self._look(not left_open, "something is left open")
        due = [_ENDS] if urlsplit(said).netloc else []
        self._look([line for line in lines if line == _ENDS] == due, "a word of its end")
        due = [f"INFO listening {said} ({_UNTOLD})"] if due and not self._has_room else []
        seen = [line for line in lines if line.startswith("INFO listening ")]
        self._look(seen == due, "a word of where it listens")
        return said

    async def _ended_by(self, number: Signals) -> str:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        listening: asyncio.Future[str] = loop.create_future()
        with alive("a server"):
            try:
                startup = prepare(load(self._folder / "lns.toml"))
            except ConfigError as mistake:
                return str(mistake)
            running = loop.create_task(run(startup, partial(self._listens, listening)))
        await asyncio.wait((running, listening), return_when=asyncio.FIRST_COMPLETED)
        try:
            if not listening.done():
                await running
            await asyncio.sleep(1)
            files, most = getrlimit(RLIMIT_NOFILE)
            self._look(files == most, "fewer files than it may have")
            for port, asked in self._asks.items():
                self._look(await self._answers(port, asked), f"no answer at {port}")
            self._look(loop.take_signal(number), f"deaf to {number.name}")
            await asyncio.wait((running,), timeout=_ENDS_WITHIN_S)
            self._look(running.done(), "it does not end")
            for port in self._asks:
                self._look(not await self._answers(port, b""), f"somebody still at {port}")
        except ConfigError as mistake:
            return str(mistake)
        except Exception as error:  # nothing that a server meets may end it so
            return place_of(error)
        finally:
            running.cancel()
            await asyncio.wait((running,))
        return listening.result()

    def _listens(self, listening: "asyncio.Future[str]", uri: str) -> None:
        """As whoever has started the program reads it, through a pipe or in a file."""
        if self._has_room:
            with TemporaryFile("w+") as out, redirect_stdout(out):
                tell_where(uri)
                said = os.pread(out.fileno(), len(uri) + _SPARE, 0).decode()
            self._look(said == f"listening {uri}\n", "it is not said where it listens")
        else:
            with nobody_is_told():
                tell_where(uri)
        listening.set_result(uri)

    def _look(self, is_right: bool, wrong: str) -> None:
        if not is_right:
            self.wrong.append(wrong)

    async def _answers(self, port: int, asked: bytes) -> bool:
        """Whether somebody is there who says anything, if he is asked."""
        try:
            reader, writer = await asyncio.open_connection(HOST_HERE, port)
        except OSError:
            return False
        writer.write(asked)
        said = await reader.read(1) if asked else b"-"
        writer.transport.abort()
        await asyncio.sleep(1)
        return bool(said)


def _read(what: str, text: str) -> object:
    try:
        if what in ("broker", "Redis"):
            read = broker(text) if what == "broker" else redis_server(text)
            return str(read), read.user, read.password
        if what == "time":
            return time_us(text)
        if what == "text for people":
            return without_login(text)
        if what == "device":
            return device_of(tomllib.loads(text)).name
        if what == "EUI":
            return eui(text)
        expect_topic_filter(text)
    except ValueError:
        return "refused"
    except ConfigError as mistake:
        return str(mistake)
    return None
