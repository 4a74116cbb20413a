"""A device under the name a scenario knows it by, whatever it is."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable

from bench.capture import Record
from bench.device.device_config import DeviceSession
from bench.device.interfaces import Joining, Sent
from bench.rig.provisioning import Provisioned
from bench.virtual.air.medium import Medium
from bench.virtual.session import Session

PAYLOAD = b"21.5 C"


class DeviceOfCase(ABC):
    """One device of one case, virtual or on a board.

    `start` of the rig switches everything on; every act calls it first.
    """

    def __init__(self, provisioned: Provisioned, start: Callable[[], Awaitable[None]]) -> None:
        self.provisioned = provisioned
        self._start = start

    @property
    @abstractmethod
    def session(self) -> DeviceSession | Session | None:
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
    async def set_adr(self, adr: bool) -> None:
        """Whether the network server may set how it sends, from now on."""

    @abstractmethod
    async def ask_time(self) -> None:
        """Ask the network for the time with the next message."""

    @abstractmethod
    async def ask_link(self) -> None:
        """Ask the network with the next message how well it is heard."""

    @abstractmethod
    async def restart(self, *, memory: bool) -> None:
        """Restart with or without what the device remembers."""
