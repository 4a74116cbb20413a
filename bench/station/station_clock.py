"""What does the clock of a real station show now, as far as it has told?"""

from bench.station.link import TextLink
from bench.verdict.wire import json_of
from lns.clock import now_us


class StationClock:
    """The concentrator's counter (xtime) of one station; remembers what it told last, and when.

    Every text with an `xtime`, and the answer to `getxtime`, tells it: late by what the text took
    on its way, some milliseconds on a LAN.
    """

    def __init__(self) -> None:
        self._xtime = 0
        self._told_us = 0

    @property
    def is_told(self) -> bool:
        """Whether it has told anything: then its radio runs."""
        return self._xtime > 0

    def forget(self) -> None:
        """The station connects anew: its radio may begin a new session."""
        self._xtime = 0

    def learn(self, text: str) -> None:
        """Take a text of the station."""
        fields = json_of(text)
        if fields is None:
            return
        upinfo = fields.get("upinfo")
        told = upinfo.get("xtime") if isinstance(upinfo, dict) else None
        if told is None and fields.get("msgtype") == "getxtime":
            xtimes = fields.get("xtimes")
            told = xtimes[0] if isinstance(xtimes, list) and xtimes else None
        if isinstance(told, int) and told > 0:
            self._xtime, self._told_us = told, now_us()

    def xtime_now(self) -> int:
        """What it shows now; 0 before it has told anything."""
        return self._xtime + now_us() - self._told_us if self._xtime else 0


class OverheardLink:
    """The link of a station, whose clock is learnt from whatever it says."""

    def __init__(self, link: TextLink, clock: StationClock) -> None:
        self._link = link
        self._clock = clock

    @property
    def closed(self) -> bool:
        """Whether this end can send no more."""
        return self._link.closed

    async def send(self, text: str) -> None:
        """Hand over one text; LinkClosed if the connection is over."""
        await self._link.send(text)

    async def receive(self) -> str:
        """The next text, from which the clock has learnt; LinkClosed."""
        text = await self._link.receive()
        self._clock.learn(text)
        return text

    def close(self) -> None:
        """End the connection for both ends."""
        self._link.close()
