"""A device under the name a scenario knows it by; and the virtual one that is asked directly."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable

from bench.device.firmware import VirtualDevice
from bench.device.seam import Joining, Sent
from bench.device.session import DeviceSession
from bench.radio.medium import Medium, Record
from bench.rig.provisioning import Provisioned

PAYLOAD = b"21.5 C"


class DeviceOfCase(ABC):
    """One device of one case, virtual or on a board.

    `start` of the rig switches everything on; every act calls it first.
    """

    def __init__(
        self, provisioned: Provisioned, start: Callable[[], Awaitable[None]]
    ) -> None:
        self.provisioned = provisioned
        self._start = start

    @property
    @abstractmethod
    def session(self) -> DeviceSession | None:
        """The session it has now; `f_cnt_up` is the counter of its next frame."""

    @property
    @abstractmethod
    def dev_nonce(self) -> int:
        """The DevNonce of its last join request, 0 before the first."""

    @abstractmethod
    async def start(self, medium: Medium, seed: int, record: Record) -> None:
        """Switch it on."""

    @abstractmethod
    async def stop(self) -> None:
        """Switch it off; the case is over."""

    @abstractmethod
    async def send(
        self,
        payload: bytes = PAYLOAD,
        *,
        confirmed: bool = False,
        port: int = 2,
        retries: int = 0,
        transmissions: int = 1,
    ) -> Sent:
        """Send one message, to the end of its MAC cycle."""

    @abstractmethod
    async def join(self) -> Joining:
        """Join once, whether or not that succeeds."""

    @abstractmethod
    async def restart(self, *, memory: bool) -> None:
        """Restart with or without what the device remembers."""


class VirtualRigDevice(DeviceOfCase):
    """One device that is asked directly."""

    def __init__(self, provisioned: Provisioned, start: Callable[[], Awaitable[None]]) -> None:
        super().__init__(provisioned, start)
        self.firmware: VirtualDevice | None = None

    @property
    def session(self) -> DeviceSession | None:
        assert self.firmware is not None, "devices are switched on by the first act"
        return self.firmware.session

    @property
    def dev_nonce(self) -> int:
        assert self.firmware is not None, "devices are switched on by the first act"
        return self.firmware.dev_nonce

    async def start(self, medium: Medium, seed: int, record: Record) -> None:
        self.firmware = self.provisioned.firmware(medium, seed, record)

    async def stop(self) -> None:
        """There is nothing to give up."""

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
