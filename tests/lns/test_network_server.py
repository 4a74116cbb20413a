"""The shell: stations in, one outcome per reception out, whatever the stations say."""

import asyncio
import json
from dataclasses import replace

import pytest

from bench.clock import run
from bench.station.tap import link_pair
from lns.clock import now_us
from lns.connections import Connections
from lns.dedup.claim import Level2
from lns.downlink.downlink_queue import ApplicationDownlink
from lns.events import UnreadableMessage
from lns.lorawan.region import US915
from lns.station.messages import Dnmsg
from lns.uplink.registry import DeviceClass
from tests.lns.served_network import (
    ALPHA,
    GAMMA,
    WEST,
    Network,
    serve,
    uplink,
    wait,
)
from tests.station_texts import xtime_report_text

FRAME = uplink(10, confirmed=True)
MALFORMED = ("west", "-", "dropped", "Malformed", "NotAsked")
GOOD = ("west", "NonDuplicate", "forwarded", "-", "RX1")

# A frame of FCnt 10 that could be read, but for the field that a test spoils.
UPDF: dict[str, object] = {
    "msgtype": "updf",
    "MHdr": 128,
    "DevAddr": 28036591,
    "FCtrl": 0,
    "FCnt": 10,
    "FOpts": "",
    "FPort": 2,
    "FRMPayload": "6BCDD6",
    "MIC": 565526107,
    "RefTime": 0.0,
    "DR": 5,
    "Freq": 868100000,
    "upinfo": {"rctx": 0, "xtime": 1, "gpstime": 0, "fts": -1, "rssi": -71, "snr": 9.5},
}
JREQ: dict[str, object] = {
    "msgtype": "jreq",
    "MHdr": 0,
    "JoinEui": "70-B3-D5-7E-D0-00-00-00",
    "DevEui": "70-B3-D5-7E-D0-00-00-03",
    "DevNonce": 7,
    "MIC": -164352249,
    "RefTime": 0.0,
    "DR": 5,
    "Freq": 868100000,
    "upinfo": {"rctx": 0, "xtime": 1, "gpstime": 0, "fts": -1, "rssi": -71, "snr": 9.5},
}


def without(fields: dict[str, object], key: str) -> dict[str, object]:
    return {name: value for name, value in fields.items() if name != key}


def play_texts(*texts: str) -> Network:
    async def scenario(network: Network) -> None:
        for text in texts:
            await network.west.says(text)
        await network.west.hears(FRAME)

    return serve(scenario)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "nonsense",
        "\ud800",
        '{"msgtype":"updf"',
        '{"msgtype":"updf"}',
        '{"msgtype":"jreq"}',
        json.dumps(UPDF | {"DR": "5"}),
        json.dumps(UPDF | {"DR": 16}),
        json.dumps(UPDF | {"Freq": 0}),
        json.dumps(UPDF | {"Freq": 868.1}),
        json.dumps(UPDF | {"FCnt": 65536}),
        json.dumps(UPDF | {"FCnt": -1}),
        json.dumps(UPDF | {"FCtrl": 256}),
        json.dumps(UPDF | {"FPort": -2}),
        json.dumps(UPDF | {"FPort": None}),
        json.dumps(UPDF | {"FOpts": "0"}),
        json.dumps(UPDF | {"FOpts": "02"}),
        json.dumps(UPDF | {"FCtrl": 1}),
        json.dumps(UPDF | {"FPort": -1}),
        json.dumps(UPDF | {"FRMPayload": "xy"}),
        json.dumps(UPDF | {"FRMPayload": 7}),
        json.dumps(UPDF | {"FRMPayload": "00" * 243}),
        json.dumps(UPDF | {"DevAddr": 1 << 32}),
        json.dumps(UPDF | {"MIC": "5B3EB521"}),
        json.dumps(UPDF | {"upinfo": []}),
        json.dumps(UPDF | {"upinfo": {"xtime": -1}}),
        json.dumps(UPDF | {"upinfo": {"xtime": 1 << 63}}),
        json.dumps(UPDF | {"upinfo": {"rssi": "loud"}}),
        json.dumps(UPDF | {"MHdr": 96}),  # a downlink
        json.dumps(UPDF | {"MHdr": 160}),  # a confirmed downlink
        json.dumps(UPDF | {"MHdr": 224}),  # proprietary
        json.dumps(UPDF | {"MHdr": 32}),  # a join accept
        json.dumps(UPDF | {"MHdr": 65}),  # another major version
        json.dumps(without(UPDF, "MIC")),
        json.dumps(without(UPDF, "DevAddr")),
        json.dumps(JREQ | {"DevNonce": -1}),
        json.dumps(JREQ | {"DevEui": "70"}),
        json.dumps(JREQ | {"MHdr": 64}),
        json.dumps(without(JREQ, "JoinEui")),
    ],
)
def test_a_reception_that_cannot_be_read_has_its_outcome_and_harms_nobody(text: str) -> None:
    network = play_texts(text)
    assert network.words == [MALFORMED, GOOD]
    assert (network.outcomes[0].frame_id, network.outcomes[0].xtime) == (None, None)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "7",
        "null",
        '"updf"',
        "{}",
        '{"msgtype":7}',
        '{"msgtype":"news"}',
        '{"msgtype":"dnmsg"}',
        '{"msgtype":"dntxed"}',
        '{"msgtype":"dntxed","diid":99,"DevEui":"::1","DR":5,"Freq":868100000,"xtime":1}',
        '{"msgtype":"timesync","txtime":"now"}',
        '{"msgtype":"getxtime","xtimes":"now"}',
        '{"msgtype":"propdf","FRMPayload":"E0010203","DR":5,"Freq":868100000}',
        '{"msgtype":"version"}',
        '{"router":"::1"}',
    ],
)
def test_what_is_no_reception_has_no_outcome(text: str) -> None:
    assert play_texts(text).words == [GOOD]


