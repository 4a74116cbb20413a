"""How is a person asked to do what no machine of the bench can do?"""

import asyncio
import os
import termios

from bench.lab.power.seam import OFF_US, PowerFailed
from lns.clock import now_us

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
    """The terminal, None if there is none or if another program has it in front."""
    try:
        terminal = os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    if os.tcgetpgrp(terminal) == os.getpgrp():
        return terminal
    os.close(terminal)  # to touch it from the background would stop us
    return None


async def _answer(terminal: int, prompt: str, patience_us: int) -> bytes | None:
    """The line that is typed, None if none is in time."""
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
        """Ask that it be switched on."""
        await self._ask(f"switch on {self._what}")

    async def off(self) -> None:
        """Ask that it be switched off."""
        await self._ask(f"switch off {self._what}")

    async def cycle(self, off_us: int = OFF_US) -> None:
        """Ask that it be switched off and on, or pressed if it is a button."""
        seconds = -(-off_us // 1_000_000)
        await self._ask(f"switch {self._what} off and on after {seconds} s (a button: press it)")

    async def _ask(self, request: str) -> None:
        await ask_person(self._name, request, self._patience_us)
