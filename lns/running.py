"""How does a network server begin to listen, and how does it end?"""

import asyncio
import logging
import random
import resource
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

from lns.capture import Capture
from lns.clock import now_us, utc_of_this_host
from lns.complaints import Complaints
from lns.config import Config
from lns.dedup.claiming import SharedSessions
from lns.events import Event, Turned, Unrecorded
from lns.server import address
from lns.server.cups_server import CupsServer, StationSetup
from lns.server.station_server import ForStations, StationServer
from lns.startup import Startup, network_server_of
from lns.station.cups import Category
from lns.store.memory import MemoryStore
from lns.uplink.registry import SessionStore

log = logging.getLogger(__name__)

Record = Callable[[Event], None]


async def run(startup: Startup, listening: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C; ConfigError when something it names cannot be used.

    `listening` is told the URI of discovery as soon as stations can connect.
    """
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    _take_all_files_allowed()
    recorder = Recorder(startup.config)
    try:
        await _serve(startup, recorder.record, listening, stopped)
    finally:
        recorder.close()


def _take_all_files_allowed() -> None:
    """A socket is a file; the usual 1024 are fewer than the stations that may connect."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _serve(
    startup: Startup, record: Record, listening: Callable[[str], None], stopped: asyncio.Event
) -> None:
    async with (
        startup.open_store() as store,
        startup.open_claims() as claims,
        startup.open_upstream(record) as application,
    ):
        config = startup.config
        network_server = network_server_of(
            config.settings,
            config.devices,
            store=store,
            claims=claims,
            shared=_shared(store),
            application=application,
            record=record,
            utc=utc_of_this_host,
            entropy=random.SystemRandom(),
        )
        async with startup.open_requests(network_server.receive_request):
            await serve_stations(startup, network_server, record, listening, stopped)


async def serve_stations(
    startup: Startup,
    network_server: ForStations,
    record: Record,
    listening: Callable[[str], None],
    stopped: asyncio.Event,
) -> None:
    config, settings = startup.config, startup.config.settings
    stations = StationServer(
        network_server,
        record,
        access=startup.access,
        public_uri=settings.lns.public_uri,
        tls=startup.tls,
    )
    await _listen(config, "lns", settings.lns.listen, stations.start)
    try:
        cups = await _start_cups(startup, record, stations.uri)
        listening(stations.uri + address.DISCOVERY_PATH)
        await stopped.wait()
        log.info("stopping")
        if cups is not None:
            await cups.stop()
    finally:
        await stations.stop()


def _shared(store: SessionStore) -> SharedSessions | None:
    # A store in memory can be shared in a simulation; here nobody else writes to it.
    if isinstance(store, MemoryStore) or not isinstance(store, SharedSessions):
        return None
    return store


async def _start_cups(startup: Startup, record: Record, listens_at: str) -> CupsServer | None:
    settings = startup.config.settings
    if settings.cups is None:
        return None
    uri = address.without_path(settings.lns.public_uri or listens_at)
    given = {
        station: StationSetup(
            setup.cups, Category(setup.tc.uri or uri, setup.tc.files, setup.tc.segment)
        )
        for station, setup in sorted(startup.cups.items())
    }
    cups = CupsServer(
        settings.lns.id,
        given,
        record,
        otherwise=StationSetup(tc=Category(uri)),
        access=startup.access,
        tls=startup.tls,
    )
    await _listen(startup.config, "cups", settings.cups.listen, cups.start)
    log.info("CUPS: listening %s/update-info", cups.uri)
    return cups


async def _listen(
    config: Config, section: str, listen: str, start: Callable[[str, int], Awaitable[None]]
) -> None:
    try:
        await start(*address.host_and_port(listen))
    except OSError as error:
        said = f"cannot listen on {listen}: {error.strerror or error}"
        raise config.mistake(section, "listen", said) from error


class Recorder:
    """Writes events into the capture, which may fail: the server serves on without it.

    What could not be written is counted, said once a minute, and told in the capture when that can
    be written again. Without a `[capture]` it writes nothing.
    """

    def __init__(self, config: Config) -> None:
        self._lns = config.settings.lns.id
        self._capture: Capture | None = None
        self._unrecorded = 0
        self._complaints = Complaints(log, lines_max=1)
        section = config.settings.capture
        if section is None:
            return
        self._path = config.path(section.path)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.open("ab").close()
        except OSError as error:
            said = f"{self._path} cannot be written: {error.strerror}"
            raise config.mistake("capture", "path", said) from error
        self._source = self._path.stem
        self._capture = Capture(
            self._path.parent,
            section.run_id or self._lns,
            now_us,
            bytes_max=section.size_max_mib << 20,
            turned=self._turned,
        )

    def record(self, event: Event) -> None:
        """Write one event, if that is possible."""
        if self._capture is None:
            return
        try:
            if self._unrecorded:
                missing = Unrecorded(lns=self._lns, events=self._unrecorded)
                self._capture.record_event(self._source, missing.kind, missing)
                log.info("%s is written again; %d events are missing", self._path, missing.events)
                self._unrecorded = 0
            self._capture.record_event(self._source, event.kind, event)
        except OSError as error:
            self._unrecorded += 1
            self._complaints.complain(
                "%s cannot be written: %s; %d events are missing by now",
                *(self._path, error.strerror or error, self._unrecorded),
            )

    def close(self) -> None:
        if self._capture is not None:
            with suppress(OSError):
                self._capture.close()

    def _turned(self, source: str) -> None:
        older = f"{self._path.name}.1"
        log.info("%s is full; it goes on in a new file, this one is %s now", self._path, older)
        if self._capture is not None:
            turned = Turned(lns=self._lns, file=older)
            self._capture.record_event(self._source, turned.kind, turned)
