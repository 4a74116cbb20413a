"""Switches worked by programs, the programs real ones: shell scripts on the search path."""

import asyncio
import os
import sys
import tty
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.host.program import free_port
from bench.lab.inventory.sections import AttenuatorKind, AttenuatorSection, PowerKind, PowerSection
from bench.lab.power import (
    PowerFailed,
    PowerSwitch,
    attenuate,
    command_switch,
    hub_switch,
    power_switch,
    run_command,
    serial_relay,
    shelly_plug,
    tasmota_plug,
)
from tests.bench.lab.inventory.test_inventory import COMPLETE
from tests.bench.lab.power.plug import plug


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
    asyncio.run(hub_switch("dut-usb", ("1-1.2", "2-1.2"), 2).cycle(1000))
    assert calls.read_text().splitlines() == [
        "uhubctl -l 1-1.2 -p 2 -a off -r 5",
        "uhubctl -l 2-1.2 -p 2 -a off -r 5",
        "uhubctl -l 1-1.2 -p 2 -a on",
        "uhubctl -l 2-1.2 -p 2 -a on",
    ]


def test_the_commands_of_the_inventory_are_run(calls: Path) -> None:
    switch = command_switch("s", on=("switch", "on"), off=("switch", "off"))
    asyncio.run(switch.on())
    asyncio.run(switch.cycle(1000))
    assert calls.read_text() == "switch on\nswitch off\nswitch on\n"


def test_a_command_of_its_own_cycles(calls: Path) -> None:
    switch = command_switch("nrst", cycle=("switch", "press it"))
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


PATIENCE_US = 20_000_000
ASK = """
import asyncio
from bench.lab.power import person_switch
from bench.lab.power import PowerFailed
async def ask():
    try:
        await person_switch("poe-3", "port 3", {patience_us}).{verb}
        return "done"
    except PowerFailed as failed:
        return f"failed: {{failed}}"
print(asyncio.run(ask()))
"""


def asked(verb: str, typed: bytes, patience_us: int = PATIENCE_US) -> str:
    """What stands on the terminal in the end, if this is typed after the question."""
    terminal, port = os.openpty()
    # Who leads a session and opens a terminal has it as its own.
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", ASK.format(verb=verb, patience_us=patience_us)],
        os.environ,
        setsid=True,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.ttyname(port), os.O_RDWR, 0),
            (os.POSIX_SPAWN_DUP2, 0, 1),
            (os.POSIX_SPAWN_DUP2, 0, 2),
        ],
    )
    os.close(port)
    shown = b""
    try:
        while b"cannot be done" not in shown:
            shown += os.read(terminal, 1000)
        os.write(terminal, typed)
        while True:
            shown += os.read(terminal, 1000)
    except OSError:  # the end of the other side
        os.waitpid(child, 0)
        os.close(terminal)
    return shown.decode()


@pytest.mark.parametrize(
    ("verb", "request_"),
    [
        ("on()", "poe-3: switch on port 3, then press Enter"),
        ("off()", "poe-3: switch off port 3, then press Enter"),
        ("cycle(2_500_000)", "switch port 3 off and on after 3 s (a button: press it)"),
    ],
)
def test_enter_says_that_it_is_done(verb: str, request_: str) -> None:
    shown = asked(verb, b"\n")
    assert request_ in shown and "20 s)" in shown
    assert shown.endswith("done\r\n")


def test_n_says_that_it_cannot_be_done() -> None:
    assert "failed: poe-3: the answer was no: switch off port 3" in asked("off()", b"n\n")


def test_the_count_goes_down_until_nobody_is_waited_for() -> None:
    shown = asked("off()", b"", 1_500_000)
    assert "2 s)" in shown and "1 s)" in shown
    assert "failed: poe-3: nobody did this in 1 s: switch off port 3" in shown


def test_without_a_terminal_nobody_is_asked() -> None:
    reading, writing = os.pipe()
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", ASK.format(verb="off()", patience_us=PATIENCE_US)],
        os.environ,
        setsid=True,
        file_actions=[(os.POSIX_SPAWN_DUP2, writing, 1)],
    )
    os.close(writing)
    with os.fdopen(reading) as told:
        said = told.read()
    os.waitpid(child, 0)
    assert "there is no terminal to ask on: switch off port 3. Run it in the foreground" in said


MAKES: dict[str, Callable[[str], PowerSwitch]] = {
    "shelly 1": lambda url: shelly_plug("plug", url, 1, limit_us=2_000_000),
    "shelly 2": lambda url: shelly_plug("plug", f"{url}/", 2, limit_us=2_000_000),
    "tasmota": lambda url: tasmota_plug("plug", url, limit_us=2_000_000),
    "tasmota, second relay": lambda url: tasmota_plug("plug", url, 2, limit_us=2_000_000),
}
ASKED = {
    "shelly 1": ["/relay/0?turn=on", "/relay/0?turn=off"],
    "shelly 2": [
        "/rpc/Switch.Set?id=0&on=true",
        "/rpc/Switch.GetStatus?id=0",
        "/rpc/Switch.Set?id=0&on=false",
        "/rpc/Switch.GetStatus?id=0",
    ],
    "tasmota": ["/cm?cmnd=Power%20On", "/cm?cmnd=Power%20Off"],
    "tasmota, second relay": ["/cm?cmnd=Power2%20On", "/cm?cmnd=Power2%20Off"],
}


