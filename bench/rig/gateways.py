"""The gateways of a lab: who is connected, and what may be done to them?"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from bench.host.program import HostError
from bench.lab.gateways.basicstation_shell import restart_gateway
from bench.lab.inventory.entries import GatewayEntry, Inventory
from bench.lab.power import PowerFailed, attenuator
from bench.rig.air_traffic import AirTraffic
from bench.station.station_clock import StationClock
from bench.station.switchboard import Switchboard
from bench.station.tap_server import TapServer
from lns.clock import now_us
from lns.lorawan.airtime import frame_airtime_us
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import Region
from lns.station.messages import Dnmsg, parse_down
from lns.station.router_config import router_config

CONNECTED_WITHIN_US = 90_000_000
LAG_US = 40_000
_LOOK_S = 0.05


class BenchUnfit(HostError):
    """Something of the bench is missing or does not answer; the text names every such thing."""


class GatewaysAway(BenchUnfit):
    """Gateways are not connected, or their radios do not run."""


class Gateways:
    """The gateways of one inventory, each behind a switchboard.

    They connect to `taps`. `foreign` is told each reception of no case; `traffic` of each downlink
    before it is on the air.
    """

    def __init__(
        self,
        inventory: Inventory,
        region: Region,
        traffic: AirTraffic,
        taps: TapServer,
        foreign: Callable[[Eui, str], None],
    ) -> None:
        self._inventory = inventory
        self._region = region
        self._traffic = traffic
        self._taps = taps
        config = router_config(region)
        self.switchboards = {
            entry.name: Switchboard(
                entry.eui,
                config,
                foreign,
                downlink=self._expect_downlink,
                door=partial(self._let_in, entry.name),
            )
            for entry in inventory.gateways
        }
        for name in self.switchboards:
            self._let_in(name, True)

    def _let_in(self, name: str, is_open: bool) -> None:
        """Serve a gateway at the tap, or refuse it there."""
        board = self.switchboards[name]
        if is_open:
            self._taps.register(board.station, board.accept)
        else:
            self._taps.unregister(board.station)

    def name_of(self, station: Eui) -> str:
        """The name of a gateway in the inventory."""
        return next(name for name, one in self.switchboards.items() if one.station == station)

    async def until_up(self, tap_uri: str) -> None:
        """Wait until every gateway is connected and its radio runs; GatewaysAway."""
        until_us = now_us() + CONNECTED_WITHIN_US
        while missing := [name for name, one in self.switchboards.items() if not one.is_up]:
            if now_us() > until_us:
                raise GatewaysAway(
                    f"not connected, or without a radio that runs: {', '.join(missing)}."
                    f" The tap listens at {tap_uri}; tc.uri of a gateway has to say"
                    f" {self._inventory.tap_uri or tap_uri} (`lorabench stations check` tells more)"
                )
            await asyncio.sleep(_LOOK_S)

    def lag_us(self, name: str) -> int:
        """So much later than it comes a gateway's reception is let through.

        Which of two real ones tells first is chance, and most scenarios are about the first one.
        """
        return LAG_US * list(self.switchboards).index(name)

    @property
    def lag_us_max(self) -> int:
        """The longest of these, with some room."""
        return LAG_US * len(self.switchboards)

    def restarts_of(self, name: str) -> Callable[[], Awaitable[None]]:
        """What restarts a gateway; GatewayFailed when that did not work."""
        return lambda: restart_gateway(self._entry(name))

    async def attenuate(self, name: str, more_db: int) -> None:
        """Put so much more than usual before a gateway; PowerFailed if it cannot be set."""
        which = self._entry(name).attenuator
        if which is None:
            raise PowerFailed(f"gateway {name} has no attenuator in the inventory")
        entry = self._inventory.attenuator(which)
        await attenuator(entry).set_db(entry.db + more_db)

    def _entry(self, name: str) -> GatewayEntry:
        return next(one for one in self._inventory.gateways if one.name == name)

    def _expect_downlink(self, text: str, clock: StationClock) -> None:
        """Keep the air free for what a gateway was just asked to send in RX1."""
        asked = parse_down(text)
        if not isinstance(asked, Dnmsg) or asked.rx1_dr is None or not asked.xtime:
            return
        data_rate = self._region.data_rates[asked.rx1_dr]
        begins_us = now_us() + asked.xtime + asked.rx_delay_s * 1_000_000 - clock.xtime_now()
        if data_rate is not None:
            airtime_us = frame_airtime_us(data_rate, len(asked.pdu), crc=False)
            self._traffic.expect(begins_us, airtime_us)
