"""Power switches, reset buttons and attenuators: how is something done to a board by a machine?"""

import asyncio
import json
import os
import termios
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from bench.device.serial_line import LineLost, PortUnavailable, SerialLine
from bench.lab.inventory.sections import AttenuatorSection, PowerKind, PowerSection
from lns.clock import now_us

OFF_US = 3_000_000
"""How long a board is without power unless somebody says otherwise: its capacitors are empty."""


class PowerFailed(Exception):
    """A switch or an attenuator did not do what it was told; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class PowerSwitch:
    """The power of one thing, or its reset button: then `cycle` presses it. All raise PowerFailed.

    `switch` brings a state about; `cycle_by`, where there is one, cycles in a way of its own.
    """

    switch: Callable[[bool], Awaitable[object]]
    cycle_by: Callable[[int], Awaitable[object]] | None = None

    async def on(self) -> None:
        await self.switch(True)

    async def off(self) -> None:
        await self.switch(False)

    async def cycle(self, off_us: int = OFF_US) -> None:
        """Switch it off, and on again after `off_us` microseconds."""
        if self.cycle_by is None:
            await off_and_on(self, off_us)
        else:
            await self.cycle_by(off_us)


async def off_and_on(switch: PowerSwitch, off_us: int) -> None:
    """Off, a while, on; it ends switched on, even when it is cancelled in between.

    What was asked cannot be taken back: whoever cancels it waits until it is known to be off.
    """
    off = asyncio.ensure_future(switch.off())
    try:
        await asyncio.shield(off)
        await asyncio.sleep(off_us / 1_000_000)
    finally:
        await asyncio.wait([off])
        if off.exception() is None:
            await switch.on()


BAUD = 9600


def serial_relay(name: str, port: str, *, on: bytes, off: bytes, baud: int = BAUD) -> PowerSwitch:
    """A relay that is switched by bytes; it answers nothing, so that nothing can be checked."""

    async def switch(is_on: bool) -> None:
        line = SerialLine(port, baud)
        try:
            await line.open()
            try:
                line.write(on if is_on else off)
            finally:
                await line.close()
        except (LineLost, PortUnavailable) as error:
            raise PowerFailed(f"{name}: {error}") from None

    return PowerSwitch(switch)


_COMMAND_LIMIT_US = 30_000_000
_SAID_MAX = 300
_REPEATS = "5"  # a hub may need to be told more than once to keep a port off


async def run_command(name: str, command: Sequence[str], limit_us: int = _COMMAND_LIMIT_US) -> str:
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
        output, _ = await said_by(process, limit_us)
    except TimeoutError:
        raise PowerFailed(
            f"{name}: `{' '.join(command)}` has not ended after {limit_us // 1_000_000} s"
        ) from None
    said = " ".join(output.decode("utf-8", "replace").split())
    if process.returncode:
        raise PowerFailed(
            f"{name}: `{' '.join(command)}` ended with {process.returncode}: {said[-_SAID_MAX:]}"
        )
    return said


async def said_by(
    process: asyncio.subprocess.Process, limit_us: int, stdin: bytes | None = None
) -> tuple[bytes, bytes]:
    """What a process says on its streams until it ends; TimeoutError, and then it is killed."""
    try:
        async with asyncio.timeout(limit_us / 1_000_000):
            return await process.communicate(stdin)
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def command_switch(
    name: str,
    *,
    on: Sequence[str] | None = None,
    off: Sequence[str] | None = None,
    cycle: Sequence[str] | None = None,
) -> PowerSwitch:
    """A switch worked by commands of the inventory; `cycle` is one of its own where there is."""

    async def switch(is_on: bool) -> None:
        command = on if is_on else off
        if command is None:
            raise PowerFailed(f"{name}: it can only be cycled; bench.toml has no on and off")
        await run_command(name, command)

    return PowerSwitch(switch, None if cycle is None else lambda _: run_command(name, cycle))


def hub_switch(name: str, locations: Sequence[str], port: int) -> PowerSwitch:
    """A port of a USB hub that `uhubctl` switches.

    `locations`: all parts of the hub; one of USB 3 is two hubs, and both have to be switched.
    """

    async def switch(is_on: bool) -> None:
        action = ["on"] if is_on else ["off", "-r", _REPEATS]
        for location in locations:
            command = ["uhubctl", "-l", location, "-p", str(port), "-a", *action]
            await run_command(name, command)

    return PowerSwitch(switch)


_LIMIT_US = 5_000_000
_ANSWER_BYTES_MAX = 65_536
# A proxy of the environment does not lead into the local network.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))

Answer = dict[str, object]


async def answer(name: str, url: str, limit_us: int = _LIMIT_US) -> Answer:
    """The JSON object that a plug answers with; PowerFailed if it does not, or not in time."""
    try:
        answer = json.loads(await asyncio.to_thread(_get, url, limit_us))
    except urllib.error.HTTPError as error:
        error.close()
        said = f"{error.code} {error.reason}"
        raise PowerFailed(f"{name}: {url} says {said}; is it this kind of plug?") from None
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise PowerFailed(f"{name}: no answer from {url} ({reason})") from None
    if not isinstance(answer, dict):
        raise PowerFailed(f"{name}: {url} answers with no JSON object; is it this kind of plug?")
    return answer


def _get(url: str, limit_us: int) -> bytes:
    with _OPENER.open(url, timeout=limit_us / 1_000_000) as response:
        return bytes(response.read(_ANSWER_BYTES_MAX))


Ask = Callable[[str], Awaitable[Answer]]


def _plug(
    name: str, url: str, limit_us: int, state_after: Callable[[Ask, bool], Awaitable[object]]
) -> PowerSwitch:
    url = url.rstrip("/")

    async def switch(is_on: bool) -> None:
        if (
            await state_after(lambda path: answer(name, f"{url}{path}", limit_us), is_on)
            is not is_on
        ):
            wanted = "on" if is_on else "off"
            raise PowerFailed(f"{name}: {url} does not say that it is {wanted} now")

    return PowerSwitch(switch)


def shelly_plug(
    name: str, url: str, generation: int, channel: int = 0, limit_us: int = _LIMIT_US
) -> PowerSwitch:
    """A relay of a Shelly, `generation` 1, or 2 and later."""

    async def state_after(ask: Ask, is_on: bool) -> object:
        if generation == 1:
            said = await ask(f"/relay/{channel}?turn={'on' if is_on else 'off'}")
            return said.get("ison")
        await ask(f"/rpc/Switch.Set?id={channel}&on={str(is_on).lower()}")
        said = await ask(f"/rpc/Switch.GetStatus?id={channel}")
        return said.get("output")

    return _plug(name, url, limit_us, state_after)


def tasmota_plug(
    name: str, url: str, channel: int | None = None, limit_us: int = _LIMIT_US
) -> PowerSwitch:
    """A relay of a device with Tasmota; `channel` from 1, None for the only one."""
    relay = f"Power{channel or ''}"

    async def state_after(ask: Ask, is_on: bool) -> object:
        command = f"{relay} {'On' if is_on else 'Off'}"
        said = await ask(f"/cm?cmnd={quote(command)}")
        # With one relay only, the answer to Power1 is called POWER.
        state = said.get(relay.upper(), said.get("POWER"))
        return is_on if state == ("ON" if is_on else "OFF") else None

    return _plug(name, url, limit_us, state_after)


PATIENCE_US = 300_000_000
_TERMINAL = "/dev/tty"  # the terminal of the process, also where its streams lead elsewhere
_LINE_BYTES_MAX = 1024
_NO = (b"n", b"no", b"q")


async def ask_person(name: str, request: str, patience_us: int = PATIENCE_US) -> None:
    """Ask on the terminal until Enter is pressed, and count down; PowerFailed without an answer,
    with "n", or where there is no terminal."""
    terminal = _open_terminal()
    if terminal is None:
        raise PowerFailed(
            f"{name}: a person has to do this, and there is no terminal to ask on: {request}."
            " Run it in the foreground of a terminal, or give bench.toml another kind of switch"
        )
    try:
        termios.tcflush(terminal, termios.TCIFLUSH)  # an Enter of before is no answer
        said = await _answer(terminal, f"{name}: {request}, then press Enter", patience_us)
    finally:
        os.close(terminal)
    if said is None:
        raise PowerFailed(f"{name}: nobody did this in {patience_us // 1_000_000} s: {request}")
    if said.strip().lower() in _NO:
        raise PowerFailed(f"{name}: the answer was no: {request}")


def _open_terminal() -> int | None:
    try:
        terminal = os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    if os.tcgetpgrp(terminal) == os.getpgrp():
        return terminal
    os.close(terminal)  # to touch it from the background would stop us
    return None


async def _answer(terminal: int, prompt: str, patience_us: int) -> bytes | None:
    loop = asyncio.get_running_loop()
    typed = asyncio.Event()
    deadline_us = now_us() + patience_us
    loop.add_reader(terminal, typed.set)
    try:
        while (left_us := deadline_us - now_us()) > 0:
            left_s = -(-left_us // 1_000_000)
            os.write(terminal, f"\r\x1b[K{prompt} (n: cannot be done; {left_s} s) ".encode())
            try:
                async with asyncio.timeout(min(1_000_000, left_us) / 1_000_000):
                    await typed.wait()
                return os.read(terminal, _LINE_BYTES_MAX)
            except TimeoutError:
                continue
    finally:
        loop.remove_reader(terminal)
        os.write(terminal, b"\n")
    return None


def person_switch(name: str, what: str, patience_us: int = PATIENCE_US) -> PowerSwitch:
    """A switch that a person works; `what` says which."""

    async def switch(is_on: bool) -> None:
        await ask_person(name, f"switch {'on' if is_on else 'off'} {what}", patience_us)

    async def cycle(off_us: int) -> None:
        seconds = -(-off_us // 1_000_000)
        request = f"switch {what} off and on after {seconds} s (a button: press it)"
        await ask_person(name, request, patience_us)

    return PowerSwitch(switch, cycle)


async def attenuate(entry: AttenuatorSection, db: int) -> None:
    """Let an attenuator weaken a signal by whole decibels; PowerFailed if that was not done."""
    if db < 0:
        raise PowerFailed(f"{entry.name}: an attenuator does not amplify; {db} dB cannot be set")
    if entry.set is None:
        await ask_person(entry.name, f"set the attenuator to {db} dB")
    else:
        await run_command(entry.name, [word.replace("{db}", str(db)) for word in entry.set])


def power_switch(entry: PowerSection) -> PowerSwitch:
    """The switch of an entry; nothing is opened or asked before it is used."""
    settings: dict[str, Any] = entry.settings()
    match entry.kind:
        case PowerKind.UHUBCTL:
            location = settings["location"]
            locations = (location,) if isinstance(location, str) else location
            return hub_switch(entry.name, locations, settings["port"])
        case PowerKind.RELAY:
            return serial_relay(
                entry.name,
                settings["port"],
                on=bytes.fromhex(settings["on"]),
                off=bytes.fromhex(settings["off"]),
                baud=settings.get("baud", BAUD),
            )
        case PowerKind.SHELLY:
            return shelly_plug(entry.name, **settings)
        case PowerKind.TASMOTA:
            return tasmota_plug(entry.name, **settings)
        case PowerKind.COMMAND:
            return command_switch(entry.name, **settings)
        case PowerKind.PERSON:
            return person_switch(entry.name, settings.get("what", f"the power of {entry.name}"))
