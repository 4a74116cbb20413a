"""What is a rig put together from? Five parts, each in memory, as programs, or in a lab.

What a part can do it says in `capabilities`; `Rig` asks it for nothing else, and refuses what none
of its parts can. So a part need not know what it cannot do: here that does nothing (`return None`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from bench.device.interfaces import DeviceSession, Joining, Sent
from bench.inspection.store import Kept
from bench.plan import Item, needs
from bench.rig.configuration import ConsumerSettings
from bench.rig.provisioning import Provisioned
from bench.station import TextLink
from bench.station.tap import Tap
from bench.virtual.lorawan.air_interface import Session
from lns.dedup.claim import Bid
from lns.lorawan.identifiers import Eui

Frame = Sent | Joining

# --- devices ----------------------------------------------------------------------------------


class RigDevice(Protocol):
    """A device by name; every verb returns when the device is done with it."""

    @property
    def dev_eui(self) -> Eui:
        """Its DevEUI."""

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


class CaseDevice(RigDevice, Protocol):
    """One device of a case, virtual or on a board; each of its acts switches everything on first.

    `session` is what it has now, and `f_cnt_up` there the counter of its next frame; `dev_nonce`
    that of its last join request, 0 before the first.
    """

    provisioned: Provisioned

    @property
    def session(self) -> DeviceSession | Session | None: ...

    @property
    def dev_nonce(self) -> int: ...

    async def start(self) -> None:
        """Switch it on."""

    async def stop(self) -> None:
        """Switch it off; the case is over."""
        return None


class Devices(Protocol):
    """The devices of a case."""

    capabilities: frozenset[str]

    def new(self, provisioned: Provisioned) -> CaseDevice:
        """A device as scenarios use it, not switched on."""

    async def ready(self) -> None:
        """Wait until the devices may begin, in the state that the case needs."""
        return None

    def line_of(self, dev_eui: Eui, line: str) -> str | None:
        """How a device says what is due in the words of RUI3; None where it says nothing."""

    async def end(self) -> None:
        """Give up what the case has of them."""
        return None


# --- stations ---------------------------------------------------------------------------------


class RigStation(Protocol):
    """A station by name, as far as the tap on its link to the network server goes."""

    def delay_uplinks(self, us: int, receptions: int | None = None) -> None:
        """Hold the next receptions (all, if no number is given) for so long."""

    def drop_uplinks(self, receptions: int) -> None:
        """Lose the next receptions."""

    def lose_clock(self, answers: int) -> None:
        """Lose what it shows of its clock the next times that it is asked."""

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

    @needs(Item.SILENT)
    def reconnect_without_version(self) -> None:
        """End the connection; on the next ones the station does not introduce itself."""
        return None

    def restart(self) -> None:
        """Restart the station: its radio begins a new session."""

    @needs(Item.CLOCK)
    def break_clock(self) -> None:
        """Let it tell frames and clock without a time from now on."""
        return None

    @needs(Item.SESSION)
    def repeat_session(self) -> None:
        """Let its next restart draw the session byte that it has now."""
        return None

    @needs(Item.ATTENUATOR)
    def weaken(self, db: int) -> None:
        """Put so much more between this station and every device; before the first act."""
        return None

    @needs(Item.ANTENNA)
    def add_antenna(self, *, weaker_db: int) -> None:
        """Let it hear every frame once more, so much weaker; before the first act."""
        return None

    @needs(Item.GPS)
    def fit_gps(self) -> None:
        """Give it a GPS receiver, so that it tells the time of each frame; before the first act."""
        return None

    @needs(Item.DUTY_CYCLE)
    def keep_duty_cycle(self) -> None:
        """Let it send no more than EU868 allows in each band; before the first act."""
        return None


class CaseStation(RigStation, Protocol):
    """One station of a case, virtual or real, with the tap of that case on its link.

    `weaker_db`: how much weaker than others it hears; `longest_delay_us`: the longest delay that
    it was given.
    """

    name: str
    eui: Eui
    tap: Tap
    weaker_db: int
    longest_delay_us: int
    server: "NetworkServer"

    @property
    def is_up(self) -> bool:
        """Whether it hears and is heard, and can be asked to answer."""

    def start(self) -> None:
        """Switch tap and station on."""

    def stop(self) -> None:
        """Switch the tap off; the case is over."""


class Stations(Protocol):
    """The stations of a case, and who of them hears whom."""

    capabilities: frozenset[str]

    def new(self, name: str, eui: Eui, seed: int) -> CaseStation:
        """A station as scenarios use it, on the first network server."""

    def only(self, stations: tuple[str, ...]) -> None:
        """Let no other station hear any device from now on."""

    def heard_by(self, transmissions: Sequence[tuple[str, ...]]) -> None:
        """Let the next transmissions be heard by these."""

    async def switch_on(self) -> None:
        """Set up the air between devices and stations."""

    async def flood(self, frames: Iterable[Frame], *, by: str) -> None:
        """Let a station's radio hear frames at one moment."""
        return None

    async def replay(self, frame: Frame, *, by: str, after_us: int) -> None:
        """Deliver a frame once more, so long after it last reached the network server."""

    def shut_out(self, station: CaseStation) -> None:
        """Refuse a station, whatever it is connected to: nobody is behind its tap."""
        return None

    def let_in(self, station: CaseStation) -> None:
        """Serve a station by its tap again."""
        return None

    async def end(self) -> None:
        """Give up what the case has of them."""
        return None


