import json
import os
import resource
import socket
from pathlib import Path

import pytest

from bench import doctor
from bench.doctor import (
    Places,
    conclusion,
    diagnosis,
    listener,
    look_at_intruders,
    look_at_permission,
    look_at_ports,
)
from bench.doctor.installed import Check, Purpose, State, ok


def check(name: str, purpose: Purpose, state: State) -> Check:
    return Check(name, purpose, state, "")


def test_an_empty_machine_is_diagnosed_without_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("PATH", ""), ("HOME", str(tmp_path)), ("XDG_CACHE_HOME", "")):
        monkeypatch.setenv(name, value)
    checks = diagnosis(Places(tmp_path / "runs", str(tmp_path / "lake"), root=tmp_path))
    found = {(check.purpose, check.name): check.state for check in checks}
    assert found[Purpose.EMULATED, "Mosquitto"] is State.MISSING
    assert found[Purpose.HARDWARE, "serial ports"] is State.MISSING
    assert found[Purpose.NIGHTLY, "folders"] is State.OK
    assert all(bool(check.remedy) is (check.state is not State.OK) for check in checks)


@pytest.mark.parametrize(
    ("checks", "said"),
    [
        (
            [check("Java", Purpose.NIGHTLY, State.WARNING)],
            "The nightly on the simulated rig, the emulated rig and the hardware rig can run.",
        ),
        (
            [check("Java", Purpose.NIGHTLY, State.MISSING)],
            "The nightly on the simulated rig lacks Java; the emulated rig waits for that; "
            "the hardware rig waits for that.",
        ),
        (
            [
                check("Mosquitto", Purpose.EMULATED, State.MISSING),
                check("rig", Purpose.HARDWARE, State.MISSING),
                check("serial ports", Purpose.HARDWARE, State.MISSING),
            ],
            "The nightly on the simulated rig can run; the emulated rig lacks Mosquitto; "
            "the hardware rig lacks its driver in this version and serial ports.",
        ),
    ],
)
def test_the_last_sentence_says_what_works(checks: list[Check], said: str) -> None:
    assert conclusion(checks) == said


TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:075B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1
   1: 0100007F:18EB 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 4712 1
