"""Which files does a Basics Station on a gateway of the bench need, and how do they get there?

`station.conf` has the structure that reference station 2.0.6 reads for SX1302 and SX1303, with the
numbers of the reference design; channels come from the network server. `rinit.sh` resets the
concentrator, which the station needs at every start.
"""

import asyncio
import base64
import difflib
import hashlib
import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.host.lns_process import LnsProcess
from bench.host.program import why_no_listener
from bench.lab.basicstation_host import (
    GatewayFailed,
    GatewayShell,
    restart_gateway,
    restart_shell,
    restart_words,
    shell_of,
)
from bench.lab.inventory import Inventory
from bench.lab.inventory.sections import (
    BOARDS,
    TABLE,
    Certainty,
    GatewayBoard,
    GatewayKind,
    GatewaySection,
)
from lns.clock import now_us
from lns.lorawan.identifiers import Eui
from lns.server.address import host_and_port, is_everywhere, is_loopback, uri

CREDENTIALS = ("tc.trust", "tc.crt", "tc.key")
_SECRETS = ("tc.key",)
_PLAIN, _PRIVATE, _PROGRAM = 0o644, 0o600, 0o755
_REFERENCE = TABLE.with_name("reference_station.json")


class CannotConfigure(Exception):
    """The inventory does not say enough to configure a gateway; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class GatewayFile:
    """A file as it is to be; the content of a secret one is never shown."""

    name: str
    content: bytes = field(repr=False)
    mode: int = _PLAIN

    @property
    def is_secret(self) -> bool:
        return self.name in _SECRETS


@dataclass(frozen=True, slots=True)
class GatewayFiles:
    """All files of one gateway: those to be there, those to be gone, and what to know of them."""

    there: tuple[GatewayFile, ...]
    gone: tuple[str, ...]
    notes: tuple[str, ...]


def gateway_files(inventory: Inventory, gateway: GatewaySection) -> GatewayFiles:
    """What a gateway is to have in its home; CannotConfigure."""
    tc_uri = tap_uri_for(inventory, gateway)
    there = [GatewayFile("tc.uri", f"{tc_uri}\n".encode()), *_credentials(gateway)]
    names = [file.name for file in there]
    if tc_uri.startswith("wss://") and "tc.trust" not in names:
        raise CannotConfigure(
            f"{gateway.name}: for wss:// a station needs a tc.trust; make one with `lorabench"
            f" certificates --station {gateway.eui}` and name its folder as `credentials`"
        )
    notes: list[str] = []
    if gateway.kind is GatewayKind.RASPBERRY_PI:
        hardware, notes = _hardware(inventory, gateway)
        there += hardware
    gone = tuple(name for name in CREDENTIALS if name not in names)
    return GatewayFiles(tuple(there), gone, tuple(notes))


def tap_uri_for(inventory: Inventory, gateway: GatewaySection) -> str:
    """Where a gateway finds the tap; CannotConfigure if it could not connect."""
    if inventory.tap_uri is not None:
        return inventory.tap_uri
    host, port = host_and_port(inventory.tap)
    elsewhere = gateway.kind is not GatewayKind.PROGRAM
    if is_everywhere(host) or port == 0 or (elsewhere and is_loopback(host)):
        why = "has no fixed port" if port == 0 else f"cannot be reached as {host}"
        raise CannotConfigure(
            f"{gateway.name}: the tap {inventory.tap} {why} from a gateway; in bench.toml give"
            f' tap = "0.0.0.0:6090" and tap_uri = "ws://<address of this host>:6090"'
        )
    return uri("ws", host, port)


def station_conf(eui: Eui, board: GatewayBoard, *, conducted: bool) -> bytes:
    """`station.conf`; `conducted` also switches the duty cycle of the station off (nodc)."""
    conf = json.loads(_REFERENCE.read_text("utf-8"))
    conf["SX1302_conf"]["device"] = board.device
    station = conf["station_conf"]
    station["routerid"] = eui
    if board.reset_gpio is None:
        del station["radio_init"], station["RADIO_INIT_WAIT"]
    if conducted:
        station["nodc"] = True
    return f"{json.dumps(conf, indent=2)}\n".encode()


def rinit_sh(board: GatewayBoard) -> bytes:
    """A script that switches a board on and resets it: low, high, low, 100 ms each.

    For libgpiod 1 and 2; the chip is the first whose label begins with `pinctrl-`, which is
    gpiochip4 on a Raspberry Pi 5 with an older kernel, else gpiochip0. LORABENCH_GPIO_CHIP
    overrules it.
    """
    assert board.reset_gpio is not None, f"{board.name} has no reset line"
    power = ""
    if board.power_gpio is not None:
        power = f"hold {board.power_gpio}={board.power_level}\n"
    return _RINIT.format(board=board.name, reset=board.reset_gpio, power=power).encode()


_RINIT = """\
#!/bin/sh
# Written by lorabench. Wakes the concentrator before every start of the station: {board}.
set -eu

