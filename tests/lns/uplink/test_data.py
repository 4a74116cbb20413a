"""Every row of the policy, from the text of a station to the text for a station."""

from dataclasses import replace

import pytest

from lns.clock import now_us
from lns.dedup.strategy import Strategy
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.frame import Data, parse
from lns.lorawan.identifiers import DevAddr, Eui
from lns.lorawan.mac_commands import DeviceTimeAns, LinkADRReq, LinkCheckAns, parse_downlink
from lns.uplink.registry import EndDevice
from tests.lns.served_network import (
    ALPHA,
    APP_S_KEY,
    Network,
    Station,
    Words,
    serve,
    uplink,
    wait,
)

DROP, MARK, NONE = Strategy.DROP, Strategy.MARK, Strategy.NONE
STRICT = replace(ALPHA, relaxed_f_cnt=False)

# FCnt 10, FPort 2, "C0FFEE", of the device with the keys of `KEYS`; `%d` is the xtime.
CONFIRMED = (
    '{"msgtype":"updf","MHdr":128,"DevAddr":28036591,"FCtrl":0,"FCnt":10,"FOpts":"","FPort":2,'
    '"FRMPayload":"6BCDD6","MIC":565526107,"RefTime":0.0,"DR":5,"Freq":868100000,"upinfo":{'
    '"rctx":3,"xtime":%d,"gpstime":0,"fts":-1,"rssi":-71,"snr":9.5,"rxtime":0.0}}'
)
UNCONFIRMED = CONFIRMED.replace('"MHdr":128', '"MHdr":64').replace("565526107", "-323618683")


async def hear(station: Station, confirmed: bool) -> None:
    await station.says((CONFIRMED if confirmed else UNCONFIRMED) % station.xtime_now())


def frames(*answers: Data) -> list[tuple[bool, int]]:
    """Of each answer: the ACK bit and FCntDown."""
    return [(frame.ack, frame.f_cnt) for frame in answers]


def test_a_confirmed_uplink_goes_up_and_is_acknowledged_in_rx1() -> None:
    async def scenario(network: Network) -> None:
        await hear(network.west, confirmed=True)

    network = serve(scenario)
    assert network.words == [("west", "NonDuplicate", "forwarded", "-", "RX1")]
    assert network.bodies == [
        {
            "messageId": "70B3D57ED0000001-01ABCDEF-10",
            "removeDuplicatesKey": "70B3D57ED0000001-01ABCDEF-10",
            "partitionKey": "70B3D57ED0000001",
            "sequenceNumber": 1,
            "lns": "lns-a",
            "devEui": "70B3D57ED0000001",
            "devAddr": "01ABCDEF",
            "fCnt": 10,
            "fPort": 2,
            "confirmed": True,
            "payload": "c0ffee",
            "station": "0016C001F1500001",
            "rssi": -71,
            "snr": 9.5,
            "freqHz": 868100000,
            "dr": 5,
            "receivedAt": "2026-11-20T02:00:01.003Z",
        }
    ]
    # MHDR 60, DevAddr EFCDAB01, FCtrl 20 (ACK), FCntDown 0, MIC.
    assert network.west.texts[2:] == [
        '{"msgtype":"dnmsg","DevEui":"70-B3-D5-7E-D0-00-00-01","dC":0,"diid":1795140001003,'
        '"pdu":"60efcdab01200000224a1202","RxDelay":1,"priority":0,"xtime":4785074615084229,'
        '"rctx":3,"RX1DR":5,"RX1Freq":868100000,"RX2DR":0,"RX2Freq":869525000}'
    ]


def test_an_unconfirmed_uplink_goes_up_and_asks_for_no_answer() -> None:
    async def scenario(network: Network) -> None:
        await hear(network.west, confirmed=False)

    network = serve(scenario)
    assert network.words == [("west", "NonDuplicate", "forwarded", "-", "NotAsked")]
    assert network.application.ids == ["70B3D57ED0000001-01ABCDEF-10"]
    assert network.west.dnmsgs == []


