"""How does a network server begin to listen, and how does it end?"""

import asyncio
import logging
import random
import resource
import signal
from collections.abc import Awaitable, Callable

from lns import address
from lns.capture import Capture
from lns.clock import now_us, utc_of_this_host
from lns.config import Config
from lns.dedup.claim import Claims
from lns.delivery.publisher import Upstream as Application
from lns.events import Event
from lns.lorawan.region import region
from lns.network_server import NetworkServer
from lns.prepared import Prepared
from lns.registry import SessionStore
from lns.server.cups_server import CupsServer, StationSetup
from lns.server.station_server import StationServer
from lns.station.cups import Category
from lns.store.redis import RedisStore

log = logging.getLogger(__name__)

Record = Callable[[Event], None]


async def run(prepared: Prepared, listening: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C; ConfigError when something it names cannot be used.

    `listening` is told the URI of discovery as soon as stations can connect.
    """
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    _take_all_files_allowed()
    capture = _open_capture(prepared.config)
    try:
        await _serve(prepared, _recorder(prepared.config, capture), listening, stopped)
    finally:
        if capture is not None:
            capture.close()


def _take_all_files_allowed() -> None:
    """A socket is a file; the usual 1024 are fewer than the stations that may connect."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _serve(
    prepared: Prepared, record: Record, listening: Callable[[str], None], stopped: asyncio.Event
) -> None:
    """Serve with store and upstream open; what is on its way upstream then drains."""
    async with (
        prepared.open_store() as store,
        prepared.open_claims() as claims,
        prepared.open_upstream(record) as application,
    ):
        network_server = _network_server(prepared, record, store, claims, application)
        async with prepared.open_requests(network_server.receive_request):
            await _serve_stations(prepared, network_server, record, listening, stopped)


async def _serve_stations(
    prepared: Prepared,
    network_server: NetworkServer,
    record: Record,
    listening: Callable[[str], None],
    stopped: asyncio.Event,
) -> None:
    config, settings = prepared.config, prepared.config.settings
    stations = StationServer(
        network_server,
        record,
        access=prepared.access,
        public_uri=settings.lns.public_uri,
        tls=prepared.tls,
    )
    await _listen(config, "lns", settings.lns.listen, stations.start)
    try:
        cups = await _start_cups(prepared, record, stations.uri)
        listening(stations.uri + address.DISCOVERY_PATH)
        await stopped.wait()
        log.info("stopping")
        if cups is not None:
            await cups.stop()
    finally:
        await stations.stop()


def _network_server(
    prepared: Prepared,
    record: Record,
    store: SessionStore,
    claims: Claims,
    application: Application,
) -> NetworkServer:
    settings = prepared.config.settings
    return NetworkServer(
        settings.lns.id,
        region(settings.lns.region),
        prepared.config.devices,
        store=store,
        application=application,
        record=record,
        utc=utc_of_this_host,
        entropy=random.SystemRandom(),
        net_id=settings.lns.net_id,
        retention_us=settings.dedup.retention_s * 1_000_000,
        entries_max=settings.dedup.entries_max,
        claims=claims,
        on_outage=settings.store.on_outage,
        shared=store if isinstance(store, RedisStore) else None,
    )


async def _start_cups(prepared: Prepared, record: Record, listens_at: str) -> CupsServer | None:
    settings = prepared.config.settings
    if settings.cups is None:
        return None
    uri = address.without_path(settings.lns.public_uri or listens_at)
    given = {
        station: StationSetup(setup.cups, _with_uri(setup.tc, uri))
        for station, setup in sorted(prepared.cups.items())
    }
    cups = CupsServer(
        settings.lns.id,
        given,
        record,
        otherwise=StationSetup(tc=Category(uri)),
        access=prepared.access,
        tls=prepared.tls,
    )
    await _listen(prepared.config, "cups", settings.cups.listen, cups.start)
    log.info("CUPS: listening %s/update-info", cups.uri)
    return cups


def _with_uri(tc: Category, uri: str) -> Category:
    """A station without a `tc.uri` of its own is sent here."""
    return Category(tc.uri or uri, tc.files, tc.segment)


async def _listen(
    config: Config, section: str, listen: str, start: Callable[[str, int], Awaitable[None]]
) -> None:
    try:
        await start(*address.host_and_port(listen))
    except OSError as error:
        said = f"cannot listen on {listen}: {error.strerror or error}"
        raise config.mistake(section, "listen", said) from error


def _open_capture(config: Config) -> Capture | None:
    section = config.settings.capture
    if section is None:
        return None
    path = config.path(section.path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("ab").close()
    except OSError as error:
        said = f"{path} cannot be written: {error.strerror}"
        raise config.mistake("capture", "path", said) from error
    return Capture(path.parent, section.run_id or config.settings.lns.id, now_us)


def _recorder(config: Config, capture: Capture | None) -> Record:
    section = config.settings.capture
    if capture is None or section is None:
        return lambda event: None
    source = config.path(section.path).stem

    def record(event: Event) -> None:
        capture.record_event(source, event.kind, event)

    return record
