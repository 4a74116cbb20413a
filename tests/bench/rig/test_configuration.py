from pathlib import Path

import pytest

from bench.rig import configuration
from bench.verdict.owner import Scrutiny
from lns.config import Config, load, load_tokens

LNS_TOML = """[lns]
id = "lns-a"
stations = ["0016-c001-f150-0001"]
[dedup]
retention_s = "90"
[upstream]
url = "mqtt://somebody:geheim@broker.example"
"""
KEY = "00112233445566778899aabbccddeeff"
DEVICES_TOML = f"""[[device]]
name = "alpha"
dev_eui = "70b3:d57e:d000:0001"
activation = "otaa"
join_eui = "70B3D57ED0000000"
app_key = "env:ALPHA"
rx2_dr = 0
more_channels_hz = [867_300_000, 867_100_000]
[[device]]
name = "beta"
dev_eui = "70B3D57ED0000002"
activation = "abp"
dev_addr = "01abcdef"
nwk_s_key = "{KEY}"
app_s_key = "{KEY[::-1]}"
"""
TOKENS_TOML = '0016c001f1500001 = "Authorization: Bearer geheim"\n'
CHECK = Scrutiny(rule="configuration", of="", t_us=0)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setenv("ALPHA", f" {KEY}\n")
    (tmp_path / "devices.toml").write_text(DEVICES_TOML)
    (tmp_path / "lns.toml").write_text(LNS_TOML.replace("0016-c001-f150-0001", "0016C001F1500001"))
    return load(tmp_path / "lns.toml")


def meant(written: str) -> str:
    return KEY if written == "env:ALPHA" else written


def wrong_settings(config: Config, lns_toml: str) -> list[str]:
    found = configuration.settings(config.settings, lns_toml, CHECK)
    return [one.text.removeprefix(": ") for one in found]


def wrong_devices(config: Config, devices_toml: str) -> list[str]:
    found = configuration.devices(config.devices, devices_toml, meant, CHECK)
    return [one.text.removeprefix(": ") for one in found]


def test_what_stands_in_the_files_is_right(config: Config) -> None:
    assert not wrong_settings(config, LNS_TOML)
    assert not wrong_devices(config, DEVICES_TOML)


def test_what_does_not_stand_there_is_as_promised(config: Config) -> None:
    assert wrong_settings(config, LNS_TOML.replace('retention_s = "90"', "")) == [
        "dedup: retention_s: expected 60, observed 90"
    ]
    assert wrong_settings(config, f'{LNS_TOML}[capture]\npath = "a.jsonl"') == [
        "capture: expected yes, observed no"
    ]
    assert wrong_devices(config, DEVICES_TOML.replace("rx2_dr = 0\n", "")) == [
        "alpha: rx2_dr: expected None, observed 0"
    ]


def test_the_order_of_channels_matters(config: Config) -> None:
    assert wrong_devices(config, DEVICES_TOML.replace("867_100", "867_500")) == [
        "alpha: more_channels_hz: expected 867300000 867500000, observed 867300000 867100000"
    ]


def test_what_nobody_is_to_know_is_told_to_nobody(config: Config, tmp_path: Path) -> None:
    assert wrong_settings(config, LNS_TOML.replace("geheim", "secret")) == [
        "upstream: url: expected as written, observed not so"
    ]
    assert wrong_devices(config, DEVICES_TOML.replace(KEY[::-1], KEY)) == [
        "beta: app_s_key: expected as written, observed not so"
    ]
    (tmp_path / "tokens.toml").write_text(TOKENS_TOML)
    tokens = load_tokens(tmp_path / "tokens.toml")
    assert not list(configuration.tokens(tokens, TOKENS_TOML, meant, CHECK))
    other = TOKENS_TOML.replace("geheim", "secret")
    assert [one.text for one in configuration.tokens(tokens, other, meant, CHECK)] == [
        ": token of 0016C001F1500001 as written: expected yes, observed no"
    ]