@pytest.mark.parametrize(
    ("strategy", "confirmed", "copy", "messages"),
    [
        (DROP, True, ("Duplicate", "dropped", "Duplicate", "Suppressed"), []),
        (DROP, False, ("Duplicate", "dropped", "Duplicate", "NotAsked"), []),
        (MARK, True, ("SoftDuplicate", "marked", "-", "Suppressed"), [True]),
        (MARK, False, ("SoftDuplicate", "marked", "-", "NotAsked"), [True]),
        (NONE, True, ("SoftDuplicate", "forwarded", "-", "Suppressed"), [False]),
        (NONE, False, ("SoftDuplicate", "forwarded", "-", "NotAsked"), [False]),
    ],
)
def test_a_copy_from_another_station(
    strategy: Strategy, confirmed: bool, copy: tuple[str, ...], messages: list[bool]
) -> None:
    async def scenario(network: Network) -> None:
        await hear(network.west, confirmed)
        await hear(network.east, confirmed)

    network = serve(scenario, replace(ALPHA, strategy=strategy))
    answer = "RX1" if confirmed else "NotAsked"
    assert network.words == [
        ("west", "NonDuplicate", "forwarded", "-", answer),
        ("east", *copy),
    ]
    assert [message.dup_msg for message in network.application.messages[1:]] == messages
    assert network.application.ids[1:] == [
        "70B3D57ED0000001-01ABCDEF-10-0016C001F1500002-1" for _ in messages
    ]
    assert network.east.dnmsgs == []


REFUSED_COPY = ("DuplicateDueToResubmission", "dropped", "InvalidFrameCounter", "NotAsked")


@pytest.mark.parametrize(
    ("strategy", "confirmed", "copy", "messages"),
    [
        (
            DROP,
            True,
            ("DuplicateDueToResubmission", "dropped", "ResubmissionSuppressed", "RX1"),
            [],
        ),
        (DROP, False, REFUSED_COPY, []),
        (MARK, True, ("DuplicateDueToResubmission", "marked", "-", "RX1"), [True]),
        (MARK, False, REFUSED_COPY, []),
        (NONE, True, ("DuplicateDueToResubmission", "forwarded", "-", "RX1"), [False]),
        (NONE, False, REFUSED_COPY, []),
    ],
)
def test_a_copy_from_the_same_station(
    strategy: Strategy, confirmed: bool, copy: tuple[str, ...], messages: list[bool]
) -> None:
    async def scenario(network: Network) -> None:
        await hear(network.west, confirmed)
        await wait(3)
        await hear(network.west, confirmed)

    network = serve(scenario, replace(ALPHA, strategy=strategy))
    assert network.words[1:] == [("west", *copy)]
    assert [message.dup_msg for message in network.application.messages[1:]] == messages
    assert network.application.ids[1:] == [
        "70B3D57ED0000001-01ABCDEF-10-0016C001F1500001-1" for _ in messages
    ]
    assert frames(*network.west.answers) == ([(True, 0), (True, 1)] if confirmed else [])


def test_the_first_station_of_a_frame_stays_the_first() -> None:
    async def scenario(network: Network) -> None:
        for station in (network.west, network.east, network.west, network.east):
            await hear(station, confirmed=True)

    assert [words[1] for words in serve(scenario).words] == [
        "NonDuplicate",
        "SoftDuplicate",
        "DuplicateDueToResubmission",
        "SoftDuplicate",
    ]


@pytest.mark.parametrize("strategy", Strategy)
def test_the_fourth_resubmission_is_not_answered(strategy: Strategy) -> None:
    async def scenario(network: Network) -> None:
        for _ in range(5):
            await hear(network.west, confirmed=True)

    network = serve(scenario, replace(ALPHA, strategy=strategy))
    assert [words[3:] for words in network.words[:4]] == [
        ("-", "RX1"),
        *[("ResubmissionSuppressed" if strategy is DROP else "-", "RX1")] * 3,
    ]
    assert network.words[4] == (
        "west",
        "DuplicateDueToResubmission",
        "dropped",
        "ResubmissionLimit",
        "Suppressed",
    )
    assert frames(*network.west.answers) == [(True, 0), (True, 1), (True, 2), (True, 3)]


