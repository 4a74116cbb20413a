"""What may a scenario do to network servers, to their store and to the application?

Each of these is written to the capture as `fault.begin` and `fault.end`, origin `injected`. A
scenario that disturbs servers or store says so first (`@pytest.mark.fault`).
"""

from abc import ABC, abstractmethod
from typing import Any


class Faults(ABC):
    """The verbs for what goes wrong between stations and application; no station is harmed here."""

    @abstractmethod
    def on_outage(self, word: str) -> None:
        """What network servers do with a frame whose owner nobody can name; before the first act.

        "open": forward it, flagged; "closed": drop it.
        """

    @abstractmethod
    async def restart_lns(self, *, f_cnt_up: int | None = None, lns: str = "lns-a") -> None:
        """Restart a network server; what it had in memory only is gone.

        `f_cnt_up`: the newest counter that it had made durable, if that was not its newest.
        """

    @abstractmethod
    async def kill_lns(self, lns: str = "lns-a") -> None:
        """End a network server at once, as a crash does, until `start_lns`."""

    @abstractmethod
    async def start_lns(self, lns: str = "lns-a") -> None:
        """Start the network server that was killed, and wait until the stations are back."""

    @abstractmethod
    async def orphan_next_frame(self, device: Any) -> None:
        """Let a server claim a device's next frame and die before it has delivered anything.

        It is none of those that stations connect to; nothing is left of it but its claim.
        """

    @abstractmethod
    async def pause_lns_in_mid_claim(self, lns: str = "lns-a") -> None:
        """Let a network server stand still as soon as it has asked who owns its next frame.

        It learns the answer too late: after `resume_lns` and `restore_store`.
        """

    @abstractmethod
    def pause_lns(self, lns: str = "lns-a") -> None:
        """Let a network server do nothing, until `resume_lns`."""

    @abstractmethod
    def resume_lns(self, lns: str = "lns-a") -> None:
        """Let it go on."""

    @abstractmethod
    def cut_upstream(self) -> None:
        """Cut the wire between the network server and the application, until `restore_upstream`."""

    @abstractmethod
    async def restore_upstream(self) -> None:
        """Mend the wire; the network server finds it when its back-off is over."""

    @abstractmethod
    def cut_store(self, lns: str | None = None) -> None:
        """Cut the wires between all network servers, or one, and the store they share."""

    @abstractmethod
    def slow_store(self, us: int, lns: str | None = None) -> None:
        """Let what the store says to all network servers, or to one, arrive so much later.

        What it is asked to do it does at once.
        """

    @abstractmethod
    async def restore_store(self, lns: str | None = None) -> None:
        """Undo `cut_store` and `slow_store` for all network servers, or for one."""

    @abstractmethod
    async def restart_store(self, *, empty: bool) -> None:
        """Restart the store that the network servers share; `empty`: it knows nothing any more."""

    @abstractmethod
    def pause_store(self) -> None:
        """Let the store take everything and answer nothing, until `resume_store`."""

    @abstractmethod
    def resume_store(self) -> None:
        """Let the store go on, with what it was told meanwhile."""

    @abstractmethod
    def delay_upstream(self, us: int, messages: int = 1) -> None:
        """Let the application take each of the next messages only after so long."""

    @abstractmethod
    def refuse_upstream(self, messages: int = 1) -> None:
        """Let the application take none of the next messages."""

    @abstractmethod
    async def fill_disk(self, lns: str = "lns-a") -> None:
        """Let a network server's disk take nothing more that it promises the application."""

    @abstractmethod
    async def free_disk(self, lns: str = "lns-a") -> None:
        """Give it room again."""

    @abstractmethod
    def park_after(self, us: int) -> None:
        """Let network servers put aside what waits for the broker for longer; before the start."""

    @abstractmethod
    async def release_parked(self, lns: str = "lns-a") -> None:
        """End a network server, let what it has put aside be sent after all, and start it again.

        It tries as long as usual from then on.
        """

    @abstractmethod
    async def spoil_store(self, device: Any) -> None:
        """Write something foreign where the store has what servers know of a device."""

    @abstractmethod
    async def mend_store(self, device: Any) -> None:
        """Remove what is foreign; the store knows nothing of the device then."""

    @abstractmethod
    def step_wall_clock(self, us: int, *, lns: str = "lns-a") -> None:
        """Set the wall clock of a network server's host forward or back."""
