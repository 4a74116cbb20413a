"""What stands in the files of a gateway, and whether its reset script does what it should."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from bench.lab.basicstation_setup import (
    CannotConfigure,
    gateway_files,
    rinit_sh,
    station_conf,
    tap_uri_for,
)
from bench.lab.inventory import Inventory, load
from bench.lab.inventory.sections import BOARDS, GatewayKind, GatewaySection
from lns.lorawan.identifiers import Eui
from tests.bench.lab.inventory.bench_toml import bench_toml

EUI = Eui("0016C001F1500001")


@pytest.fixture
def bench(tmp_path: Path) -> Inventory:
    return replace(load(bench_toml(tmp_path)), tap_uri="ws://192.168.10.5:6090")


def written(bench: Inventory, **changed: object) -> dict[str, bytes]:
    gateway = bench.gateways[0].model_copy(update=changed)
    return {file.name: file.content for file in gateway_files(bench, gateway).there}


def test_station_conf_is_that_of_the_reference_design() -> None:
    conf = json.loads(station_conf(EUI, BOARDS["RAK5146"], conducted=False))
    assert set(conf) == {"SX1302_conf", "station_conf"}
    radio = conf["SX1302_conf"].pop("radio_0")
    assert conf["SX1302_conf"].pop("radio_1") == {
        "type": "SX1250",
        "rssi_offset": -215.4,
        "rssi_tcomp": {
            "coeff_a": 0, "coeff_b": 0, "coeff_c": 20.41, "coeff_d": 2162.56, "coeff_e": 0,
        },
        "tx_enable": False,
    }  # fmt: skip
    assert conf["SX1302_conf"] == {
        "device": "/dev/spidev0.0",
        "lorawan_public": True,
        "clksrc": 0,
        "pps": False,
        "full_duplex": False,
    }
    assert radio["tx_enable"] is True and radio["antenna_gain"] == 0
    assert [gain["rf_power"] for gain in radio["tx_gain_lut"]] == list(range(12, 28))
    assert radio["tx_gain_lut"][0] == {"rf_power": 12, "pa_gain": 0, "pwr_idx": 15}
    assert radio["tx_gain_lut"][-1] == {"rf_power": 27, "pa_gain": 1, "pwr_idx": 14}
    assert conf["station_conf"] == {
        "routerid": EUI,
        "radio_init": "rinit.sh",
        "RADIO_INIT_WAIT": "5s",
        "RX_POLL_INTV": "10ms",
        "TC_TIMEOUT": "360s",
        "log_file": "stderr",
        "log_level": "DEBUG",
        "log_size": 10_000_000,
        "log_rotate": 3,
    }


def test_the_duty_cycle_is_off_with_cables_only() -> None:
    conf = json.loads(station_conf(EUI, BOARDS["RAK5146"], conducted=True))
    assert conf["station_conf"]["nodc"] is True


def test_a_board_at_usb_is_not_reset() -> None:
    conf = json.loads(station_conf(EUI, BOARDS["RAK5146-USB"], conducted=False))
    assert conf["SX1302_conf"]["device"] == "usb:/dev/ttyACM0"
    assert "radio_init" not in conf["station_conf"]


def test_a_raspberry_pi_has_all_files(bench: Inventory) -> None:
    files = gateway_files(bench, bench.gateways[0])
    assert [(file.name, oct(file.mode)) for file in files.there] == [
        ("tc.uri", "0o644"),
        ("station.conf", "0o644"),
        ("rinit.sh", "0o755"),
    ]
    assert files.gone == ("tc.trust", "tc.crt", "tc.key") and files.notes == ()
    assert written(bench)["tc.uri"] == b"ws://192.168.10.5:6090\n"


def test_a_station_on_this_host_has_only_what_leads_to_the_tap(bench: Inventory) -> None:
    assert list(written(bench, kind=GatewayKind.PROGRAM, board=None, ssh=None)) == ["tc.uri"]


def test_credentials_are_taken_as_they_are(bench: Inventory, tmp_path: Path) -> None:
    (tmp_path / "tc.trust").write_bytes(b"CA")
    (tmp_path / "tc.key").write_bytes(b"Authorization: Bearer sesame\r\n")
    gateway = bench.gateways[0].model_copy(update={"credentials": tmp_path})
    files = gateway_files(bench, gateway)
    modes = {file.name: file.mode for file in files.there}
    assert modes["tc.trust"] == 0o644 and modes["tc.key"] == 0o600
    assert written(bench, credentials=tmp_path)["tc.key"] == b"Authorization: Bearer sesame\r\n"
    assert files.gone == ("tc.crt",), "with a .crt the token would be taken for a private key"
    assert "sesame" not in repr(files)


@pytest.mark.parametrize(
    ("tap", "kind", "said"),
    [
        ("127.0.0.1:6090", GatewayKind.RASPBERRY_PI, "cannot be reached as 127.0.0.1"),
        ("0.0.0.0:6090", GatewayKind.PROGRAM, "cannot be reached as 0.0.0.0"),
        ("192.0.2.1:0", GatewayKind.PROGRAM, "has no fixed port"),
    ],
)
def test_a_tap_that_no_gateway_could_reach_is_refused(
    bench: Inventory, tap: str, kind: GatewayKind, said: str
) -> None:
    with pytest.raises(CannotConfigure, match=said):
        tap_uri_for(
            replace(bench, tap=tap, tap_uri=None),
            bench.gateways[0].model_copy(update={"kind": kind}),
        )


def test_the_uri_of_the_tap_follows_from_its_address(bench: Inventory) -> None:
    program = GatewaySection(name="p", eui=EUI, kind=GatewayKind.PROGRAM)
    plain = replace(bench, tap_uri=None)
    assert tap_uri_for(plain, program) == "ws://127.0.0.1:6090"
    assert tap_uri_for(replace(plain, tap="[::1]:6090"), program) == "ws://[::1]:6090"


def test_tls_needs_somebody_to_trust(bench: Inventory) -> None:
    secure = replace(bench, tap_uri="wss://lab.example:6090")
    with pytest.raises(CannotConfigure, match=f"lorabench certificates --station {EUI}"):
        gateway_files(secure, bench.gateways[0])


def test_what_is_not_known_of_a_board_is_told(bench: Inventory) -> None:
    unsure, held = gateway_files(
        bench, bench.gateways[0].model_copy(update={"board": "WM1302"})
    ).notes
    assert "reset line 17 of WM1302 is not confirmed" in unsure
    assert "line 18 has to stay at 1 when gpioset has ended" in held
    old = gateway_files(bench, bench.gateways[0].model_copy(update={"board": "RAK2245"}))
    assert [file.name for file in old.there] == ["tc.uri", "rinit.sh"]
    assert "SX1301 needs a station.conf of its own" in old.notes[0]
    none = gateway_files(bench, bench.gateways[0].model_copy(update={"board": None}))
    assert [file.name for file in none.there] == ["tc.uri"]
    assert "names no board" in none.notes[0]


V1, V2 = "gpioset (libgpiod) v1.6.3", "gpioset (libgpiod) v2.1"
PI5 = "gpiochip0 [gpio-brcmstb] (17 lines)\ngpiochip4 [pinctrl-rp1] (54 lines)"
PI4 = "gpiochip0 [pinctrl-bcm2711] (58 lines)\ngpiochip1 [raspberrypi-exp-gpio] (8 lines)"


@pytest.mark.parametrize(
    ("board", "version", "chips", "calls"),
    [
        (
            "RAK5146",
            V1,
            PI4,
            [f"-m time -u 100000 gpiochip0 17={level}" for level in (0, 1, 0)],
        ),
        ("RAK5146", V2, PI5, ["-c gpiochip4 -t 100ms,100ms,0 17=0"]),
        (
            "CoreCell",
            V1,
            PI5,
            ["-m time -u 100000 gpiochip4 18=1"]
            + [f"-m time -u 100000 gpiochip4 23={level}" for level in (0, 1, 0)],
        ),
        (
            "RAK833",
            V2,
            "",
            ["-c gpiochip0 -t 0 20=0", "-c gpiochip0 -t 100ms,100ms,0 17=0"],
        ),
    ],
)
def test_the_reset_script_pulses_the_right_lines(
    tmp_path: Path, board: str, version: str, chips: str, calls: list[str]
) -> None:
    said = f'[ "$1" = --version ] && echo "{version}" || echo "$*" >> {tmp_path}/calls'
    for name, text in (("gpioset", said), ("gpiodetect", f'printf "{chips}\\n"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "rinit.sh").write_bytes(rinit_sh(BOARDS[board]))
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(["sh", str(tmp_path / "rinit.sh")], env=env, check=True)
    assert (tmp_path / "calls").read_text().splitlines() == calls


def test_the_reset_script_can_be_told_another_chip(tmp_path: Path) -> None:
    (tmp_path / "gpioset").write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\n')
    (tmp_path / "gpioset").chmod(0o755)
    (tmp_path / "rinit.sh").write_bytes(rinit_sh(BOARDS["RAK2287"]))
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "LORABENCH_GPIO_CHIP": "gpiochip9"}
    subprocess.run(
        ["sh", str(tmp_path / "rinit.sh")], env=env, check=True, stderr=subprocess.DEVNULL
    )
    assert "-c gpiochip9 -t 100ms,100ms,0 17=0" in (tmp_path / "calls").read_text()
