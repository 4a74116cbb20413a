"""Power switches, reset buttons and attenuators: how is something done to a board by a machine?"""

import asyncio
import json
import os
import termios
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol
from urllib.parse import quote

from bench.device.serial_line import LineLost, PortUnavailable, SerialLine
from bench.lab.inventory.sections import AttenuatorSection, PowerKind, PowerSection
from lns.clock import now_us

OFF_US = 3_000_000
"""How long a board is without power unless somebody says otherwise: its capacitors are empty."""


class PowerFailed(Exception):
    """A switch or an attenuator did not do what it was told; the text says why and what to do."""


class PowerSwitch(Protocol):
    """The power of one thing, or its reset button: then `cycle` presses it."""

    async def on(self) -> None:
        """Switch it on; PowerFailed if that was not done."""

    async def off(self) -> None:
        """Switch it off; PowerFailed if that was not done."""

    async def cycle(self, off_us: int = OFF_US) -> None:
        """Switch it off, and on again after `off_us` microseconds; PowerFailed."""


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


class _OnOff(ABC):
    async def on(self) -> None:
        await self._switch(True)

    async def off(self) -> None:
        await self._switch(False)

    async def cycle(self, off_us: int = OFF_US) -> None:
        await off_and_on(self, off_us)

    @abstractmethod
    async def _switch(self, on: bool) -> None: ...


BAUD = 9600


class SerialRelay(_OnOff):
    """A relay that is switched by bytes; it answers nothing, so that nothing can be checked."""

    def __init__(self, name: str, port: str, *, on: bytes, off: bytes, baud: int = BAUD) -> None:
        self._name = name
        self._port = port
        self._says = {True: on, False: off}
        self._baud = baud

    async def _switch(self, on: bool) -> None:
        line = SerialLine(self._port, self._baud)
        try:
            await line.open()
            try:
                line.write(self._says[on])
            finally:
                await line.close()
        except (LineLost, PortUnavailable) as error:
            raise PowerFailed(f"{self._name}: {error}") from None


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


class CommandSwitch(_OnOff):
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
        self._commands = {True: on, False: off}
        self._cycle = cycle

    async def cycle(self, off_us: int = OFF_US) -> None:
        if self._cycle is None:
            await super().cycle(off_us)
        else:
            await run_command(self._name, self._cycle)

    async def _switch(self, on: bool) -> None:
        command = self._commands[on]
        if command is None:
            raise PowerFailed(f"{self._name}: it can only be cycled; bench.toml has no on and off")
        await run_command(self._name, command)


class HubSwitch(_OnOff):
    """A port of a USB hub that `uhubctl` switches.

    `locations`: all parts of the hub; one of USB 3 is two hubs, and both have to be switched.
    """

    def __init__(self, name: str, locations: Sequence[str], port: int) -> None:
        self._name = name
        self._locations = locations
        self._port = port

    async def _switch(self, on: bool) -> None:
        action = ["on"] if on else ["off", "-r", _REPEATS]
        for location in self._locations:
            command = ["uhubctl", "-l", location, "-p", str(self._port), "-a", *action]
            await run_command(self._name, command)


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


class _Plug(_OnOff):
    def __init__(self, name: str, url: str, limit_us: int) -> None:
        self._name = name
        self._url = url.rstrip("/")
        self._limit_us = limit_us

    async def _switch(self, on: bool) -> None:
        state = await self._set(on)
        if state is not on:
            wanted = "on" if on else "off"
            raise PowerFailed(f"{self._name}: {self._url} does not say that it is {wanted} now")

    @abstractmethod
    async def _set(self, on: bool) -> bool | None:
        """The state it has afterwards, None if it does not say."""

    async def _ask(self, path: str) -> Answer:
        return await answer(self._name, f"{self._url}{path}", self._limit_us)


class ShellyPlug(_Plug):
    def __init__(
        self, name: str, url: str, generation: int, channel: int = 0, limit_us: int = _LIMIT_US
    ) -> None:
        super().__init__(name, url, limit_us)
        self._generation = generation
        self._channel = channel

    async def _set(self, on: bool) -> bool | None:
        if self._generation == 1:
            answer = await self._ask(f"/relay/{self._channel}?turn={'on' if on else 'off'}")
            state = answer.get("ison")
        else:
            await self._ask(f"/rpc/Switch.Set?id={self._channel}&on={str(on).lower()}")
            answer = await self._ask(f"/rpc/Switch.GetStatus?id={self._channel}")
            state = answer.get("output")
        return state if isinstance(state, bool) else None


class TasmotaPlug(_Plug):
    """A relay of a device with Tasmota; `channel` from 1, None for the only one."""

    def __init__(
        self, name: str, url: str, channel: int | None = None, limit_us: int = _LIMIT_US
    ) -> None:
        super().__init__(name, url, limit_us)
        self._command = f"Power{channel or ''}"

    async def _set(self, on: bool) -> bool | None:
        command = f"{self._command} {'On' if on else 'Off'}"
        answer = await self._ask(f"/cm?cmnd={quote(command)}")
        # With one relay only, the answer to Power1 is called POWER.
        state = answer.get(self._command.upper(), answer.get("POWER"))
        return {"ON": True, "OFF": False}.get(state) if isinstance(state, str) else None


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


class PersonSwitch:
    """A switch that a person works; `what` says which."""

    def __init__(self, name: str, what: str, patience_us: int = PATIENCE_US) -> None:
        self._name = name
        self._what = what
        self._patience_us = patience_us

    async def on(self) -> None:
        await self._ask(f"switch on {self._what}")

    async def off(self) -> None:
        await self._ask(f"switch off {self._what}")

    async def cycle(self, off_us: int = OFF_US) -> None:
        seconds = -(-off_us // 1_000_000)
        await self._ask(f"switch {self._what} off and on after {seconds} s (a button: press it)")

    async def _ask(self, request: str) -> None:
        await ask_person(self._name, request, self._patience_us)


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
            return HubSwitch(entry.name, locations, settings["port"])
        case PowerKind.RELAY:
            return SerialRelay(
                entry.name,
                settings["port"],
                on=bytes.fromhex(settings["on"]),
                off=bytes.fromhex(settings["off"]),
                baud=settings.get("baud", BAUD),
            )
        case PowerKind.SHELLY:
            return ShellyPlug(entry.name, **settings)
        case PowerKind.TASMOTA:
            return TasmotaPlug(entry.name, **settings)
        case PowerKind.COMMAND:
            return CommandSwitch(entry.name, **settings)
        case PowerKind.PERSON:
            return PersonSwitch(entry.name, settings.get("what", f"the power of {entry.name}"))
