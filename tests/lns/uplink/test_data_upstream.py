"""What an upstream that refuses, or takes its time, does to the frames on their way."""

from dataclasses import replace

import pytest

from lns.dedup.strategy import Strategy
from tests.lns.served_network import ALPHA, Network, serve, uplink, wait

FRAME = uplink(10, confirmed=True)
SECOND_US = 1_000_000


def test_a_refused_uplink_is_neither_forwarded_nor_acknowledged() -> None:
    async def scenario(network: Network) -> None:
        network.application.refusals = 1
        await network.west.hears(FRAME)

    network = serve(scenario)
    assert network.words == [
        ("west", "NonDuplicate", "dropped", "UpstreamUnavailable", "Suppressed")
    ]
    assert network.west.dnmsgs == []


@pytest.mark.parametrize("confirmed", [True, False], ids=["confirmed", "unconfirmed"])
def test_its_retry_is_the_first_copy_and_the_same_message(confirmed: bool) -> None:
    async def scenario(network: Network) -> None:
        network.application.refusals = 1
        await network.west.hears(uplink(10, confirmed=confirmed))
        await network.west.hears(uplink(10, confirmed=confirmed))

    network = serve(scenario)
    answer = "RX1" if confirmed else "NotAsked"
    assert network.words[1] == ("west", "NonDuplicate", "forwarded", "-", answer)
    assert [message.message_id for message in network.application.refused] == [
        "70B3D57ED0000001-01ABCDEF-10"
    ]
    assert network.application.ids == ["70B3D57ED0000001-01ABCDEF-10"]
    assert [frame.f_cnt for frame in network.west.answers] == ([0] if confirmed else [])


def test_a_refused_restart_is_undone_and_has_the_same_message_again() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(40))
        network.application.refusals = 1
        await network.west.hears(uplink(0))
        await network.west.hears(uplink(41))
        await network.west.hears(uplink(0))

    network = serve(scenario)
    assert network.application.refused[0].message_id == "70B3D57ED0000001-01ABCDEF.1-0"
    assert network.application.ids == [
        "70B3D57ED0000001-01ABCDEF-40",
        "70B3D57ED0000001-01ABCDEF-41",
        "70B3D57ED0000001-01ABCDEF.1-0",
    ]


@pytest.mark.parametrize("strategy", [Strategy.MARK, Strategy.NONE])
def test_a_refused_resubmission_does_not_count(strategy: Strategy) -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(FRAME)
        network.application.refusals = 1
        for _ in range(5):
            await network.west.hears(FRAME)

    network = serve(scenario, replace(ALPHA, strategy=strategy))
    assert [words[3:] for words in network.words] == [
        ("-", "RX1"),
        ("UpstreamUnavailable", "Suppressed"),
        *[("-", "RX1")] * 3,
        ("ResubmissionLimit", "Suppressed"),
    ]


def test_a_resubmission_refused_after_a_newer_frame_was_accepted_is_only_refused() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(FRAME)
        network.application.refusals = 1
        network.application.delays_us = [SECOND_US]
        await network.west.hears(FRAME)
        await network.west.hears(uplink(11))
        await wait(1)
        await network.west.hears(uplink(12))

    network = serve(scenario)
    assert [words[2:4] for words in network.words] == [
        ("forwarded", "-"),
        ("forwarded", "-"),
        ("dropped", "UpstreamUnavailable"),
        ("forwarded", "-"),
    ]


def test_a_newer_frame_keeps_its_counter_when_an_older_one_is_refused() -> None:
    async def scenario(network: Network) -> None:
        network.application.refusals = 1
        network.application.delays_us = [SECOND_US]
        await network.west.hears(uplink(10))
        await network.west.hears(uplink(11))
        await wait(1)
        await network.west.hears(uplink(11, payload=b"\x01"))

    assert serve(scenario).words[-1][3] == "InvalidFrameCounter"


@pytest.mark.parametrize("strategy", Strategy)
def test_a_copy_waits_while_the_first_is_on_its_way(strategy: Strategy) -> None:
    async def scenario(network: Network) -> None:
        network.application.delays_us = [300_000]
        await network.west.hears(FRAME)
        await network.east.hears(FRAME)
        assert network.words == []
        await wait(0.3)

    network = serve(scenario, replace(ALPHA, strategy=strategy))
    copy = {
        "Drop": ("Duplicate", "dropped", "Duplicate"),
        "Mark": ("SoftDuplicate", "marked", "-"),
        "None": ("SoftDuplicate", "forwarded", "-"),
    }[strategy]
    assert network.words == [
        ("west", "NonDuplicate", "forwarded", "-", "RX1"),
        ("east", *copy, "Suppressed"),
    ]


@pytest.mark.parametrize("strategy", Strategy)
def test_a_copy_takes_the_place_of_a_first_that_was_refused(strategy: Strategy) -> None:
    async def scenario(network: Network) -> None:
        network.application.refusals = 1
        network.application.delays_us = [300_000]
        await network.west.hears(FRAME)
        await network.east.hears(FRAME)
        await network.north.hears(FRAME)
        await wait(0.3)

    network = serve(scenario, replace(ALPHA, strategy=strategy))
    assert [words[:2] + words[4:] for words in network.words] == [
        ("west", "NonDuplicate", "Suppressed"),
        ("east", "NonDuplicate", "RX1"),
        ("north", "Duplicate" if strategy is Strategy.DROP else "SoftDuplicate", "Suppressed"),
    ]
    assert network.application.ids[0] == "70B3D57ED0000001-01ABCDEF-10"
    assert len(network.east.dnmsgs) == 1


