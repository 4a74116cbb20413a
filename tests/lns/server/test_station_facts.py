"""What Basics Station 2.0.6 needs of a network server, fact by fact, on a real socket.

Each test names what happens at the station otherwise. Source: Basics Station, LNS protocol.
"""

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from bench.virtual.lorawan.join_frames import join_request
from lns.downlink.downlink_queue import ApplicationDownlink
from lns.lorawan.frame import JoinAccept, parse
from lns.lorawan.identifiers import Eui
from lns.uplink.registry import DeviceClass
from tests.lns.served_network import ALPHA, APP_KEY, EAST, GAMMA, JOIN_EUI, WEST, uplink
from tests.lns.server.basics_station import BasicsStation, StationSocket
from tests.lns.server.listening import Listening, play

RX1_KEYS = {"RX1DR", "RX1Freq"}
RX2_KEYS = {"RX2DR", "RX2Freq"}
ANSWER_KEYS = {
    "msgtype", "DevEui", "dC", "diid", "pdu", "RxDelay", "priority", "xtime", "rctx",
}  # fmt: skip
CONFIRMED = uplink(10, confirmed=True)


async def ready(served: Listening, eui: Eui = WEST) -> BasicsStation:
    station = BasicsStation(eui, served.uri)
    await station.connect()
    await station.until_configured()
    return station


def told(station: BasicsStation, msgtype: str) -> dict[str, Any]:
    """The newest message of this type that the server sent."""
    texts = [json.loads(text) for text in station.texts]
    return next(found for found in reversed(texts) if found["msgtype"] == msgtype)


def numbers(value: object) -> list[object]:
    """Every number in a JSON value, wherever it stands."""
    match value:
        case dict():
            return [number for inner in value.values() for number in numbers(inner)]
        case list():
            return [number for inner in value for number in numbers(inner)]
        case bool() | str() | None:
            return []
        case _:
            return [value]


@pytest.mark.parametrize("model", ["linux", "corecell", "minihub"])
def test_every_hardware_gets_the_specification_that_all_accept(model: str) -> None:
    """SX1301 and SX1302 builds alike close the connection on anything but `sx1301/1`."""
    version = {
        "msgtype": "version", "station": f"2.0.6({model}/std)", "firmware": None,
        "package": None, "model": model, "protocol": 2, "features": "rmtsh prod gps",
    }  # fmt: skip

    async def scenario(served: Listening) -> None:
        socket = await StationSocket.open(f"{served.uri}/router/{WEST}")
        socket.send_text(json.dumps(version))
        text = await socket.receive_text()
        config = json.loads(text)
        assert (config["msgtype"], config["hwspec"]) == ("router_config", "sx1301/1")
        assert len(config["sx1301_conf"]) == 1
        assert "upchannels" not in config  # never together with explicit channels
        assert len(text) < 40_000
        await socket.close()

    play(scenario)


def test_numbers_are_integers_but_for_the_time() -> None:
    """A float where an integer is expected spoils the message, in `sx1301_conf` the connection."""

    async def scenario(served: Listening) -> None:
        station = await ready(served)
        station.hear(CONFIRMED)
        await station.next_dnmsg()
        for msgtype in ("router_config", "dnmsg"):
            said = told(station, msgtype)
            mux_time = said.pop("MuxTime", None)
            assert all(isinstance(number, int) for number in numbers(said))
            # Seconds of UTC: a station makes RefTime of it.
            assert mux_time is None or abs(mux_time - time.time()) < 60  # noqa: TID251

    play(scenario)


def test_a_join_is_answered_after_five_seconds_with_both_windows() -> None:
    async def scenario(served: Listening) -> None:
        station = await ready(served)
        request = join_request(APP_KEY, join_eui=JOIN_EUI, dev_eui=GAMMA.dev_eui, dev_nonce=7)
        station.hear(request)
        dnmsg = await station.next_dnmsg()
        assert isinstance(parse(dnmsg.pdu), JoinAccept)
        said = told(station, "dnmsg")
        assert set(said) == ANSWER_KEYS | RX1_KEYS | RX2_KEYS
        assert said["RxDelay"] == 5
        assert said["DevEui"] == "70-B3-D5-7E-D0-00-00-03"

    assert play(scenario, devices=[GAMMA]).words == [("NonDuplicate", "dropped", "-", "RX1")]


@pytest.mark.parametrize(
    ("late_us", "windows", "answer"),
    [(0, RX1_KEYS | RX2_KEYS, "RX1"), (1_000_000, RX2_KEYS, "RX2"), (1_900_000, None, "TooLate")],
)
def test_the_windows_that_can_still_be_met_are_named(
    late_us: int, windows: set[str] | None, answer: str
) -> None:
    """Both windows, or RX2 alone: half a pair, or none, and the station drops all of it."""

    async def scenario(served: Listening) -> None:
        station = await ready(served)
        station.hear(CONFIRMED, late_us=late_us)
        await served.until(lambda: served.outcomes)
        if windows is not None:
            dnmsg = await station.next_dnmsg()
            said = told(station, "dnmsg")
            assert set(said) == ANSWER_KEYS | windows
            # The uplink's own xtime, which needs more than 53 bits; the station adds the delay.
            assert dnmsg.xtime >> 48 == station.session
            assert (said["dC"], said["RxDelay"], said["rctx"]) == (0, 1, 0)

    assert [outcome.answer for outcome in play(scenario).outcomes] == [answer]


def test_a_downlink_goes_to_one_station_only() -> None:
    async def scenario(served: Listening) -> None:
        west, east = await ready(served, WEST), await ready(served, EAST)
        west.hear(CONFIRMED)
        await west.next_dnmsg()
        east.hear(CONFIRMED)
        await served.until(lambda: len(served.outcomes) == 2)
        east.hear(uplink(11, confirmed=True))
        dnmsg = await east.next_dnmsg()
        assert dnmsg.xtime >> 48 == east.session
        assert (len(west.dnmsgs), len(east.dnmsgs)) == (1, 1)

    play(scenario)


