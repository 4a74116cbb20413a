import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.firmware_scripts.running import SCRIPTS, Ended, calls, fake_program, script

HOME = "opt/basicstation"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / HOME).mkdir(parents=True)
    fake_program(tmp_path / "bin", "systemctl")
    return tmp_path / "root"


def configure(root: Path, *more: object, board: str = "RAK5146", tap: str = "ws://h:6090") -> Ended:
    return script(
        *("gateway/configure.py", "--root", root, "--board", board, "--tap", tap),
        *("--eui", "0016C001F1500001", *more),
        path=root.parent / "bin",
    )


def test_the_station_gets_all_it_needs_and_is_restarted(root: Path) -> None:
    ended = configure(root)
    assert ended.code == 0, ended.err
    home = root / HOME
    assert sorted(path.name for path in home.iterdir()) == [
        *("board.env", "rinit.sh", "station.conf", "tc.uri"),
    ]
    assert (home / "tc.uri").read_text() == "ws://h:6090\n"
    conf = json.loads((home / "station.conf").read_text())
    assert conf["station_conf"]["routerid"] == "0016C001F1500001"
    assert conf["station_conf"]["RADIO_INIT_WAIT"] == "5s", "the default of 200 ms is too short"
    assert "nodc" not in conf["station_conf"]
    assert conf["SX1302_conf"]["device"] == "/dev/spidev0.0"
    gains = conf["SX1302_conf"]["radio_0"]["tx_gain_lut"]
    assert gains[0] == {"rf_power": 12, "pa_gain": 0, "pwr_idx": 15}
    assert gains[-1] == {"rf_power": 27, "pa_gain": 1, "pwr_idx": 14}
    assert [gain["rf_power"] for gain in gains] == list(range(12, 28))
    assert (home / "rinit.sh").stat().st_mode & 0o111 == 0o111
    assert "RESET_GPIO=17\n" in (home / "board.env").read_text()
    assert calls(root.parent / "bin", "systemctl") == ["restart basicstation"]


def test_a_second_time_nothing_is_written_and_nothing_restarted(root: Path) -> None:
    configure(root)
    before = {path: path.stat().st_mtime_ns for path in (root / HOME).iterdir()}
    ended = configure(root)
    assert ended.code == 0 and "nothing to do" in ended.out
    assert {path: path.stat().st_mtime_ns for path in (root / HOME).iterdir()} == before
    assert len(calls(root.parent / "bin", "systemctl")) == 1


def test_a_dry_run_writes_nothing(root: Path) -> None:
    ended = configure(root, "--dry-run")
    assert ended.code == 0 and "would write" in ended.out
    assert list((root / HOME).iterdir()) == []
    assert calls(root.parent / "bin", "systemctl") == []


@pytest.mark.parametrize("written", ["s3cret\n", "Authorization: Bearer s3cret\r\n"])
def test_wss_with_a_token_writes_a_header_that_only_its_user_reads(
    root: Path, written: str
) -> None:
    (root / "ca.crt").write_text("CA\n")
    (root / "token").write_text(written)
    ended = configure(
        *(root, "--trust", root / "ca.crt", "--token-file", root / "token"), tap="wss://h:6090"
    )
    assert ended.code == 0, ended.err
    key = root / HOME / "tc.key"
    assert key.read_bytes() == b"Authorization: Bearer s3cret\r\n"
    assert key.stat().st_mode & 0o777 == 0o600
    assert "s3cret" not in ended.out + ended.err


def test_a_private_key_is_read_by_its_user_only(root: Path) -> None:
    for name in ("ca.crt", "station.crt", "station.key"):
        (root / name).write_text(f"{name}\n")
    certificate = ("--cert", root / "station.crt", "--key", root / "station.key")
    ended = configure(root, "--trust", root / "ca.crt", *certificate, tap="wss://h:6090")
    assert ended.code == 0, ended.err
    modes = {name: (root / HOME / name).stat().st_mode & 0o777 for name in ("tc.crt", "tc.key")}
    assert modes == {"tc.crt": 0o644, "tc.key": 0o600}
    assert (root / HOME / "tc.key").read_text() == "station.key\n"


def test_credentials_that_are_not_wanted_any_more_are_put_aside(root: Path) -> None:
    (root / "ca.crt").write_text("CA\n")
    configure(root, "--trust", root / "ca.crt", tap="wss://h:6090")
    ended = configure(root)
    assert ended.code == 0
    assert not (root / HOME / "tc.trust").exists()
    assert (root / HOME / "tc.trust.unused").read_text() == "CA\n"


