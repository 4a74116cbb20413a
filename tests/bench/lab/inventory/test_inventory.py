"""What a bench.toml says, and every mistake in it with its line."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.lab.inventory import InventoryError, PortMissing, Radio, load, port_of
from bench.lab.inventory.sections import (
    BOARDS,
    KEYS,
    AttenuatorKind,
    Certainty,
    GatewayBoard,
    GatewayKind,
    PowerKind,
    mistake_in_switch,
)
from tests.bench.lab.inventory.bench_toml import bench_toml

KEY = "00112233445566778899AABBCCDDEEFF"


def test_everything_is_where_it_belongs(tmp_path: Path) -> None:
    bench = load(bench_toml(tmp_path))
    assert (bench.name, bench.region, bench.tap, bench.tap_uri) == (
        "lab-1",
        "EU868",
        "127.0.0.1:6090",
        None,
    )
    assert bench.lock == tmp_path / "lab-1.lock" and not bench.conducted
    dut, second = bench.devices
    assert (dut.radio.port, dut.dev_eui, dut.dr, dut.power_dbm) == (
        "/dev/lora/dut",
        "AC1F09FFFE000001",
        5,
        14,
    )
    assert (dut.radio.power, dut.radio.reset, dut.radio.dtr) == ("dut-usb", "dut-nrst", None)
    assert (second.radio.usb_serial, second.dr, second.power_dbm) == ("0123ABCD", 5, 14)
    assert [radio.name for radio in bench.radios] == ["dut", "second", "replayer"]
    assert bench.replayers[0].usb_path == "1-1.2.1"
    [west] = bench.gateways
    assert (west.kind, west.board, west.home) == (
        GatewayKind.RASPBERRY_PI,
        "RAK5146",
        "/opt/basicstation",
    )
    hub = bench.power("dut-usb")
    assert (hub.kind, hub.settings()) == (
        PowerKind.UHUBCTL,
        {"location": ("1-1.2", "2-1.2"), "port": 2},
    )
    step = bench.attenuator("step-a")
    assert (step.kind, step.set, step.db) == (
        AttenuatorKind.COMMAND,
        ["rcdat", "--db", "{db}"],
        20,
    )


def test_paths_are_those_beside_the_file(tmp_path: Path) -> None:
    text = '[[gateway]]\nname = "east"\neui = "0016C001F1500002"\nkind = "program"\n'
    text += 'home = "east"\ncredentials = "keys/east"\n'
    bench = load(bench_toml(tmp_path, new=text))
    assert bench.gateways[1].home == str(tmp_path / "east")
    assert bench.gateways[1].credentials == tmp_path / "keys/east"
    bench = load(bench_toml(tmp_path, '"/dev/lora/dut"', '"dev/dut"'))
    assert bench.devices[0].radio.port == str(tmp_path / "dev/dut")
    bench = load(bench_toml(tmp_path, '"/dev/lora/dut"', '"socket://lab:7001"'))
    assert bench.devices[0].radio.port == "socket://lab:7001"


def test_the_data_rate_left_out_is_the_fastest_of_the_region(tmp_path: Path) -> None:
    path = bench_toml(tmp_path, 'region = "EU868"', 'region = "US915"')
    path.write_text(path.read_text().replace("dr = 5", "dr = 0"))
    assert [device.dr for device in load(path).devices] == [0, 3]


def test_keys_come_from_outside_and_are_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUT_APP_KEY", KEY)
    (tmp_path / "dut.key").write_text(KEY)
    written = 'app_key = "env:DUT_APP_KEY"\nnwk_s_key = "file:dut.key"\n'
    written += f'app_s_key = "{KEY}"\ndev_addr = "26000001"\njoin_eui = "70B3D57ED0000000"\n'
    bench = load(bench_toml(tmp_path, "dr = 5\n", written))
    [dut, _] = bench.devices
    assert dut.app_key == bytes.fromhex(KEY)
    assert dut.keys is not None and dut.keys.nwk_s_key == bytes.fromhex(KEY)
    assert (dut.dev_addr, dut.join_eui) == ("26000001", "70B3D57ED0000000")
    shown = repr(bench).upper()
    assert KEY not in shown and repr(bytes.fromhex(KEY)).upper() not in shown


def test_the_password_of_a_broker_is_not_shown(tmp_path: Path) -> None:
    text = '[report]\nmqtt = "mqtt://u:sesame@broker:1883"\n'
    bench = load(bench_toml(tmp_path, new=text))
    assert bench.report.mqtt == "mqtt://u:sesame@broker:1883"
    assert "sesame" not in repr(bench)


MISTAKES = [
    ('rig = "hardware"', 'rig = "cardboard"', ":1: rig: "),
    ('tap = "127.0.0.1:6090"', "", ":2: bench.tap: is missing"),
    ('tap = "127.0.0.1:6090"', 'tap = "6090"', ':5: bench.tap: an address is "host:port"'),
    ('tap = "127.0.0.1:6090"', 'tap = "0.0.0.0:6090"', "bench.tap_uri: is missing: gateways"),
    (
        'tap = "127.0.0.1:6090"',
        'tap = "127.0.0.1:6090"\ntap_uri = "ws://192.0.2.1:6090/"',
        ":6: bench.tap_uri: a station takes no path here",
    ),
    ("eirp_dbm_max", "eirp_max", ":7: limits.eirp_max: unknown key; did you mean 'eirp_dbm_max'?"),
    ('dialect = "rui3"', 'dialect = "rui4"', ":10: device[0].dialect: "),
    ('port = "/dev/lora/dut"', "", "device[0]: give one of port, usb_serial and usb_path"),
    (
        'port = "/dev/lora/dut"',
        'port = "/dev/lora/dut"\nusb_path = "1-1"',
        "here is port and usb_path",
    ),
    ('usb_path = "1-1.2.1"', 'usb_path = "ttyUSB0"', "replayer[0].usb_path: "),
    ("AC1F09FFFE000002", "AC1F09FFFE000001", "device[1].dev_eui: belongs to device[0] already"),
    ('name = "replayer"', 'name = "dut"', "replayer[0].name: belongs to device[0] already"),
    ('usb_path = "1-1.2.1"', 'usb_serial = "0123ABCD"', "replayer[0].usb_serial: belongs to"),
    ('power = "dut-usb"', 'power = "dut-usv"', "[[power]] 'dut-usv'; did you mean 'dut-usb'?"),
    ('reset = "dut-nrst"', 'reset = "button"', "'button'; add a [[power]] of that name"),
    ('attenuator = "step-a"', 'attenuator = "step-b"', "did you mean 'step-a'?"),
    ("dr = 5", "dr = 8", "device[0].dr: EU868 has no uplink data rate 8"),
    ("power_dbm = 14", "power_dbm = 16", ":14: device[0].power_dbm: more than limits.eirp_dbm_max"),
    ("dr = 5", f'app_key = "{KEY[:-1]}"', "device[0].app_key: a key is 32 hex digits"),
    ("dr = 5", f'app_s_key = "{KEY}"', "device[0]: nwk_s_key and app_s_key go together"),
    ("dr = 5", "baud = 1200", "device[0].baud: "),
    ('board = "RAK5146"', 'board = "RAK"', "gateway[0]: board 'RAK' is not known; one of CoreCell"),
    ("192.168.10.11", "-oProxyCommand=x", "gateway[0].ssh: where ssh logs in"),
    ('kind = "raspberry-pi"', 'kind = "wisgate"', "kind wisgate has no board"),
    ('kind = "uhubctl"', 'kind = "tasmota"', "power[0]: a switch of kind tasmota needs url"),
    ("port = 2", "port = 0", "port is the number of a port of the hub"),
    ("port = 2", 'port = 2\nurl = "http://x"', "takes no url; known here: location, port"),
    ('on = "A0 01 01 A2"', 'on = "A0 01 0"', "on and off are the bytes to send, in hex"),
    ("[[attenuator]]", "[attenuator]", "attenuator: is a list of tables: write [[att"),
    ("[limits]", "[[limits]]", "limits: is one table: write [limits], in single brackets, once"),
    ('on = "A0 01 01 A2"', "on = 7", "on: has to be a list, such as"),
    ('"{db}"', '"20"', 'attenuator[0]: set is missing, a command with "{db}" in it'),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "said"), MISTAKES)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = bench_toml(tmp_path, old, new)
    with pytest.raises(InventoryError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}:")
    assert said in str(caught.value)
    assert KEY[:-1] not in str(caught.value)


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    path = bench_toml(tmp_path, "dr = 5", "dr = 8")
    path.write_text(path.read_text().replace('"step-a"\n[[power]]', '"gone"\n[[power]]'))
    with pytest.raises(InventoryError) as caught:
        load(path)
    assert len(str(caught.value).splitlines()) == 2


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match=r"nowhere\.toml: cannot be read"):
        load(tmp_path / "nowhere.toml")


COMPLETE: dict[PowerKind, dict[str, object]] = {
    PowerKind.UHUBCTL: {"location": "1-1.2", "port": 2},
    PowerKind.RELAY: {"port": "/dev/relay", "on": "A00101A2", "off": "A00100A1", "baud": 9600},
    PowerKind.SHELLY: {"url": "http://192.0.2.7", "generation": 2, "channel": 0},
    PowerKind.TASMOTA: {"url": "http://192.0.2.7", "channel": 1},
    PowerKind.COMMAND: {"on": ("sw", "on"), "off": ("sw", "off"), "cycle": ("sw", "cycle")},
    PowerKind.PERSON: {"what": "the plug of the DUT"},
}


def test_every_kind_is_known() -> None:
    assert set(KEYS) == set(PowerKind) == set(COMPLETE)


@pytest.mark.parametrize("kind", PowerKind)
def test_complete_keys_are_right(kind: PowerKind) -> None:
    assert mistake_in_switch(kind, COMPLETE[kind]) == ""


@pytest.mark.parametrize("kind", PowerKind)
def test_a_needed_key_that_is_missing_is_named(kind: PowerKind) -> None:
    for key in KEYS[kind].needed:
        rest = {k: v for k, v in COMPLETE[kind].items() if k != key}
        assert mistake_in_switch(kind, rest) == f"a switch of kind {kind} needs {key}"


@pytest.mark.parametrize("kind", PowerKind)
def test_a_key_of_another_kind_is_a_mistake(kind: PowerKind) -> None:
    known = {key for keys in KEYS.values() for key in (*keys.needed, *keys.optional)}
    for key in sorted(known - {*KEYS[kind].needed, *KEYS[kind].optional}):
        assert f"takes no {key};" in mistake_in_switch(kind, {**COMPLETE[kind], key: "x"})


@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [
        (PowerKind.UHUBCTL, {"location": "hub", "port": 2}, "location is one of the hubs"),
        (PowerKind.UHUBCTL, {"location": (), "port": 2}, "location is one of the hubs"),
        (PowerKind.UHUBCTL, {"location": "1-1", "port": "2"}, "port is the number"),
        (PowerKind.RELAY, {"port": 1, "on": "00", "off": "01"}, "port is the serial port"),
        (PowerKind.RELAY, {"port": "x", "on": ("00",), "off": "01"}, "in hex"),
        (PowerKind.COMMAND, {"on": ("sw",)}, "on and off go together"),
        (PowerKind.COMMAND, {"on": "sw on", "off": "sw off"}, "a command is a list of words"),
        (PowerKind.COMMAND, {}, "needs on and off, or cycle"),
        (PowerKind.TASMOTA, {"url": "http://u:p@host"}, "no login in url"),
    ],
)
def test_a_wrong_value_is_answered(kind: PowerKind, settings: dict[str, object], said: str) -> None:
    assert said in mistake_in_switch(kind, settings)


@dataclass(frozen=True)
class Port:
    path: str
    serial_number: str | None = None
    location: str | None = None


PORTS = (
    Port("/dev/ttyS0"),
    Port("/dev/ttyUSB0", "0123ABCD", "1-1.2.1"),
    Port("/dev/ttyUSB1", "0001", "1-1.2.2"),
    Port("/dev/ttyUSB2", "0001", "1-1.2.3"),
    Port("/dev/ttyACM0", "77", "1-1.3"),
    Port("/dev/ttyACM1", "77", "1-1.3"),
)


def radio(**place: str) -> Radio:
    return Radio(name="dut", dialect="rui3", **place)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ({"port": "socket://lab:7001"}, "socket://lab:7001"),
        ({"port": "/dev/lora/dut"}, "/dev/lora/dut"),
        ({"usb_serial": "0123ABCD"}, "/dev/ttyUSB0"),
        ({"usb_path": "1-1.2.2"}, "/dev/ttyUSB1"),
    ],
)
def test_a_radio_is_found(place: dict[str, str], path: str) -> None:
    assert port_of(radio(**place), PORTS) == path


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ({"usb_serial": "FFFF"}, "no serial port with USB serial number FFFF"),
        ({"usb_path": "1-1.2"}, "no serial port with USB path 1-1.2"),
        ({"usb_serial": "0001"}, "of /dev/ttyUSB1, /dev/ttyUSB2; tell them apart by usb_path"),
        ({"usb_path": "1-1.3"}, "apart by port, one of /dev/serial/by-path"),
    ],
)
def test_a_radio_that_cannot_be_told_is_missing(place: dict[str, str], said: str) -> None:
    with pytest.raises(PortMissing) as caught:
        port_of(radio(**place), PORTS)
    assert str(caught.value).startswith("dut: ") and said in str(caught.value)


@pytest.mark.parametrize("board", BOARDS.values(), ids=str)
def test_a_board_at_spi_has_a_reset_line_and_one_at_usb_none(board: GatewayBoard) -> None:
    assert (board.reset_gpio is None) is (board.interface == "usb")
    assert board.device == {"spi": "/dev/spidev0.0", "usb": "usb:/dev/ttyACM0"}[board.interface]


@pytest.mark.parametrize(
    ("name", "reset", "power", "level"),
    [
        ("CoreCell", 23, 18, 1),
        ("RAK5146", 17, None, 1),
        ("RAK833", 17, 20, 0),
        ("RAK5146-USB", None, None, 1),
    ],
)
def test_the_lines_read_in_code(name: str, reset: int, power: int | None, level: int) -> None:
    board = BOARDS[name]
    assert (board.reset_gpio, board.power_gpio, board.power_level) == (reset, power, level)
    assert board.certainty is Certainty.SOURCE


def test_the_lines_that_nobody_has_read_in_code_say_so() -> None:
    unsure = {name for name, board in BOARDS.items() if board.certainty is Certainty.VERIFY}
    assert unsure == {"RAK831", "WM1302", "Waveshare-SX1302", "PG1301", "PG1302", "iC880A"}


def test_the_configuration_is_known_for_the_newer_chips_only() -> None:
    unknown = {name for name, board in BOARDS.items() if not board.has_known_configuration}
    assert unknown == {"RAK2245", "RAK831", "RAK833", "PG1301", "iC880A"}
