"""Which files let a network server and its stations know each other, and where do they lie?

server.crt server.key stations-ca.crt   what [tls] names; tokens.toml where stations have tokens
lns.toml devices.toml                   a configuration that can be started as it is
stations/<EUI>/tc.* cups.*              the home of each station, and what CUPS hands out
"""

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.certificates import (
    CATEGORIES,
    Authority,
    write_secret,
    write_server_files,
    write_station_files,
)
from bench.host.toml_text import toml_text
from lns.lorawan.identifiers import Eui
from lns.server import address

Shown = Literal["certificate", "token", "nothing"]

STATIONS = "stations"
_DEVICES = """# The devices of this network server. Replace the last line by tables like this one:
#
# [[device]]
# name = "alpha"
# dev_eui = "70B3D57ED0000001"
# activation = "otaa"
# join_eui = "70B3D57ED0000000"
# app_key = "env:ALPHA_APP_KEY"      # 32 hex digits, or env:NAME, or file:PATH
device = []
"""


@dataclass(frozen=True, slots=True)
class Setup:
    """What is to be made; the first of `hosts` stands in the URIs. No `cups_port`: no CUPS."""

    hosts: tuple[str, ...]
    port: int
    stations: tuple[Eui, ...]
    shown: Shown
    cups_port: int | None
    days: int
    region: str

    @property
    def tc_uri(self) -> str:
        """Where stations find their network server."""
        return address.uri("wss", self.hosts[0], self.port)

    @property
    def cups_uri(self) -> str | None:
        """Where stations find CUPS."""
        if self.cups_port is None:
            return None
        return address.uri("https", self.hosts[0], self.cups_port)


def write_setup(folder: Path, setup: Setup, *, overwrite: bool) -> list[Path]:
    """Make all files and put them into `folder`; the paths of what was written.

    FileExistsError, before anything is written, for files that are there, unless `overwrite`.
    ValueError for what no station takes. An existing `devices.toml` is always left alone.
    """
    address.public_uri(setup.tc_uri)
    with _made_beside(folder) as made:
        _make(made, setup)
        files = sorted(path.relative_to(made) for path in made.rglob("*") if path.is_file())
        if (folder / "devices.toml").exists():
            files.remove(Path("devices.toml"))
        there = [folder / file for file in files if (folder / file).exists()]
        if there and not overwrite:
            raise FileExistsError(*there)
        _remove_what_would_mislead(folder, setup)
        for file in files:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (made / file).replace(folder / file)
    return [folder / file for file in files]


def _make(folder: Path, setup: Setup) -> None:
    authority = Authority(days=setup.days)
    write_server_files(folder, authority, *setup.hosts)
    for station in setup.stations:
        _make_station(folder / STATIONS / station, authority, setup, station)
    if setup.shown == "token":
        lines = [f'{station} = "file:{STATIONS}/{station}/tc.key"' for station in setup.stations]
        write_secret(folder / "tokens.toml", ("\n".join(lines) + "\n").encode())
    (folder / "lns.toml").write_text(_lns_toml(setup))
    write_secret(folder / "devices.toml", _DEVICES.encode())


def _make_station(home: Path, authority: Authority, setup: Setup, station: Eui) -> None:
    # One certificate or token for both: the server asks for the same at both doors.
    client = authority.client(station) if setup.shown == "certificate" else None
    token = f"Bearer {secrets.token_urlsafe(24)}" if setup.shown == "token" else None
    for category, uri in zip(CATEGORIES, (setup.tc_uri, setup.cups_uri), strict=True):
        if uri is not None:
            trust = authority.certificate
            write_station_files(home, category, uri, trust=trust, client=client, token=token)


def _lns_toml(setup: Setup) -> str:
    host = setup.hosts[0]
    listen_host = "127.0.0.1" if address.is_loopback(host) else "0.0.0.0"  # noqa: S104
    if ":" in host:
        listen_host = "[::1]" if address.is_loopback(host) else "[::]"
    lns = {
        "id": "lns-a",
        "listen": f"{listen_host}:{setup.port}",
        "public_uri": setup.tc_uri,
        "region": setup.region,
        "devices": "devices.toml",
        "stations": list(setup.stations),
    }
    tls = {
        "cert": "server.crt",
        "key": "server.key",
        "client_ca": "stations-ca.crt" if setup.shown == "certificate" else None,
        "tokens": "tokens.toml" if setup.shown == "token" else None,
    }
    tables: dict[str, object] = {"lns": lns, "tls": tls}
    if setup.cups_port is not None:
        listen = f"{listen_host}:{setup.cups_port}"
        tables["cups"] = {"listen": listen, "credentials": STATIONS}
    return "# Made by `lorabench certificates`, to be started or to be copied from.\n" + (
        toml_text(tables)
    )


def _remove_what_would_mislead(folder: Path, setup: Setup) -> None:
    """Take away what an earlier setup left and this one has not, such as a .crt beside a token."""
    (folder / "tokens.toml").unlink(missing_ok=True)
    for station in setup.stations:
        for category in CATEGORIES:
            for suffix in ("uri", "trust", "crt", "key"):
                (folder / STATIONS / station / f"{category}.{suffix}").unlink(missing_ok=True)


@contextmanager
def _made_beside(folder: Path) -> Iterator[Path]:
    """A folder to make files in, on the same disk, which is gone afterwards."""
    existing = folder.absolute()
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir():
        raise NotADirectoryError(f"{existing} is no folder")
    made = Path(tempfile.mkdtemp(prefix=".lorabench-", dir=existing))
    try:
        yield made
    finally:
        shutil.rmtree(made)
        assert not os.path.lexists(made)
