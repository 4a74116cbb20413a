"""Write a firmware into a board, unless it has that version already.

The image is a file that you have got from the maker of the board; nothing is downloaded and no tool
is installed. Settings and keys may be lost: provision afterwards. The command lines of the tools
are those of their manuals and have not been tried on a board by us: begin with --dry-run.
"""

import hashlib
import re
import shlex
import shutil
import subprocess
import sys
import time
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from ending import Arguments, Failed, WrongUsage, run

try:
    import serial
except ImportError:
    raise SystemExit(
        "error: pyserial is missing: apt-get install python3-serial, or "
        "python3 -m pip install pyserial"
    ) from None

EXAMPLES = (
    "python3 flash.py rak3172 RAK3172-H.hex --port /dev/lora/dut --version 4.1.0 --dry-run",
    "python3 flash.py rak3172 RAK3172-H.hex --port /dev/lora/dut --version 4.1.0 \\",
    "    --tool stm32-programmer-swd --sha256 9f86d0…",
    "python3 flash.py rak4631 RAK4631.zip --port /dev/lora/dut --version 4.2.0",
)
_BOOT_S = 15.0
_QUIET_S = 0.3
_AGAIN_S = 0.2
_TOOL_S_MAX = 300


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that flashes a board: how it is called, what it reads, what a person does first."""

    program: str
    arguments: tuple[str, ...]
    suffixes: tuple[str, ...]
    prepare: str
    get: str


_BOOT0 = (
    "Connect BOOT0 to 3.3 V and reset the board, so that the chip's own serial loader runs; "
    "disconnect it afterwards"
)
_ST = "STM32CubeProgrammer, from the maker of the chip"
TOOLS = {
    "rak3172": {
        "stm32-programmer-swd": Tool(
            "STM32_Programmer_CLI",
            ("-c", "port=SWD", "-w", "{image}", "-v", "-rst"),
            (".hex",),
            "Connect an ST-Link to SWDIO, SWCLK and GND, and leave the board powered",
            _ST,
        ),
        "stm32-programmer-uart": Tool(
            "STM32_Programmer_CLI",
            ("-c", "port={port}", "br=115200", "-w", "{image}", "-v"),
            (".hex",),
            _BOOT0,
            _ST,
        ),
        "stm32flash": Tool(
            "stm32flash",
            ("-b", "115200", "-w", "{image}", "-v", "{port}"),
            (".hex",),
            _BOOT0,
            "the package stm32flash",
        ),
    },
    "rak4631": {
        "adafruit-nrfutil": Tool(
            "adafruit-nrfutil",
            ("dfu", "serial", "--package", "{image}", "-p", "{port}", "-b", "115200"),
            (".zip",),
            "Press the reset button twice, so that the boot loader runs",
            "adafruit-nrfutil",
        )
    },
}


def main() -> None:
    arguments = _arguments()
    image = Path(arguments.image)
    name, tool = _tool(arguments.board, arguments.tool, image)
    _check_image(image, tool, arguments.sha256)
    before = _firmware(arguments, wait_s=0)
    if before is not None and _is_version(before, arguments.version):
        print(f"unchanged: {arguments.port} has {before}")
        return
    if before is None and not arguments.blank:
        raise Failed(
            f"{arguments.port}: no RUI3 firmware answers, so its version is not known. If that is "
            "meant (an empty board, or its boot loader runs), say --blank"
        )
    command = [
        tool.program,
        *(part.format(image=image, port=arguments.port) for part in tool.arguments),
    ]
    print(f"{arguments.port}: {before or 'no firmware'} -> {arguments.version} by {name}")
    print(f"  {tool.prepare}")
    print(f"  {shlex.join(command)}")
    if arguments.dry_run:
        return
    if not arguments.prepared:
        _wait_for_person()
    _run(command)
    _compare(arguments)


def _run(command: list[str]) -> None:
    try:
        code = subprocess.run(command, timeout=_TOOL_S_MAX, check=False).returncode
    except subprocess.TimeoutExpired:
        raise Failed(
            f"{command[0]} did not end within {_TOOL_S_MAX} s; the board may be empty now"
        ) from None
    if code != 0:
        raise Failed(f"{command[0]} ended with {code}; what it says stands above")


def _compare(arguments: Namespace) -> None:
    after = _firmware(arguments, wait_s=_BOOT_S)
    if after is None:
        raise Failed(
            f"{arguments.port}: nothing answers after flashing. Take BOOT0 from 3.3 V, reset it, "
            "and ask it with identify.py"
        )
    if not _is_version(after, arguments.version):
        raise Failed(f"{arguments.port} has {after} now, not {arguments.version}: another image?")
    print(f"done: {arguments.port} has {after}")


def _tool(board: str, wanted: str | None, image: Path) -> tuple[str, Tool]:
    """The tool to use; WrongUsage if it must be chosen, Failed if it is not installed."""
    tools = TOOLS[board]
    if wanted is not None:
        if wanted not in tools:
            raise WrongUsage(f"--tool {wanted}: {board} is flashed by {', '.join(tools)}")
        if shutil.which(tools[wanted].program) is None:
            raise Failed(f"{tools[wanted].program} is not there; install {tools[wanted].get}")
        return wanted, tools[wanted]
    there = {name: tool for name, tool in tools.items() if shutil.which(tool.program)}
    if not there:
        get = sorted({tool.get for tool in tools.values()})
        raise Failed(f"no tool for {board} is there; install {' or '.join(get)}")
    if len(there) > 1:
        raise WrongUsage(f"several ways to flash {board}: choose --tool {', '.join(there)}")
    return next(iter(there.items()))


def _check_image(image: Path, tool: Tool, sha256: str | None) -> None:
    if not image.is_file():
        raise WrongUsage(f"{image} is not there")
    if image.suffix.lower() not in tool.suffixes:
        raise WrongUsage(f"{image}: {tool.program} is given a {' or '.join(tool.suffixes)} here")
    actual = hashlib.sha256(image.read_bytes()).hexdigest()
    if sha256 is not None and actual != sha256.lower():
        raise WrongUsage(f"{image} has the SHA-256 {actual}, not the one that you gave")


def _firmware(arguments: Namespace, wait_s: float) -> str | None:
    """What answers `AT+VER=?`; None if nothing does until `wait_s` have passed."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return _told(arguments.port, dtr=arguments.board == "rak4631", shown=arguments.verbose)
        except Failed:
            if time.monotonic() >= deadline:
                return None
            Event().wait(_AGAIN_S)  # a port that is away fails at once


