"""Who is asked for battery and margin, when, and what the application gets of it."""

from dataclasses import replace

from lns.dedup.strategy import Strategy
from lns.delivery.publisher import StatusMessage
from lns.events import Request
from lns.lorawan.mac_commands import DevStatusReq, LinkCheckAns, parse_downlink
from lns.uplink.mac_layer import ASKED_MAX
from lns.uplink.registry import EndDevice
from tests.lns.served_network import ALPHA, GAMMA, Network, serve, uplink, wait

ASK = b'{"devStatus": true}'
TOPIC = f"lorawan/lns-a/{ALPHA.dev_eui}/down"
# DevStatusAns: battery 254 (full), margin 31 dB; captured (lorawan_conformance_testing, MIT).
STATUS = bytes.fromhex("06FE1F")
DAILY = replace(ALPHA, dev_status_s=86_400)


def asked(network: Network) -> list[bool]:
    """Of each answer of the west station, whether it asks for the status."""
    return [DevStatusReq() in parse_downlink(answer.f_opts) for answer in network.west.answers]


def statuses(network: Network) -> list[StatusMessage]:
    return [one for one in network.application.messages if isinstance(one, StatusMessage)]


def stages(network: Network) -> list[tuple[str, str | None]]:
    found = [event for event in network.events if isinstance(event, Request)]
    assert all(event.wants == "status" for event in found if event.stage != "refused")
    return [(event.stage, event.reason) for event in found]


def test_an_application_asks_and_is_told() -> None:
    async def scenario(network: Network) -> None:
        network.server.receive_request(TOPIC, ASK)
        await network.west.hears(uplink(10))
        await wait(60)
        await network.west.hears(uplink(11, f_opts=STATUS))
        await wait(60)
        await network.west.hears(uplink(12))

    network = serve(scenario)
    assert [words[4] for words in network.words] == ["RX1", "NotAsked", "NotAsked"]
    assert asked(network) == [True]
    assert stages(network) == [("queued", None), ("done", None)]
    (status,) = statuses(network)
    assert status.topic == "lorawan/lns-a/70B3D57ED0000001/status"
    assert status.body(7) == {
        "messageId": "70B3D57ED0000001-01ABCDEF-11-status",
        "removeDuplicatesKey": "70B3D57ED0000001-01ABCDEF-11-status",
        "partitionKey": "70B3D57ED0000001",
        "sequenceNumber": 7,
        "lns": "lns-a",
        "devEui": "70B3D57ED0000001",
        "devAddr": "01ABCDEF",
        "fCnt": 11,
        "battery": 254,
        "margin": 31,
        "station": network.west.eui,
        "receivedAt": "2026-11-20T02:01:01.004Z",
    }
    assert len(network.application.messages) == 4, "the frames went up as well"


def test_the_status_on_port_zero_is_told_and_nothing_else() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(10, f_port=0, payload=STATUS))

    network = serve(scenario)
    assert [one.topic for one in network.application.messages] == [
        "lorawan/lns-a/70B3D57ED0000001/status"
    ]


def test_a_device_that_does_not_answer_is_asked_again_and_then_left_alone() -> None:
    async def scenario(network: Network) -> None:
        network.server.receive_request(TOPIC, ASK)
        for f_cnt in range(10, 15):
            await network.west.hears(uplink(f_cnt))
            await wait(60)

    network = serve(scenario)
    assert asked(network) == [True] * ASKED_MAX
    assert stages(network) == [("queued", None), ("given_up", "NotAnswered")]


def test_what_was_too_late_was_not_asked() -> None:
    async def scenario(network: Network) -> None:
        network.server.receive_request(TOPIC, ASK)
        for f_cnt in range(10, 15):
            await network.west.hears(uplink(f_cnt), late_us=3_000_000)
            await wait(60)
        await network.west.hears(uplink(15))

    network = serve(scenario)
    assert [words[4] for words in network.words] == ["TooLate"] * 5 + ["RX1"]
    assert asked(network) == [True]


def test_copies_tell_nothing_new() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(10, f_opts=STATUS, confirmed=True))
        await network.east.hears(uplink(10, f_opts=STATUS, confirmed=True))
        await wait(5)
        await network.west.hears(uplink(10, f_opts=STATUS, confirmed=True))

    for strategy in Strategy:
        network = serve(scenario, replace(ALPHA, strategy=strategy))
        assert len(statuses(network)) == 1, strategy


def test_a_status_that_the_application_could_not_take_is_not_lost() -> None:
    async def scenario(network: Network) -> None:
        network.server.receive_request(TOPIC, ASK)
        network.application.refusals = 1
        await network.west.hears(uplink(10, f_opts=STATUS, confirmed=True))
        await wait(5)
        await network.west.hears(uplink(10, f_opts=STATUS, confirmed=True))

    network = serve(scenario)
    assert [words[3] for words in network.words] == ["UpstreamUnavailable", "-"]
    assert len(statuses(network)) == 1
    assert stages(network) == [("queued", None), ("done", None)]


def test_by_configuration_it_is_asked_for_once_in_a_while() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(10))
        await wait(60)
        await network.west.hears(uplink(11, f_opts=STATUS))
        for f_cnt in (12, 13):
            await network.west.hears(uplink(f_cnt))
            await wait(86_400)
        await network.west.hears(uplink(14))

    network = serve(scenario, DAILY)
    assert [words[4] for words in network.words] == [
        "RX1", "NotAsked", "NotAsked", "RX1", "RX1",
    ]  # fmt: skip
    assert stages(network) == [], "nobody but the configuration wanted it"


def test_all_that_a_device_can_be_told_fits_one_answer() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(10, adr=True, f_opts=b"\x02\x0d"))

    (answer,) = serve(scenario, replace(DAILY, nb_trans=3)).west.answers
    assert len(answer.f_opts) == 15
    assert parse_downlink(answer.f_opts)[0] == LinkCheckAns(17, 1)
    assert parse_downlink(answer.f_opts)[-1] == DevStatusReq()


def refused(device: EndDevice, topic: str, body: bytes) -> Network:
    async def scenario(network: Network) -> None:
        network.server.receive_request(topic, body)
        await network.west.hears(uplink(10))

    return serve(scenario, device)


def test_a_device_that_is_not_here_is_not_asked() -> None:
    stranger = f"lorawan/lns-a/{GAMMA.dev_eui}/down"
    assert stages(refused(ALPHA, stranger, ASK)) == [("refused", "UnknownDevice")]
    elsewhere = replace(ALPHA, server="lns-b")
    assert stages(refused(elsewhere, TOPIC, ASK)) == [("refused", "BelongsToAnotherServer")]


def test_a_request_that_is_none_is_refused() -> None:
    for body in (b'{"devStatus": false}', b'{"devStatus": true, "fPort": 1}', b'{"devStatus": 1}'):
        network = refused(ALPHA, TOPIC, body)
        [(stage, reason)] = stages(network)
        assert stage == "refused" and reason is not None and reason.startswith("not a downlink")
        assert network.west.answers == []
