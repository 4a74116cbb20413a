"""What has to be there before a network server can run, and is it right?

Reads every file that a configuration names, so that a mistake is told before anybody connects. What
a URL stands for is opened later, inside a running event loop, for as long as an `async with` lasts.
What speaks to Redis is imported by whoever has one: it is a fifth of a start.
"""

import logging
import random
import shlex
import ssl
import stat
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from lns.capture import naming
from lns.clock import StoreUnavailable, Utc
from lns.config import Config, LnsFile, UpstreamSection, load_tokens
from lns.dedup.claim import Claims, SoleServer
from lns.dedup.claiming import SharedSessions
from lns.delivery.detectors import statement, topic_of
from lns.delivery.inbox import utc_us
from lns.delivery.mqtt_sender import MqttUpstream, Producer
from lns.delivery.mqtt_session import Broker, broker
from lns.delivery.outbox import MESSAGES_MAX, Entry
from lns.delivery.publisher import MemoryUpstream, UpstreamUnavailable
from lns.delivery.publisher import Upstream as Application
from lns.delivery.subscription import Subscription
from lns.downlink.downlink_queue import topic_filter
from lns.events import Acknowledged, Event, Parked
from lns.lorawan.identifiers import Eui, eui
from lns.lorawan.region import region
from lns.network_server import NetworkServer
from lns.server import address
from lns.server.access import Access, dns_names, server_context
from lns.server.cups_server import StationSetup
from lns.station.cups import Category, StationFiles
from lns.store.memory import MemoryStore
from lns.store.redis_wire import RedisServer, redis_server
from lns.store.sqlite import SqliteStore
from lns.uplink.registry import EndDevice, SessionStore

log = logging.getLogger(__name__)

Made = TypeVar("Made")
Acknowledge = Callable[[Acknowledged | Parked], None]
OpenUpstream = Callable[[Acknowledge], AbstractAsyncContextManager[Application]]
OpenStore = Callable[[], AbstractAsyncContextManager[SessionStore]]
OpenClaims = Callable[[], AbstractAsyncContextManager[Claims]]
Asked = Callable[[str, bytes], None]
OpenRequests = Callable[[Asked], AbstractAsyncContextManager[None]]
"""Tells topic and body of what applications ask for (`lns.downlink.downlink_queue`)."""


@asynccontextmanager
async def _opened(
    opening: AbstractAsyncContextManager[Made], config: Config, section: str, key: str
) -> AsyncIterator[Made]:
    """What a key stands for; the mistake of that key where it cannot be opened."""
    async with AsyncExitStack() as stack:
        try:
            made = await stack.enter_async_context(opening)
        except (StoreUnavailable, UpstreamUnavailable) as unavailable:
            raise config.mistake(section, key, str(unavailable)) from unavailable
        yield made


def _mqtt(config: Config) -> OpenUpstream:
    lns, section = config.settings.lns.id, config.settings.upstream
    ca = config.path(section.ca) if section.ca else None
    try:
        broker(section.url)
    except ValueError as error:
        raise config.mistake("upstream", "url", str(error)) from None
    try:
        there = broker(section.url, ca)
    except ValueError as error:
        raise config.mistake("upstream", "ca", str(error)) from None
    outbox = config.path(section.outbox or f"var/{lns}.outbox")

    def opened(acknowledge: Acknowledge) -> AbstractAsyncContextManager[Application]:
        chance = random.SystemRandom()
        upstream = mqtt_upstream(lns, section, there, outbox, acknowledge, chance, utc_us)
        return _opened(upstream, config, "upstream", "outbox")

    return opened


