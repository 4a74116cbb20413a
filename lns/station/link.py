"""The connection of one station, as the protocol sees it: whole texts, in order."""

from typing import Protocol


class LinkClosed(Exception):
    """The other side of a station link is gone."""


class TextLink(Protocol):
    """One station connection; LinkClosed when it is over."""

    async def send(self, text: str) -> None:
        """Hand one text to the other side."""

    async def receive(self) -> str:
        """The next text of the other side."""
