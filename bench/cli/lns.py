"""`lorabench lns`, `certificates` and `emulate`: a network server, its files, a lab in software.

server.crt server.key stations-ca.crt   what [tls] names; tokens.toml where stations have tokens
lns.toml devices.toml                   a configuration that can be started as it is
stations/<EUI>/tc.* cups.*              the home of each station, and what CUPS hands out
"""

import asyncio
import os
import re
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from bench.cli.output import (
    AsJson,
    BenchBroken,
    Flag,
    Refused,
    RegionName,
    answer,
    command_line,
    facts_of,
    labelled,
    print_json,
    refusing,
    region_of,
    shown_path,
)
from bench.host.lns_files import (
    CATEGORIES,
    Authority,
    toml_text,
    write_secret,
    write_server_files,
    write_station_files,
)
from bench.host.program import HostError
from bench.night.record import ExitCode
from bench.virtual.lab import lab_folder
from bench.virtual.lab.emulated_lab import EmulatedLab
from lns.__main__ import main
from lns.capture import naming
from lns.config import ConfigError, load
from lns.lorawan.identifiers import Eui, eui
from lns.server import address
from lns.startup import prepare

EXAMPLES = (
    "lorabench lns lns.toml",
    "lorabench lns lns.toml --check",
    "lorabench certificates --station 0016C001F1500001",
    "lorabench certificates --station 16:c001:f150:1 --station 16:c001:f150:2 --show token"
    " --cups-port 6091",
    "lorabench certificates --station 0016C001F1500001 --host lns.example --host 192.0.2.7",
    "lorabench emulate --folder lab",
    "lorabench run --rig hardware --bench lab/bench.toml",
    "lorabench emulate --control lab unplug dut",
    "lorabench emulate --control lab attenuate west 90",
)


def lns(config: Path, /, *, check: Flag = False, as_json: AsJson = False) -> int:
    """Serve stations until Ctrl-C or SIGTERM.

    Prints `listening <URI>` once stations can connect. As `python -m lns` it exits with 0 when it
    was stopped, and with 4 when the configuration is wrong: each mistake is a line with file, line
    and key. --json goes with --check.

    :param config: The lns.toml of the network server.
    :param check: Read and check the configuration, then stop.
    """
    if not as_json:
        return main([str(config), "--check"] if check else [str(config)])
    if not check:
        raise Refused(
            "--json goes with --check. What a running server does is told by the file that"
            " `path` in its [capture] section names."
        )
    return _checked(config)


def _checked(config: Path) -> int:
    try:
        found = load(config)
        startup = prepare(found)
    except ConfigError as error:
        print_json({"file": config, "works": False, "mistakes": str(error).splitlines()})
        return ExitCode.USAGE
    devices = [facts_of(d, "name", "dev_eui", "activation", "strategy") for d in found.devices]
    settings = found.settings.lns
    print_json(
        {
            "file": config,
            "works": True,
            "lns": settings.id,
            "region": settings.region,
            "stations_show": startup.access.required,
            "devices": devices,
        }
    )
    return ExitCode.PASSED


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
        return address.uri("wss", self.hosts[0], self.port)

    @property
    def cups_uri(self) -> str | None:
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
        with naming(folder):
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
    (folder / "tokens.toml").unlink(missing_ok=True)
    for station in setup.stations:
        for category in CATEGORIES:
            for suffix in ("uri", "trust", "crt", "key"):
                (folder / STATIONS / station / f"{category}.{suffix}").unlink(missing_ok=True)


@contextmanager
def _made_beside(folder: Path) -> Iterator[Path]:
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


_FILES_SHOWN_MAX = 3
DAYS_MAX = 36_500
_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:]+")


def certificates(
    *,
    station: Annotated[list[str], Parameter(name="--station", negative=())],
    into: Path = Path("certificates"),
    host: Annotated[list[str] | None, Parameter(name="--host", negative=())] = None,
    port: int = 6090,
    cups_port: int | None = None,
    show: Shown = "certificate",
    region: RegionName = "EU868",
    days: int = 365,
    overwrite: Flag = False,
    as_json: AsJson = False,
) -> int:
    """Make a throw-away authority, the TLS files of a network server and those of its stations.

    The key of the authority is not kept: for one station more, make all of them anew. Keys and
    tokens are in files that only you can read, and are never printed.

    :param station: EUI of a station; once for each.
    :param into: Where the files are put.
    :param host: Name or address under which stations reach the server, 127.0.0.1 if left out; may
        be repeated, the first stands in tc.uri.
    :param port: Port of the network server.
    :param cups_port: Port of CUPS; no cups.* files if left out.
    :param show: What a station has to show.
    :param days: How long the certificates are good.
    :param overwrite: Replace files that are there already.
    """
    setup = Setup(
        hosts=tuple(_host(text) for text in host or ["127.0.0.1"]),
        port=_port(port),
        stations=tuple(dict.fromkeys(_eui(text) for text in station)),
        shown=show,
        cups_port=None if cups_port is None else _port(cups_port),
        days=days,
        region=region_of(region).name,
    )
    if not 1 <= days <= DAYS_MAX:
        raise Refused(f"--days has to be 1 to {DAYS_MAX}.")
    if setup.cups_port == setup.port:
        raise Refused("CUPS needs a port of its own: give --cups-port another number.")
    try:
        written = write_setup(into, setup, overwrite=overwrite)
    except FileExistsError as error:
        raise Refused(_already_there(list(error.args))) from error
    except ValueError as error:
        raise Refused(f"No station takes this: {error}.") from error
    start = command_line("lns", shown_path(into / "lns.toml"))
    document = _document(into, setup, written, start)
    return answer(document, _told(into, setup, start), as_json=as_json)