def mqtt_upstream(
    lns: str,
    section: UpstreamSection,
    there: Broker,
    outbox: Path,
    acknowledge: Acknowledge,
    chance: random.Random,
    utc_us: Callable[[], int],
) -> MqttUpstream:
    """What `[upstream]` says of a server, over a broker; to be entered.

    `acknowledge` is told what became of each message, `utc_us` is its wall clock.
    """
    retry_us = section.retry_max_s * 1_000_000

    def told(kind: type[Acknowledged | Parked]) -> Callable[[Entry, int], None]:
        def tell(entry: Entry, waiting: int) -> None:
            acknowledge(
                kind(
                    lns=lns,
                    topic=entry.topic,
                    message_id=entry.message_id,
                    sequence_number=entry.sequence_number,
                    waiting=waiting,
                )
            )

        return tell

    return MqttUpstream(
        there,
        outbox,
        client_id=section.client_id or lns,
        chance=chance,
        messages_max=section.messages_max or MESSAGES_MAX,
        acknowledged=told(Acknowledged),
        keep_us=section.keep_s * 1_000_000,
        producer=Producer(
            topic=topic_of(lns),
            body_of=lambda at_us: statement(lns, at_us, retry_us),
            retry_us=retry_us,
            parked=told(Parked),
            utc_us=utc_us,
        ),
    )


def _mqtt_requests(config: Config) -> OpenRequests:
    lns, section = config.settings.lns.id, config.settings.upstream
    there = broker(section.url, config.path(section.ca) if section.ca else None)

    @asynccontextmanager
    async def opened(asked: Asked) -> AsyncIterator[None]:
        subscription = Subscription(
            there,
            topic_filter(lns),
            f"{section.client_id or lns}-down",
            lambda topic, body, properties: asked(topic, body),
            patient=True,
        )
        async with subscription:
            yield

    return opened


def _sqlite(config: Config) -> OpenStore:
    written = config.settings.store.url.removeprefix("sqlite://")
    if not written or "\0" in written:
        raise config.mistake("store", "url", "names no file; it is sqlite://PATH")

    @asynccontextmanager
    async def opened() -> AsyncIterator[SessionStore]:
        try:
            store = SqliteStore(config.path(written))
        except StoreUnavailable as unavailable:
            raise config.mistake("store", "url", str(unavailable)) from unavailable
        try:
            yield store
        finally:
            store.close()

    return opened


def _redis_server(config: Config) -> RedisServer:
    try:
        return redis_server(config.settings.store.url)
    except ValueError as error:
        raise config.mistake("store", "url", str(error)) from None


def _redis(config: Config) -> OpenStore:
    from lns.store.redis import RedisStore

    server = _redis_server(config)
    devices = [device.dev_eui for device in config.devices]
    lns = config.settings.lns.id
    return lambda: _opened(RedisStore(server, lns, devices), config, "store", "url")


def _redis_claims(config: Config) -> OpenClaims:
    from lns.store.redis_claims import RedisClaims

    server = _redis_server(config)
    retention_us = config.settings.dedup.retention_s * 1_000_000
    return lambda: RedisClaims(server, retention_us=retention_us)


_MQTT = ("mqtt", "mqtts")
_REDIS = ("redis", "rediss", "redis+sentinel", "rediss+sentinel")
UPSTREAMS: Mapping[str, Callable[[Config], OpenUpstream]] = {
    "memory": lambda config: lambda acknowledge: nullcontext(MemoryUpstream(messages_max=0)),
    **dict.fromkeys(_MQTT, _mqtt),
}
REQUESTS: Mapping[str, Callable[[Config], OpenRequests]] = {
    "memory": lambda config: lambda asked: nullcontext(),
    **dict.fromkeys(_MQTT, _mqtt_requests),
}
STORES: Mapping[str, Callable[[Config], OpenStore]] = {
    "memory": lambda config: lambda: nullcontext(MemoryStore()),
    "sqlite": _sqlite,
    **dict.fromkeys(_REDIS, _redis),
}
CLAIMS: Mapping[str, Callable[[Config], OpenClaims]] = {
    **dict.fromkeys(("memory", "sqlite"), lambda config: lambda: nullcontext(SoleServer())),
    **dict.fromkeys(_REDIS, _redis_claims),
}


