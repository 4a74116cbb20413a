"""`lorabench certificates`: how do stations and a network server come to know each other?"""

import re
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from bench.cli.exit_code import ExitCode, Refused
from bench.cli.options import AsJson
from bench.cli.output import command_line, labelled, print_json, print_lines, shown_path
from bench.cli.station_setup import STATIONS, Setup, Shown, write_setup
from lns.lorawan.identifiers import Eui, eui
from lns.lorawan.region import RegionName

EXAMPLES = (
    "lorabench certificates --station 0016C001F1500001",
    "lorabench certificates --station 16:c001:f150:1 --station 16:c001:f150:2 --show token"
    " --cups-port 6091",
    "lorabench certificates --station 0016C001F1500001 --host lns.example --host 192.0.2.7",
)

_FILES_SHOWN_MAX = 3
_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:]+")


def certificates(
    *,
    station: Annotated[
        list[str],
        Parameter(name="--station", negative=(), help="EUI of a station; once for each."),
    ],
    into: Annotated[Path, Parameter(help="Where the files are put.")] = Path("certificates"),
    host: Annotated[
        list[str] | None,
        Parameter(
            name="--host",
            negative=(),
            help="Name or address under which stations reach the server, 127.0.0.1 if left out;"
            " may be repeated, the first stands in tc.uri.",
        ),
    ] = None,
    port: Annotated[int, Parameter(help="Port of the network server.")] = 6090,
    cups_port: Annotated[
        int | None, Parameter(help="Port of CUPS; no cups.* files if left out.")
    ] = None,
    show: Annotated[Shown, Parameter(help="What a station has to show.")] = "certificate",
    region: Annotated[RegionName, Parameter(help="Region of the network server.")] = "EU868",
    days: Annotated[int, Parameter(help="How long the certificates are good.")] = 365,
    overwrite: Annotated[
        bool,
        Parameter(negative=(), show_default=False, help="Replace files that are there already."),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Make a throw-away authority, the TLS files of a network server and those of its stations.

    The key of the authority is not kept: for one station more, make all of them anew. Keys and
    tokens are in files that only you can read, and are never printed.
    """
    setup = Setup(
        hosts=tuple(_host(text) for text in host or ["127.0.0.1"]),
        port=_port(port),
        stations=tuple(dict.fromkeys(_eui(text) for text in station)),
        shown=show,
        cups_port=None if cups_port is None else _port(cups_port),
        days=days,
        region=region,
    )
    if days < 1:
        raise Refused("--days has to be 1 or more.")
    if setup.cups_port == setup.port:
        raise Refused("CUPS needs a port of its own: give --cups-port another number.")
    try:
        written = write_setup(into, setup, overwrite=overwrite)
    except FileExistsError as error:
        raise Refused(_already_there(list(error.args))) from error
    except ValueError as error:
        raise Refused(f"No station takes this: {error}.") from error
    start = command_line("lns", shown_path(into / "lns.toml"))
    if as_json:
        print_json(_document(into, setup, written, start))
    else:
        print_lines(_told(into, setup, start))
    return ExitCode.PASSED


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
