"""Every kind of switch and attenuator of an inventory can be made, and does what its keys say."""

import asyncio
import os
from pathlib import Path

import pytest

from bench.lab.inventory.entries import AttenuatorEntry, AttenuatorKind, PowerEntry, PowerKind
from bench.lab.power import PowerFailed, attenuator, power_switch
from tests.bench.lab.inventory.test_switch_keys import COMPLETE
from tests.bench.lab.power.plug import plug


@pytest.mark.parametrize("kind", PowerKind)
def test_every_kind_has_its_switch(kind: PowerKind) -> None:
    power_switch(PowerEntry(name="s", kind=kind, settings=COMPLETE[kind]))


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
        entry = PowerEntry(name="s", kind=kind, settings={"url": far.url, **settings})
        asyncio.run(power_switch(entry).on())
    assert far.asked[-1] == asked


def test_one_part_of_a_hub_may_stand_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "uhubctl").write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\n')
    (tmp_path / "uhubctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    settings: dict[str, object] = {"location": "1-1.2", "port": 2}
    asyncio.run(power_switch(PowerEntry(name="s", kind=PowerKind.UHUBCTL, settings=settings)).on())
    assert (tmp_path / "calls").read_text() == "-l 1-1.2 -p 2 -a on\n"


def test_an_attenuator_is_set_to_whole_decibels(tmp_path: Path) -> None:
    told = tmp_path / "told"
    entry = AttenuatorEntry(
        name="step-a",
        kind=AttenuatorKind.COMMAND,
        db=20,
        set_command=("sh", "-c", f'echo "$1" > {told}', "sh", "--db={db}"),
    )
    asyncio.run(attenuator(entry).set_db(63))
    assert told.read_text() == "--db=63\n"
    with pytest.raises(PowerFailed, match="does not amplify"):
        asyncio.run(attenuator(entry).set_db(-1))