def network_server_of(
    settings: LnsFile,
    devices: Iterable[EndDevice],
    *,
    store: SessionStore,
    claims: Claims | None,
    shared: SharedSessions | None,
    application: Application,
    record: Callable[[Event], None],
    utc: Utc,
    entropy: random.Random,
) -> NetworkServer:
    """The network server that `lns.toml` describes, on what its URLs stand for."""
    return NetworkServer(
        settings.lns.id,
        region(settings.lns.region),
        devices,
        store=store,
        application=application,
        record=record,
        utc=utc,
        entropy=entropy,
        net_id=settings.lns.net_id,
        retention_us=settings.dedup.retention_s * 1_000_000,
        entries_max=settings.dedup.entries_max,
        claims=claims,
        on_outage=settings.store.on_outage,
        shared=shared,
    )


_OPEN = {
    "read": stat.S_IROTH,
    "written": stat.S_IWGRP | stat.S_IWOTH,
}


@dataclass(frozen=True, slots=True)
class Startup:
    """Everything that a configuration names, read and found right."""

    config: Config
    access: Access
    tls: ssl.SSLContext | None
    cups: Mapping[Eui, StationSetup]
    open_upstream: OpenUpstream
    open_requests: OpenRequests
    open_store: OpenStore
    open_claims: OpenClaims


def prepare(config: Config) -> Startup:
    """Read what the configuration names; ConfigError with file, line and key of a mistake."""
    _check_public_uri(config)
    _tell_open_files(config)
    settings = config.settings
    return Startup(
        config,
        access=_access(config),
        tls=_tls(config),
        cups=_cups(config),
        open_upstream=_by_scheme(config, "upstream", settings.upstream.url, UPSTREAMS),
        open_requests=_by_scheme(config, "upstream", settings.upstream.url, REQUESTS),
        open_store=_by_scheme(config, "store", settings.store.url, STORES),
        open_claims=_by_scheme(config, "store", settings.store.url, CLAIMS),
    )


def _tell_open_files(config: Config) -> None:
    """Keys, sessions and payloads are nobody's business but the owner's, and his group's to read.

    The files that a server makes itself are nobody else's; those of somebody else are as they are.
    """
    settings = config.settings
    store, outbox = settings.store.url, settings.upstream.outbox
    named = {
        "devices": settings.lns.devices,
        "store": store.removeprefix("sqlite://") if store.startswith("sqlite://") else None,
        "outbox": outbox or f"var/{settings.lns.id}.outbox",
        "tokens": settings.tls.tokens if settings.tls else None,
        "key": settings.tls.key if settings.tls else None,
    }
    for what, file in named.items():
        if file:
            with suppress(OSError, ValueError):  # whoever opens it says what is wrong
                _tell_open_file(what, config.path(file))


def _tell_open_file(what: str, path: Path) -> None:
    status = path.stat()
    mode = stat.S_IMODE(status.st_mode)
    verbs = [verb for verb, bits in _OPEN.items() if mode & bits]
    if stat.S_ISREG(status.st_mode) and verbs:
        may = " and ".join(verbs)
        sentence = "the %s file %s can be %s by others (mode %03o): chmod 600 %s"
        log.warning(sentence, what, path, may, mode, shlex.quote(str(path)))


def _by_scheme(
    config: Config, section: str, url: str, makers: Mapping[str, Callable[[Config], Made]]
) -> Made:
    scheme, colon, _ = url.partition("://")
    if not colon or scheme not in makers:
        known = ", ".join(f"{known}://" for known in sorted(makers))
        # The URL itself is not repeated: it may have a password in it.
        said = f"{scheme}:// is not served" if colon else "is no URL"
        raise config.mistake(section, "url", f"{said}; served are: {known}")
    return makers[scheme](config)


def _check_public_uri(config: Config) -> None:
    settings = config.settings
    host, _ = address.host_and_port(settings.lns.listen)
    public = settings.lns.public_uri
    if public is None:
        if address.is_everywhere(host):
            said = f"is needed: stations cannot connect to {host}"
            raise config.mistake("lns", "public_uri", said)
        return
    if settings.tls is not None and not public.startswith("wss://"):
        raise config.mistake("lns", "public_uri", "with [tls] it has to begin with wss://")


def _access(config: Config) -> Access:
    settings = config.settings
    allowed = settings.lns.stations
    tls = settings.tls
    _check_what_stations_show(config)
    return Access(
        stations=None if allowed == "any" else frozenset(allowed),
        tokens=load_tokens(config.path(tls.tokens)) if tls and tls.tokens else None,
        certificates=tls is not None and tls.client_ca is not None,
        any_station=tls is not None and tls.any_station,
    )


