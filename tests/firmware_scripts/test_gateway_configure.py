import json
import re
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


def test_wss_with_a_token_writes_a_header_that_only_its_user_reads(root: Path) -> None:
    (root / "ca.crt").write_text("CA\n")
    (root / "token").write_text("s3cret\n")
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
