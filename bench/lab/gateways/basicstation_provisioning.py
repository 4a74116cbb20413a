"""What has to change on a gateway so that its station connects to the tap, and was it done?

Compares before it writes: a gateway that is right is left alone, and its station keeps running.
"""

import base64
import difflib
import hashlib
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.lab.gateways.basicstation_files import (
    CannotConfigure,
    GatewayFile,
    GatewayFiles,
    gateway_files,
)
from bench.lab.gateways.basicstation_shell import (
    GatewayFailed,
    GatewayShell,
    restart_gateway,
    restart_shell,
    restart_words,
    shell_of,
)
from bench.lab.inventory.entries import GatewayEntry, GatewayKind, Inventory

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
        """Whether anything differed."""
        return bool(self.written or self.removed)


async def provision(
    inventory: Inventory, gateway: GatewayEntry, *, dry_run: bool = False
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


async def _restart(gateway: GatewayEntry, commands: list[str], *, dry_run: bool) -> bool:
    if gateway.kind is GatewayKind.PROGRAM and gateway.restart is None:
        return False  # whoever started it sees the new files at its next start
    commands.append(shlex.join(restart_shell(gateway).command(restart_words(gateway))))
    if not dry_run:
        await restart_gateway(gateway)
    return not dry_run


def _shown(shell: GatewayShell, what: str) -> str:
    return f"{shlex.join(shell.command(shell.entering))} < ({what})"


def _looking(home: str) -> str:
    """A script that tells of each file: name, mode, SHA-256, and the content if it may be seen."""
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


def _found(name: str, told: str) -> dict[str, FileThere]:
    files = {}
    try:
        for line in told.splitlines():
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
    """A script that puts files into place, each complete or not at all."""
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
    gateway: GatewayEntry, wanted: GatewayFiles, found: dict[str, FileThere]
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