# --- network servers and their wires ----------------------------------------------------------


class Wire(Protocol):
    """What lies between a network server and its store or its broker."""

    def cut(self) -> None:
        """Let nothing pass, until `restore`."""

    def delay(self, us: int) -> None:
        """Let every answer arrive so much later, until `restore`."""
        return None

    def lose_answers(self) -> None:
        """Let what the server says arrive, and nothing come back, until `restore`."""
        return None

    def hold(self) -> None:
        """Let what the server says wait, until `restore`."""
        return None

    def refuse(self, logins: int) -> None:
        """Let the next logins be refused at the other end."""
        return None

    async def restore(self) -> None:
        """Let everything pass at once again."""


class ServerFaults(Protocol):
    """What may happen to one network server."""

    def pause(self) -> None:
        """Let it do nothing, until `resume`."""
        return None

    def resume(self) -> None:
        """Let it go on."""
        return None

    def pause_in_mid_claim(self) -> None:
        """Let it stand still as soon as it has asked its store for something."""
        return None

    def fill_disk(self, breaks_after: int = 0, writes: int = 0) -> None:
        """Let its disk be full, or from so much later on (`break_disk`, `fill_store`)."""

    def free_disk(self) -> None:
        """Let it take and give everything again."""

    def set_upstream(self, key: str, value: int) -> None:
        """Give a key of its `[upstream]` another value than usual; before it starts."""

    async def release_parked(self) -> None:
        """Let what it had put aside be sent after all; it must not run."""

    def lose_outbox(self) -> None:
        """Forget what it had to publish; it must not run."""

    def fill_capture(self, room: int) -> None:
        """Let its capture take so many octets more each time; a longer line is not written."""
        return None

    def free_capture(self) -> None:
        """Let its capture take everything again."""
        return None

    def stumble(self, over: str) -> None:
        """Let its program be wrong once: over its store, the application, or a kind of event."""
        return None

    def share_client_id(self) -> None:
        """Let it name itself to the broker as others do; before it starts."""
        return None

    def step_wall_clock(self, us: int) -> None:
        """Set the wall clock of its host forward or back."""
        return None


class NetworkServer(ServerFaults, Protocol):
    """One LNS, in this process or as a program of its own; `lns` is its id."""

    lns: str

    @property
    def to_broker(self) -> Wire: ...

    @property
    def to_store(self) -> Wire: ...

    async def start(self) -> None:
        """Start it with the devices that it is to know."""

    async def connect(self, station: Eui) -> TextLink:
        """A link to the server for one station; LinkClosed when it does not run."""

    async def kill(self) -> None:
        """End it at once: what it had in memory only is gone."""

    async def start_again(self, *, f_cnt_up: int | None = None) -> None:
        """Start it with what it had made durable; `f_cnt_up` replaces the counters among that."""

    async def ask(self, dev_eui: Eui, body: bytes, *, waits_until_queued: bool) -> None:
        """Ask it for something for a device, as an application does over the broker."""

    def leave_half_open(self, station: Eui, noticed_after_us: int) -> None:
        """End the station's connection; the server notices so much later."""

    def stop(self) -> None:
        """End every connection; the case is over."""


class Servers(Protocol):
    """The network servers of a case, which share store and claims."""

    capabilities: frozenset[str]

    def new(self, lns: str) -> NetworkServer:
        """One more network server, not started."""

    def own(self) -> None:
        """Have network servers that no other case uses; before they are started."""
        return None

    def must_be_own(self, why: str) -> None:
        """RuntimeError where other cases use them too, which `why` would disturb."""
        return None

    async def ready(self) -> None:
        """Wait until this case may begin."""
        return None

    async def settle(self) -> None:
        """Wait until what they have done is in the capture."""
        return None

    def check(self) -> None:
        """ServerDied where one has ended and nobody asked it to."""
        return None

    def logs(self) -> Sequence[str]:
        """What each that is a program has logged so far."""
        return ()

    async def end(self) -> None:
        """End what is this case's own."""
        return None


