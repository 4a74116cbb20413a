"""How is one more network server of a run on real wires put together?"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.capture.reading import Event
from bench.host.ports import LOOPBACK
from bench.host.program import Starter
from bench.host.relay import Note, Relay
from bench.rig.lns_files import by_way_of
from bench.rig.lns_program import SQLITE, LnsProgram, Relays
from bench.rig.trust import Trust
from lns.dedup.claim import OnOutage
from lns.lorawan.region import Region
from lns.store.redis_server import redis_server

STARTING_MAX = 2
STORE_FILE = f"{SQLITE}store.sqlite"


class LnsPrograms:
    """Makes network servers in folders of their own below `folder`, with what all of them share.

    At most `STARTING_MAX` start at once. `take` is told every line of their captures, `stalled`
    how long this host let one wait (µs). With `has_past` the store knows devices of former runs.
    `starter` starts them.
    """

    def __init__(
        self,
        folder: Path,
        tasks: asyncio.TaskGroup,
        take: Callable[[Event], None],
        stalled: Callable[[int], None],
        *,
        broker_port: int,
        store_url: str,
        retention_us: int,
        trust: Trust | None,
        has_past: bool,
        starter: Starter | None = None,
    ) -> None:
        self._starter = starter
        self.store_url = store_url
        self._folder = folder
        self._tasks = tasks
        self._take = take
        self._stalled = stalled
        self._broker_port = broker_port
        self._retention_us = retention_us
        self._trust = trust
        self._has_past = has_past
        self._starting = asyncio.Semaphore(STARTING_MAX)
        self._made = 0

    def new(
        self,
        lns: str,
        region: Region,
        *,
        store_url: str | None = None,
        on_outage: OnOutage = OnOutage.OPEN,
        note: Note | None = None,
        broker_port: int | None = None,
        client_id: str | None = None,
        take: Callable[[Event], None] | None = None,
        park_after_us: int | None = None,
    ) -> LnsProgram:
        """One more network server, not started yet.

        Its store is the shared one, unless `store_url` names another or is `STORE_FILE`. With
        `note`, which is told of faults, the bench stands on its wires to broker and store. `take`
        is told its capture instead of who is told all others.
        """
        has_past = self._has_past and store_url is None
        store_url = store_url or self.store_url
        relays, broker_port = None, broker_port or self._broker_port
        if note is not None:
            store = redis_server(self.store_url if store_url == STORE_FILE else store_url)
            relays = Relays(
                to_broker=Relay(LOOPBACK, broker_port, name="upstream", note=note),
                to_store=Relay(store.host, store.port, name="store", note=note),
            )
            broker_port = relays.to_broker.port
            if store_url != STORE_FILE:
                store_url = by_way_of(store_url, relays.to_store.port)
        self._made += 1
        name = f"{lns}-{self._made}"
        settings: dict[str, dict[str, Any]] = {
            "lns": {"id": lns, "listen": f"{LOOPBACK}:0", "region": region.name},
            "dedup": {"retention_s": self._retention_us // 1_000_000},
            "store": {"url": store_url, "on_outage": on_outage.value},
            "upstream": {
                "url": f"mqtt://{LOOPBACK}:{broker_port}",
                "outbox": "outbox.sqlite",
                "keep_s": 0,
                "client_id": client_id or name,
            },
            "capture": {"path": f"{lns}.jsonl", "run_id": "collected"},
        }
        if park_after_us is not None:
            settings["upstream"]["retry_max_s"] = park_after_us // 1_000_000
        if self._trust is not None:
            settings["tls"] = dict(self._trust.settings)
        return LnsProgram(
            subfolder(self._folder, name), settings, take or self._take, self._tasks,
            self._starting, self._stalled, relays, has_past=has_past,
            starter=self._starter,
        )  # fmt: skip


def subfolder(folder: Path, name: str) -> Path:
    """A new folder in another one, for its owner only."""
    made = folder / name
    made.mkdir(mode=0o700)
    return made
