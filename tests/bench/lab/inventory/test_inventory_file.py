"""What a bench.toml says, and every mistake in it with its line."""

from pathlib import Path

import pytest

from bench.lab.inventory import InventoryError, load
from bench.lab.inventory.entries import AttenuatorKind, GatewayKind, PowerKind
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
    assert bench.replayers[0].radio.usb_path == "1-1.2.1"
    [west] = bench.gateways
    assert (west.kind, west.board, west.home) == (
        GatewayKind.RASPBERRY_PI,
        "RAK5146",
        "/opt/basicstation",
    )
    hub = bench.power("dut-usb")
    assert (hub.kind, hub.settings) == (
        PowerKind.UHUBCTL,
        {"location": ("1-1.2", "2-1.2"), "port": 2},
    )
    step = bench.attenuator("step-a")
    assert (step.kind, step.set_command, step.db) == (
        AttenuatorKind.COMMAND,
        ("rcdat", "--db", "{db}"),
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
