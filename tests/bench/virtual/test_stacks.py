"""What real stacks were seen to do, a virtual device does: situation by situation."""

from dataclasses import replace
from itertools import pairwise

import pytest

from bench.device.interfaces import Sent
from bench.virtual.device import Settings
from bench.virtual.stacks import BASICS_MODEM, LMIC, LORAMAC_44, LORAMAC_NODE, Stack
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.mac_commands import LinkADRReq, MacCommand, OtherCommand
from lns.lorawan.region import US915
from tests.bench.virtual.test_device import OTAA, RX2_OPEN_US, Bench, Plan, play, sends

FORGED = Plan(keys=SessionKeys(bytes(16), bytes(16)))
IN_RX2 = Plan(after_us=2_000_000, freq_hz=869_525_000, dr=0)
ADR = Settings(adr=True)


def distances_us(sent: Sent) -> list[int]:
    """From the end of each transmission to the beginning of the next."""
    return [second.start_us - first.end_us for first, second in pairwise(sent.transmissions)]


@pytest.mark.parametrize(
    ("stack", "first"), [(LORAMAC_NODE, 1), (LORAMAC_44, 1), (LMIC, 0), (BASICS_MODEM, 0)]
)
def test_the_first_counter(stack: Stack, first: int) -> None:
    _, (sent,) = sends(stack=stack)
    assert sent.f_cnt == first


def test_without_repetitions_a_lost_acknowledgement_is_not_tried_again() -> None:
    _, sent = sends(times=2)
    assert [len(message.transmissions) for message in sent] == [1, 1]
    assert [message.f_cnt for message in sent] == [1, 2]


def test_a_confirmed_message_is_repeated_after_3_to_5_seconds_with_its_data_rate() -> None:
    _, (sent,) = sends(settings=Settings(nb_trans=8))
    assert all(3_000_000 <= distance_us <= 5_000_000 for distance_us in distances_us(sent))
    assert len(set(distances_us(sent))) == 7
    assert {(one.phy, one.dr) for one in sent.transmissions} == {(sent.phy, 5)}


def test_an_unconfirmed_message_is_repeated_as_soon_as_rx2_has_closed() -> None:
    _, (sent,) = sends(confirmed=False, settings=Settings(nb_trans=5))
    assert distances_us(sent) == [2_000_000 + RX2_OPEN_US] * 4


@pytest.mark.parametrize(
    ("stack", "stays"), [(LORAMAC_NODE, True), (LORAMAC_44, True), (BASICS_MODEM, False)]
)
def test_the_channel_of_a_repetition_is_drawn(stack: Stack, stays: bool) -> None:
    _, (sent,) = sends(stack=stack, settings=Settings(nb_trans=15, retries=7))
    freqs_hz = [one.freq_hz for one in sent.transmissions]
    assert len(set(freqs_hz)) == 3
    on_the_same = [a == b for a, b in pairwise(freqs_hz)]
    assert any(on_the_same) is stays


@pytest.mark.parametrize(("stack", "seen_us", "dr"), [(LMIC, 5_950_000, 5), (LMIC, 130_700_000, 0)])
def test_lmic_repeats_when_its_duty_cycle_allows(stack: Stack, seen_us: int, dr: int) -> None:
    _, (sent,) = sends(stack=stack, settings=Settings(nb_trans=2, dr=dr))
    (distance_us,) = distances_us(sent)
    airtime_us = sent.transmissions[0].airtime_us
    usual_us = range(3_000_000, 5_000_000 + RX2_OPEN_US + 1)
    assert distance_us == 99 * airtime_us or distance_us in usual_us
    assert distance_us >= 99 * airtime_us
    assert 0.5 * seen_us < distance_us < 1.5 * seen_us


# --- a frame of somebody else in RX1


def test_after_a_foreign_frame_in_rx1_rx2_never_opens() -> None:
    _, (sent,) = sends(FORGED, IN_RX2, settings=Settings(nb_trans=2))
    first, second = sent.transmissions
    # The forged frame of 41 ms has just ended: seen were 1.055 s.
    assert second.start_us == first.end_us + 1_000_000 + 41_216


def test_after_a_foreign_frame_a_last_try_has_failed() -> None:
    bench, (sent,) = sends(FORGED)
    assert bench.lines[-1] == "+EVT:SEND_CONFIRMED_FAILED(4)"
    assert len(sent.transmissions) == 1


def test_lmic_opens_rx2_after_a_foreign_frame() -> None:
    _, (sent,) = sends(FORGED, stack=LMIC)
    (one,) = sent.transmissions
    _, (unheard,) = sends(stack=LMIC)
    assert one.end_us == unheard.transmissions[0].end_us


