"""What is sick for three nights is left out, until somebody has seen it well."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.lab.inventory import load
from bench.lab.inventory.entries import Inventory, NoSuchPart
from bench.night.memory import SEEN_WELL, note_well, sick_parts
from tests.bench.night.written_nights import night_of, write_night

EUI = "AC1F09FFFE000001"
BENCH = f"""
rig = "hardware"

[bench]
name = "lab-1"
region = "EU868"
tap = "127.0.0.1:6090"

[[device]]
name = "dut"
dialect = "rui3"
port = "/dev/ttyACM0"
dev_eui = "{EUI}"

[[gateway]]
name = "west"
eui = "0016C001F1500001"
kind = "program"
"""
SICK, WELL = (60, 120), (1, 120)


@pytest.fixture
def lab(tmp_path: Path) -> Inventory:
    (tmp_path / "bench.toml").write_text(BENCH)
    return load(tmp_path / "bench.toml")


def nights(runs: Path, *device: tuple[int, int], first: int = 0, line: str = "lns@main") -> None:
    """A night for each of these misses and opportunities of the device; the gateway is well."""
    for number, missed in enumerate(device, first):
        parts = {("device", EUI): missed, ("station", "west"): WELL}
        write_night(
            runs,
            number,
            {"group/case": "PASS"},
            rig="hardware",
            bench="lab-1",
            lab=parts,
            line=line,
        )


def test_three_sick_nights_running_leave_a_board_out(tmp_path: Path, lab: Inventory) -> None:
    nights(tmp_path, WELL, SICK, SICK)
    assert sick_parts(tmp_path, lab) == {}
    nights(tmp_path, SICK, first=3)
    assert sick_parts(tmp_path, lab) == {"dut": f"sick since {night_of(1)}"}


def test_it_stays_out_while_nothing_is_known_of_it(tmp_path: Path, lab: Inventory) -> None:
    nights(tmp_path, SICK, SICK, SICK)
    write_night(
        tmp_path, 3, {"group/case": "PASS"}, rig="hardware", bench="lab-1",
        lab={("station", "west"): WELL},
    )  # fmt: skip
    assert sick_parts(tmp_path, lab) == {"dut": f"sick since {night_of(0)}"}


def test_a_good_night_between_begins_anew(tmp_path: Path, lab: Inventory) -> None:
    nights(tmp_path, SICK, SICK, WELL, SICK, SICK)
    assert sick_parts(tmp_path, lab) == {}


def test_the_lab_is_one_whatever_is_tested_on_it(tmp_path: Path, lab: Inventory) -> None:
    nights(tmp_path, SICK, SICK)
    nights(tmp_path, SICK, first=2, line="lns@next")
    assert set(sick_parts(tmp_path, lab)) <= {"dut"}
    assert sick_parts(tmp_path, replace(lab, name="lab-2")) == {}


def test_what_was_seen_well_takes_part_again(tmp_path: Path, lab: Inventory) -> None:
    nights(tmp_path, SICK, SICK, SICK)
    note_well(tmp_path, "lab-1", ["west"])
    assert set(sick_parts(tmp_path, lab)) == {"dut"}
    note_well(tmp_path, "lab-1", ["dut"])
    assert sick_parts(tmp_path, lab) == {}


def test_a_spoilt_note_lets_nothing_in(tmp_path: Path, lab: Inventory) -> None:
    nights(tmp_path, SICK, SICK, SICK)
    for text in ("", "[]", '{"lab-1": 7}', '{"lab-1": {"dut": 7}}'):
        (tmp_path / SEEN_WELL).write_text(text)
        assert set(sick_parts(tmp_path, lab)) == {"dut"}
    note_well(tmp_path, "lab-1", ["dut"])
    assert sick_parts(tmp_path, lab) == {}


def test_a_bench_without_some_of_its_parts(lab: Inventory) -> None:
    smaller = lab.without({"dut": "sick since Monday"})
    assert (smaller.devices, [one.name for one in smaller.gateways]) == ((), ["west"])
    assert smaller.absent == {"dut": "sick since Monday"}
    with pytest.raises(NoSuchPart, match="no board or gateway is called dot; there are: dut, west"):
        lab.without({"dot": ""})
