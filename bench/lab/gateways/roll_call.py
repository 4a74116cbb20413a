"""Which gateways connect when somebody listens at the tap?

A network server without devices is put there for a while, so that the stations get their channels
and start their radio.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType

from bench.host.lns_process import LnsProcess
from bench.lab.gateways.basicstation_files import CannotConfigure
from bench.lab.inventory.entries import Inventory
from lns.clock import now_us
from lns.lorawan.identifiers import Eui
from lns.server.address import host_and_port

_ID = "roll-call"
_CAPTURE = "roll-call.jsonl"
_LOOK_US = 100_000


class RollCall:
    """The network server at the tap, for the length of an `async with`; its files are in `folder`.

    Remembers how many connections each station has. HostError if it cannot listen there,
    CannotConfigure for a tap without a fixed port or with TLS.
    """

    def __init__(self, inventory: Inventory, folder: Path) -> None:
        _, port = host_and_port(inventory.tap)
        if port == 0:
            raise CannotConfigure(f"the tap {inventory.tap} has no fixed port; give it one")
        if inventory.tap_uri is not None and inventory.tap_uri.startswith("wss://"):
            raise CannotConfigure(
                "the stations expect TLS; start a run, or `lorabench lns` with these certificates"
            )
        self._events = folder / _CAPTURE
        self._server = LnsProcess(
            folder,
            {
                "lns": {
                    "id": _ID,
                    "listen": inventory.tap,
                    "region": inventory.region,
                    "public_uri": inventory.tap_uri,
                },
                "capture": {"path": _CAPTURE},
            },
            [],
        )
        self._read_bytes = 0
        self._connections: Counter[Eui] = Counter()

    async def __aenter__(self) -> "RollCall":
        await self._server.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._server.stop()

    async def until_all(
        self, stations: Iterable[Eui], within_us: int, told: Callable[[int], None]
    ) -> set[Eui]:
        """Those of these stations that are connected: all of them, or those after `within_us`.

        `told`: how many are, each time one has come or gone.
        """
        wanted, deadline_us, told_last = set(stations), now_us() + within_us, -1
        while True:
            here = wanted & self._here()
            if len(here) != told_last:
                told(len(here))
                told_last = len(here)
            if here == wanted or now_us() >= deadline_us:
                return here
            await asyncio.sleep(_LOOK_US / 1_000_000)

    def _here(self) -> set[Eui]:
        """Who is connected now, as far as the server has written it down."""
        if self._events.exists():
            with self._events.open("rb") as file:
                file.seek(self._read_bytes)
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    self._read_bytes += len(line)
                    event = json.loads(line)
                    if event["kind"] == "lns.connection" and event["stage"] != "refused":
                        came = event["stage"] == "connected"
                        self._connections[Eui(event["station"])] += 1 if came else -1
        return {station for station, open_ones in self._connections.items() if open_ones > 0}
