"""What a person is told to click on a WisGate, without any secret."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.lab.basicstation_setup import wisgate_steps
from bench.lab.inventory import load
from bench.lab.inventory.sections import GatewayKind, GatewaySection
from lns.lorawan.identifiers import Eui
from tests.bench.lab.inventory.bench_toml import bench_toml


def steps(tmp_path: Path, uri: str, *files: str) -> str:
    for name in files:
        (tmp_path / name).write_text("sesame")
    gateway = GatewaySection(
        name="east",
        eui=Eui("AC1F09FFFE0000A1"),
        kind=GatewayKind.WISGATE,
        credentials=tmp_path if files else None,
    )
    inventory = replace(load(bench_toml(tmp_path)), tap_uri=uri)
    return "\n".join(wisgate_steps(inventory, gateway))


def test_without_tls(tmp_path: Path) -> None:
    said = steps(tmp_path, "ws://192.168.10.5:6090")
    assert "AC1F09FFFE0000A1" in said
    assert "Server URL: ws://192.168.10.5, port: 6090" in said
    assert "Authentication mode: No authentication" in said
    assert "tc.trust" not in said


@pytest.mark.parametrize(
    ("files", "mode", "told"),
    [
        (("tc.trust",), "TLS server authentication", "tc.trust"),
        (
            ("tc.trust", "tc.crt", "tc.key"),
            "TLS server and client authentication",
            "client certificate and key",
        ),
        (
            ("tc.trust", "tc.key"),
            "TLS server authentication and client token",
            "client token: the content of",
        ),
    ],
)
def test_each_way_to_authenticate(
    tmp_path: Path, files: tuple[str, ...], mode: str, told: str
) -> None:
    said = steps(tmp_path, "wss://lab.example:6090", *files)
    assert f"Authentication mode: {mode}\n" in said
    assert told in said and "sesame" not in said
