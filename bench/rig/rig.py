"""What a scenario may do: send, spoil, replay, restart, wait, expect.

The verbs stand here once; below them a rig brings its own devices, air, stations and network
server. A scenario never asks which rig it is on.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from bench.device.interfaces import Joining, Sent
from bench.rig.consuming import Consuming
from bench.rig.faults import Faults
from bench.verdict.expectation import Table
from lns.dedup.strategy import Strategy

Frame = Sent | Joining


class RigDevice(Protocol):
    """A device by name; every verb returns when the device is done with it."""

    async def send(
        self,
        payload: bytes = ...,
        *,
        confirmed: bool = False,
        port: int = 2,
        retries: int = 0,
        transmissions: int = 1,
    ) -> Sent:
        """Send one message; `retries` for a confirmed one, `transmissions` for any (NbTrans)."""

    async def join(self) -> Joining:
        """Join once, whether or not that succeeds."""

    async def set_adr(self, adr: bool) -> None:
        """Set the ADR bit of its frames or clear it; a device obeys LinkADRReq only with it."""

    async def ask_time(self) -> None:
        """Ask the network for the time with the next message (DeviceTimeReq)."""

    async def ask_link(self) -> None:
        """Ask the network with the next message how well it is heard (LinkCheckReq)."""

    async def restart(self, *, memory: bool) -> None:
        """Restart with or without what the device remembers."""


class RigStation(Protocol):
    """A station by name, as far as the tap on its link to the network server goes."""

    def delay_uplinks(self, us: int, receptions: int | None = None) -> None:
        """Hold the next receptions (all, if no number is given) for so long."""

    def drop_uplinks(self, receptions: int) -> None:
        """Lose the next receptions."""

    def repeat_uplinks(self, after_us: int, times: int = 1) -> None:
        """Deliver the next reception again, as a stuttering backhaul does."""

    def clone_uplinks_to(self, station: str, after_us: int) -> None:
        """Deliver every reception also as if the other station had heard it."""

    def suppress_downlinks(self, downlinks: int) -> None:
        """Lose the next downlinks: the device misses its window."""

    def delay_downlinks(self, us: int, downlinks: int | None = None) -> None:
        """Bring the next downlinks late."""

    def cut(self) -> None:
        """Take the link away, until `restore`."""

    def restore(self) -> None:
        """Let the station connect again, when its back-off is over."""

    def leave_half_open(self, noticed_after_us: int) -> None:
        """End the connection so that the network server notices only so much later."""

    def reconnect_without_version(self) -> None:
        """End the connection; on the next ones the station does not introduce itself."""

    def restart(self) -> None:
        """Restart the station: its radio begins a new session."""

    def break_clock(self) -> None:
        """Let it tell frames and clock without a time from now on."""

    def repeat_session(self) -> None:
        """Let its next restart draw the session byte that it has now."""

    def weaken(self, db: int) -> None:
        """Put so much more between this station and every device; before the first act."""

    def add_antenna(self, *, weaker_db: int) -> None:
        """Let it hear every frame once more, so much weaker; before the first act."""

    def fit_gps(self) -> None:
        """Give it a GPS receiver, so that it tells the time of each frame; before the first act."""

    def keep_duty_cycle(self) -> None:
        """Let it send no more than EU868 allows in each band; before the first act."""


class Rig(Faults, Consuming):
    """Devices, stations and a network server in a known state, and what may happen to them."""

    strategy: Strategy
    capabilities: frozenset[str]
    """What a scenario may ask for with `requires(...)` and have here."""

    @property
    def west(self) -> RigStation:
        """The first station."""
        return self.station("west")

    @property
    def east(self) -> RigStation:
        """The second station."""
        return self.station("east")

    @property
    def north(self) -> RigStation:
        """A third station, for those who ask for it."""
        return self.station("north")

    @property
    def alpha(self) -> RigDevice:
        """An ABP device in the middle of its life: its next frame has FCnt 10."""
        return self.device("alpha")

    @property
    def bravo(self) -> RigDevice:
        """An OTAA device that has not joined yet."""
        return self.device("bravo")

    @property
    def charlie(self) -> RigDevice:
        """A second device like alpha, with other keys and the same counter."""
        return self.device("charlie")

    @abstractmethod
    def in_region(self, name: str) -> None:
        """Use another region than EU868; before the first act."""

    @abstractmethod
    def put_on(self, lns: str, *stations: str) -> None:
        """Let stations connect to another network server (`lns-b`, …); before the first act.

        It knows the same devices, and shares sessions and claims with the first one.
        """

    @abstractmethod
    def dedup(self, *, retention: int | None = None, entries_max: int | None = None) -> None:
        """Let every network server remember frames for so long (µs), and so many; before the start.

        Without it as the run says: a minute, and a million.
        """

    @abstractmethod
    def impersonate(self, station: str, *, by: str) -> RigStation:
        """Add a station, named `by`, that says it has the EUI of another one."""

    @abstractmethod
    def station(self, name: str) -> RigStation:
        """A station by name; one that nobody asked for before is added."""

    @abstractmethod
    def device(self, name: str) -> RigDevice:
        """A device by name."""

    @abstractmethod
    def provision(self, name: str, **facts: Any) -> RigDevice:
        """Provision one more device: `activation`, `strategy`, `relaxed_f_cnt`, `nb_trans`, …

        `adr`: whether its frames have the ADR bit, by default where `nb_trans` is set.

        A fresh device that nobody has heard, unless `f_cnt` says which counter comes next.
        """

    @abstractmethod
    def stranger(self, *, activation: str = "abp") -> RigDevice:
        """A device that the network server does not know."""

    @abstractmethod
    def only(self, *stations: str) -> None:
        """Let no other station hear any device from now on."""

    @abstractmethod
    def heard_by(self, *stations: str | Iterable[str]) -> None:
        """Let the next transmissions be heard by these: one entry for each transmission."""

    @abstractmethod
    async def replay(self, frame: Frame, *, by: str, after: int = 1_000_000) -> None:
        """Deliver a frame once more, `after` µs since it last reached the network server."""

    @abstractmethod
    async def hear(self, phy: str, *, of: RigDevice, f_cnt: int, by: str) -> Sent:
        """Deliver a given frame of a device (hex), as if a station had just heard it."""

    @abstractmethod
    async def craft(
        self,
        device: RigDevice,
        *,
        confirmed: bool = False,
        payload: bytes = ...,
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

    @abstractmethod
    async def craft_join(
        self, device: RigDevice, *, dev_nonce: int | None = None, join_eui: str | None = None
    ) -> Joining:
        """A join request of a device, built by the bench; nobody hears it before `say`.

        By default with the DevNonce that the device will use next, and with its own JoinEUI.
        """

    @abstractmethod
    async def flood(self, device: RigDevice, *, by: str, frames: int) -> list[Sent]:
        """Let a station's radio hear so many frames of a device at one moment."""

    @abstractmethod
    def told(
        self, frame: Frame, *, by: str, dr: int | None = None, freq_hz: int | None = None
    ) -> str:
        """The text of a station that has just heard a frame, or believes so."""

    @abstractmethod
    async def say(self, text: str, *, by: str) -> None:
        """Let a station say something to the network server, whatever it is."""

    @abstractmethod
    async def forge(self, device: RigDevice, *, by: str, confirmed: bool = False) -> Sent:
        """Deliver a frame in the name of a device, with a wrong MIC."""

    @abstractmethod
    async def forge_join(self, device: RigDevice, *, by: str) -> Joining:
        """Deliver the device's next join request with a wrong MIC."""

    @abstractmethod
    async def queue_downlink(
        self, device: RigDevice, *, payload: bytes, port: int = 2, confirmed: bool = False
    ) -> None:
        """Let the application want something sent to a device; it waits in the server then."""

    @abstractmethod
    async def queue_status(self, device: RigDevice) -> None:
        """Let the application want to know the status of a device; the server asks it then."""

    @abstractmethod
    async def post_request(self, device: RigDevice, body: bytes) -> None:
        """Let an application ask for something for a device that no server can read."""

    @abstractmethod
    async def wait(self, us: int) -> None:
        """Let time pass."""

    @abstractmethod
    async def wait_until(self, us: int) -> None:
        """Let time pass until so much of it is over since the first act."""

    @abstractmethod
    async def meanwhile(self, us: int, action: Callable[[], None]) -> None:
        """Do something so much later, while the scenario goes on."""

    @abstractmethod
    async def settle(self) -> None:
        """Let everything under way come to its end."""

    @abstractmethod
    def expect(self, frame: Frame, table: Table, **stations: str | tuple[str, ...]) -> None:
        """Expect the receptions of a frame to become what the table says for this strategy."""

    @abstractmethod
    def expect_race(self, frame: Frame, table: Table, *, between: Sequence[str]) -> None:
        """Expect stations to deliver a frame at one moment, each column of the table for one.

        Any of them may get the words of any column, and exactly one each.
        """

    @abstractmethod
    def expect_reply(self, frame: Frame, line: str | None = None) -> None:
        """Expect the device to say a line; by default what a successful `frame` ends in."""

    @abstractmethod
    def expect_downlink(
        self, device: RigDevice, payload: bytes, *, port: int = 2, window: str = "1"
    ) -> None:
        """Expect the device to print what the application sent, heard in window 1, 2 or C."""

    @abstractmethod
    def expect_status(self, device: RigDevice, *, times: int = 1) -> None:
        """Expect the application to be told so often what a device says of itself."""

    @abstractmethod
    def expect_evictions(self, times: int) -> None:
        """Expect network servers to tell so often that level 1 was full, and forgot too early."""

    @abstractmethod
    def expect_upstream(self, uplink: Sent, *, through: str, **body: object) -> None:
        """Expect these fields in every message that the application gets of an uplink by a station.

        How many messages it gets is a matter of `expect`.
        """

    @abstractmethod
    def expect_answer(self, frame: Frame, **said: int | bool | None) -> None:
        """Expect the next answer to a frame to say this as it leaves the network server.

        Of the frame: `f_cnt` as on the wire, `ack`, `f_pending`, `f_port` (None: there is none) and
        `confirmed`; of the message to the station: `rctx`, `rx_delay_s`, `rx1_dr`, `rx1_freq_hz`,
        `rx2_dr`, `rx2_freq_hz`. What is not named may be anything.
        """

    @abstractmethod
    def expect_on_air(self, frame: Frame, *windows: str) -> None:
        """Expect the answers to a frame that stations report on the air to use these windows."""