def _told(into: Path, setup: Setup, start: str) -> list[str]:
    homes = shown_path(into / STATIONS)
    shows = {
        "certificate": "a client certificate",
        "token": "a token, in an Authorization header",
        "nothing": "nothing",
    }
    rows: list[tuple[str, object]] = [
        ("server", f"{shown_path(into)}/: server.crt, server.key, stations-ca.crt, lns.toml"),
        ("stations", f"{homes}/<EUI>/: copy the files of a station into its home"),
        ("tc.uri", setup.tc_uri),
    ]
    if setup.cups_uri is not None:
        rows.append(("cups.uri", setup.cups_uri))
    rows += [
        ("they show", shows[setup.shown]),
        ("good for", f"{setup.days} days; {', '.join(setup.hosts)}"),
        ("devices", f"{shown_path(into / 'devices.toml')}: write yours there"),
        ("start it", start),
    ]
    return labelled(rows)


def _document(into: Path, setup: Setup, written: list[Path], start: str) -> dict[str, object]:
    return {
        "folder": into,
        "files": written,
        "lns_toml": into / "lns.toml",
        "tc_uri": setup.tc_uri,
        "cups_uri": setup.cups_uri,
        "show": setup.shown,
        "days": setup.days,
        "stations": {station: into / STATIONS / station for station in setup.stations},
        "start": start,
    }


def _already_there(files: list[Path]) -> str:
    shown = ", ".join(shown_path(file) for file in files[:_FILES_SHOWN_MAX])
    more = f" and {len(files) - _FILES_SHOWN_MAX} more" if len(files) > _FILES_SHOWN_MAX else ""
    return (
        f"Nothing was written, as there are files already: {shown}{more}."
        " Add --overwrite to replace them, or name another folder with --into."
    )


def _host(text: str) -> str:
    if not _HOST.fullmatch(text):
        raise Refused(
            f"{text} is no host. Give a name or an address without scheme and port, such as"
            " lns.example, 192.0.2.7 or ::1; international names in their xn-- form."
        )
    return text


def _eui(text: str) -> Eui:
    try:
        return eui(text)
    except ValueError as error:
        raise Refused(
            f"{text} is no EUI of a station. Write it as 0016C001F1500001,"
            " 00-16-C0-01-F1-50-00-01 or 16:c001:f150:1."
        ) from error


def _port(number: int) -> int:
    if not 0 < number < 65_536:
        raise Refused(f"{number} is no TCP port: 1 to 65535.")
    return number


Words = Annotated[
    str, Parameter(help="With --control: what to do, to whom, and the value of `attenuate`.")
]


def emulate(
    *words: Words,
    folder: Path | None = None,
    tap: str = "127.0.0.1:6090",
    region: RegionName = "EU868",
    control_folder: Annotated[Path | None, Parameter(name="--control")] = None,
    as_json: AsJson = False,
) -> int:
    """Run boards, stations and the air between them as processes, until Ctrl-C or SIGTERM.

    Two boards with RUI3, a LoRa-E5, a replayer and two Basics Stations. Prints the path of the
    bench.toml that describes them. With --control something is done to a lab that runs elsewhere:
    unplug, plug, power-off, power-on, power-cycle, reset, reboot, mute, unmute, deaf, hearing,
    attenuate, kill-station, start-station, restart-station.

    :param folder: Where the lab lives, its flash memories too; else a temporary folder.
    :param tap: Host and port where the stations connect, as in bench.toml.
    :param control_folder: The folder of a running lab to do something in.
    """
    if control_folder is not None:
        return _control(control_folder, words)
    region_of(region)
    if words:
        raise Refused(f"{words[0]!r}: something is done with --control and the lab's folder.")
    uri = _tap_uri(tap)
    where = folder or Path(tempfile.mkdtemp(prefix="lorabench-lab-"))
    with refusing(HostError, by=BenchBroken):
        asyncio.run(_run(EmulatedLab(where, uri, region=region), as_json=as_json))
    return ExitCode.PASSED


def _tap_uri(tap: str) -> str:
    try:
        address.host_and_port(tap)
        return address.file_uri(f"ws://{tap}", "tc")
    except ValueError:
        wanted = "a host and a port from 1 to 65535, such as 127.0.0.1:6090"
        raise Refused(f"--tap {tap}: it is {wanted}.") from None


def _control(folder: Path, words: tuple[str, ...]) -> int:
    if len(words) not in (2, 3) or words[0] not in lab_folder.VERBS:
        raise Refused(
            "--control takes a verb and a name, such as `unplug dut`. Verbs: "
            + ", ".join(lab_folder.VERBS)
        )
    with refusing(lab_folder.ControlRefused):
        asyncio.run(lab_folder.ask(folder, *words))
    return ExitCode.PASSED


async def _run(lab: EmulatedLab, *, as_json: bool) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    async with lab:
        answer({"bench": lab.bench_toml}, [str(lab.bench_toml)], as_json=as_json)
        sys.stdout.flush()  # somebody may wait for it at the end of a pipe
        watching = asyncio.ensure_future(lab.watch())
        ending = asyncio.ensure_future(ended.wait())
        await asyncio.wait((watching, ending), return_when=asyncio.FIRST_COMPLETED)
        if watching.done():
            watching.result()
        watching.cancel()
        ending.cancel()
        with suppress(asyncio.CancelledError):
            await watching