def test_a_board_on_usb_has_no_reset(root: Path) -> None:
    configure(root, board="RAK5146-USB")
    conf = json.loads((root / HOME / "station.conf").read_text())
    assert conf["SX1302_conf"]["device"] == "usb:/dev/ttyACM0"
    assert "radio_init" not in conf["station_conf"]
    assert not (root / HOME / "rinit.sh").exists()


def test_the_duty_cycle_goes_only_when_that_is_said(root: Path) -> None:
    configure(root, "--no-duty-cycle")
    assert json.loads((root / HOME / "station.conf").read_text())["station_conf"]["nodc"] is True


def test_a_board_whose_pins_nobody_has_confirmed_is_said(root: Path) -> None:
    ended = configure(root, board="WM1302")
    assert ended.code == 0
    assert "the GPIO lines of WM1302 are not confirmed" in ended.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--board", "RAK9999"], "--board is one of CoreCell, RAK2287"),
        (["--board", "RAK831"], "SX1301"),
        (["--eui", "0016"], "16 hex digits"),
        (["--tap", "http://h:6090"], "--tap is ws://host:port"),
        (["--tap", "ws://h"], "--tap is ws://host:port"),
        (["--tap", "ws://h:0"], "--tap is ws://host:port"),
        (["--tap", "ws://h:65536"], "--tap is ws://host:port"),
        (["--tap", "wss://h:1"], "wss:// needs --trust"),
        (["--token-file", "/not/there"], "belong to wss://"),
        (["--tap", "wss://h:1", "--trust", "/not/there"], "/not/there cannot be read"),
    ],
)
def test_what_does_not_go_together_is_said(root: Path, arguments: list[str], message: str) -> None:
    ended = configure(root, *arguments)
    assert ended.code == 4
    assert message in ended.err
    assert list((root / HOME).iterdir()) == []


def test_without_its_folder_it_says_what_comes_first(tmp_path: Path) -> None:
    ended = configure(tmp_path / "empty")
    assert ended.code == 1
    assert "run install.sh first" in ended.err


def test_a_service_that_does_not_restart_is_a_failure(root: Path) -> None:
    fake_program(root.parent / "bin", "systemctl", "exit 5")
    ended = configure(root)
    assert ended.code == 1
    assert "systemctl restart basicstation" in ended.err


def test_the_table_of_the_page_is_the_table_of_the_scripts() -> None:
    table = tomllib.loads((SCRIPTS / "gateway" / "gateway_boards.toml").read_text())
    shown = script("gateway/configure.py", "--boards").out
    page = (SCRIPTS.parent / "hardware.md").read_text()
    for name, board in table.items():
        assert re.search(rf"^{re.escape(name)} ", shown, re.MULTILINE), name
        reset, power = board.get("reset_gpio", "-"), board.get("power_gpio", "-")
        row = re.search(rf"^\| `{re.escape(name)}`[ ,].*$", page, re.MULTILINE)
        assert row is not None, name
        cells = [cell.strip() for cell in row[0].strip("|").split("|")]
        assert cells[2].split(",")[0].split(" ")[0] == str(reset), row[0]
        assert cells[3].split(",")[0].split(" ")[0] == str(power), row[0]
        assert ("to verify" in cells[4]) == (board["certainty"] != "source"), row[0]


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
    assert calls(lab / "bin", "apt-get") == []


def test_a_user_who_is_not_there_is_told_before_anything_is_changed(lab: Path) -> None:
    fake_program(lab / "bin", "id", "case $1 in -u) echo 0 ;; *) exit 1 ;; esac")
    ended = install(lab, "--station", lab / "station")
    assert ended.code == 1 and "there is no user pi" in ended.err
    assert calls(lab / "bin", "apt-get") == []
    assert "dtparam" not in (lab / "root/boot/firmware/config.txt").read_text()


def test_who_has_seen_enough_of_the_table_of_boards_may_go() -> None:
    command = f"{sys.executable} {SCRIPTS / 'gateway/configure.py'} --boards | head -n 1"
    ran = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("board ") and ran.stderr == ""


def test_an_unknown_option_is_told(lab: Path) -> None:
    ended = install(lab, "--usr", "pi")
    assert ended.code == 4
    assert "what is '--usr'?" in ended.err


DETECTED = {
    "gpiochip0": 'echo "gpiochip0 [pinctrl-bcm2711] (58 lines)"; echo "gpiochip1 [x] (8 lines)"',
    "gpiochip4": 'echo "gpiochip0 [brcmvirt-gpio] (4 lines)"\n'
    'echo "gpiochip4 [pinctrl-rp1] (54 lines)"',
}