def _told(url: str, *, dtr: bool, shown: bool) -> str:
    """The version that RUI3 tells; Failed where nobody tells one."""
    port = serial.Serial(None, 115_200, timeout=_QUIET_S, write_timeout=1)
    port.port, port.dtr, port.rts, port.exclusive = url, dtr, False, True
    try:
        port.open()
        with port:
            port.read(4096)  # what it says by itself when it is opened
            for _ in range(2):  # the first may meet half a line that somebody else has typed
                port.write(b"AT+VER=?\r\n")
                said = b""
                while data := port.read(4096):
                    said += data
                if shown:
                    print(f"> AT+VER=?\n< {said.decode(errors='replace').strip()}", file=sys.stderr)
                if found := re.search(rb"AT\+VER=(RUI_\d+\.\d+\.\d+\S*)", said):
                    return found[1].decode()
    except OSError as error:
        raise Failed(f"{url} cannot be opened, or was unplugged: {error}") from None
    raise Failed(f"{url}: no RUI3 firmware answers")


def _is_version(firmware: str, wanted: str) -> bool:
    return firmware == wanted or firmware.startswith(f"RUI_{wanted}_")


def _wait_for_person() -> None:
    if not sys.stdin.isatty():
        raise WrongUsage("a person has to prepare the board; say --prepared when that is done")
    print("Prepare it as said above, then press Enter: ", end="")
    sys.stdout.flush()
    sys.stdin.readline()


def _arguments() -> Namespace:
    parser = Arguments(str(__doc__), EXAMPLES)
    parser.add_argument("board", choices=(*TOOLS, "lora-e5", "seeeduino"))
    parser.add_argument("image", help="the firmware, .hex or .zip as the tool reads it")
    parser.add_argument("--port", required=True, help="a device path")
    parser.add_argument("--version", required=True, help="4.1.0, or RUI_4.1.0_RAK3172-H")
    parser.add_argument("--tool", help="needed where several are installed")
    parser.add_argument("--sha256", help="compared with the image before anything is written")
    parser.add_argument("--blank", action="store_true", help="flash although nothing answers")
    parser.add_argument("--prepared", action="store_true", help="do not wait for a person")
    parser.add_argument("--dry-run", action="store_true", help="only show the command")
    parser.add_argument("--verbose", action="store_true", help="show the dialogue")
    arguments = parser.parse_args()
    if arguments.board not in TOOLS:
        raise WrongUsage(
            f"{arguments.board}: its maker publishes no AT firmware to write, and what is erased "
            "does not come back. Use it with the firmware that it has"
        )
    if re.fullmatch(r"\d+\.\d+\.\d+|RUI_\d+\.\d+\.\d+_\S+", arguments.version) is None:
        parser.error("--version is like 4.1.0 or RUI_4.1.0_RAK3172-H")
    return arguments


if __name__ == "__main__":
    run(main)
