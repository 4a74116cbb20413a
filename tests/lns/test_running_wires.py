"""`python -m lns` with a real broker and a real store: what it opens, fills, drains and leaves."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.cli.program import main
from bench.host.lns_process import Valkey
from tests.blocking import start_now, stop_now
from tests.broker import Listener, Mosquitto
from tests.lns.delivery.sending import until
from tests.lns.served_network import WEST, uplink
from tests.lns.server.basics_station import BasicsStation, StationSocket
from tests.lns.test_running import LNS, Process, events, hear, lns_toml, running

__all__ = ["lns_toml"]

SQLITE = '[store]\nurl = "sqlite://var/lns-a.store"\n'


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Mosquitto]:
    folder = tmp_path / "broker"
    folder.mkdir()
    server = Mosquitto(folder).start()
    yield server
    server.stop()


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[Valkey]:
    server = start_now(Valkey(tmp_path, password="hunter2"))
    yield server
    stop_now(server)


def upstream(mosquitto: Mosquitto) -> str:
    return f'[upstream]\nurl = "{mosquitto.url}"\n'


def of_kind(file: Path, kind: str) -> list[dict[str, object]]:
    return [event for event in events(file) if event["kind"] == kind]


@pytest.mark.broker
def test_an_uplink_goes_to_the_broker_and_the_capture_says_when_it_has_it(
    lns_toml: Path, mosquitto: Mosquitto
) -> None:
    listener = Listener(mosquitto.port)
    lns_toml.write_text(LNS + SQLITE + upstream(mosquitto))
    try:
        with running(lns_toml) as process:
            hear(BasicsStation(WEST, process.tc_uri), 10)
            [one] = listener.count(1)
            status, _, err = process.stop()
    finally:
        listener.close()
    assert status == 0
    assert f"{mosquitto.url} is connected" in err
    assert (one.topic, one.message_id) == (
        "lorawan/lns-a/70B3D57ED0000001/up",
        "70B3D57ED0000001-01ABCDEF-10",
    )
    [told] = of_kind(lns_toml, "upstream.acknowledged")
    assert {key: told[key] for key in list(told)[5:]} == {
        "kind": "upstream.acknowledged",
        "lns": "lns-a",
        "topic": one.topic,
        "message_id": one.message_id,
        "sequence_number": 1,
        "waiting": 0,
    }
    assert told["source"] == "lns-a"
    assert of_kind(lns_toml, "upstream.published") == []


@pytest.mark.broker
def test_what_the_broker_missed_comes_with_the_next_start(
    lns_toml: Path, mosquitto: Mosquitto
) -> None:
    listener = Listener(mosquitto.port)
    listener.close()
    lns_toml.write_text(LNS + SQLITE + upstream(mosquitto))
    mosquitto.stop()
    with running(lns_toml) as process:
        hear(BasicsStation(WEST, process.tc_uri), 10)
        assert process.stop()[0] == 0
    assert of_kind(lns_toml, "upstream.acknowledged") == []
    mosquitto.start()
    listener = Listener(mosquitto.port)
    try:
        with running(lns_toml):
            assert [one.body["fCnt"] for one in listener.count(1)] == [10]
    finally:
        listener.close()


@pytest.mark.broker
def test_what_the_broker_missed_for_too_long_is_parked_told_and_shown(
    lns_toml: Path, mosquitto: Mosquitto, capsys: pytest.CaptureFixture[str]
) -> None:
    """`retry_max_s`: never lost, and sent when a person says so."""
    listener = Listener(mosquitto.port)
    mosquitto.stop()
    lns_toml.write_text(LNS + SQLITE + upstream(mosquitto) + "retry_max_s = 1\n")
    outbox = lns_toml.parent / "var" / "lns-a.outbox"
    with running(lns_toml) as process:
        hear(BasicsStation(WEST, process.tc_uri), 10)
        asyncio.run(until(lambda: bool(of_kind(lns_toml, "upstream.parked"))))
        assert main(["outbox", str(outbox), "--release"]) == 4
        assert "is in use by another process" in capsys.readouterr().err
        assert process.stop()[0] == 0
    [told] = of_kind(lns_toml, "upstream.parked")
    assert (told["message_id"], told["waiting"]) == ("70B3D57ED0000001-01ABCDEF-10", 0)
    assert main(["outbox", str(outbox)]) == 0
    assert "parked: 70B3D57ED0000001-01ABCDEF-10, number 1" in capsys.readouterr().out
    assert main(["outbox", str(outbox), "--release"]) == 0
    assert "parked" not in capsys.readouterr().out
    lns_toml.write_text(LNS + SQLITE + upstream(mosquitto))
    mosquitto.start()
    try:
        with running(lns_toml):
            [one] = listener.count(1)
            assert (one.body["fCnt"], one.body["sequenceNumber"]) == (10, 2)
    finally:
        listener.close()


def test_counters_outlive_the_process_in_a_file(lns_toml: Path) -> None:
    lns_toml.write_text(LNS + SQLITE)
    counters_outlive(lns_toml)


def test_counters_outlive_the_process_in_redis(lns_toml: Path, valkey: Valkey) -> None:
    lns_toml.write_text(LNS + f'[store]\nurl = "{valkey.url}"\n')
    assert "hunter2" not in counters_outlive(lns_toml)


def counters_outlive(file: Path) -> str:
    """Answer 10, stop, start, refuse 9, answer 11; returns what was said on stderr."""

    async def replay(process: Process) -> None:
        station = BasicsStation(WEST, process.tc_uri)
        await station.connect()
        await station.until_configured()
        station.hear(uplink(9, confirmed=True))
        await outcomes(file, 2)
        await StationSocket.reset_all()

    with running(file) as process:
        hear(BasicsStation(WEST, process.tc_uri), 10)
        status, _, before = process.stop()
    with running(file) as process:
        asyncio.run(replay(process))
        hear(BasicsStation(WEST, process.tc_uri), 11)
        again, _, after = process.stop()
    assert (status, again) == (0, 0)
    scheduled = [one for one in of_kind(file, "lns.downlink") if one["stage"] == "scheduled"]
    first, second = (one["f_cnt_down"] for one in scheduled)
    assert second == first + 1
    told = [one.get("reason") for one in of_kind(file, "lns.outcome")]
    assert told == [None, "InvalidFrameCounter", None]
    return before + after


@pytest.mark.fault("store", "lost")
def test_an_outage_of_the_store_ends_no_connection(lns_toml: Path, valkey: Valkey) -> None:
    lns_toml.write_text(LNS + f'[store]\nurl = "{valkey.url}"\n')

    async def scenario(process: Process) -> None:
        station = BasicsStation(WEST, process.tc_uri)
        await station.connect()
        await station.until_configured()
        station.hear(uplink(10, confirmed=True))
        await station.next_dnmsg()
        valkey.kill_now()
        station.hear(uplink(11, confirmed=True))
        await outcomes(lns_toml, 2)
        start_now(valkey)
        station.hear(uplink(12, confirmed=True))
        await station.next_dnmsg()
        assert len(station.dnmsgs) == 2
        await StationSocket.reset_all()

    with running(lns_toml) as process:
        asyncio.run(scenario(process))
        status, _, err = process.stop()
    assert status == 0
    told = [line for line in err.splitlines() if "store" in line or "redis" in line]
    assert len(told) == 4, told
    for warning in told[:2]:
        assert f" WARNING redis://127.0.0.1:{valkey.port}/0 is not available: " in warning
    assert [line.partition(" ")[2] for line in told[2:]] == [
        "INFO the store of the claims is back",
        "INFO the store is back",
    ]
    found = [(one["upstream"], one["answer"]) for one in of_kind(lns_toml, "lns.outcome")]
    assert found == [("forwarded", "RX1"), ("forwarded", "Suppressed"), ("forwarded", "RX1")]
    stages = [one["stage"] for one in of_kind(lns_toml, "lns.connection")]
    assert stages == ["connected", "disconnected"]


async def outcomes(file: Path, number: int) -> None:
    async with asyncio.timeout(60):
        while len(of_kind(file, "lns.outcome")) < number:  # noqa: ASYNC110 - a file tells nobody
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[store]\nurl = "redis://:geheim@127.0.0.1:1"\n', ":7: store.url: redis://127.0.0.1:1/0"),
        ('[store]\nurl = "sqlite://lns.toml"\n', ":7: store.url: the store "),
        (
            '[upstream]\nurl = "mqtt://me:geheim@127.0.0.1:1"\noutbox = "lns.toml"\n',
            ":8: upstream.outbox: the outbox ",
        ),
    ],
)
def test_what_cannot_be_opened_ends_it_with_4_and_the_line(
    lns_toml: Path, text: str, sentence: str
) -> None:
    lns_toml.write_text(LNS + text)
    with running(lns_toml) as process:
        status = process.popen.wait(20)
        assert process.popen.stderr is not None
        said = process.popen.stderr.read()
    assert (status, process.first_line) == (4, "")
    assert said.startswith(f"{lns_toml}{sentence}")
    assert "Traceback" not in said and "geheim" not in said
