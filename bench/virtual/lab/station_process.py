"""A Basics Station as a process.

`python -m bench.virtual.lab.station_process DIR NAME EUI REGION`. It reads
DIR/NAME/tc.uri before every connection, and `tc.trust`, `tc.crt`, `tc.key` where they are. What it
prints are the lines by which a real one is known to be well, or not.
"""

import asyncio
import sys
from pathlib import Path

from bench.chance import stream
from bench.station import LinkClosed
from bench.station.web_socket import (
    StationRefused,
    StationTls,
    WebSocketLink,
    connect,
    discover,
    station_files,
)
from bench.transmission import Eui
from bench.verdict.wire import id6
from bench.virtual.lab import lab_folder
from bench.virtual.lab.air_process import DistantMedium, open_air
from bench.virtual.lab.lab_folder import live
from bench.virtual.lorawan.channel_plan import channel_plan
from bench.virtual.mac import Nvm
from bench.virtual.virtual_station import VirtualStation


def _say(level: str, text: str) -> None:
    print(f"{level}: {text}", flush=True)


class _Uplink:
    """The way from a station to its server, by the files in its home.

    Remembers where the server was, until it is to be discovered anew.
    """

    def __init__(self, home: Path, station: Eui) -> None:
        self._home = home
        self._station = station
        self._muxs: str | None = None

    def rediscover(self) -> None:
        """Forget where the server was."""
        self._muxs = None

    async def open(self) -> WebSocketLink:
        """Discovery, where it must be, then the data connection; LinkClosed with the reason."""
        try:
            uri, tls = station_files(self._home)
        except OSError as error:
            _say("ERRO", f"No TC URI configured ({error})")
            raise LinkClosed("no TC URI") from None
        if self._muxs is None:
            self._muxs = await self._discovered(uri, tls)
        _say("INFO", "Connecting to MUXS...")
        try:
            link = await connect(self._muxs, tls=tls)
        except LinkClosed as error:
            _say("ERRO", f"TC connect failed - URI: {error}")
            raise
        _say("VERB", "Connected to MUXS.")
        return link

    async def _discovered(self, uri: str, tls: StationTls | None) -> str:
        try:
            _say("INFO", f"Connecting to INFOS: {uri}")
            found = await discover(uri, self._station, tls=tls)
        except StationRefused as error:
            _say("ERRO", f"Infos error: {error}")
            raise
        except LinkClosed as error:
            _say("INFO", f"INFOS reconnect backoff: {error}")
            raise
        _say("INFO", f"Infos: {id6(self._station)} muxs-::0 {found}")
        return found


async def _run(folder: Path, name: str, station: Eui, region_name: str) -> None:
    home = lab_folder.home(folder, name)
    nvm = Nvm(home / "nvm.json")
    starts = nvm.get("starts", 0) + 1
    nvm.put(starts=starts)  # each start is another radio session
    line = await open_air(folder, name)
    uplink = _Uplink(home, station)
    virtual = VirtualStation(
        station,
        DistantMedium(channel_plan(region_name), line),
        uplink.open,
        rediscover=uplink.rediscover,
        seed=stream(0, name, str(starts)).getrandbits(32),
        record=lambda *_: None,
    )
    _say("INFO", "Station Ver : 2.0.6(emulated/std)")
    _say("INFO", f"Station EUI : {id6(station)}")
    _say("INFO", "Starting TC engine")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(line.run())
        tasks.create_task(virtual.run())


def main(words: list[str]) -> int:
    """Be the station until the process is ended."""
    folder, name, its_eui, region_name = words
    return live(_run(Path(folder), name, Eui(its_eui), region_name))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
