from pathlib import Path

import pytest

from tests.firmware_scripts.running import calls, fake_program, script

BENCH = """
[bench]
name = "lab-1"
[[device]]
name = "dut"
dialect = "rui3"
usb_path = "1-1.2.1"
dev_eui = "AC1F09FFFE000001"
[[device]]
name = "e5"
dialect = "lora-e5"
usb_serial = "0123ABCD"
dev_eui = "2CF7F12000000001"
[[replayer]]
name = "replayer"
dialect = "rui3"
port = "socket://10.0.0.7:4001"
"""


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    (tmp_path / "bench.toml").write_text(BENCH)
    fake_program(tmp_path / "bin", "udevadm")
    return tmp_path / "bench.toml"


def test_every_board_with_a_mark_gets_a_name(bench: Path) -> None:
    ended = script("make_udev_rules.py", "--bench", bench)
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert 'SUBSYSTEM=="tty", SUBSYSTEMS=="usb", KERNELS=="1-1.2.1", SYMLINK+="lora/dut"' in lines
    assert 'SUBSYSTEM=="tty", ATTRS{serial}=="0123ABCD", SYMLINK+="lora/e5"' in lines
    assert not [line for line in lines if "lora/replayer" in line]
    assert "@" not in ended.out
    ignored = [line for line in lines if 'ENV{ID_MM_DEVICE_IGNORE}="1"' in line]
    assert [line.split('"')[3] for line in ignored] == [
        *("1a86", "10c4", "0403", "0483", "239a", "2886"),
    ]


def test_a_byte_order_mark_is_no_part_of_the_file(bench: Path) -> None:
    rules = script("make_udev_rules.py", "--bench", bench).out
    bench.write_bytes(b"\xef\xbb\xbf" + bench.read_bytes())
    assert script("make_udev_rules.py", "--bench", bench).out == rules


def test_they_are_installed_and_applied_once(bench: Path) -> None:
    root, tools = bench.parent / "root", bench.parent / "bin"
    arguments = ("make_udev_rules.py", "--bench", bench, "--install", "--root", root)
    first = script(*arguments, path=tools)
    assert first.code == 0, first.err
    installed = root / "etc/udev/rules.d/70-lora-bench.rules"
    assert installed.read_text() == script("make_udev_rules.py", "--bench", bench).out
    assert calls(tools, "udevadm") == ["control --reload", "trigger -s tty"]
    again = script(*arguments, path=tools)
    assert again.out == f"unchanged: {installed}\n"
    assert len(calls(tools, "udevadm")) == 2


def test_a_dry_run_writes_nothing(bench: Path) -> None:
    root, tools = bench.parent / "root", bench.parent / "bin"
    ended = script(
        *("make_udev_rules.py", "--bench", bench, "--install", "--root", root, "--dry-run"),
        path=tools,
    )
    assert ended.code == 0 and "would write" in ended.out
    assert not root.exists() and calls(tools, "udevadm") == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"dut"', '"the dut"', "cannot be a name below /dev/lora"),
        ('"0123ABCD"', "'a\", RUN+=\"x'", "no USB serial number or path"),
        ("[bench]", "[bench", "is no TOML file"),
    ],
)
def test_what_cannot_stand_in_a_rule_is_refused(
    bench: Path, old: str, new: str, message: str
) -> None:
    bench.write_text(BENCH.replace(old, new, 1))
    ended = script("make_udev_rules.py", "--bench", bench)
    assert ended.code == 4
    assert message in ended.err
    assert ended.out == ""
