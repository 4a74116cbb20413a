"""What does the URL of a store or an upstream stand for?

A maker reads the section of a configuration, and says what is wrong with it; what it returns opens
the store or the upstream, inside a running event loop, for as long as an `async with` lasts. What
speaks to Redis is imported by whoever has one: it is a fifth of a start.
"""

import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from lns.config import Config
from lns.dedup.claim import Claims, SoleServer
from lns.delivery.broker import broker
from lns.delivery.inbox import utc_us
from lns.delivery.memory import MemoryUpstream
from lns.delivery.min_msg_time import statement, topic_of
from lns.delivery.mqtt import MqttUpstream
from lns.delivery.mqtt_sender import Producer
from lns.delivery.outbox import MESSAGES_MAX, Entry
from lns.delivery.publisher import Upstream as Application
from lns.delivery.publisher import UpstreamUnavailable
from lns.delivery.subscription import Subscription
from lns.downlink.downlink_queue import topic_filter
from lns.events import Acknowledged, Parked
from lns.outage import StoreUnavailable
from lns.store.memory import MemoryStore
from lns.store.redis_server import RedisServer, redis_server
from lns.store.sqlite import SqliteStore
from lns.uplink.registry import SessionStore

Acknowledge = Callable[[Acknowledged | Parked], None]
OpenUpstream = Callable[[Acknowledge], AbstractAsyncContextManager[Application]]
OpenStore = Callable[[], AbstractAsyncContextManager[SessionStore]]
OpenClaims = Callable[[], AbstractAsyncContextManager[Claims]]
Asked = Callable[[str, bytes], None]
OpenRequests = Callable[[Asked], AbstractAsyncContextManager[None]]
"""Tells topic and body of what applications ask for (`lns.downlink.downlink_queue`)."""


def _memory_upstream(config: Config) -> OpenUpstream:
    @asynccontextmanager
    async def opened(acknowledge: Acknowledge) -> AsyncIterator[Application]:
        yield MemoryUpstream()

    return opened


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

    @asynccontextmanager
    async def opened(acknowledge: Acknowledge) -> AsyncIterator[Application]:
        def acknowledged(entry: Entry, waiting: int) -> None:
            acknowledge(
                Acknowledged(
                    lns=lns,
                    topic=entry.topic,
                    message_id=entry.message_id,
                    sequence_number=entry.sequence_number,
                    waiting=waiting,
                )
            )

        def parked(entry: Entry, waiting: int) -> None:
            acknowledge(
                Parked(
                    lns=lns,
                    topic=entry.topic,
                    message_id=entry.message_id,
                    sequence_number=entry.sequence_number,
                    waiting=waiting,
                )
            )

        retry_us = section.retry_max_s * 1_000_000
        upstream = MqttUpstream(
            there,
            outbox,
            client_id=section.client_id or lns,
            chance=random.SystemRandom(),
            messages_max=section.messages_max or MESSAGES_MAX,
            acknowledged=acknowledged,
            keep_us=section.keep_s * 1_000_000,
            producer=Producer(
                topic=topic_of(lns),
                body_of=lambda at_us: statement(lns, at_us, retry_us),
                retry_us=retry_us,
                parked=parked,
                utc_us=utc_us,
            ),
        )
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(upstream)
            except UpstreamUnavailable as unavailable:
                raise config.mistake("upstream", "outbox", str(unavailable)) from unavailable
            yield upstream

    return opened


def _no_requests(config: Config) -> OpenRequests:
    @asynccontextmanager
    async def opened(asked: Asked) -> AsyncIterator[None]:
        yield

    return opened


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


def _memory_store(config: Config) -> OpenStore:
    @asynccontextmanager
    async def opened() -> AsyncIterator[SessionStore]:
        yield MemoryStore()

    return opened


def _sqlite(config: Config) -> OpenStore:
    written = config.settings.store.url.removeprefix("sqlite://")
    if not written:
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

    @asynccontextmanager
    async def opened() -> AsyncIterator[SessionStore]:
        store = RedisStore(server, config.settings.lns.id, devices)
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(store)
            except StoreUnavailable as unavailable:
                raise config.mistake("store", "url", str(unavailable)) from unavailable
            yield store

    return opened


def _alone(config: Config) -> OpenClaims:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Claims]:
        yield SoleServer()

    return opened


def _redis_claims(config: Config) -> OpenClaims:
    from lns.store.redis_claims import RedisClaims

    server = _redis_server(config)
    retention_us = config.settings.dedup.retention_s * 1_000_000

    @asynccontextmanager
    async def opened() -> AsyncIterator[Claims]:
        async with RedisClaims(server, retention_us=retention_us) as claims:
            yield claims

    return opened


UPSTREAMS: Mapping[str, Callable[[Config], OpenUpstream]] = {
    "memory": _memory_upstream,
    "mqtt": _mqtt,
    "mqtts": _mqtt,
}
REQUESTS: Mapping[str, Callable[[Config], OpenRequests]] = {
    "memory": _no_requests,
    "mqtt": _mqtt_requests,
    "mqtts": _mqtt_requests,
}
STORES: Mapping[str, Callable[[Config], OpenStore]] = {
    "memory": _memory_store,
    "sqlite": _sqlite,
    "redis": _redis,
    "rediss": _redis,
}
CLAIMS: Mapping[str, Callable[[Config], OpenClaims]] = {
    "memory": _alone,
    "sqlite": _alone,
    "redis": _redis_claims,
    "rediss": _redis_claims,
}