def test_a_class_c_device_is_sent_to_at_once() -> None:
    """RX2 only, without xtime: with RX1 and no xtime the station drops all of it."""

    async def scenario(served: Listening) -> None:
        station = await ready(served)
        station.hear(uplink(10))
        await served.until(lambda: served.outcomes)
        served.network_server.enqueue(ALPHA.dev_eui, ApplicationDownlink(7, b"on"))
        await station.next_dnmsg()
        said = told(station, "dnmsg")
        assert set(said) == ANSWER_KEYS - {"xtime", "rctx"} | RX2_KEYS
        assert (said["dC"], said["RX2DR"], said["RX2Freq"]) == (2, 0, 869_525_000)

    play(scenario, devices=[replace(ALPHA, device_class=DeviceClass.C)])


def test_a_radio_that_has_just_started_is_asked_for_its_time_again() -> None:
    """Right after `router_config` a station has no clock: it answers `getxtime` with zeros."""

    async def scenario(served: Listening) -> None:
        station = BasicsStation(WEST, served.uri)
        await station.connect()
        await station.until_configured()
        asked = [text for text in station.texts if json.loads(text)["msgtype"] == "getxtime"]
        assert len(asked) > 1
        station.hear(CONFIRMED)
        await station.next_dnmsg()

    assert [outcome.answer for outcome in play(scenario).outcomes] == ["RX1"]


def test_a_session_that_nobody_reported_is_asked_for_and_believed_then() -> None:
    """A station whose radio started anew by itself goes on to be answered."""

    async def scenario(served: Listening) -> None:
        station = await ready(served)
        station.session += 100
        station.hear(CONFIRMED)
        station.clock_shown = False
        await station.until_configured()
        station.hear(uplink(11, confirmed=True))
        await station.next_dnmsg()

    assert [outcome.answer for outcome in play(scenario).outcomes] == ["TooLate", "RX1"]


def test_timesync_is_echoed_at_once() -> None:
    async def scenario(served: Listening) -> None:
        station = await ready(served)
        assert station.socket is not None
        station.socket.send_text('{"msgtype":"timesync","txtime":9007199254740993}')
        answer = json.loads(await station.socket.receive_text())
        assert answer["txtime"] == 9007199254740993  # more than a float could hold
        assert isinstance(answer["gpstime"], int)
        gps_s = time.time() - 315_964_800 + 18  # noqa: TID251
        assert abs(answer["gpstime"] / 1e6 - gps_s) < 60

    play(scenario)


UPDF = {
    "MHdr": 96, "DevAddr": -1, "FCtrl": 0, "FCnt": 1, "FOpts": "", "FPort": -1, "FRMPayload": "",
    "MIC": -1, "RefTime": 0, "DR": 5, "Freq": 868_100_000,
    "upinfo": {"rctx": 0, "xtime": 1, "gpstime": 0, "fts": -1, "rssi": -50, "snr": 9},
}  # fmt: skip


@pytest.mark.parametrize(
    "message",
    [
        {"msgtype": "dndf", **UPDF},
        {"msgtype": "jacc", "FRMPayload": "20" * 17, "upinfo": UPDF["upinfo"]},
        {"msgtype": "rejoin", "MHdr": 192},
        {"msgtype": "propdf", "FRMPayload": "E0", "DR": 5, "Freq": 868_100_000},
        {"msgtype": "alarm", "text": "GPS move"},
        {"msgtype": "event", "evcat": "gps", "evmsg": {"evtype": "nofix", "since": 1}},
        {"msgtype": "rmtsh", "rmtsh": [{"user": "", "started": False, "age": 0, "pid": 0}] * 2},
        {"msgtype": "rmtsh", "user": "root", "term": "xterm", "start": 0},
        {"msgtype": "runcmd", "command": "reboot", "arguments": []},
        {"msgtype": "router_config", "region": "EU868"},
        {"whatever": "an owner writes into cmd.fifo"},
    ],
)
def test_what_a_server_has_no_use_for_is_passed_over(message: dict[str, Any]) -> None:
    """No remote shell, no command: neither is ever asked for, and none is answered."""

    async def scenario(served: Listening) -> None:
        station = await ready(served)
        assert station.socket is not None
        station.socket.send_text(json.dumps(message))
        station.socket.send_frame(2, b"\x00$ ")  # what a remote shell says
        station.hear(CONFIRMED)
        await station.next_dnmsg()
        said = {json.loads(text)["msgtype"] for text in station.texts}
        assert said == {"router_config", "getxtime", "dnmsg"}

    served = play(scenario)
    assert [outcome.answer for outcome in served.outcomes] == ["RX1"]


@pytest.mark.parametrize("fields", [{"FPort": -1, "FRMPayload": ""}, {"FPort": 0}])
def test_signed_words_and_an_absent_port_are_read(fields: dict[str, Any]) -> None:
    """DevAddr and MIC are signed, FPort is -1 where there is none, RefTime 0 without a time."""
    good = {"msgtype": "updf", **UPDF, "MHdr": 64, "DevAddr": -2147483647, "FRMPayload": "AABB"}

    async def scenario(served: Listening) -> None:
        station = await ready(served)
        assert station.socket is not None
        station.socket.send_text(json.dumps(good | fields))
        await served.until(lambda: served.outcomes)

    (outcome,) = play(scenario).outcomes
    assert (outcome.dev_addr, outcome.mic) == ("80000001", "FFFFFFFF")
    assert outcome.reason == "UnknownDevice"
