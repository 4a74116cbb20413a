"""What has a network server written into its own capture since we looked last?"""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

from bench.capture.reading import Event

_AGAIN_S = 0.02


class CaptureFollower:
    """Follows the capture file of one process, and hands over each whole line as it appears.

    A line that was torn when its process was killed is left out and counted. The file may not be
    there yet.
    """

    def __init__(self, path: Path, take: Callable[[Event], None]) -> None:
        self._path = path
        self._take = take
        self._position = 0
        self._rest = b""
        self.torn = 0

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            self.read()
            await asyncio.sleep(_AGAIN_S)

    def read(self) -> None:
        """Hand over what has been written until now."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                new = file.read()
        except FileNotFoundError:
            return
        self._position += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        for line in filter(bytes.strip, lines):
            try:
                event = json.loads(line)
            except ValueError:
                self.torn += 1
                continue
            self._take(event)