def tools(folder: Path, version: str, chip: str = "gpiochip0") -> Path:
    fake_program(
        folder,
        "gpioset",
        f'case $1 in --version) echo "gpioset (libgpiod) v{version}" ;; esac',
    )
    fake_program(folder, "gpiodetect", DETECTED[chip])
    return folder


def sets(folder: Path) -> list[str]:
    return [line for line in calls(folder, "gpioset") if line != "--version"]


def test_libgpiod_1_is_told_how_long_in_microseconds(tmp_path: Path) -> None:
    path = tools(tmp_path / "bin", "1.6.3")
    ended = script("gateway/reset_lgw.sh", "start", "--reset", 17, path=path)
    assert ended.code == 0, ended.err
    assert sets(path) == [f"-m time -u 100000 gpiochip0 17={level}" for level in (0, 1, 0)]


def test_libgpiod_2_holds_the_level_and_leaves_without_toggling_it(tmp_path: Path) -> None:
    path = tools(tmp_path / "bin", "2.1.3")
    ended = script("gateway/reset_lgw.sh", "start", "--reset", 17, path=path)
    assert ended.code == 0, ended.err
    assert sets(path) == [f"-c gpiochip0 -p 100ms -t 0 17={level}" for level in (0, 1, 0)]


def test_the_chip_of_a_pi_5_is_found_by_its_label(tmp_path: Path) -> None:
    path = tools(tmp_path / "bin", "2.1.3", "gpiochip4")
    script("gateway/reset_lgw.sh", "start", "--reset", 17, path=path)
    assert all("-c gpiochip4 " in line for line in sets(path))


def test_the_board_is_switched_on_before_it_is_reset(tmp_path: Path) -> None:
    path = tools(tmp_path / "bin", "1.6.3")
    script(
        *("gateway/reset_lgw.sh", "start", "--reset", 17, "--power", 20, "--level", 0), path=path
    )
    assert [line.split()[-1] for line in sets(path)] == ["20=0", "17=0", "17=1", "17=0"]


def test_the_lines_stand_in_board_env_beside_it(tmp_path: Path) -> None:
    path = tools(tmp_path / "bin", "1.6.3")
    copy = tmp_path / "home" / "reset_lgw.sh"
    copy.parent.mkdir()
    copy.write_text((SCRIPTS / "gateway" / "reset_lgw.sh").read_text())
    (copy.parent / "board.env").write_text(
        "RESET_GPIO=23\nPOWER_GPIO=18\nPOWER_LEVEL=1\nGPIO_CHIP=\n"
    )
    ended = script(str(copy), "start", path=path)
    assert ended.code == 0, ended.err
    assert [line.split()[-1] for line in sets(path)] == ["18=1", "23=0", "23=1", "23=0"]


def test_a_board_without_a_reset_line_needs_no_tool(tmp_path: Path) -> None:
    ended = script("gateway/reset_lgw.sh", "start", path=tmp_path)
    assert (ended.code, ended.out) == (0, "this board has no reset line; nothing to do\n")


def test_a_dry_run_sets_nothing(tmp_path: Path) -> None:
    path = tools(tmp_path / "bin", "1.6.3")
    ended = script("gateway/reset_lgw.sh", "start", "--reset", 17, "--dry-run", path=path)
    assert sets(path) == []
    assert ended.out.count("would run: gpioset") == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["start", "--reset", "GPIO17"], "--reset is a number"),
        (["--reset", "17"], "say start or stop"),
        (["start", "--reset"], "--reset needs a value"),
        (["start", "--reset", "17", "--level", "2"], "--level is 0 or 1"),
        (["restart"], "what is 'restart'?"),
    ],
)
def test_a_wrong_command_line_is_told(arguments: list[str], message: str) -> None:
    ended = script("gateway/reset_lgw.sh", *arguments)
    assert ended.code == 4
    assert message in ended.err


def test_a_line_that_is_taken_is_a_failure(tmp_path: Path) -> None:
    path = tools(tmp_path / "bin", "1.6.3")
    version = 'echo "gpioset (libgpiod) v1.6.3"'
    fake_program(path, "gpioset", f"case $1 in --version) {version} ;; *) exit 1 ;; esac")
    ended = script("gateway/reset_lgw.sh", "start", "--reset", 17, path=path)
    assert ended.code == 1
    assert "gpioset failed" in ended.err