def test_a_new_frame_gives_a_new_budget() -> None:
    async def scenario(network: Network) -> None:
        for f_cnt in (10, 11):
            for _ in range(4):
                await network.west.hears(uplink(f_cnt, confirmed=True))

    network = serve(scenario)
    assert {words[4] for words in network.words} == {"RX1"}
    assert frames(*network.west.answers) == [(True, f_cnt) for f_cnt in range(8)]


FIRST_MESSAGE = {
    DROP: ("dropped", "ResubmissionSuppressed"),
    MARK: ("marked", "-"),
    NONE: ("forwarded", "-"),
}


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("f_cnt", [0, 1])
def test_an_unconfirmed_first_message_of_a_relaxed_device_may_come_again(
    strategy: Strategy, f_cnt: int
) -> None:
    async def scenario(network: Network) -> None:
        for _ in range(2):
            await network.west.hears(uplink(f_cnt))

    network = serve(scenario, replace(ALPHA, strategy=strategy))
    expected = ("west", "DuplicateDueToResubmission", *FIRST_MESSAGE[strategy], "NotAsked")
    assert network.words[1:] == [expected]


@pytest.mark.parametrize(
    ("device", "f_cnt"), [(ALPHA, 2), (STRICT, 0), (STRICT, 1)], ids=["FCnt 2", "0", "1"]
)
def test_no_other_unconfirmed_frame_may(device: EndDevice, f_cnt: int) -> None:
    async def scenario(network: Network) -> None:
        for _ in range(2):
            await network.west.hears(uplink(f_cnt))

    assert serve(scenario, device).words[1:] == [("west", *REFUSED_COPY)]


@pytest.mark.parametrize("f_cnt", [0, 1])
@pytest.mark.parametrize("confirmed", [True, False])
def test_a_relaxed_device_restarts_its_counter(f_cnt: int, confirmed: bool) -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(40))
        await network.west.hears(uplink(f_cnt, confirmed=confirmed))
        await network.west.hears(uplink(f_cnt + 1))

    network = serve(scenario)
    answer = "RX1" if confirmed else "NotAsked"
    assert network.words[1] == ("west", "NonDuplicate", "forwarded", "-", answer)
    assert network.words[2] == ("west", "NonDuplicate", "forwarded", "-", "NotAsked")
    assert network.application.ids == [
        "70B3D57ED0000001-01ABCDEF-40",
        f"70B3D57ED0000001-01ABCDEF.1-{f_cnt}",
        f"70B3D57ED0000001-01ABCDEF.1-{f_cnt + 1}",
    ]


INVALID: Words = ("west", "NonDuplicate", "dropped", "InvalidFrameCounter", "NotAsked")


@pytest.mark.parametrize(("device", "f_cnt"), [(STRICT, 0), (STRICT, 1), (ALPHA, 2), (ALPHA, 39)])
def test_no_other_counter_goes_back(device: EndDevice, f_cnt: int) -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(40))
        await network.west.hears(uplink(f_cnt))
        await network.west.hears(uplink(41))

    network = serve(scenario, device)
    assert network.words[1] == INVALID
    assert network.words[2][2] == "forwarded"


@pytest.mark.parametrize(
    ("first", "f_cnt", "upstream"),
    [
        (None, 16_384, "forwarded"),
        (None, 16_385, "dropped"),
        (40, 40 + 16_384, "forwarded"),
        (40, 40 + 16_385, "dropped"),
        (16_380, 16_380 + 16_384, "forwarded"),
    ],
)
def test_a_counter_may_be_16384_ahead(first: int | None, f_cnt: int, upstream: str) -> None:
    async def scenario(network: Network) -> None:
        if first is not None:
            await network.west.hears(uplink(first))
        await network.west.hears(uplink(f_cnt))

    words = serve(scenario).words[-1]
    assert (words[2], words[3]) == (
        upstream,
        "-" if upstream == "forwarded" else "InvalidFrameCounter",
    )