def _check_what_stations_show(config: Config) -> None:
    tls = config.settings.tls
    if tls is None:
        return
    if tls.client_ca is not None and tls.tokens is not None:
        said = "a station shows a certificate or a token, never both; leave out tokens or client_ca"
        raise config.mistake("tls", "tokens", said)
    if tls.any_station and tls.client_ca is None:
        said = "is about certificates of stations; add client_ca"
        raise config.mistake("tls", "any_station", said)


def _tls(config: Config) -> ssl.SSLContext | None:
    tls = config.settings.tls
    if tls is None:
        return None
    cert, key = config.path(tls.cert), config.path(tls.key)
    client_ca = config.path(tls.client_ca) if tls.client_ca else None
    try:
        context, names = server_context(cert, key, client_ca), dns_names(cert)
    except ValueError as error:
        about_ca = client_ca is not None and str(client_ca) in str(error)
        raise config.mistake("tls", "client_ca" if about_ca else "cert", str(error)) from error
    listen = config.settings.lns.listen
    public = config.settings.lns.public_uri or f"wss://{listen}"
    name = urlsplit(public).hostname or ""
    good = {one.lower() for one in names}  # stations compare without regard to capitals
    if name not in good and f"*.{name.partition('.')[2]}" not in good:
        named = ", ".join(sorted(names)) or "none"
        log.warning(
            "%s has no DNS name %s (it has: %s): stations will refuse it", cert, name, named
        )
    return context


def _cups(config: Config) -> Mapping[Eui, StationSetup]:
    section = config.settings.cups
    if section is None:
        return {}
    try:
        setups = _setups(config, config.path(section.credentials))
    except OSError as error:
        said = f"{error.filename} cannot be read: {error.strerror}"
        raise config.mistake("cups", "credentials", said) from error
    _check_keys_are_guarded(config, section.listen, setups)
    return setups


def _setups(config: Config, folder: Path) -> dict[Eui, StationSetup]:
    if not folder.is_dir():
        raise config.mistake("cups", "credentials", f"there is no folder {folder}")
    setups: dict[Eui, StationSetup] = {}
    for inside in sorted(path for path in folder.iterdir() if path.is_dir()):
        try:
            station = eui(inside.name)
            if station in setups:
                raise ValueError(f"{station} has a folder already")
            setups[station] = _setup(inside)
        except ValueError as error:
            raise config.mistake("cups", "credentials", f"{inside}: {error}") from None
    return setups


def _check_keys_are_guarded(
    config: Config, listen: str, setups: Mapping[Eui, StationSetup]
) -> None:
    """Private keys and tokens leave this host only encrypted, and only to whom may have them."""
    host, _ = address.host_and_port(listen)
    keys = any(setup.cups.files.key or setup.tc.files.key for setup in setups.values())
    if not keys or address.is_loopback(host):
        return
    tls = config.settings.tls
    if tls is None:
        said = "keys would leave this host in clear; add [tls] or listen on 127.0.0.1"
        raise config.mistake("cups", "listen", said)
    if tls.tokens is None and tls.client_ca is None:
        said = "whoever asks would get keys; add tls.tokens or tls.client_ca"
        raise config.mistake("cups", "listen", f"{said}, or listen on 127.0.0.1")
    if tls.any_station:
        said = "with any_station every station would get the keys of all; leave any_station out"
        raise config.mistake("cups", "listen", f"{said}, or listen on 127.0.0.1")


def _setup(folder: Path) -> StationSetup:
    return StationSetup(cups=_category(folder, "cups"), tc=_category(folder, "tc"))


def _category(folder: Path, name: str) -> Category:
    def content(suffix: str) -> bytes:
        file = folder / f"{name}.{suffix}"
        with naming(file):
            return file.read_bytes() if file.is_file() else b""

    files = StationFiles(content("trust"), content("crt"), content("key"))
    uri = content("uri").decode("ascii").strip()
    try:
        return Category.of(address.file_uri(uri, name) if uri else None, files)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
