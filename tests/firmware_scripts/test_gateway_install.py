from pathlib import Path

import pytest

from tests.firmware_scripts.running import Ended, calls, fake_program, script


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """A root folder with a config.txt, a built station, and programs that only note their calls."""
    (tmp_path / "root/boot/firmware").mkdir(parents=True)
    (tmp_path / "root/boot/firmware/config.txt").write_text("# For more options\narm_boost=1\n")
    (tmp_path / "station").write_text("the program\n")
    for name in ("apt-get", "usermod", "systemctl", "chown", "git"):
        fake_program(tmp_path / "bin", name)
    fake_program(tmp_path / "bin", "dpkg", "case $2 in gpiod) exit 1 ;; esac")
    fake_program(tmp_path / "bin", "id", 'case $1 in -nG) echo "pi spi gpio" ;; -u) echo 0 ;; esac')
    fake_program(tmp_path / "bin", "gcc", "echo aarch64-linux-gnu")
    return tmp_path


def install(lab: Path, *more: object) -> Ended:
    return script(
        *("gateway/install.sh", "--root", lab / "root", "--user", "pi", *more), path=lab / "bin"
    )


def test_everything_is_put_in_place(lab: Path) -> None:
    ended = install(lab, "--station", lab / "station")
    assert ended.code == 0, ended.err
    root, tools = lab / "root", lab / "bin"
    assert (root / "opt/basicstation/bin/station").read_text() == "the program\n"
    assert (root / "opt/basicstation/reset_lgw.sh").stat().st_mode & 0o777 == 0o755
    config = (root / "boot/firmware/config.txt").read_text()
    assert config.startswith("# For more options\narm_boost=1\n")
    assert "dtparam=spi=on\n" in config and "dtparam=i2c_arm=on\n" in config
    unit = (root / "etc/systemd/system/basicstation.service").read_text()
    assert "User=pi\n" in unit
    assert "ExecStart=/opt/basicstation/bin/station -h /opt/basicstation\n" in unit
    assert "@" not in unit
    rules = root / "etc/sudoers.d/basicstation"
    assert rules.stat().st_mode & 0o777 == 0o440
    assert "pi ALL=(root) NOPASSWD: /usr/bin/systemctl restart basicstation\n" in rules.read_text()
    assert calls(tools, "apt-get") == ["install -y gpiod"]
    assert calls(tools, "usermod") == ["-aG i2c pi", "-aG dialout pi"]
    assert calls(tools, "systemctl") == ["daemon-reload", "enable basicstation"]
    assert "restart the Pi now" in ended.out


def test_a_second_time_no_file_is_touched(lab: Path) -> None:
    install(lab, "--station", lab / "station")
    files = {p: p.stat().st_mtime_ns for p in (lab / "root").rglob("*") if p.is_file()}
    ended = install(lab, "--station", lab / "station")
    assert ended.code == 0
    assert {p: p.stat().st_mtime_ns for p in (lab / "root").rglob("*") if p.is_file()} == files
    assert "written" not in ended.out and "added" not in ended.out


def test_another_program_restarts_a_configured_station(lab: Path) -> None:
    install(lab, "--station", lab / "station")
    (lab / "root/opt/basicstation/station.conf").write_text("{}")
    (lab / "station").write_text("another program\n")
    ended = install(lab, "--station", lab / "station")
    assert ended.code == 0, ended.err
    assert (lab / "root/opt/basicstation/bin/station").read_text() == "another program\n"
    assert calls(lab / "bin", "systemctl")[-1] == "restart basicstation"


def test_the_source_is_fetched_and_built_for_this_machine(lab: Path) -> None:
    built = lab / "root/usr/local/src/basicstation/build-corecell-std/bin"
    fake_program(lab / "bin", "make", f'mkdir -p "{built}"; echo built >"{built}/station"')
    ended = install(lab)
    assert ended.code == 0, ended.err
    (clone,) = calls(lab / "bin", "git")
    assert clone.startswith("clone --branch v2.0.6 --depth 1 https://")
    (make,) = calls(lab / "bin", "make")
    assert make.endswith("platform=corecell variant=std ARCH.corecell=aarch64-linux-gnu")
    assert (lab / "root/opt/basicstation/bin/station").read_text() == "built\n"


def test_a_dry_run_changes_nothing(lab: Path) -> None:
    before = sorted(lab.joinpath("root").rglob("*"))
    ended = install(lab, "--station", lab / "station", "--dry-run")
    assert ended.code == 0, ended.err
    assert sorted(lab.joinpath("root").rglob("*")) == before
    for name in ("apt-get", "usermod", "systemctl", "chown"):
        assert calls(lab / "bin", name) == []
    assert "would run: apt-get install -y gpiod" in ended.out


def test_a_step_that_fails_ends_it_with_its_command(lab: Path) -> None:
    fake_program(lab / "bin", "apt-get", "exit 100")
    ended = install(lab, "--station", lab / "station")
    assert ended.code == 1
    assert "this did not work: apt-get install -y gpiod" in ended.err
    assert not (lab / "root/opt").exists()


def test_another_computer_than_a_pi_is_refused(lab: Path) -> None:
    (lab / "root/boot/firmware/config.txt").unlink()
    ended = install(lab, "--station", lab / "station")
    assert ended.code == 1
    assert "this is no Raspberry Pi OS" in ended.err


def test_an_unknown_option_is_told(lab: Path) -> None:
    ended = install(lab, "--usr", "pi")
    assert ended.code == 4
    assert "what is '--usr'?" in ended.err