broken
"""


def test_this_process_is_found_on_this_machine() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert listener(port, Path("/")).endswith(f", process {os.getpid()}")
    assert listener(port, Path("/")) == ""


def test_the_program_is_named(tmp_path: Path) -> None:
    (tmp_path / "proc" / "net").mkdir(parents=True)
    (tmp_path / "proc" / "net" / "tcp").write_text(TABLE)
    for number, inode in ((7, 1), (812, 4711), (900, 4712)):
        handles = tmp_path / "proc" / str(number) / "fd"
        handles.mkdir(parents=True)
        (handles / "3").symlink_to(f"socket:[{inode}]")
    (tmp_path / "proc" / "8").mkdir()
    (tmp_path / "proc" / "812" / "comm").write_text("mosquitto\n")
    assert listener(1883, tmp_path) == "mosquitto, process 812"
    assert listener(6379, tmp_path) == ""
    assert listener(0x18EB, tmp_path) == "", "a connection is no listener"
    (tmp_path / "proc" / "812" / "comm").unlink()
    assert listener(1883, tmp_path) == "a program, process 812"


def test_another_user_s_program_is_not_told(tmp_path: Path) -> None:
    (tmp_path / "proc" / "net").mkdir(parents=True)
    (tmp_path / "proc" / "net" / "tcp6").write_text(TABLE)
    (tmp_path / "proc" / "812").mkdir()
    assert listener(1883, tmp_path) == ""


def test_folders_that_can_be_made_are_fine(tmp_path: Path) -> None:
    looked = doctor.look_at_folders((tmp_path / "a" / "runs", "s3://lake"))
    assert looked.state is State.OK
    assert "lake" not in looked.found


def test_a_file_in_the_place_of_a_folder_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    looked = doctor.look_at_folders((tmp_path / "runs",))
    assert looked.state is State.MISSING
    assert looked.remedy.startswith("mv ")


def test_memory_is_what_is_left_of_it(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    meminfo = tmp_path / "proc" / "meminfo"
    meminfo.write_text("MemTotal: 16000000 kB\nMemAvailable:   8000000 kB\n")
    assert "8.0 GB of memory free" in doctor.look_at_memory(tmp_path).found
    meminfo.write_text("MemAvailable: 1000000 kB\n")
    looked = doctor.look_at_memory(tmp_path)
    assert looked.state is State.WARNING
    assert "1.0 GB of memory free; Spark wants 3 GB" in looked.found


def test_a_machine_that_does_not_tell_its_memory(tmp_path: Path) -> None:
    assert "memory unknown" in doctor.look_at_memory(tmp_path).found


def test_captures_are_optional(tmp_path: Path) -> None:
    assert doctor.look_at_captures([]).state is State.WARNING
    assert doctor.look_at_captures([tmp_path / "a.ndjson"]).found == f"1 in {tmp_path}"


def test_a_usual_port_that_is_taken_is_named_with_who_has_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(doctor, "USUAL_PORTS", {port: "network server"})
        looked = doctor.look_at_tcp_ports(Path("/"))
        nobody_tells = doctor.look_at_tcp_ports(tmp_path)
    assert looked.state is State.WARNING
    assert f"{port} (network server) is taken by " in looked.found
    assert looked.found.endswith(f", process {os.getpid()}")
    assert looked.remedy == f"ss -tlnp 'sport = :{port}'"
    assert nobody_tells.found.endswith("is taken by somebody")


def test_ptys_are_opened_and_closed_again(tmp_path: Path) -> None:
    files = len(os.listdir("/proc/self/fd"))
    assert doctor.look_at_ptys(tmp_path) == ok("can be opened")
    assert len(os.listdir("/proc/self/fd")) == files
    limits = tmp_path / "proc" / "sys" / "kernel" / "pty"
    limits.mkdir(parents=True)
    (limits / "max").write_text("4096\n")
    (limits / "nr").write_text("96\n")
    assert doctor.look_at_ptys(tmp_path) == ok("can be opened, 4000 of 4096 are free")
    (limits / "max").write_text("128\n")
    looked = doctor.look_at_ptys(tmp_path)
    assert looked.state is State.WARNING
    assert looked.remedy == "sudo sysctl kernel.pty.max=384"


def test_a_machine_without_ptys_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + 3, hard))
    try:
        looked = doctor.look_at_ptys(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert looked.state is State.MISSING
    assert "of 4 could be opened" in looked.found


@pytest.mark.parametrize(
    ("soft", "hard", "state", "said"),
    [
        (8_192, 8_192, State.OK, "8192 at once"),
        (1_024, -1, State.OK, "1024 at once, any number if asked for"),
        (1_024, 2_048, State.WARNING, "side by side want 4096"),
        (128, 8_192, State.MISSING, "256 are needed"),
    ],
)
def test_open_files_are_counted(
    soft: int, hard: int, state: State, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    looked = doctor.look_at_open_files()
    assert looked.state is state
    assert said in looked.found
    assert bool(looked.remedy) is (state is not State.OK)


def test_the_disk_and_the_monotonic_clock_are_read(tmp_path: Path) -> None:
    assert "GB free" in doctor.look_at_disk(tmp_path / "not" / "yet").found
    assert doctor.look_at_monotonic_clock().found.startswith("resolution ")


@pytest.mark.parametrize(
    ("says", "state", "said"),
    [
        ("yes", State.OK, "synchronised, says timedatectl"),
        ("no", State.WARNING, "not synchronised"),
    ],
)
def test_the_wall_clock_is_what_timedatectl_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, state: State, said: str
) -> None:
    program = tmp_path / "timedatectl"
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    looked = doctor.look_at_wall_clock(tmp_path)
    assert looked.state is state
    assert said in looked.found


def test_systemd_leaves_a_file_when_the_clock_is_right(tmp_path: Path) -> None:
    (tmp_path / "run" / "systemd" / "timesync").mkdir(parents=True)
    (tmp_path / "run" / "systemd" / "timesync" / "synchronized").touch()
    assert doctor.look_at_wall_clock(tmp_path).state is State.OK


@pytest.mark.parametrize(
    ("kernel", "state", "said"),
    [
        (True, State.OK, "synchronised, says the kernel"),
        (False, State.WARNING, "not synchronised, says the kernel"),
        (None, State.WARNING, "not known"),
    ],
)
@pytest.mark.parametrize("timedatectl", [True, False])
def test_without_systemd_the_kernel_is_asked(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    timedatectl: bool,
    kernel: bool | None,
    state: State,
    said: str,
) -> None:
    if timedatectl:
        (tmp_path / "timedatectl").write_text("#!/bin/sh\necho Failed to connect to bus\n")
        (tmp_path / "timedatectl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor, "kernel_clock_is_synchronised", lambda: kernel)
    looked = doctor.look_at_wall_clock(tmp_path)
    assert (looked.state, looked.found.startswith(said)) == (state, True)


def test_the_kernel_says_whether_its_clock_is_disciplined() -> None:
    assert doctor.kernel_clock_is_synchronised() in (True, False)


def test_a_gateway_that_a_network_server_cannot_answer_through_is_named(tmp_path: Path) -> None:
    capture = tmp_path / "lns-a.jsonl"
    capture.write_text("")
    assert doctor.look_at_answers(tmp_path, capture).state is State.OK
    facts = {"kind": "lns.too_late", "lns": "lns-a", "station": "0016C001F1500001", "n": 5}
    capture.write_text(json.dumps({**facts, "stage": "going on", "cause": "it is late"}) + "\n")
    looked = doctor.look_at_answers(tmp_path, capture)
    assert looked.state is State.WARNING
    assert looked.found.startswith("0016C001F1500001: lns-a could not answer through it 5 times")
    assert looked.remedy == "lorabench stations check"
    assert "cannot be read" in doctor.look_at_answers(tmp_path, tmp_path / "nowhere").found
    assert doctor.look_at_answers(tmp_path / "runs", None).state is State.OK


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "dev").mkdir()
    (tmp_path / "proc" / "17").mkdir(parents=True)
    (tmp_path / "proc" / "18").mkdir()  # has ended: its files are gone
    (tmp_path / "proc" / "17" / "comm").write_text("ModemManager\n")
    return tmp_path


def test_without_boards_there_is_no_port(root: Path) -> None:
    assert look_at_ports(root).state is State.MISSING
    assert look_at_permission(root).state in (State.OK, State.WARNING)


def test_boards_are_named(root: Path) -> None:
    for n in range(8):
        (root / "dev" / f"ttyUSB{n}").touch()
    (root / "dev" / "ttyS0").touch()
    assert look_at_ports(root).found.endswith("ttyUSB4, ttyUSB5 and 2 more")
    assert look_at_permission(root).found == "may be opened by this user"


def test_a_port_that_may_not_be_opened_is_mended_by_the_group(root: Path) -> None:
    (root / "dev" / "ttyACM0").symlink_to(root / "gone")
    looked = look_at_permission(root)
    assert looked.state is State.MISSING
    assert "usermod -aG dialout" in looked.remedy


def test_a_program_that_talks_to_boards_is_told(root: Path) -> None:
    looked = look_at_intruders(root)
    assert looked.state is State.WARNING
    assert looked.remedy == "sudo systemctl disable --now ModemManager"
    (root / "proc" / "17" / "comm").write_text("bash\n")
    assert look_at_intruders(root).state is State.OK
