"""How do whole texts travel between a station, its tap and the network server?"""

from typing import Protocol

from lns.station.protocol import LinkClosed

__all__ = ["LinkClosed", "TextLink"]


class TextLink(Protocol):
    """One end of a connection that carries whole texts, in order, both ways."""

    @property
    def closed(self) -> bool:
        """Whether this end can send no more."""

    async def send(self, text: str) -> None:
        """Hand over one text; LinkClosed if the connection is over."""

    async def receive(self) -> str:
        """The next text; LinkClosed once the connection is over and everything sent was read."""

    def close(self) -> None:
        """End the connection for both ends."""
