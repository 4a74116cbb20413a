import socket
from pathlib import Path

import pytest

from bench.doctor import machine
from bench.doctor.check import State


def test_folders_that_can_be_made_are_fine(tmp_path: Path) -> None:
    looked = machine.look_at_folders((tmp_path / "a" / "runs", "s3://lake"))
    assert looked.state is State.OK
    assert "lake" not in looked.found


def test_a_file_in_the_place_of_a_folder_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    looked = machine.look_at_folders((tmp_path / "runs",))
    assert looked.state is State.MISSING
    assert looked.remedy.startswith("mv ")


def test_memory_is_what_is_left_of_it(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    meminfo = tmp_path / "proc" / "meminfo"
    meminfo.write_text("MemTotal: 16000000 kB\nMemAvailable:   8000000 kB\n")
    assert "8.0 GB of memory free" in machine.look_at_memory(tmp_path).found
    meminfo.write_text("MemAvailable: 1000000 kB\n")
    looked = machine.look_at_memory(tmp_path)
    assert looked.state is State.WARNING
    assert "1.0 GB of memory free; Spark wants 3 GB" in looked.found


def test_a_machine_that_does_not_tell_its_memory(tmp_path: Path) -> None:
    assert "memory unknown" in machine.look_at_memory(tmp_path).found


def test_captures_are_optional(tmp_path: Path) -> None:
    assert machine.look_at_captures([]).state is State.WARNING
    assert machine.look_at_captures([tmp_path / "a.ndjson"]).found == f"1 in {tmp_path}"


def test_a_usual_port_that_is_taken_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        monkeypatch.setattr(machine, "USUAL_PORTS", {port: "network server"})
        looked = machine.look_at_ports()
    assert looked.state is State.WARNING
    assert f"not {port} (network server)" in looked.found


def test_the_disk_and_the_monotonic_clock_are_read(tmp_path: Path) -> None:
    assert "GB free" in machine.look_at_disk(tmp_path / "not" / "yet").found
    assert machine.look_at_monotonic_clock().found.startswith("resolution ")


@pytest.mark.parametrize(
    ("says", "state", "said"),
    [
        ("yes", State.OK, "synchronised, says timedatectl"),
        ("no", State.WARNING, "not synchronised"),
        ("Failed to connect to bus", State.WARNING, "gives no answer here"),
    ],
)
def test_the_wall_clock_is_what_timedatectl_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, state: State, said: str
) -> None:
    program = tmp_path / "timedatectl"
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    looked = machine.look_at_wall_clock(tmp_path)
    assert looked.state is state
    assert said in looked.found


def test_systemd_leaves_a_file_when_the_clock_is_right(tmp_path: Path) -> None:
    (tmp_path / "run" / "systemd" / "timesync").mkdir(parents=True)
    (tmp_path / "run" / "systemd" / "timesync" / "synchronized").touch()
    assert machine.look_at_wall_clock(tmp_path).state is State.OK


def test_without_timedatectl_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no timedatectl" in machine.look_at_wall_clock(tmp_path).found