# --- store and application --------------------------------------------------------------------


class Store(Protocol):
    """What the network servers of a case share: sessions, counters, claims."""

    capabilities: frozenset[str]

    async def ready(self) -> None:
        """Start the store of this case, where it has one of its own."""
        return None

    def remember_for(self, retention_us: int) -> None:
        """How long a claimed frame is remembered; before any was."""
        return None

    def must_be_own(self) -> None:
        """Refuse to be disturbed where other cases use it too."""
        return None

    async def claim(self, bid: Bid) -> None:
        """Claim a frame in the name of a server that is none of this rig's."""

    def kept(self, devices: Iterable[Eui]) -> Sequence[Kept]:
        """What it has of devices by now; nothing where only servers can look."""
        return ()

    async def restart(self, *, empty: bool) -> None:
        """Restart it; `empty`: it knows nothing any more."""

    def disturb(self, how: str) -> None:
        """Let it "fail over", "forget scripts", or "let expire" what it would some day."""
        return None

    async def bid_at_random(self, dev_eui: Eui, dice: Random) -> None:
        """Let servers that nobody runs claim frames of sessions that a device never had."""
        return None

    def pause(self) -> None:
        """Let it take everything and answer nothing, until `resume`."""
        return None

    def resume(self) -> None:
        """Let it go on, with what it was asked meanwhile."""
        return None

    async def spoil(self, dev_eui: Eui) -> None:
        """Write something foreign where it has what servers know of a device."""
        return None

    async def mend(self, dev_eui: Eui) -> None:
        """Remove what is foreign; it knows nothing of the device then."""
        return None

    async def end(self) -> None:
        """End it."""
        return None


class Consumer(Protocol):
    """One consumer, in this process or a program of its own."""

    settings: ConsumerSettings

    async def start(self) -> None:
        """Start it, and wait until the broker knows it; ConfigurationError."""

    async def kill(self) -> None:
        """End it at once."""

    async def crash(self, at: str) -> None:
        """Let it crash at its next message: "effect", "commit" or "ack"."""

    async def until_crashed(self) -> None:
        """Wait until it has crashed, if it is to; TimeoutError."""

    def unlimit(self) -> None:
        """Let the broker bring it more at a time than it takes."""
        return None

    def refuse_subscriptions(self, times: int) -> None:
        """Let the broker refuse what it asks for."""
        return None

    async def fill(self, room: int | None, octets: int | None = None) -> None:
        """Let its application have room for so many effects or octets and no more; None: for all.

        What is over the `octets` is written as far as it fits, and has to be taken back.
        """
        return None

    async def tamper(self) -> None:
        """Let it start in vain, while its effects are not what it left."""
        return None

    async def lose_acks(self) -> None:
        """Let the broker not hear what it acknowledges, until `redeliver`."""

    async def redeliver(self) -> None:
        """Let the broker bring it again what is not acknowledged."""


class Application(Protocol):
    """Whoever takes what network servers publish: the broker, and consumers behind it."""

    capabilities: frozenset[str]

    def new_consumer(self, settings: ConsumerSettings) -> Consumer:
        """A consumer that the first act will start."""

    async def ready(self) -> None:
        """Start broker and consumers, before any network server runs."""

    async def publish(
        self,
        topic: str,
        body: dict[str, object],
        properties: Mapping[str, str] | None = None,
        qos: int = 1,
    ) -> None:
        """Publish one message in the name of the bench, perhaps with user properties."""

    def to_store(self, consumer: str) -> Wire | None:
        """What lies between a consumer of this name and its store; None where there is none."""
        return None

    async def stop_broker(self) -> None:
        """End the broker, until `start_broker`."""

    async def start_broker(self) -> None:
        """Start the broker again, with what it had acknowledged."""

    def delay(self, us: int, messages: int, lns: str | None) -> None:
        """Take each of the next messages of a server, or of any, only after so long."""
        return None

    def refuse(self, messages: int, lns: str | None, *, broker: bool = False, of: str = "") -> None:
        """Take none of the next messages of a server or any, or the broker none (of a device)."""
        return None

    async def settle(self) -> None:
        """Wait until consumers have decided on all that there is."""
        return None

    async def end(self) -> None:
        """End broker and consumers."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What one rig is put together from."""

    devices: Devices
    stations: Stations
    servers: Servers
    store: Store
    application: Application

    @property
    def capabilities(self) -> frozenset[str]:
        return capabilities_of(
            self.devices, self.stations, self.servers, self.store, self.application
        )


def capabilities_of(*parts: Any) -> frozenset[str]:
    """What parts, or parts of these kinds, can do together."""
    return frozenset[str]().union(*(part.capabilities for part in parts))