def test_a_counter_rolls_over_its_16_bits() -> None:
    async def scenario(network: Network) -> None:
        for f_cnt in (16_000, 32_000, 48_000, 64_000, 0xFFFF, 0x10000):
            await network.west.hears(uplink(f_cnt))

    network = serve(scenario, STRICT)
    assert [words[2] for words in network.words] == ["forwarded"] * 6
    assert network.outcomes[-1].f_cnt == 0x10000
    assert network.outcomes[-1].frame_id == "01ABCDEF:0:" + (network.outcomes[-1].mic or "")


@pytest.mark.parametrize("strategy", [MARK, NONE])
def test_a_late_copy_of_an_older_frame_is_refused(strategy: Strategy) -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(10))
        await network.west.hears(uplink(11))
        await network.east.hears(uplink(10))

    network = serve(scenario, replace(ALPHA, strategy=strategy))
    assert network.words[2] == (
        "east",
        "SoftDuplicate",
        "dropped",
        "InvalidFrameCounter",
        "NotAsked",
    )


def test_a_late_copy_of_an_older_frame_is_a_duplicate_under_drop() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(10))
        await network.west.hears(uplink(11))
        await network.east.hears(uplink(10))

    network = serve(scenario, replace(ALPHA, strategy=DROP))
    assert network.words[2] == ("east", "Duplicate", "dropped", "Duplicate", "NotAsked")


def test_a_late_copy_of_a_first_message_passes() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(0))
        await network.west.hears(uplink(5))
        await network.east.hears(uplink(0))
        await network.west.hears(uplink(6))

    network = serve(scenario)
    assert network.words[2] == ("east", "SoftDuplicate", "forwarded", "-", "NotAsked")
    assert network.words[3][2] == "forwarded"


def test_an_equal_counter_with_another_mic_is_no_copy() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(10))
        await network.east.hears(uplink(10, payload=b"\x01"))

    network = serve(scenario)
    assert network.words[1] == ("east", *INVALID[1:])


def test_an_equal_confirmed_counter_with_another_mic_is_a_resubmission() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(10))
        await network.east.hears(uplink(10, confirmed=True, payload=b"\x01"))

    network = serve(scenario)
    assert network.words[1] == ("east", "NonDuplicate", "forwarded", "-", "RX1")


def test_a_resubmission_after_the_retention_is_forwarded_and_answered_three_times() -> None:
    async def scenario(network: Network) -> None:
        for _ in range(5):
            await network.west.hears(uplink(10, confirmed=True))
            await wait(60)

    network = serve(scenario, replace(ALPHA, strategy=DROP))
    accepted = ("west", "NonDuplicate", "forwarded", "-", "RX1")
    refused = ("west", "NonDuplicate", "dropped", "ResubmissionLimit", "Suppressed")
    assert network.words == [accepted] * 4 + [refused]
    assert network.application.ids == [
        "70B3D57ED0000001-01ABCDEF-10",
        *[f"70B3D57ED0000001-01ABCDEF-10-0016C001F1500001-{n}" for n in (1, 2, 3)],
    ]


def test_the_retention_slides_with_every_copy() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(10))
        for _ in range(3):
            await wait(59)
            await network.east.hears(uplink(10))

    network = serve(scenario, replace(ALPHA, strategy=DROP))
    assert [words[1] for words in network.words] == ["NonDuplicate"] + ["Duplicate"] * 3


def test_after_the_retention_an_unconfirmed_frame_has_an_old_counter() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(10))
        await wait(60)
        await network.east.hears(uplink(10))

    assert serve(scenario).words[1] == ("east", *INVALID[1:])


def test_a_copy_after_a_restart_is_judged_by_the_counter_alone() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(10))
        await network.west.hears(uplink(11, confirmed=True))
        await network.restart()
        await network.east.hears(uplink(10))
        await network.east.hears(uplink(11, confirmed=True))

    network = serve(scenario)
    assert network.words[2:] == [
        ("east", *INVALID[1:]),
        ("east", "NonDuplicate", "forwarded", "-", "RX1"),
    ]
    assert frames(*network.west.answers, *network.east.answers) == [(True, 0), (True, 1)]


