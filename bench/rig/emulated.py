"""The emulated rig: nothing in memory, all on real wires, on the wall clock.

Devices stand behind pseudo-terminals, stations and taps behind WebSockets.
"""

from collections.abc import Awaitable, Callable

from bench.rig.device import DeviceOfCase
from bench.rig.provisioning import Provisioned
from bench.rig.serial_device import SerialRigDevice
from bench.rig.tapped_station import TappedStation
from bench.rig.virtual_air import VirtualAir
from bench.rig.wired import WiredRig
from bench.station.link import LinkClosed, TextLink
from bench.station.tap import Tap


class EmulatedRig(VirtualAir, WiredRig):
    """One case's devices, air and stations in software, each at the end of a real wire."""

    capabilities = WiredRig.capabilities | {"known strength", "device time"}

    def new_device(self, provisioned: Provisioned) -> DeviceOfCase:
        return SerialRigDevice(provisioned, self.start)

    def plug(self, tap: Tap) -> Callable[[], Awaitable[TextLink]]:
        bench = self._bench
        bench.taps.register(tap.station, tap.accept)

        async def connect() -> TextLink:
            if tap.is_cut:
                raise LinkClosed("the tap is cut")
            return await bench.connect(bench.taps.uri, tap.station)

        return connect

    async def end(self) -> None:
        for station in self._stations.values():
            self.shut_out(station)
        await super().end()

    def shut_out(self, station: TappedStation) -> None:
        self._bench.taps.unregister(station.eui)

    def let_in(self, station: TappedStation) -> None:
        self._bench.taps.register(station.eui, station.tap.accept)