@pytest.mark.parametrize("make", MAKES)
def test_a_plug_is_switched_as_its_maker_documents_it(make: str) -> None:
    async def switch(url: str) -> None:
        it = MAKES[make](url)
        await it.on()
        assert far.on
        await it.off()
        assert not far.on

    with plug() as far:
        asyncio.run(switch(far.url))
    assert far.asked == ASKED[make]


@pytest.mark.parametrize("make", MAKES)
def test_a_plug_that_does_nothing_has_failed(make: str) -> None:
    with plug() as far:
        far.stuck = True
        with pytest.raises(PowerFailed, match="does not say that it is on now"):
            asyncio.run(MAKES[make](far.url).on())


@pytest.mark.parametrize("make", MAKES)
def test_a_cycle_ends_switched_on(make: str) -> None:
    with plug() as far:
        far.on = True
        asyncio.run(MAKES[make](far.url).cycle(1000))
        assert (
            far.on
            and far.asked
            == ASKED[make][len(far.asked) // 2 :] + (ASKED[make][: len(far.asked) // 2])
        )


@pytest.mark.parametrize("knows", [True, False])
def test_a_cycle_that_is_cancelled_ends_switched_on(knows: bool) -> None:
    """Whether it has been told that it is off by now, or not yet."""

    async def switch(url: str) -> None:
        task = asyncio.create_task(tasmota_plug("plug", url).cycle(60_000_000))
        while far.on:  # noqa: ASYNC110 - the plug is in another thread
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.sleep(0)
        far.telling.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    with plug() as far:
        far.on = True
        if not knows:
            far.telling.clear()
        asyncio.run(switch(far.url))
        assert far.on


def test_another_make_is_no_answer() -> None:
    with plug() as far, pytest.raises(PowerFailed, match=r"404 Not Found; is it"):
        asyncio.run(shelly_plug("plug", f"{far.url}/x", 1).on())


def test_a_plug_that_is_not_there_is_named() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(PowerFailed, match=f"plug: no answer from {url}"):
        asyncio.run(tasmota_plug("plug", url).on())


def test_a_plug_that_says_nothing_is_not_waited_for() -> None:
    with plug() as far:
        far.held.clear()
        with pytest.raises(PowerFailed, match="no answer from"):
            asyncio.run(tasmota_plug("plug", far.url, limit_us=100_000).on())
        far.held.set()


ON, OFF = bytes.fromhex("A00101A2"), bytes.fromhex("A00100A1")


def test_the_bytes_of_the_inventory_arrive() -> None:
    card, port = os.openpty()
    tty.setraw(port)
    try:
        relay = serial_relay("nrst", os.ttyname(port), on=ON, off=OFF)
        asyncio.run(relay.on())
        assert os.read(card, 100) == ON
        asyncio.run(relay.cycle(1000))
        assert os.read(card, 4) + os.read(card, 4) == OFF + ON
    finally:
        os.close(card)
        os.close(port)


def test_a_relay_that_is_not_there_is_named(tmp_path: Path) -> None:
    relay = serial_relay("nrst", str(tmp_path / "relay"), on=ON, off=OFF)
    with pytest.raises(PowerFailed, match=r"nrst: .*relay: no such port"):
        asyncio.run(relay.off())


@pytest.mark.parametrize("kind", PowerKind)
def test_every_kind_has_its_switch(kind: PowerKind) -> None:
    power_switch(PowerSection(name="s", kind=kind, **COMPLETE[kind]))


@pytest.mark.parametrize(
    ("kind", "settings", "asked"),
    [
        (PowerKind.SHELLY, {"generation": 1}, "/relay/0?turn=on"),
        (PowerKind.SHELLY, {"generation": 2, "channel": 3}, "/rpc/Switch.GetStatus?id=3"),
        (PowerKind.TASMOTA, {"channel": 1}, "/cm?cmnd=Power1%20On"),
    ],
)
def test_the_settings_reach_the_switch(
    kind: PowerKind, settings: dict[str, object], asked: str
) -> None:
    with plug() as far:
        entry = PowerSection(name="s", kind=kind, url=far.url, **settings)
        asyncio.run(power_switch(entry).on())
    assert far.asked[-1] == asked


def test_one_part_of_a_hub_may_stand_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "uhubctl").write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\n')
    (tmp_path / "uhubctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    entry = PowerSection(name="s", kind=PowerKind.UHUBCTL, location="1-1.2", port=2)
    asyncio.run(power_switch(entry).on())
    assert (tmp_path / "calls").read_text() == "-l 1-1.2 -p 2 -a on\n"


def test_an_attenuator_is_set_to_whole_decibels(tmp_path: Path) -> None:
    told = tmp_path / "told"
    entry = AttenuatorSection(
        name="step-a",
        kind=AttenuatorKind.COMMAND,
        db=20,
        set=["sh", "-c", f'echo "$1" > {told}', "sh", "--db={db}"],
    )
    asyncio.run(attenuate(entry, 63))
    assert told.read_text() == "--db=63\n"
    with pytest.raises(PowerFailed, match="does not amplify"):
        asyncio.run(attenuate(entry, -1))
