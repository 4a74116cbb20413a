"""Switches worked by programs, the programs real ones: shell scripts on the search path."""

import asyncio
import os
from pathlib import Path

import pytest

from bench.lab.power import CommandSwitch, HubSwitch, PowerFailed, run_command


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What `uhubctl` and `switch` on the search path were called with, a line each."""
    told = tmp_path / "calls"
    for name in ("uhubctl", "switch"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> {told}\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return told


def test_both_parts_of_a_hub_are_switched(calls: Path) -> None:
    asyncio.run(HubSwitch("dut-usb", ("1-1.2", "2-1.2"), 2).cycle(1000))
    assert calls.read_text().splitlines() == [
        "uhubctl -l 1-1.2 -p 2 -a off -r 5",
        "uhubctl -l 2-1.2 -p 2 -a off -r 5",
        "uhubctl -l 1-1.2 -p 2 -a on",
        "uhubctl -l 2-1.2 -p 2 -a on",
    ]


def test_the_commands_of_the_inventory_are_run(calls: Path) -> None:
    switch = CommandSwitch("s", on=("switch", "on"), off=("switch", "off"))
    asyncio.run(switch.on())
    asyncio.run(switch.cycle(1000))
    assert calls.read_text() == "switch on\nswitch off\nswitch on\n"


def test_a_command_of_its_own_cycles(calls: Path) -> None:
    switch = CommandSwitch("nrst", cycle=("switch", "press it"))
    asyncio.run(switch.cycle(60_000_000))
    assert calls.read_text() == "switch press it\n"
    with pytest.raises(PowerFailed, match="nrst: it can only be cycled"):
        asyncio.run(switch.on())


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(PowerFailed, match="hub: there is no program no-such-program; install it"):
        asyncio.run(run_command("hub", ["no-such-program"]))


def test_what_a_failed_command_said_is_told() -> None:
    failing = ["sh", "-c", "echo 'No compatible devices detected!' >&2; exit 1"]
    with pytest.raises(PowerFailed, match=r"ended with 1: No compatible devices detected!"):
        asyncio.run(run_command("hub", failing))


def test_a_command_that_does_not_end_is_ended(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with pytest.raises(PowerFailed, match="has not ended after 0 s"):
        asyncio.run(run_command("hub", ["sh", "-c", f"echo $$ > {pid}; exec sleep 60"], 500_000))
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
