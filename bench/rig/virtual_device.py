"""A virtual device, under the name a scenario knows it by."""

from collections.abc import Awaitable, Callable

from bench.capture import Record
from bench.device.device_config import Abp, Otaa
from bench.device.interfaces import Joining, Sent
from bench.rig.device import PAYLOAD, DeviceOfCase
from bench.rig.provisioning import FASTEST, Provisioned
from bench.virtual.air.medium import Medium
from bench.virtual.board.device import Asked, Settings, VirtualDevice
from bench.virtual.lorawan.channel_plan import ChannelPlan
from bench.virtual.session import Session
from lns.uplink.end_device import Activation, DeviceClass


class VirtualRigDevice(DeviceOfCase):
    """One device that is asked directly."""

    def __init__(self, provisioned: Provisioned, start: Callable[[], Awaitable[None]]) -> None:
        super().__init__(provisioned, start)
        self.firmware: VirtualDevice | None = None

    @property
    def session(self) -> Session | None:
        assert self.firmware is not None, "devices are switched on by the first act"
        return self.firmware.session

    @property
    def dev_nonce(self) -> int:
        assert self.firmware is not None, "devices are switched on by the first act"
        return self.firmware.dev_nonce

    async def start(self, medium: Medium, seed: int, record: Record) -> None:
        self.firmware = firmware_of(self.provisioned, medium, seed, record)

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
        if retries != firmware.retries:
            firmware.set_retries(retries)
        if transmissions > 1:
            firmware.set_nb_trans(transmissions)
        return await firmware.send(payload, port=port, confirmed=confirmed)

    async def join(self) -> Joining:
        firmware = await self._running()
        await firmware.join()
        assert firmware.last_join is not None
        return firmware.last_join

    async def set_adr(self, adr: bool) -> None:
        (await self._running()).set_adr(adr)

    async def ask_time(self) -> None:
        (await self._running()).ask(Asked.DEVICE_TIME)

    async def ask_link(self) -> None:
        (await self._running()).ask(Asked.LINK_CHECK)

    async def restart(self, *, memory: bool) -> None:
        firmware = await self._running()
        await firmware.restart(memory=memory)

    async def _running(self) -> VirtualDevice:
        await self._start()
        assert self.firmware is not None
        return self.firmware


def firmware_of(
    provisioned: Provisioned, medium: Medium, seed: int, record: Record
) -> VirtualDevice:
    """The device itself; its next counter follows the one the server has."""
    otaa = provisioned.record.activation is Activation.OTAA
    activation = (
        Otaa(provisioned.join_eui, provisioned.app_key)
        if otaa
        else Abp(provisioned.dev_addr, provisioned.keys)
    )
    device = VirtualDevice(
        provisioned.record.name,
        provisioned.dev_eui,
        activation,
        medium,
        seed=seed,
        record=record,
        stack=provisioned.stack,
        settings=Settings(
            dr=_dr(provisioned, medium.plan),
            adr=provisioned.adr,
            class_c=provisioned.record.device_class is DeviceClass.C,
        ),
    )
    if device.session is not None and provisioned.f_cnt_up is not None:
        device.session.f_cnt_up = provisioned.f_cnt_up + 1
    if device.session is not None and provisioned.f_cnt_down:
        device.session.f_cnt_down = provisioned.f_cnt_down - 1
    return device


def _dr(provisioned: Provisioned, plan: ChannelPlan) -> int:
    if provisioned.dr is not None:
        return provisioned.dr
    dr = plan.up_dr(FASTEST)
    assert dr is not None, "every region has SF7 in 125 kHz"
    return dr