first=$(gpiodetect | sed -n 's/^\\(gpiochip[0-9]*\\) \\[pinctrl-.*/\\1/p' | head -n 1)
chip=${{LORABENCH_GPIO_CHIP:-${{first:-gpiochip0}}}}

case $(gpioset --version 2>/dev/null | head -n 1) in
*" v1."*)
    hold() {{ gpioset -m time -u 100000 "$chip" "$1"; }}
    pulse() {{ for level in 0 1 0; do hold "$1=$level"; done; }}
    ;;
*)
    hold() {{ gpioset -c "$chip" -t 0 "$1"; }}
    pulse() {{ gpioset -c "$chip" -t 100ms,100ms,0 "$1=0"; }}
    ;;
esac

{power}pulse {reset}
"""


def _hardware(inventory: Inventory, gateway: GatewaySection) -> tuple[list[GatewayFile], list[str]]:
    if gateway.board is None:
        return [], ["bench.toml names no board: station.conf and rinit.sh stay as they are"]
    board = BOARDS[gateway.board]
    files, notes = [], []
    if board.has_known_configuration:
        conf = station_conf(gateway.eui, board, conducted=inventory.conducted)
        files.append(GatewayFile("station.conf", conf))
    else:
        notes.append(f"a {board.chip} needs a station.conf of its own; the one there stays")
    if board.reset_gpio is not None:
        files.append(GatewayFile("rinit.sh", rinit_sh(board), _PROGRAM))
        if board.certainty is Certainty.VERIFY:
            notes.append(
                f"reset line {board.reset_gpio} of {board.name} is not confirmed by any code:"
                f" look at the board first ({board.note})"
            )
        if board.power_gpio is not None:
            notes.append(
                f"line {board.power_gpio} has to stay at {board.power_level} when gpioset has"
                " ended: not confirmed; `gpioinfo` and a voltmeter tell"
            )
    return files, notes


def _credentials(gateway: GatewaySection) -> list[GatewayFile]:
    folder = gateway.credentials
    if folder is None:
        return []
    if not folder.is_dir():
        raise CannotConfigure(f"{gateway.name}: there is no folder {folder}; see `credentials`")
    modes = {name: _PRIVATE if name in _SECRETS else _PLAIN for name in CREDENTIALS}
    return [
        GatewayFile(name, _content(gateway, folder / name), mode)
        for name, mode in modes.items()
        if (folder / name).is_file()
    ]


def _content(gateway: GatewaySection, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CannotConfigure(f"{gateway.name}: {path} cannot be read: {error.strerror}") from None


_AUTHENTICATION = {
    frozenset[str](): "No authentication",
    frozenset({"tc.trust"}): "TLS server authentication",
    frozenset({"tc.trust", "tc.crt", "tc.key"}): "TLS server and client authentication",
    frozenset({"tc.trust", "tc.key"}): "TLS server authentication and client token",
}


def wisgate_steps(inventory: Inventory, gateway: GatewaySection) -> list[str]:
    """What to do in the pages of a WisGate, in order; CannotConfigure. No secret is in it."""
    files = {file.name: file for file in gateway_files(inventory, gateway).there}
    uri = files["tc.uri"].content.decode().strip()
    scheme, _, address = uri.partition("://")
    host, port = host_and_port(address)
    shown = frozenset(files) - {"tc.uri"}
    way = _AUTHENTICATION.get(shown, f"the one for {', '.join(sorted(shown))}")
    steps = [
        f"compare the EUI on its Overview page or on its label with {gateway.eui}",
        "open LoRa -> Configuration and choose the work mode `Basics station`",
        "open Configure Basics Station server setup and choose the server type `LNS Server`",
        f"Server URL: {scheme}://{host}, port: {port}",
        f"Authentication mode: {way}",
    ]
    folder = gateway.credentials
    if "tc.trust" in files:
        steps.append(f"Trust (CA): the content of {folder}/tc.trust")
    if "tc.crt" in files:
        steps.append(f"client certificate and key: the content of {folder}/tc.crt and tc.key")
    elif "tc.key" in files:
        steps.append(
            f"client token: the content of {folder}/tc.key; WisGateOS 2 takes it with or without"
            " `Authorization:`, WisGateOS 1 only with it"
        )
    steps += [
        "save; WisGateOS 1 has the same under LoRa Network -> Network Settings -> Mode",
        "let its NTP server be the host of the bench: TLS fails while its clock is wrong",
    ]
    return steps


# Compares before it writes: a gateway that is right is left alone, and its station keeps running.
_SHOWN = ("station.conf", "rinit.sh", "tc.uri", "tc.trust", "tc.crt")
_CUPS = "cups.uri"
_ABSENT = "-"


@dataclass(frozen=True, slots=True)
class FileThere:
    """A file as it is on a gateway; `content` is None for one that must not be fetched."""

    sha256: str
    mode: int
    content: bytes | None


@dataclass(frozen=True, slots=True)
class Provisioning:
    """What was done to a gateway, or would have been.

    `diff`: lines as of `diff -u`, without anything of a secret file. `commands`: those of this
    host, in order, with what they are told on standard input.
    """

    name: str
    written: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: tuple[str, ...]
    notes: tuple[str, ...]
    diff: tuple[str, ...]
    commands: tuple[str, ...]
    restarted: bool

    @property
    def changed(self) -> bool:
        return bool(self.written or self.removed)


async def provision(
    inventory: Inventory, gateway: GatewaySection, *, dry_run: bool = False
) -> Provisioning:
    """Make the files of a gateway right and restart its station if they were not.

    `dry_run`: only look. GatewayFailed, CannotConfigure; those also for a WisGate, whose settings
    are made in its own pages.
    """
    if gateway.kind is GatewayKind.WISGATE:
        raise CannotConfigure(f"{gateway.name}: a WisGate is configured in its own pages")
    wanted = gateway_files(inventory, gateway)
    shell = shell_of(gateway)
    looking = _looking(shell.home)
    found = _found(shell.name, await shell.run_script(looking))
    written = tuple(file for file in wanted.there if not _is_right(file, found.get(file.name)))
    removed = tuple(name for name in wanted.gone if name in found)
    writing = _writing(shell.home, written, removed)
    commands = [_shown(shell, "the files that are there are read")]
    restarted = False
    if written or removed:
        names = ", ".join([*(file.name for file in written), *(f"-{name}" for name in removed)])
        commands.append(_shown(shell, names))
        if not dry_run:
            await shell.run_script(writing)
        restarted = await _restart(gateway, commands, dry_run=dry_run)
    return Provisioning(
        name=gateway.name,
        written=tuple(file.name for file in written),
        removed=removed,
        unchanged=tuple(file.name for file in wanted.there if file not in written),
        notes=(*wanted.notes, *_warnings(gateway, wanted, found)),
        diff=tuple(_diff(written, removed, found)),
        commands=tuple(commands),
        restarted=restarted,
    )


async def _restart(gateway: GatewaySection, commands: list[str], *, dry_run: bool) -> bool:
    if gateway.kind is GatewayKind.PROGRAM and gateway.restart is None:
        return False  # whoever started it sees the new files at its next start
    commands.append(shlex.join(restart_shell(gateway).command(restart_words(gateway))))
    if not dry_run:
        await restart_gateway(gateway)
    return not dry_run


def _shown(shell: GatewayShell, what: str) -> str:
    return f"{shlex.join(shell.command(shell.entering))} < ({what})"


def _looking(home: str) -> str:
    lines = [f"cd {shlex.quote(home)} 2>/dev/null || exit 0"]
    for name in (*_SHOWN, "tc.key", _CUPS):
        content = f"base64 < {name} | tr -d '\\n'" if name in _SHOWN else f"printf {_ABSENT}"
        lines += [
            f"if [ -f {name} ]; then",
            f"  printf '%s %s %s ' {name} \"$(stat -c %a {name})\" "
            f'"$(sha256sum < {name} | cut -c 1-64)"',
            f"  {content}; echo",
            "fi",
        ]
    return "\n".join(lines) + "\n"


def _found(name: str, output: str) -> dict[str, FileThere]:
    files = {}
    try:
        for line in output.splitlines():
            file, mode, sha256, *content = line.split()
            shown = content[0] if content else ""
            files[file] = FileThere(
                sha256,
                int(mode, 8),
                None if shown == _ABSENT else base64.b64decode(shown, validate=True),
            )
    except ValueError:
        raise GatewayFailed(
            f"{name}: its shell says more than it was asked; is something printed at each login?"
        ) from None
    return files


def _is_right(file: GatewayFile, found: FileThere | None) -> bool:
    if found is None or found.mode != file.mode:
        return False
    return found.sha256 == hashlib.sha256(file.content).hexdigest()


def _writing(home: str, written: Sequence[GatewayFile], removed: Sequence[str]) -> str:
    lines = ["set -eu", "umask 077", f"mkdir -p -m 755 {shlex.quote(home)}"]
    lines.append(f"cd {shlex.quote(home)}")
    # The station need not run as root, and is to read its key.
    lines.append('own() { [ "$(id -u)" != 0 ] || chown "$(stat -c %u:%g .)" "$1"; }')
    for file in written:
        content = base64.b64encode(file.content).decode()
        lines += [
            f"base64 -d > .lorabench-new <<'END'\n{content}\nEND",
            "own .lorabench-new",
            f"chmod {file.mode:o} .lorabench-new",
            f"mv .lorabench-new {file.name}",
        ]
    if removed:
        lines.append(f"rm -f {' '.join(removed)}")
    return "\n".join([*lines, "sync"]) + "\n"


def _warnings(
    gateway: GatewaySection, wanted: GatewayFiles, found: dict[str, FileThere]
) -> Iterator[str]:
    if _CUPS in found:
        yield "cups.uri is there: CUPS may write other tc files; take cups.* away"
    needs = gateway.kind is GatewayKind.RASPBERRY_PI and "station.conf" not in found
    if needs and "station.conf" not in [file.name for file in wanted.there]:
        yield "there is no station.conf: the station will not start"


def _diff(
    written: Sequence[GatewayFile], removed: Sequence[str], found: dict[str, FileThere]
) -> Iterator[str]:
    for file in written:
        there = found.get(file.name)
        if file.is_secret:
            yield f"{file.name}: {'differs' if there else 'is missing'} (not shown)"
            continue
        before = b"" if there is None or there.content is None else there.content
        lines = list(
            difflib.unified_diff(
                _text(before), _text(file.content), f"{file.name} (there)", file.name, lineterm=""
            )
        )
        yield from lines
        if there is not None and there.mode != file.mode:
            yield f"{file.name}: mode {there.mode:o}, {file.mode:o} it is to be"
    yield from (f"{name}: would mislead the station, and goes" for name in removed)


def _text(content: bytes) -> list[str]:
    return content.decode("utf-8", "replace").splitlines()


# A network server without devices is put there for a while, so that the stations get their channels
# and start their radio.
_ID = "roll-call"
_CAPTURE = "roll-call.jsonl"
_LOOK_US = 100_000


class RollCall:
    """The network server at the tap, for the length of an `async with`; its files are in `folder`.

    Remembers how many connections each station has. HostError if it cannot listen there,
    CannotConfigure for a tap without a fixed port or with TLS.
    """

    def __init__(self, inventory: Inventory, folder: Path) -> None:
        self._tap = host_and_port(inventory.tap)
        if self._tap[1] == 0:
            raise CannotConfigure(f"the tap {inventory.tap} has no fixed port; give it one")
        if inventory.tap_uri is not None and inventory.tap_uri.startswith("wss://"):
            raise CannotConfigure(
                "the stations expect TLS; start a run, or `lorabench lns` with these certificates"
            )
        self._events = folder / _CAPTURE
        self._server = LnsProcess(
            folder,
            {
                "lns": {
                    "id": _ID,
                    "listen": inventory.tap,
                    "region": inventory.region,
                    "public_uri": inventory.tap_uri,
                },
                "capture": {"path": _CAPTURE},
            },
            [],
        )
        self._read_bytes = 0
        self._connections: Counter[Eui] = Counter()

    async def __aenter__(self) -> "RollCall":
        await self._see_that_it_is_free()
        await self._server.start()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await self._server.stop()

    async def _see_that_it_is_free(self) -> None:
        host, port = self._tap
        try:
            (await asyncio.start_server(lambda *_: None, host, port)).close()
        except OSError as error:
            raise CannotConfigure(
                f"[bench] tap: {host}:{port}: {why_no_listener(error)}, or end what listens there"
                " (`ss -ltnp` names it)"
            ) from None

    async def until_all(
        self, stations: Iterable[Eui], within_us: int, told: Callable[[int], None]
    ) -> set[Eui]:
        """Those of these stations that are connected: all of them, or those after `within_us`.

        `told`: how many are, each time one has come or gone.
        """
        wanted, deadline_us, told_last = set(stations), now_us() + within_us, -1
        while True:
            here = wanted & self._here()
            if len(here) != told_last:
                told(len(here))
                told_last = len(here)
            if here == wanted or now_us() >= deadline_us:
                return here
            await asyncio.sleep(_LOOK_US / 1_000_000)

    def _here(self) -> set[Eui]:
        if self._events.exists():
            with self._events.open("rb") as file:
                file.seek(self._read_bytes)
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    self._read_bytes += len(line)
                    event = json.loads(line)
                    if event["kind"] == "lns.connection" and event["stage"] != "refused":
                        came = event["stage"] == "connected"
                        self._connections[Eui(event["station"])] += 1 if came else -1
        return {station for station, open_ones in self._connections.items() if open_ones > 0}
