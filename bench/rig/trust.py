"""Whom do stations, taps and network servers of an emulated run trust, when it runs over TLS?"""

import ssl
from pathlib import Path

from bench.certificates import Authority, write_server_files
from bench.host.ports import LOOPBACK
from bench.station.station_tls import StationTls
from lns.lorawan.identifiers import Eui
from lns.server.access import server_context


class Trust:
    """One throw-away authority for all of a run, its files in `folder`.

    Servers ask every station for a certificate of its own.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = Authority()
        self._stations: dict[Eui, StationTls] = {}
        write_server_files(folder, self._authority, LOOPBACK)

    @property
    def settings(self) -> dict[str, str]:
        """The section `[tls]` of a network server."""
        names = {"cert": "server.crt", "key": "server.key", "client_ca": "stations-ca.crt"}
        return {key: str(self._folder / name) for key, name in names.items()}

    def server(self) -> ssl.SSLContext:
        """What a listener for stations shows and asks for."""
        return server_context(*(Path(path) for path in self.settings.values()))

    def station(self, station: Eui) -> StationTls:
        """What a station trusts and shows."""
        if station not in self._stations:
            self._authority.client(station).write(self._folder, station)
            crt, key = (self._folder / f"{station}.{suffix}" for suffix in ("crt", "key"))
            self._stations[station] = StationTls(self._folder / "stations-ca.crt", crt, key)
        return self._stations[station]
