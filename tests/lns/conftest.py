"""Two network servers that share one store: in memory, and over a real Redis."""

from collections.abc import Iterator

import pytest
import redis

from bench.host.lns_process import Valkey
from lns.dedup import claiming
from lns.uplink.registry import EndDevice
from tests.blocking import start_now, stop_now
from tests.lns.several_servers import (
    Scenario,
    Servers,
    ServeTwo,
    serve_both,
    serve_both_over_redis,
)


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    server = start_now(Valkey(tmp_path_factory.mktemp("valkey"), append_only=False))
    yield server
    stop_now(server)


@pytest.fixture(params=["memory", "redis"])
def serve_two(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ServeTwo:
    if request.param == "memory":
        return serve_both
    # A Redis of its own host answers in time, but not always on a busy one.
    monkeypatch.setattr(claiming, "CLAIM_US", 10_000_000)
    monkeypatch.setattr(claiming, "ASK_US", 10_000_000)
    valkey: Valkey = request.getfixturevalue("valkey")

    def emptied(scenario: Scenario, *devices: EndDevice) -> Servers:
        with redis.Redis.from_url(valkey.url) as client:
            client.flushall()
            client.script_flush()
        return serve_both_over_redis(scenario, valkey, *devices)

    return emptied
