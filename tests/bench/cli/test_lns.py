"""`lorabench lns` is `python -m lns`."""

import json
from pathlib import Path

import pytest

from bench.cli.program import main

KEY = "00112233445566778899AABBCCDDEEFF"


@pytest.fixture
def lns_toml(tmp_path: Path) -> Path:
    (tmp_path / "devices.toml").write_text(
        '[[device]]\nname = "alpha"\ndev_eui = "70B3D57ED0000001"\nactivation = "otaa"\n'
        f'join_eui = "70B3D57ED0000000"\napp_key = "{KEY}"\nstrategy = "Drop"\n'
    )
    file = tmp_path / "lns.toml"
    file.write_text('[lns]\nid = "lns-a"\n')
    return file


def test_a_good_configuration_is_summed_up(
    lns_toml: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lns", str(lns_toml), "--check"]) == 0
    assert "alpha  70B3D57ED0000001  otaa  Drop" in capsys.readouterr().out
    assert main(["lns", str(lns_toml), "--check", "--json"]) == 0
    said = capsys.readouterr().out
    document = json.loads(said)
    assert (document["works"], document["lns"], document["region"]) == (True, "lns-a", "EU868")
    assert document["devices"] == [
        {
            "name": "alpha",
            "dev_eui": "70B3D57ED0000001",
            "activation": "otaa",
            "strategy": "Drop",
        }
    ]
    assert KEY not in said


def test_a_bad_configuration_ends_with_2_as_the_server_itself_does(
    lns_toml: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lns_toml.write_text('[lns]\nid = "lns-a"\nregoin = "EU868"\n')
    wrong = f"{lns_toml}:3: lns.regoin: unknown key; did you mean 'region'?"
    assert main(["lns", str(lns_toml)]) == 4
    assert capsys.readouterr().err == f"{wrong}\n"
    assert main(["lns", str(lns_toml), "--check", "--json"]) == 4
    document = json.loads(capsys.readouterr().out)
    assert document == {"file": str(lns_toml), "works": False, "mistakes": [wrong]}


def test_json_is_for_the_check(lns_toml: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lns", str(lns_toml), "--json"]) == 4
    told = json.loads(capsys.readouterr().out)
    assert "goes with --check" in told["error"] and told["exit_code"] == 4
