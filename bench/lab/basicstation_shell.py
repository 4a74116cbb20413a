"""How are commands run on a gateway?

By the `ssh` of the system, which asks for nothing: keys and known hosts are the user's affair. What
a command needs to be told goes to its standard input, so that no file shows up in a list of
processes. A station on this host is spoken to by a shell of this host.
"""

import asyncio
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from bench.lab.inventory.entries import GatewayEntry, GatewayKind
from lns.complaints import printable

_LIMIT_US = 60_000_000
_CONNECT_S = 10
_OUTPUT_BYTES_MAX = 50_000_000
_UNREACHABLE = 255  # the exit code of ssh itself
_SSH = ("ssh", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_S}")
_ADVICE = {
    "Host key verification failed": "log in once by hand, `ssh {host}`, and compare the key",
    "Permission denied": "give it your public key: `ssh-copy-id {host}`",
    "Could not resolve hostname": "is the name right? An address always is",
    "Connection refused": "is its SSH server on?",
    "Connection timed out": "is it on, and in this network?",
    "No route to host": "is it on, and in this network?",
    "password is required": "let that user use sudo without a password, or log in as root",
    "not allowed to execute": "let that user use sudo without a password, or log in as root",
}


class GatewayFailed(Exception):
    """A gateway cannot be reached, or a command on it failed; the text says what to do."""


@dataclass(frozen=True, slots=True)
class GatewayShell:
    """A shell on a gateway: `ssh` says where, None is this host; `home` is that of the station."""

    name: str
    ssh: str | None
    home: str

    def command(self, words: str) -> list[str]:
        """The command line of this host that runs a command there."""
        return ["sh", "-c", words] if self.ssh is None else [*_SSH, self.ssh, words]

    async def run(self, words: str, told: bytes = b"", limit_us: int = _LIMIT_US) -> str:
        """What a command there says; GatewayFailed if it fails, or not in time."""
        command = self.command(words)
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=_OUTPUT_BYTES_MAX,
            )
        except FileNotFoundError:
            raise GatewayFailed(
                f"{self.name}: there is no program {command[0]}; install openssh-client"
            ) from None
        try:
            async with asyncio.timeout(limit_us / 1_000_000):
                output, complaint = await process.communicate(told)
        except TimeoutError:
            raise GatewayFailed(
                f"{self.name}: no end of {words.split(';')[0]!r} within {limit_us // 1_000_000} s"
            ) from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode:
            raise GatewayFailed(self._why(process.returncode, complaint or output))
        return output.decode("utf-8", "replace")

    async def run_script(self, script: str, limit_us: int = _LIMIT_US) -> str:
        """`run`, for a script of sh as somebody who may write into the home of the station."""
        return await self.run(self.entering, script.encode(), limit_us)

    @property
    def entering(self) -> str:
        """The command that takes a script; as root unless the home can be written without."""
        home = shlex.quote(self.home)
        return (
            f'h={home}; if [ "$(id -u)" = 0 ] || [ -w "$h" ] ||'
            ' { [ ! -e "$h" ] && [ -w "$(dirname "$h")" ]; };'
            " then exec sh -s; else exec sudo -n sh -s; fi"
        )

    def _why(self, code: int, complaint: bytes) -> str:
        said = printable(" ".join(complaint.decode("utf-8", "replace").split())[-200:])
        host = self.ssh or "this host"
        advice = next((text for part, text in _ADVICE.items() if part in said), "")
        where = f"{host} cannot be reached" if code == _UNREACHABLE else f"{host} ended with {code}"
        return f"{self.name}: {where}: {said}" + (f"; {advice.format(host=host)}" if advice else "")


def shell_of(gateway: GatewayEntry) -> GatewayShell:
    """The shell of a gateway; GatewayFailed for one that the bench cannot log in to."""
    if gateway.ssh is None and gateway.kind is not GatewayKind.PROGRAM:
        raise GatewayFailed(
            f'{gateway.name}: bench.toml does not say where to log in; give ssh = "user@host"'
        )
    return GatewayShell(gateway.name, gateway.ssh, gateway.home)


def restart_words(gateway: GatewayEntry) -> str:
    """The command that restarts the station of a gateway; GatewayFailed if there is none."""
    if gateway.restart is not None:
        return _quoted(gateway.restart)
    match gateway.kind:
        case GatewayKind.RASPBERRY_PI:
            return (
                'if [ "$(id -u)" = 0 ]; then systemctl restart basicstation;'
                " else sudo -n systemctl restart basicstation; fi"
            )
        case GatewayKind.WISGATE:
            # Later, or the connection would break before the end of the command is told.
            return "(sleep 1; reboot) > /dev/null 2>&1 &"
        case GatewayKind.PROGRAM:
            raise GatewayFailed(
                f"{gateway.name}: bench.toml does not say how it is restarted; give"
                ' restart = ["program", "word", …]'
            )


async def restart_gateway(gateway: GatewayEntry, limit_us: int = _LIMIT_US) -> None:
    """Restart the station of a gateway, the whole gateway if it is a WisGate; GatewayFailed."""
    words = restart_words(gateway)
    await restart_shell(gateway).run(words, limit_us=limit_us)


def restart_shell(gateway: GatewayEntry) -> GatewayShell:
    """Where the command runs that restarts a gateway; GatewayFailed if there is no way in."""
    if gateway.ssh is None and gateway.restart is not None:
        # A command of this host, whatever kind of gateway it restarts.
        return GatewayShell(gateway.name, None, gateway.home)
    return shell_of(gateway)


def _quoted(words: Sequence[str]) -> str:
    return " ".join(shlex.quote(word) for word in words)