@pytest.mark.parametrize("nonce", [3, 4])
def test_a_join_accept_that_was_heard_before_keeps_rx2_closed(nonce: int) -> None:
    accept = Plan(after_us=5_000_000)

    async def scene() -> Bench:
        bench = Bench(replace(accept, f_cnt=4), replace(accept, f_cnt=nonce), activation=OTAA)
        assert await bench.device.join()
        assert not await bench.device.join()
        return bench

    assert play(scene).lines[-1] == "+EVT:JOIN_FAILED_7"


# --- MAC commands, as they are answered in the next uplink


def answers(*commands: MacCommand, setup: Settings = ADR, times: int = 2) -> list[str]:
    """FOpts of the uplinks after the first, which is answered by these commands."""
    bench, _ = sends(Plan(commands=commands), times=times, confirmed=False, settings=setup)
    return [frame.f_opts.hex() for frame in bench.server.frames[1:]]


RX_PARAM = OtherCommand(0x05, bytes.fromhex("13d2ad84"))
RX_TIMING = OtherCommand(0x08, b"\x03")
DL_CHANNEL = OtherCommand(0x0A, b"\x01" + (8_671_000).to_bytes(3, "little"))
NEW_CHANNEL = OtherCommand(0x07, b"\x03" + (8_671_000).to_bytes(3, "little") + b"\x50")


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (LinkADRReq(dr=4, tx_power=1, ch_mask=7, nb_trans=1), "0307"),
        (LinkADRReq(dr=7, tx_power=1, ch_mask=7), "0305"),
        (LinkADRReq(dr=4, tx_power=1, ch_mask=0), "0304"),
        (LinkADRReq(dr=4, tx_power=9, ch_mask=7), "0303"),
        (LinkADRReq(dr=4, tx_power=1, ch_mask=0x0F), "0304"),
        (LinkADRReq(dr=4, tx_power=1, ch_mask=7, ch_mask_cntl=3), "0304"),
        (LinkADRReq(dr=4, tx_power=1, ch_mask=0, ch_mask_cntl=6), "0307"),
        (NEW_CHANNEL, "0703"),
        (OtherCommand(0x07, b"\x00" + bytes(3) + b"\x50"), "0700"),
        (OtherCommand(0x07, b"\x03" + (9_900_000).to_bytes(3, "little") + b"\x50"), "0702"),
        (OtherCommand(0x07, b"\x03" + (8_671_000).to_bytes(3, "little") + b"\xf0"), "0701"),
        (RX_PARAM, "0507"),
        (OtherCommand(0x05, bytes.fromhex("73d2ad84")), "0503"),
        (RX_TIMING, "08"),
        (DL_CHANNEL, "0a03"),
        (OtherCommand(0x0A, b"\x05" + (8_671_000).to_bytes(3, "little")), "0a01"),
        (OtherCommand(0x04, b"\x00"), "04"),
    ],
)
def test_a_command_is_judged(command: MacCommand, answer: str) -> None:
    assert answers(command) == [answer]


def test_without_adr_all_is_granted_and_the_mask_alone_is_done() -> None:
    request = LinkADRReq(dr=0, tx_power=5, ch_mask=2, nb_trans=4)
    bench, sent = sends(Plan(commands=(request,)), times=6, confirmed=False)
    assert bench.server.frames[1].f_opts == bytes.fromhex("0307")
    assert [len(message.transmissions) for message in sent] == [1] * 6
    after = [message.transmissions[0] for message in sent[1:]]
    assert {(one.freq_hz, one.dr, one.power_dbm) for one in after} == {(868_300_000, 5, 14)}


def test_with_adr_all_is_done() -> None:
    request = LinkADRReq(dr=3, tx_power=5, ch_mask=5, nb_trans=0)
    _, sent = sends(Plan(commands=(request,)), times=8, confirmed=False, settings=ADR)
    after = [message.transmissions for message in sent[1:]]
    assert {len(tries) for tries in after} == {1}
    assert {(tries[0].dr, tries[0].power_dbm) for tries in after} == {(3, 6)}
    assert {tries[0].freq_hz for tries in after} == {868_100_000, 868_500_000}


def test_requests_that_follow_each_other_are_one() -> None:
    first = LinkADRReq(dr=1, tx_power=1, ch_mask=7, nb_trans=3)
    last = LinkADRReq(dr=4, tx_power=1, ch_mask=1)
    assert answers(first, last) == ["03070307"]
    assert answers(first, LinkADRReq(dr=7, tx_power=1, ch_mask=7)) == ["03050305"]