def test_a_frame_on_port_0_is_for_the_network_alone() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(10, f_port=0, payload=b"\x02", confirmed=True))
        await network.east.hears(uplink(10, f_port=0, payload=b"\x02", confirmed=True))

    network = serve(scenario)
    assert network.words == [
        ("west", "NonDuplicate", "dropped", "-", "RX1"),
        ("east", "SoftDuplicate", "dropped", "-", "Suppressed"),
    ]
    assert network.application.messages == []


def test_a_frame_without_port_goes_up_without_port_and_payload() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(10, f_port=None))

    (body,) = serve(scenario).bodies
    assert (body["fPort"], body["payload"]) == (None, "")


def test_a_link_check_is_answered_with_the_margin() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(10, f_opts=b"\x02"))

    network = serve(scenario)
    assert network.words == [("west", "NonDuplicate", "forwarded", "-", "RX1")]
    (answer,) = network.west.answers
    assert not answer.ack
    assert parse_downlink(answer.f_opts) == (LinkCheckAns(margin_db=17, gateway_count=1),)


def test_a_confirmed_resubmission_of_a_link_check_has_its_answer_again() -> None:
    async def scenario(network: Network) -> None:
        for _ in range(2):
            await network.west.hears(uplink(10, confirmed=True, f_opts=b"\x02"))

    answers = serve(scenario).west.answers
    assert [(answer.ack, answer.f_opts.hex()) for answer in answers] == [(True, "021101")] * 2


def test_adr_ack_req_is_answered_with_an_empty_frame() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(10, adr_ack_req=True))
        await network.east.hears(uplink(10, adr_ack_req=True))

    network = serve(scenario)
    assert [words[4] for words in network.words] == ["RX1", "Suppressed"]
    (answer,) = network.west.answers
    assert (answer.ack, answer.f_opts, answer.f_port) == (False, b"", None)


def test_repetitions_are_asked_for_until_they_are_granted() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(10, adr=True))
        await network.west.hears(uplink(11, adr=True))
        await network.west.hears(uplink(12, adr=True, f_opts=b"\x03\x07"))
        await network.west.hears(uplink(13, adr=True))

    network = serve(scenario, replace(ALPHA, nb_trans=3))
    assert [words[4] for words in network.words] == ["RX1", "RX1", "NotAsked", "NotAsked"]
    request = LinkADRReq(dr=5, tx_power=15, ch_mask=0b111, ch_mask_cntl=0, nb_trans=3)
    assert [parse_downlink(answer.f_opts) for answer in network.west.answers] == [(request,)] * 2


def test_repetitions_are_asked_of_a_device_that_obeys_only() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(10))
        await network.west.hears(uplink(11, confirmed=True))
        await network.west.hears(uplink(12, adr=True))

    network = serve(scenario, replace(ALPHA, nb_trans=3))
    assert [words[4] for words in network.words] == ["NotAsked", "RX1", "RX1"]
    commands = [parse_downlink(answer.f_opts) for answer in network.west.answers]
    assert commands == [(), (LinkADRReq(dr=5, tx_power=15, ch_mask=0b111, nb_trans=3),)]


def test_a_restarted_device_is_asked_again() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(10, adr=True))
        await network.west.hears(uplink(11, adr=True, f_opts=b"\x03\x07"))
        await network.west.hears(uplink(0, adr=True))

    network = serve(scenario, replace(ALPHA, nb_trans=3))
    assert [words[4] for words in network.words] == ["RX1", "NotAsked", "RX1"]


