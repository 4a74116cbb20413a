"""`lorabench emulate`: a lab without hardware, described by a `bench.toml` as a real one is."""

import asyncio
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from bench.cli.output import (
    AsJson,
    BenchBroken,
    ExitCode,
    Refused,
    RegionName,
    print_json,
    print_lines,
    region_of,
)
from bench.host.program import HostError
from bench.virtual.lab import lab_folder
from bench.virtual.lab.emulated_lab import EmulatedLab

EXAMPLES = (
    "lorabench emulate --folder lab",
    "lorabench run --rig hardware --bench lab/bench.toml",
    "lorabench emulate --control lab unplug dut",
    "lorabench emulate --control lab attenuate west 90",
)

Words = Annotated[
    str,
    Parameter(help="With --control: what to do, to whom, and the value of `attenuate`."),
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
    host, _, port = tap.rpartition(":")
    if not host or not port.isdecimal() or port == "0":
        raise Refused(f"--tap {tap}: it is a host and a port, such as 127.0.0.1:6090.")
    where = folder or Path(tempfile.mkdtemp(prefix="lorabench-lab-"))
    try:
        asyncio.run(_run(EmulatedLab(where, f"ws://{tap}", region=region), as_json=as_json))
    except HostError as error:
        raise BenchBroken(str(error)) from None
    return ExitCode.PASSED


def _control(folder: Path, words: tuple[str, ...]) -> int:
    if len(words) not in (2, 3) or words[0] not in lab_folder.VERBS:
        raise Refused(
            "--control takes a verb and a name, such as `unplug dut`. Verbs: "
            + ", ".join(lab_folder.VERBS)
        )
    try:
        asyncio.run(lab_folder.ask(folder, *words))
    except lab_folder.ControlRefused as refusal:
        raise Refused(str(refusal)) from None
    return ExitCode.PASSED


async def _run(lab: EmulatedLab, *, as_json: bool) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    async with lab:
        if as_json:
            print_json({"bench": lab.bench_toml})
        else:
            print_lines([str(lab.bench_toml)])
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
