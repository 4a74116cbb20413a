"""Frames that no device sends now: said again, built by the bench, forged, or made up."""

from typing import Any

from bench.device.interfaces import Joining, Sent
from bench.plan.needs import Item, needs
from bench.rig.case_setup import CaseSetup
from bench.rig.interfaces import Frame, RigDevice, Stations
from bench.rig.provisioning import PAYLOAD
from bench.rig.stations import reception_text, sent_text, sessions_opened
from bench.virtual import crafted
from bench.virtual.lorawan.frames import Keys
from lns.lorawan.identifiers import eui


class InjectedFrames:
    """Lets stations deliver what nobody sends, and keeps the books of it."""

    def __init__(self, setup: CaseSetup, stations: Stations) -> None:
        self.setup = setup
        self.must_have = setup.must_have
        self._stations = stations

    @needs(Item.REPLAYER)
    async def replay(self, frame: Frame, *, by: str, after: int = 1_000_000) -> None:
        """Deliver a frame once more, `after` µs since it last reached the network server."""
        await self.setup.begin()
        await self._stations.replay(frame, by=by, after_us=self.setup.retimed(after))

    async def hear(self, phy: str, *, of: RigDevice, f_cnt: int, by: str) -> Sent:
        """Deliver a given frame of a device (hex), as if a station had just heard it."""
        await self.setup.begin()
        sent = crafted.found(of.dev_eui, bytes.fromhex(phy), f_cnt)
        self.announce(sent)
        await self._deliver_alone(sent, by)
        return sent

    async def craft(
        self,
        device: Any,
        *,
        confirmed: bool = False,
        payload: bytes = PAYLOAD,
        port: int | None = 2,
        f_cnt: int | None = None,
        f_opts: bytes = b"",
        adr: bool = False,
        adr_ack_req: bool = False,
        ack: bool = False,
        class_b: bool = False,
    ) -> Sent:
        """The next frame of a device, built by the bench; nobody hears it before `say`.

        With `f_cnt` one that it sent some time ago, and that somebody recorded. `f_opts`: the MAC
        commands in its header, up to 15 bytes; on port 0 they are its payload. Without a port
        (None) it has no payload either. `class_b`: it says that it listens to beacons.
        """
        await self.setup.begin()
        session = device.session
        if f_cnt is None:
            f_cnt, session.f_cnt_up = session.f_cnt_up, session.f_cnt_up + 1
        sent = crafted.data(
            device.dev_eui,
            session.dev_addr,
            session.keys,
            f_cnt,
            session=session.number,
            confirmed=confirmed,
            payload=payload,
            port=port,
            f_opts=f_opts,
            adr=adr,
            adr_ack_req=adr_ack_req,
            ack=ack,
            class_b=class_b,
        )
        self.announce(sent)
        return sent

    async def craft_join(
        self, device: Any, *, dev_nonce: int | None = None, join_eui: str | None = None
    ) -> Joining:
        """A join request of a device, built by the bench; nobody hears it before `say`.

        By default with the DevNonce that the device will use next, and with its own JoinEUI.
        """
        await self.setup.begin()
        nonce = device.dev_nonce + 1 if dev_nonce is None else dev_nonce
        other_eui = None if join_eui is None else eui(join_eui)
        joining = crafted.join(device.provisioned.identity, nonce, join_eui=other_eui)
        self.announce(joining)
        return joining

    @needs(Item.BURST)
    async def flood(self, device: RigDevice, *, by: str, frames: int) -> list[Sent]:
        """Let a station's radio hear so many frames of a device at one moment."""
        await self.setup.begin()
        sent = [await self.craft(device) for _ in range(frames)]
        await self._stations.flood(sent, by=by)
        await self.setup.pause(1_000_000)
        return sent

    def told(
        self, frame: Frame, *, by: str, dr: int | None = None, freq_hz: int | None = None
    ) -> str:
        """The text of a station that has just heard a frame, or believes so."""
        xtime = self.setup.station(by).tap.xtime_now()
        return reception_text(frame.phy, self.setup.region, xtime, dr=dr, freq_hz=freq_hz)

    def sent(self, *, by: str, late: int = 0) -> str:
        """The text of a station that has sent the newest downlink that it was handed.

        `late`: so many µs after RX1 opened. LookupError where it was handed none.
        """
        return sent_text(self.setup.case.events, self.setup.station(by).eui, late_us=late)

    async def say(self, text: str, *, by: str) -> None:
        """Let a station say something to the network server, whatever it is."""
        await self.setup.begin()
        self.setup.station(by).tap.inject(text)
        await self.setup.pause(0)

    async def forge(self, device: Any, *, by: str, confirmed: bool = False) -> Sent:
        """Deliver a frame in the name of a device, with a wrong MIC."""
        await self.setup.begin()
        session = device.session
        sent = crafted.data(
            device.dev_eui,
            session.dev_addr,
            session.keys,
            session.f_cnt_up,
            confirmed=confirmed,
            forged=True,
        )
        self.announce(sent, genuine=False)
        await self._deliver_alone(sent, by)
        return sent

    async def forge_join(self, device: Any, *, by: str) -> Joining:
        """Deliver the device's next join request with a wrong MIC."""
        await self.setup.begin()
        identity = device.provisioned.identity
        joining = crafted.join(identity, device.dev_nonce + 1, forged=True)
        self.announce(joining, genuine=False)
        await self._deliver_alone(joining, by)
        return joining

    def announce(self, frame: Frame, *, genuine: bool = True) -> None:
        """Note a frame that the bench made, so that the books know who sent it."""
        facts: dict[str, object] = {"dev_eui": frame.dev_eui, "frame_id": frame.frame_id}
        if isinstance(frame, Sent):
            facts |= {"session": frame.session, "f_cnt": frame.f_cnt}
        self.setup.medium.announce(frame.dev_eui, frame.phy, {**facts, "genuine": genuine})

    def deliver(self, frame: Frame, *, by: str) -> None:
        """Let a station deliver a frame now, as if it had just heard it."""
        self.setup.station(by).tap.replay(self.told(frame, by=by))

    async def _deliver_alone(self, frame: Frame, by: str) -> None:
        self.deliver(frame, by=by)
        await self.setup.pause(1_000_000)

    def sessions_opened(self, device: Any) -> list[tuple[str, Keys]]:
        """The sessions that join accepts have opened for a device, oldest first."""
        return sessions_opened(self.setup.case.events, device.identity)