@pytest.mark.parametrize(
    ("text", "msgtype"),
    [("[]", ""), ('{"msgtype":"dntxed"}', "dntxed"),
     ('{"msgtype":"timesync","txtime":"now"}', "timesync"),
     ('{"msgtype":"version","station":' + "[" * 99 + "]" * 99 + "}", "version")],
)  # fmt: skip
def test_what_is_no_reception_and_cannot_be_read_is_told(text: str, msgtype: str) -> None:
    (told,) = [e for e in play_texts(text).events if isinstance(e, UnreadableMessage)]
    assert (told.station, told.msgtype) == (WEST, msgtype)
    assert 0 < len(told.why) <= 200


def test_a_whole_run_of_bad_texts_loses_no_good_one() -> None:
    async def scenario(network: Network) -> None:
        for f_cnt in range(10, 14):
            for text in ("", '{"msgtype":"updf"}', "[]"):
                await network.west.link.send(text)
            await network.west.link.send(network.west.text(uplink(f_cnt)))

    words = serve(scenario).words
    assert words.count(MALFORMED) == 8
    assert [entry[2] for entry in words if entry != MALFORMED] == ["forwarded"] * 4


@pytest.mark.parametrize("dr", range(16))
def test_every_data_rate_that_a_station_may_name_has_one_outcome(dr: int) -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(10, confirmed=True, f_opts=b"\x02"), dr=dr)
        await network.west.hears(uplink(11, confirmed=True), dr=dr, freq_hz=1)

    assert [words[2] for words in serve(scenario).words] == ["forwarded"] * 2
    assert [words[2] for words in serve(scenario, region=US915).words] == ["forwarded"] * 2


def test_a_shortest_frame_is_read() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(bytes.fromhex("40efcdab01000b001e72b3c0"))

    assert serve(scenario).words == [("west", "NonDuplicate", "forwarded", "-", "NotAsked")]


def test_a_station_is_configured_and_asked_for_its_clock() -> None:
    async def scenario(network: Network) -> None:
        await wait(0.001)

    texts = serve(scenario).west.texts
    assert [json.loads(text)["msgtype"] for text in texts] == ["router_config", "getxtime"]


def test_timesync_is_answered_with_gps_time() -> None:
    async def scenario(network: Network) -> None:
        await network.west.says('{"msgtype":"timesync","txtime":12345}')

    # 2026-11-20 02:00:01.003 UTC is 1479175219.003 s after 1980-01-06, with 18 leap seconds.
    answer = json.loads(serve(scenario).west.texts[-1])
    assert (answer["txtime"], answer["gpstime"]) == (12345, 1_479_175_219_003_000)


def test_receptions_are_served_at_once_not_one_after_another() -> None:
    async def scenario(network: Network) -> None:
        network.application.delays_us = [5_000_000]
        await network.west.hears(uplink(10))
        await network.west.hears(uplink(11))

    network = serve(scenario)
    assert [outcome.f_cnt for outcome in network.outcomes] == [11, 10]


