"""A virtual device, under the name a scenario knows it by."""

from collections.abc import Awaitable, Callable

from bench.device.firmware import VirtualDevice
from bench.device.seam import Joining, Sent
from bench.radio.medium import Medium, Record
from bench.rig.provisioning import Provisioned

PAYLOAD = b"21.5 C"


class VirtualRigDevice:
    """One device that is asked directly; `start` switches the rig on, before its first act."""

    def __init__(self, provisioned: Provisioned, start: Callable[[], Awaitable[None]]) -> None:
        self.provisioned = provisioned
        self.firmware: VirtualDevice | None = None
        self._start = start

    async def start(self, medium: Medium, seed: int, record: Record) -> None:
        """Switch it on."""
        self.firmware = self.provisioned.firmware(medium, seed, record)

    async def stop(self) -> None:
        """Switch it off; there is nothing to give up."""

    async def send(
        self,
        payload: bytes = PAYLOAD,
        *,
        confirmed: bool = False,
        port: int = 2,
        retries: int = 0,
        transmissions: int = 1,
    ) -> Sent:
        firmware = await self._running()
        if retries != firmware.settings.retries:
            firmware.set_retries(retries)
        if transmissions > 1:
            firmware.set_nb_trans(transmissions)
        return await firmware.send(payload, port=port, confirmed=confirmed)

    async def join(self) -> Joining:
        firmware = await self._running()
        await firmware.join()
        assert firmware.last_join is not None
        return firmware.last_join

    async def restart(self, *, memory: bool) -> None:
        firmware = await self._running()
        await firmware.restart(memory=memory)

    async def _running(self) -> VirtualDevice:
        await self._start()
        assert self.firmware is not None
        return self.firmware