def test_a_refusal_touches_no_frame_of_a_later_life() -> None:
    """Other bytes with an equal counter are the newest by then."""

    async def scenario(network: Network) -> None:
        network.application.refusals = 1
        network.application.delays_us = [SECOND_US]
        for f_cnt, confirmed in ((40, True), (41, False), (0, False), (40, False)):
            await network.west.hears(uplink(f_cnt, confirmed=confirmed))
        await wait(61)
        await network.west.hears(uplink(41))

    network = serve(scenario)
    first = "70B3D57ED0000001-01ABCDEF"
    expected = [f"{first}-41", f"{first}.1-0", f"{first}.1-40", f"{first}.1-41"]
    assert network.application.ids == expected


def test_a_copy_waits_also_for_other_bytes_with_an_equal_counter() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(10))
        network.application.refusals = 1
        network.application.delays_us = [SECOND_US]
        await network.west.hears(FRAME)
        await network.west.hears(FRAME)
        await wait(2)

    network = serve(scenario, replace(ALPHA, strategy=Strategy.DROP))
    assert network.words[1:] == [
        ("west", "NonDuplicate", "dropped", "UpstreamUnavailable", "Suppressed"),
        ("west", "NonDuplicate", "forwarded", "-", "RX2"),
    ]
    assert [message.confirmed for message in network.application.messages] == [False, True]


def test_every_copy_may_be_refused_in_its_turn() -> None:
    async def scenario(network: Network) -> None:
        network.application.refusals = 2
        network.application.delays_us = [300_000, 300_000]
        for station in (network.west, network.east, network.north):
            await station.hears(FRAME)
        await wait(0.7)

    assert [words[:4] for words in serve(scenario).words] == [
        ("west", "NonDuplicate", "dropped", "UpstreamUnavailable"),
        ("east", "NonDuplicate", "dropped", "UpstreamUnavailable"),
        ("north", "NonDuplicate", "forwarded", "-"),
    ]


def test_a_copy_is_a_copy_also_when_the_first_takes_longer_than_the_retention() -> None:
    async def scenario(network: Network) -> None:
        network.application.delays_us = [3 * SECOND_US]
        await network.west.hears(FRAME)
        await network.east.hears(FRAME)
        await wait(3)

    network = serve(scenario, replace(ALPHA, strategy=Strategy.DROP), retention_us=2 * SECOND_US)
    assert [words[1] for words in network.words] == ["NonDuplicate", "Duplicate"]


@pytest.mark.parametrize(
    ("delay_us", "answer"),
    [
        (599_000, "RX1"),
        (600_000, "RX1"),
        (600_001, "RX2"),
        (1_600_000, "RX2"),
        (1_600_001, "TooLate"),
    ],
)
def test_a_slow_upstream_moves_the_answer(delay_us: int, answer: str) -> None:
    async def scenario(network: Network) -> None:
        network.application.delays_us = [delay_us]
        await network.west.hears(FRAME)
        await wait(2)

    network = serve(scenario)
    assert network.words == [("west", "NonDuplicate", "forwarded", "-", answer)]
    assert len(network.west.dnmsgs) == (answer != "TooLate")


def test_an_answer_that_is_too_late_costs_no_downlink_counter() -> None:
    async def scenario(network: Network) -> None:
        network.application.delays_us = [2 * SECOND_US]
        await network.west.hears(FRAME)
        await wait(2)
        await network.west.hears(FRAME)

    network = serve(scenario)
    assert [words[4] for words in network.words] == ["TooLate", "RX1"]
    assert [frame.f_cnt for frame in network.west.answers] == [0]


@pytest.mark.parametrize(
    ("delay_us", "reason", "copy"),
    [
        (10 * SECOND_US, "UpstreamUnavailable", "NonDuplicate"),
        (10 * SECOND_US - 1, "-", "SoftDuplicate"),
    ],
)
def test_an_upstream_that_takes_longer_than_10_s_lets_the_next_copy_try(
    delay_us: int, reason: str, copy: str
) -> None:
    async def scenario(network: Network) -> None:
        network.application.delays_us = [delay_us]
        await network.west.hears(FRAME)
        await network.east.hears(FRAME)
        await wait(10)

    network = serve(scenario)
    assert [words[:2] + words[3:4] for words in network.words] == [
        ("west", "NonDuplicate", reason),
        ("east", copy, "-"),
    ]


@pytest.mark.parametrize("confirmed", [True, False], ids=["confirmed", "unconfirmed"])
@pytest.mark.parametrize("strategy", [Strategy.MARK, Strategy.NONE])
def test_a_newer_frame_makes_no_copy_old_that_waits_for_its_first_one(
    strategy: Strategy, confirmed: bool
) -> None:
    """It is judged by the session as it stood when its frame was heard."""

    async def scenario(network: Network) -> None:
        network.application.delays_us = [120_000]
        first = uplink(10, confirmed=confirmed)
        await network.west.hears(first)
        await network.east.hears(first)
        await network.west.hears(uplink(11))
        await network.north.hears(first)
        await wait(0.2)

    network = serve(scenario, replace(ALPHA, strategy=strategy))
    copies = sorted(words for words in network.words if words[1] == "SoftDuplicate")
    word = "marked" if strategy is Strategy.MARK else "forwarded"
    answer = "Suppressed" if confirmed else "NotAsked"
    assert copies == [(name, "SoftDuplicate", word, "-", answer) for name in ("east", "north")]
    keys = [message.remove_duplicates_key for message in network.application.messages]
    assert sorted(keys) == ["70B3D57ED0000001-01ABCDEF-10"] * 3 + ["70B3D57ED0000001-01ABCDEF-11"]