@pytest.mark.parametrize(
    ("command", "sticks"),
    [
        (RX_PARAM, True),
        (RX_TIMING, True),
        (DL_CHANNEL, True),
        (NEW_CHANNEL, False),
        (LinkADRReq(dr=5, tx_power=15, ch_mask=7), False),
    ],
)
def test_some_answers_are_repeated_until_a_downlink_comes(
    command: MacCommand, sticks: bool
) -> None:
    first, *others = answers(command, times=4)
    assert others == [first if sticks else ""] * 2


def test_a_downlink_ends_the_repeating() -> None:
    plans = Plan(commands=(RX_TIMING,)), None, Plan(after_us=3_000_000)
    bench, _ = sends(*plans, times=4, confirmed=False)
    assert [frame.f_opts.hex() for frame in bench.server.frames] == ["", "08", "08", ""]


def test_windows_are_where_the_network_has_put_them() -> None:
    new = RX_PARAM, RX_TIMING, DL_CHANNEL
    rx1 = Plan(after_us=3_000_000, dr=4)
    _, sent = sends(Plan(commands=new), *[rx1] * 9, times=10)
    heard = [(m.transmissions[0].freq_hz, m.acknowledged) for m in sent[1:]]
    # RX1 of the second channel is elsewhere now.
    assert {freq_hz for freq_hz, acknowledged in heard if not acknowledged} == {868_300_000}
    assert {freq_hz for freq_hz, acknowledged in heard if acknowledged} == {
        868_100_000,
        868_500_000,
    }
    rx2 = Plan(after_us=4_000_000, dr=3, freq_hz=869_525_000)
    _, sent = sends(
        Plan(commands=(OtherCommand(5, bytes.fromhex("13d2ad84")), RX_TIMING)), rx2, times=2
    )
    assert sent[1].acknowledged


def test_a_new_channel_is_used() -> None:
    _, sent = sends(Plan(commands=(NEW_CHANNEL,)), times=20, confirmed=False)
    assert 867_100_000 in {message.transmissions[0].freq_hz for message in sent}


def test_us915_is_masked_in_banks() -> None:
    sub_band_1 = LinkADRReq(dr=3, tx_power=15, ch_mask=0x00FF)
    bench, sent = sends(
        Plan(commands=(sub_band_1,)),
        times=20,
        confirmed=False,
        settings=Settings(dr=3, adr=True),
        region=US915,
    )
    assert bench.server.frames[1].f_opts == bytes.fromhex("0307")
    used = {message.transmissions[0].freq_hz for message in sent[1:]}
    assert used <= set(range(902_300_000, 903_900_000, 200_000))


# --- ADR back-off


def test_adr_asks_for_a_sign_of_life_and_then_goes_back() -> None:
    setup = Settings(adr=True, power_dbm=8)
    bench, sent = sends(Plan(), times=194, settings=setup)
    asks = [frame.adr_ack_req for frame in bench.server.frames]
    # The first was answered: uplinks without a downlink are counted from the second.
    assert asks.index(True) == 1 + 64
    assert all(asks[65:])
    used = [(m.transmissions[0].dr, m.transmissions[0].power_dbm) for m in sent]
    changes = [n for n in range(1, len(used)) if used[n] != used[n - 1]]
    assert changes == [1 + 96, 1 + 128, 1 + 160, 1 + 192]
    assert [used[n] for n in changes] == [(5, 16), (4, 16), (3, 16), (2, 16)]


@pytest.mark.parametrize("stack", [LORAMAC_NODE, LORAMAC_44], ids=lambda s: s.name)
def test_at_the_lowest_data_rate_an_older_stack_asks_nothing(stack: Stack) -> None:
    bench, _ = sends(times=66, stack=stack, confirmed=False, settings=Settings(adr=True, dr=0))
    asks = [frame.adr_ack_req for frame in bench.server.frames]
    assert any(asks) is stack.asks_at_lowest_dr
    assert not any(asks[:64])


def test_without_adr_nothing_is_asked() -> None:
    bench, sent = sends(times=130, confirmed=False)
    assert not any(frame.adr_ack_req for frame in bench.server.frames)
    assert {message.transmissions[0].dr for message in sent} == {5}


def test_a_downlink_ends_the_asking() -> None:
    plans = [Plan(), *[None] * 64, Plan()]
    bench, _ = sends(*plans, times=68, settings=ADR)
    assert [frame.adr_ack_req for frame in bench.server.frames][64:] == [False, True, False, False]