def test_the_time_is_that_of_the_end_of_the_frame() -> None:
    ended_us = []

    async def scenario(network: Network) -> None:
        ended_us.append(now_us() - 300_000)
        await network.west.hears(uplink(10, f_opts=b"\x0d"), late_us=300_000)

    [answer] = serve(scenario).west.answers
    # 2026-11-20T02:00:00 is 1 479 175 218 s of GPS time.
    gps_us = 1_479_175_218_000_000 + ended_us[0]
    gps_s, rest_us = divmod(gps_us, 1_000_000)
    assert parse_downlink(answer.f_opts) == (DeviceTimeAns(gps_s, rest_us * 256 // 1_000_000),)


def test_a_station_with_gps_knows_the_time_better() -> None:
    async def scenario(network: Network) -> None:
        text = network.west.text(uplink(10, f_opts=b"\x0d"))
        await network.west.says(text.replace('"gpstime":0', '"gpstime":1000500000'))

    [answer] = serve(scenario).west.answers
    assert parse_downlink(answer.f_opts) == (DeviceTimeAns(gps_s=1000, fraction_256=128),)


def test_a_resubmission_that_asks_for_the_time_is_told_it() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(10, f_opts=b"\x0d", confirmed=True))
        await wait(5)
        await network.west.hears(uplink(10, f_opts=b"\x0d", confirmed=True))

    network = serve(scenario)
    first, again = (parse_downlink(answer.f_opts)[0] for answer in network.west.answers)
    assert isinstance(first, DeviceTimeAns) and isinstance(again, DeviceTimeAns)
    assert again.gps_s - first.gps_s == 5


@pytest.mark.parametrize(
    ("phy", "answer"),
    [
        (uplink(10), "NotAsked"),
        (uplink(10, confirmed=True), "Suppressed"),
        (uplink(10, adr_ack_req=True), "Suppressed"),
        (uplink(10, f_opts=b"\x02"), "Suppressed"),
        (uplink(10, f_opts=b"\x0d"), "Suppressed"),
    ],
    ids=["nothing", "confirmed", "ADRACKReq", "LinkCheckReq", "DeviceTimeReq"],
)
def test_a_device_of_another_server_is_left_to_it(phy: bytes, answer: str) -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(phy)

    network = serve(scenario, replace(ALPHA, server="lns-b"))
    assert network.words == [("west", "-", "dropped", "BelongsToAnotherServer", answer)]
    assert network.outcomes[0].dev_eui == ALPHA.dev_eui
    assert network.application.messages == []


def test_a_device_of_this_server_is_served() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(10, confirmed=True))

    words = serve(scenario, replace(ALPHA, server="lns-a")).words
    assert words == [("west", "NonDuplicate", "forwarded", "-", "RX1")]


def test_an_unknown_dev_addr_and_a_wrong_mic_never_reach_level_1() -> None:
    unknown = uplink(10, dev_addr=DevAddr("01ABCDEE"))
    forged = uplink(10, confirmed=True)[:-1] + b"\x00"

    async def scenario(network: Network) -> None:
        await network.west.hears(unknown)
        await network.west.hears(forged)

    network = serve(scenario)
    assert network.words == [
        ("west", "-", "dropped", "UnknownDevice", "NotAsked"),
        ("west", "-", "dropped", "MicMismatch", "NotAsked"),
    ]
    assert [(o.dev_eui, o.f_cnt, o.strategy) for o in network.outcomes] == [(None, None, None)] * 2


def test_a_forged_frame_does_not_block_the_genuine_one() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(10)[:-1] + b"\x00")
        await network.west.hears(uplink(10))

    assert serve(scenario).words[1] == ("west", "NonDuplicate", "forwarded", "-", "NotAsked")


def test_who_shares_a_dev_addr_has_counters_of_its_own() -> None:
    keys = SessionKeys(bytes(range(16)), APP_S_KEY)
    beta = replace(ALPHA, name="beta", dev_eui=Eui("70B3D57ED0000002"), session_keys=keys)

    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(10))
        await network.west.hears(uplink(3, keys=keys))
        await network.west.hears(uplink(11))

    network = serve(scenario, ALPHA, beta)
    assert network.application.ids == [
        "70B3D57ED0000001-01ABCDEF-10",
        "70B3D57ED0000002-01ABCDEF-3",
        "70B3D57ED0000001-01ABCDEF-11",
    ]


def test_an_entry_that_had_to_leave_is_told() -> None:
    async def scenario(network: Network) -> None:
        for f_cnt in (10, 11, 12):
            await network.west.hears(uplink(f_cnt))

    (evicted,) = serve(scenario, entries_max=2).evictions
    frame = parse(uplink(10))
    assert isinstance(frame, Data)
    assert evicted.key == f"70B3D57ED0000001:{frame.mic.hex().upper()}:10"
    assert evicted.silent_us == 2_000
