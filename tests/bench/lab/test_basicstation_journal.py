"""The log of a gateway, on the clock of this host."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bench.lab.basicstation_host import GatewayFailed, Journal, journal
from bench.lab.inventory.entries import GatewayEntry, GatewayKind
from lns.clock import utc_of_this_host
from lns.lorawan.identifiers import Eui
from tests.bench.lab.gateway_host import GatewayHost, gateway_host

__all__ = ["gateway_host"]


def read(host: GatewayHost, kind: GatewayKind, *, local: bool = False) -> Journal:
    gateway = GatewayEntry(
        name="west",
        eui=Eui("0016C001F1500001"),
        kind=kind,
        ssh=None if local else "pi@west",
        home=str(host.home),
    )
    return asyncio.run(journal(gateway, 5))


def test_the_lines_of_a_journal_are_put_onto_our_clock(host: GatewayHost) -> None:
    ahead = timedelta(hours=2)
    at = (utc_of_this_host() + ahead).timestamp()
    host.program("date", f"echo {at:.9f}")
    host.journal(f"{at:.6f} west station[417]: [SYS:INFO] Station Ver : 2.0.6\n\n-- Boot --\n")
    found = read(host, GatewayKind.RASPBERRY_PI)
    assert found.ahead_us is not None
    assert abs(found.ahead_us - ahead // timedelta(microseconds=1)) < 5_000_000
    first, boot = found.lines
    assert first.text == "[SYS:INFO] Station Ver : 2.0.6" and first.at is not None
    assert abs(first.at - utc_of_this_host()) < timedelta(seconds=5)
    assert (boot.at, boot.text) == (None, "-- Boot --")
    assert host.calls[-1] == "journalctl -u basicstation --no-pager -o short-unix -n 5"


def test_the_clock_of_this_very_host_is_right(host: GatewayHost) -> None:
    host.journal("1763690400.250000 west station[417]: text\n")
    found = read(host, GatewayKind.RASPBERRY_PI)
    assert found.ahead_us is not None and abs(found.ahead_us) <= found.within_us + 1
    [line] = found.lines
    due = datetime(2025, 11, 21, 2, 0, 0, 250_000, UTC)
    assert line.at is not None and abs(line.at - due) <= timedelta(microseconds=found.within_us + 1)
    assert str(line).endswith("Z text")


def test_a_wisgate_has_no_fraction_of_a_second(host: GatewayHost) -> None:
    host.program("date", "echo 1763690400.%N")
    host.program("logread", "printf 'Fri Nov 21 02:00:00 station: a\\nb\\n\\033[2Jc\\n'")
    found = read(host, GatewayKind.WISGATE)
    assert found.ahead_us is None
    assert found.texts == ("Fri Nov 21 02:00:00 station: a", "b", "?[2Jc")


@pytest.mark.parametrize("name", ["station.log", "log"])
def test_a_station_on_this_host_writes_a_file(host: GatewayHost, name: str, tmp_path: Path) -> None:
    host.home.mkdir()
    (host.home / name).write_text("2026-11-21 02:00:00.461 [SYS:INFO] Station\nother\n")
    found = read(host, GatewayKind.PROGRAM, local=True)
    assert found.texts == ("[SYS:INFO] Station", "other")
    assert found.lines[0].at is not None and found.lines[1].at is None
    assert host.calls == []


def test_a_log_that_is_not_there_is_named(host: GatewayHost) -> None:
    host.home.mkdir()
    with pytest.raises(GatewayFailed, match=r"neither station\.log nor log is in"):
        read(host, GatewayKind.PROGRAM, local=True)
