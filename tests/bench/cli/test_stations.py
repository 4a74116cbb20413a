"""`lorabench stations` with gateways behind a real `ssh` process."""

import json
import socket
import sys
from pathlib import Path

import pytest

from bench.cli.program import main
from bench.host.program import Program, free_port
from bench.lab.inventory import BenchLock, load
from tests.bench.lab.gateway_host import GatewayHost, gateway_host
from tests.bench.lab.test_basicstation_host import START

__all__ = ["gateway_host"]


@pytest.fixture(autouse=True)
def _bench(host: GatewayHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_bench(host)


def write_bench(host: GatewayHost, more: str = "") -> None:
    Path("bench.toml").write_text(
        'rig = "hardware"\n[bench]\nname = "lab"\nregion = "EU868"\ntap = "0.0.0.0:6090"\n'
        'tap_uri = "ws://192.168.10.5:6090"\n'
        '[[gateway]]\nname = "west"\neui = "0016C001F1500001"\nkind = "raspberry-pi"\n'
        f'board = "RAK5146"\nssh = "pi@west"\nhome = "{host.home}"\n{more}'
    )


FAR = '[[gateway]]\nname = "far"\neui = "0016C001F1500002"\nkind = "raspberry-pi"\n'
FAR += 'ssh = "pi@nowhere"\n'
WISGATE = '[[gateway]]\nname = "east"\neui = "AC1F09FFFE0000A1"\nkind = "wisgate"\n'
Capture = pytest.CaptureFixture[str]


def told(capsys: Capture) -> list[dict[str, object]]:
    return list(json.loads(capsys.readouterr().out))


def test_they_are_listed(host: GatewayHost, capsys: Capture) -> None:
    write_bench(host, WISGATE)
    assert main(["stations"]) == 0
    west, east = capsys.readouterr().out.splitlines()
    assert "0016C001F1500001  raspberry-pi with RAK5146 (SX1303), pi@west" in west
    assert east.endswith("wisgate, no ssh")
    assert host.calls == []


def test_provisioning_twice_changes_nothing_twice(host: GatewayHost, capsys: Capture) -> None:
    assert main(["stations", "provision"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "west: written tc.uri, station.conf, rinit.sh",
        "west: restarted",
    ]
    assert main(["stations", "west", "provision"]) == 0
    assert capsys.readouterr().out == "west: unchanged\n"
    assert host.calls.count("systemctl restart basicstation") == 1


def test_a_dry_run_prints_commands_and_differences(host: GatewayHost, capsys: Capture) -> None:
    with BenchLock(load(Path("bench.toml"))):  # nobody is disturbed
        assert main(["stations", "provision", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "west: would be written tc.uri, station.conf, rinit.sh" in shown
    assert "  +ws://192.168.10.5:6090" in shown and "  +pulse 17" in shown
    assert shown.count("  $ ssh ") == 3
    assert not host.home.exists()


def test_a_wisgate_is_told_step_by_step(host: GatewayHost, capsys: Capture) -> None:
    write_bench(host, WISGATE)
    assert main(["stations", "east", "provision"]) == 0
    shown = capsys.readouterr().out
    assert "  4. Server URL: ws://192.168.10.5, port: 6090" in shown


def test_one_that_cannot_be_reached_keeps_nobody_from_the_others(
    host: GatewayHost, capsys: Capture
) -> None:
    write_bench(host, FAR)
    assert main(["stations", "provision", "--json"]) == 12
    west, far = told(capsys)
    assert west["written"] == ["tc.uri", "station.conf", "rinit.sh"] and west["restarted"]
    assert "pi@nowhere cannot be reached" in str(far["error"])


def test_a_bench_in_use_is_not_provisioned(host: GatewayHost, capsys: Capture) -> None:
    with BenchLock(load(Path("bench.toml"))):
        assert main(["stations", "provision"]) == 12
        assert main(["stations", "restart"]) == 12
    assert capsys.readouterr().err.count("The bench lab is taken: it is used by") == 2
    assert host.calls == []


def test_a_restart(host: GatewayHost, capsys: Capture) -> None:
    assert main(["stations", "restart", "--dry-run"]) == 0
    assert "west: would run: " in capsys.readouterr().out and host.calls == []
    assert main(["stations", "restart"]) == 0
    assert host.calls[-1] == "systemctl restart basicstation"


def log_of(host: GatewayHost, lines: list[str]) -> None:
    stamped = [f"1763690400.{n:06} west station[1]: {line}" for n, line in enumerate(lines)]
    host.journal("\n".join(stamped))


def test_a_log(host: GatewayHost, capsys: Capture) -> None:
    log_of(host, START)
    assert main(["stations", "logs", "--lines", "40"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(START)
    assert lines[0].startswith("west  2025-11-21T0") and lines[0].endswith(START[0])
    assert host.calls[-1].endswith("-n 40")


def test_a_healthy_station(host: GatewayHost, capsys: Capture) -> None:
    log_of(host, START)
    assert main(["stations", "check"]) == 0
    assert capsys.readouterr().out == "west: its station has started\n"


def test_a_station_in_trouble(host: GatewayHost, capsys: Capture) -> None:
    log_of(host, [*START[:8], "[RAL:ERRO] Concentrator start failed: lgw_start"])
    assert main(["stations", "check"]) == 12
    shown = capsys.readouterr().out
    assert "west: its station has not started" in shown
    assert "the concentrator does not answer" in shown and "check the reset line" in shown


def test_a_clock_that_is_wrong(host: GatewayHost, capsys: Capture) -> None:
    log_of(host, START)
    host.program("date", "echo 100.000000000")
    assert main(["stations", "check", "--json"]) == 0
    [west] = told(capsys)
    assert west["healthy"] and "let chrony on it follow" in str(west["advice"])


def test_another_station_than_expected(host: GatewayHost, capsys: Capture) -> None:
    log_of(host, [line.replace("f150:1", "f150:9") for line in START])
    assert main(["stations", "check"]) == 12
    assert "it calls itself 0016C001F1500009" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["wst", "check"], "wst is no gateway of bench.toml and nothing to do"),
        (["check", "logs"], "One thing at a time: check or logs."),
        (["logs", "--lines", "0"], "--lines is 1 or more"),
        (["--bench", "nowhere.toml"], "There is no file nowhere.toml"),
    ],
)
def test_a_mistake_is_answered(words: list[str], said: str, capsys: Capture) -> None:
    assert main(["stations", *words]) == 4
    assert said in capsys.readouterr().err


def test_a_bench_without_gateways_says_so(capsys: Capture) -> None:
    text = Path("bench.toml").read_text()
    Path("bench.toml").write_text(text[: text.index("[[gateway]]")])
    assert main(["stations", "check"]) == 4
    assert "has no [[gateway]]" in capsys.readouterr().err


def test_a_mistake_in_the_inventory_is_named(capsys: Capture) -> None:
    Path("bench.toml").write_text(Path("bench.toml").read_text().replace("RAK5146", "RAK1"))
    assert main(["stations"]) == 4
    assert "gateway[0]: board 'RAK1' is not known" in capsys.readouterr().err


def listening(host: GatewayHost, more: str = "") -> int:
    """A bench whose tap is a free port of this host; the port."""
    port = free_port()
    write_bench(host, more)
    text = Path("bench.toml").read_text().replace("0.0.0.0:6090", f"127.0.0.1:{port}")
    Path("bench.toml").write_text(text.replace("192.168.10.5:6090", f"127.0.0.1:{port}"))
    return port


# A station as a process: it asks for its server, connects, and says so in the journal at last.
STATION = """
import asyncio, sys
from pathlib import Path
from bench.station import LinkClosed
from bench.station.web_socket import connect, discover
async def play():
    while True:
        try:
            link = await connect(await discover(sys.argv[1], sys.argv[2]))
            break
        except (LinkClosed, OSError):
            await asyncio.sleep(0.1)
    await asyncio.sleep(0.5)
    Path(sys.argv[3]).rename(sys.argv[4])
    await link.receive()
asyncio.run(play())
"""


def test_gateways_are_waited_for_at_the_tap(host: GatewayHost, capsys: Capture) -> None:
    port = listening(host, WISGATE)
    log_of(host, START)
    (host.folder / "journal").rename(host.folder / "later")
    log_of(host, START[:6])
    station = Program("west", host.folder / "west.log")
    station.launch(
        [
            sys.executable, "-c", STATION, f"ws://127.0.0.1:{port}", "0016C001F1500001",
            str(host.folder / "later"), str(host.folder / "journal"),
        ]
    )  # fmt: skip
    try:
        assert main(["stations", "check", "west", "--wait-s", "30"]) == 0
        shown = capsys.readouterr()
        assert shown.out.splitlines() == ["west: is connected", "west: its station has started"]
        assert "gateways connected (1/1)" in shown.err
    finally:
        station.kill_now()


def test_a_gateway_that_does_not_come_is_told(host: GatewayHost, capsys: Capture) -> None:
    listening(host, WISGATE)
    log_of(host, [*START[:6], "[TCE:ERRO] TC connect failed - URI: ws://192.168.10.5:6090"])
    assert main(["stations", "check", "--wait-s", "1", "--json"]) == 12
    west, east = told(capsys)
    assert (west["connected"], west["healthy"]) == (False, False)
    assert "nobody answers at the tap" in str(west["advice"])
    assert east["connected"] is False and 'give ssh = "user@host"' in str(east["error"])


def test_a_tap_in_use_is_told(host: GatewayHost, capsys: Capture) -> None:
    with socket.create_server(("127.0.0.1", listening(host))):
        assert main(["stations", "check", "--wait-s", "1"]) == 12
    said = capsys.readouterr().err
    assert "Nobody can listen at the tap: [bench] tap: 127.0.0.1:" in said
    assert "Address already in use. Give an address of this host" in said
    assert "lns.toml" not in said
    assert main(["stations", "logs", "--wait-s", "1"]) == 4


def test_a_check_says_that_a_server_cannot_answer_through_a_gateway(
    host: GatewayHost, capsys: Capture
) -> None:
    log_of(host, START)
    facts = {"kind": "lns.too_late", "lns": "lns-a", "station": "0016C001F1500001", "n": 5}
    Path("lns-a.jsonl").write_text(
        json.dumps({**facts, "stage": "going on", "cause": "the frame was told too late"}) + "\n"
    )
    main(["stations", "check", "--lns-capture", "lns-a.jsonl"])
    said = capsys.readouterr().out
    assert "lns-a could not answer through it 5 times in a row, at last because the frame" in said
    assert "lorabench stations west restart" in said
    assert main(["stations", "check", "--lns-capture", "nowhere.jsonl"]) == 4
    assert "nowhere.jsonl cannot be read: No such file" in capsys.readouterr().err
