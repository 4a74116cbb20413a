"""How is a switch worked by a program of this host?"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from bench.lab.power.seam import OFF_US, PowerFailed, off_and_on

_LIMIT_US = 30_000_000
_SAID_MAX = 300
_REPEATS = "5"  # a hub may need to be told more than once to keep a port off


async def run_command(name: str, command: Sequence[str], limit_us: int = _LIMIT_US) -> str:
    """What a command says on both streams; PowerFailed if it fails, or not in time."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except FileNotFoundError:
        raise PowerFailed(f"{name}: there is no program {command[0]}; install it") from None
    except OSError as error:
        raise PowerFailed(f"{name}: {command[0]} cannot be run: {error.strerror}") from None
    try:
        async with asyncio.timeout(limit_us / 1_000_000):
            output, _ = await process.communicate()
    except TimeoutError:
        raise PowerFailed(
            f"{name}: `{' '.join(command)}` has not ended after {limit_us // 1_000_000} s"
        ) from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    said = " ".join(output.decode("utf-8", "replace").split())
    if process.returncode:
        raise PowerFailed(
            f"{name}: `{' '.join(command)}` ended with {process.returncode}: {said[-_SAID_MAX:]}"
        )
    return said


class CommandSwitch:
    """A switch worked by commands of the inventory; `cycle` is one of its own where there is."""

    def __init__(
        self,
        name: str,
        *,
        on: Sequence[str] | None = None,
        off: Sequence[str] | None = None,
        cycle: Sequence[str] | None = None,
    ) -> None:
        self._name = name
        self._on = on
        self._off = off
        self._cycle = cycle

    async def on(self) -> None:
        """Run the command `on`."""
        await run_command(self._name, self._there(self._on))

    async def off(self) -> None:
        """Run the command `off`."""
        await run_command(self._name, self._there(self._off))

    async def cycle(self, off_us: int = OFF_US) -> None:
        """Run the command `cycle`, which knows itself how long; else off and on."""
        if self._cycle is None:
            await off_and_on(self, off_us)
        else:
            await run_command(self._name, self._cycle)

    def _there(self, command: Sequence[str] | None) -> Sequence[str]:
        if command is None:
            raise PowerFailed(f"{self._name}: it can only be cycled; bench.toml has no on and off")
        return command


class HubSwitch:
    """A port of a USB hub that `uhubctl` switches.

    `locations`: all parts of the hub; one of USB 3 is two hubs, and both have to be switched.
    """

    def __init__(self, name: str, locations: Sequence[str], port: int) -> None:
        self._name = name
        self._locations = locations
        self._port = port

    async def on(self) -> None:
        """Give power to the port."""
        await self._switch("on")

    async def off(self) -> None:
        """Take power from the port."""
        await self._switch("off", "-r", _REPEATS)

    async def cycle(self, off_us: int = OFF_US) -> None:
        """Take power from the port for a while."""
        await off_and_on(self, off_us)

    async def _switch(self, action: str, *more: str) -> None:
        for location in self._locations:
            command = ["uhubctl", "-l", location, "-p", str(self._port), "-a", action, *more]
            await run_command(self._name, command)
