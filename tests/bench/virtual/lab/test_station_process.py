"""What the station of an emulated lab says of its way to the server, as its log is read."""

import asyncio
from pathlib import Path

import pytest

from bench.host.program import free_port
from bench.lab.basicstation_host import health
from bench.station import LinkClosed
from bench.virtual.lab.station_process import _Uplink
from lns.lorawan.identifiers import Eui

EUI = Eui("0016C001F1500001")


def test_where_nothing_listens_nobody_has_refused_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tc.uri").write_text(f"ws://127.0.0.1:{free_port()}")
    with pytest.raises(LinkClosed):
        asyncio.run(_Uplink(tmp_path, EUI).open())
    [trouble] = health(capsys.readouterr().out.splitlines()).troubles
    assert trouble.cause == "nobody answers at the tap"