def test_a_link_that_ends_lets_receptions_end_first() -> None:
    async def scenario(network: Network) -> None:
        network.application.delays_us = [2_000_000]
        await network.west.hears(uplink(10))
        network.west.link.close()

    assert [words[2] for words in serve(scenario).words] == ["forwarded"]


def test_a_reconnect_replaces_the_old_link() -> None:
    async def scenario(network: Network) -> None:
        old = network.west.link
        await network.connect(network.west, network.tasks)
        new = network.west.link
        assert new is not old
        old.close()
        await wait(0.01)
        await network.west.hears(FRAME)

    network = serve(scenario)
    assert network.words == [GOOD]
    assert len(network.west.dnmsgs) == 1


def test_a_frame_of_the_old_link_is_answered_through_the_new_one_or_not_at_all() -> None:
    async def scenario(network: Network) -> None:
        network.application.delays_us = [100_000]
        old = network.west.link
        await network.west.hears(FRAME)
        network.west.session += 1
        await network.connect(network.west, network.tasks)
        old.close()
        await wait(1)

    network = serve(scenario)
    assert network.words == [("west", "NonDuplicate", "forwarded", "-", "TooLate")]
    assert network.west.dnmsgs == []


def test_a_station_that_is_gone_can_come_back() -> None:
    async def scenario(network: Network) -> None:
        network.west.link.close()
        await wait(0.01)
        await network.connect(network.west, network.tasks)
        await network.west.hears(FRAME)

    assert serve(scenario).words == [GOOD]


def test_a_link_that_closes_while_an_answer_leaves_is_too_late() -> None:
    async def scenario(network: Network) -> None:
        near, far = link_pair()
        network.tasks.create_task(network.server.serve(WEST, far))
        xtime = network.west.xtime_now()
        await near.send(xtime_report_text(xtime, mux_time=0.0, uptime_us=0))
        await asyncio.sleep(0.001)
        network.application.delays_us = [100_000]
        await near.send(network.west.text(FRAME))
        await asyncio.sleep(0.001)
        far.close()
        await wait(1)

    network = serve(scenario)
    assert network.words == [("west", "NonDuplicate", "forwarded", "-", "TooLate")]


def test_the_end_of_a_link_ends_its_service() -> None:
    network = Network()

    async def scenario() -> None:
        near, far = link_pair()
        near.close()
        await network.server.serve(WEST, far)

    run(scenario())
    assert network.events == []


def test_the_end_of_a_link_ends_what_was_to_be_said_on_it() -> None:
    """A station that shows no clock would be asked again in 50 ms."""

    async def scenario(network: Network) -> None:
        near, far = link_pair()
        service = network.tasks.create_task(network.server.serve(WEST, far))
        await near.send(xtime_report_text(0, mux_time=0.0, uptime_us=0))
        await asyncio.sleep(0.001)
        near.close()
        begun_us = now_us()
        await service
        assert now_us() - begun_us < 10_000

    serve(scenario)


def test_nothing_is_handed_to_a_station_that_is_not_there() -> None:
    async def send() -> bool:
        nothing = Dnmsg(dev_eui=ALPHA.dev_eui, diid=1, pdu=b"")
        return await Connections().send(WEST, nothing)

    assert not run(send())


def test_a_station_that_is_gone_is_sent_nothing() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(10))
        network.west.link.close()
        await wait(1)
        assert network.server.enqueue(ALPHA.dev_eui, ApplicationDownlink(8, b"on"))
        await wait(1)

    network = serve(scenario, replace(ALPHA, device_class=DeviceClass.C))
    assert network.west.dnmsgs == []


def test_a_server_that_works_alone_asks_nobody() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(FRAME)
        await network.east.hears(FRAME)

    assert {outcome.level2 for outcome in serve(scenario).outcomes} == {Level2.NOT_ASKED}


def test_every_outcome_names_its_reception() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(FRAME)
        await network.east.hears(uplink(11)[:-1] + b"\x00")
        await network.north.hears(bytes.fromhex("00000000d07ed5b370030000d07ed5b3700700072f34f6"))

    network = serve(scenario, GAMMA)
    assert [outcome.frame_id for outcome in network.outcomes] == [
        "01ABCDEF:10:5B3EB521",
        "01ABCDEF:11:" + uplink(11)[-4:-1].hex().upper() + "00",
        "70B3D57ED0000000:70B3D57ED0000003:7",
    ]
    assert all(outcome.xtime for outcome in network.outcomes)
    assert {outcome.lns for outcome in network.outcomes} == {"lns-a"}
