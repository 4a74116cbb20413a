"""What RUI3 says of its joins and messages, and what is on the air meanwhile."""

import asyncio
from pathlib import Path

import pytest

from bench.virtual.air import Modulation
from lns.clock import now_us
from lns.lorawan.frame import Data, JoinRequest
from lns.lorawan.mac_commands import (
    DeviceTimeAns,
    LinkADRAns,
    LinkADRReq,
    LinkCheckAns,
    encode,
    parse_uplink,
)
from tests.bench.virtual.wiring import ABP, BANNER, OTAA, RUI4, RUI5, SOON, Desk, Scenes

JOIN = "AT+JOIN=1:0:8:0"
MISSED = b"+EVT:SEND_CONFIRMED_FAILED(4)\r\n"
READY = (*SOON, *ABP)


SCENES = Scenes()


@SCENES
async def join_and_messages_as_in_the_transcript(desk: Desk) -> None:
    gateway = await desk.gateway()
    board = await desk.board("dut", RUI5, *OTAA)
    assert await board.ask("AT+DEVADDR=?", b"OK\r\n") == "AT+DEVADDR=00000000\r\nOK\r\n"
    assert await board.ask(JOIN) == "OK\r\n"
    assert await board.ask("AT+SEND=2:01") == "AT_NO_NETWORK_JOINED\r\n"
    assert await board.until(b"JOINED\r\n") == b"+EVT:JOINED\r\n"
    assert await board.ask("AT+DEVADDR=?", b"OK\r\n") == "AT+DEVADDR=260B1234\r\nOK\r\n"
    key = gateway.keys.nwk_s_key.hex().upper()
    assert await board.ask("AT+NWKSKEY=?", b"OK\r\n") == f"AT+NWKSKEY={key}\r\nOK\r\n"
    assert await board.ask("AT+NETID=?", b"OK\r\n") == "AT+NETID=000013\r\nOK\r\n"
    await board.set("AT+CFM=1")
    assert await board.ask("AT+SEND=2:0102") == "OK\r\n"
    assert await board.ask("AT+SEND=2:01") == "AT_BUSY_ERROR\r\n"
    assert await board.until(b"OK\r\n", 2) == b"+EVT:SEND_CONFIRMED_OK\r\n"
    assert await board.ask("AT+CFS=?", b"OK\r\n") == "AT+CFS=1\r\nOK\r\n"
    await board.set("AT+CFM=0")
    gateway.answer = lambda frame: (1, gateway.down(f_port=10, payload=b"\xa1\xb2"))
    assert await board.ask("AT+SEND=2:0105") == "OK\r\n"
    line = b"+EVT:TX_DONE\r\n+EVT:RX_1:-44:12:UNICAST:10:a1b2\r\n"
    assert await board.until(b"a1b2\r\n") == line
    assert await board.ask("AT+RECV=?", b"OK\r\n") == "AT+RECV=10:A1B2\r\nOK\r\n"
    assert await board.ask("AT+RECV=?", b"OK\r\n") == "AT+RECV=0:\r\nOK\r\n"
    board.write(b"ATZ\r\n")
    await board.until(BANNER)
    assert await board.ask("AT+SEND=2:01") == "AT_NO_NETWORK_JOINED\r\n"


@SCENES
async def attempts_to_join_and_dev_nonces_of_both_stacks(desk: Desk) -> None:
    gateway = await desk.gateway()
    gateway.answer = lambda frame: None
    failed = b"+EVT:JOIN_FAILED_RX_TIMEOUT\r\n"
    new = await desk.board("dut", RUI5, *OTAA)
    await new.ask("AT+JOIN=1:0:7:1")  # one more attempt after seven seconds
    await new.until(failed)
    old = await desk.board("spare", RUI4, *OTAA)
    await old.ask(JOIN)
    await old.until(failed)
    await new.until(failed, 12)
    assert await old.quiet(0.1) == b""
    frames = [frame for frame in gateway.frames if isinstance(frame, JoinRequest)]
    assert [frames[0].dev_nonce, frames[2].dev_nonce] == [1, 2]
    assert frames[1].dev_nonce > 2  # drawn
    new.write(b"ATZ\r\n")
    await new.until(BANNER)
    await new.ask(JOIN)
    last = await gateway.heard(3)
    assert isinstance(last, JoinRequest) and last.dev_nonce == 3  # kept in flash


@SCENES
async def a_join_accept_with_a_wrong_mic(desk: Desk) -> None:
    gateway = await desk.gateway()
    gateway.answer = lambda frame: (
        (1, gateway.join_accept(frame)[:-1] + b"\0") if isinstance(frame, JoinRequest) else None
    )
    board = await desk.board("dut", RUI5, *OTAA)
    await board.ask(JOIN)
    assert await board.until(b"\r\n") == b"+EVT:JOIN_FAILED_7\r\n"
    assert await board.ask("AT+NJS=?", b"OK\r\n") == "AT+NJS=0\r\nOK\r\n"


@SCENES
async def auto_join_begins_with_the_boot(desk: Desk) -> None:
    await desk.gateway()
    board = await desk.board("dut", RUI5, *OTAA, "AT+JOIN=0:1:8:0")
    board.write(b"ATZ\r\n")
    assert await board.until(b"JOINED\r\n") == b"\r\n" + BANNER + b"+EVT:JOINED\r\n"


@SCENES
async def a_missed_acknowledgement_by_version(desk: Desk) -> None:
    """AT+RETY reaches the MAC of 4.1, and not that of 5.0."""
    gateway = await desk.gateway()
    gateway.answer = lambda frame: None
    new = await desk.board("dut", RUI5, *READY, "AT+CFM=1", "AT+RETY=1")
    old = await desk.board("spare", RUI4, *READY, "AT+CFM=1", "AT+RETY=1", "AT+DCS=0")
    begun = asyncio.get_running_loop().time()
    await new.ask("AT+SEND=2:0103")
    await asyncio.sleep(0.3)
    await old.ask("AT+SEND=2:0104")
    assert await new.until(MISSED) == MISSED
    took = asyncio.get_running_loop().time() - begun
    assert 3.0 < took < 6.5
    assert await old.until(MISSED) == MISSED
    assert len(gateway.raw) == 3 and len(set(gateway.raw)) == 2  # identical when repeated


@SCENES
async def too_long_a_payload_is_refused_and_an_empty_frame_goes_out(desk: Desk) -> None:
    gateway = await desk.gateway()
    board = await desk.board("dut", RUI5, *READY, "AT+CFM=1")
    assert await board.ask(f"AT+SEND=2:{'00' * 243}") == "AT_PARAM_ERROR\r\n"
    assert await board.until(b"\r\n") == b"+EVT:TX_DONE\r\n"
    frame = gateway.frames[0]
    assert isinstance(frame, Data)
    assert (frame.confirmed, frame.f_port, frame.frm_payload, frame.f_cnt) == (
        False, None, b"", 1,
    )  # fmt: skip
    await board.ask("AT+SEND=2:01")
    second = await gateway.heard(1)
    assert isinstance(second, Data) and second.f_cnt == 2


@SCENES
async def an_acknowledgement_in_rx2_and_a_forged_one(desk: Desk) -> None:
    gateway = await desk.gateway()
    board = await desk.board("dut", RUI5, *READY, "AT+CFM=1")
    gateway.answer = lambda frame: (2, gateway.down(ack=True))
    await board.ask("AT+SEND=2:01")
    assert await board.until(b"\r\n", 4) == b"+EVT:SEND_CONFIRMED_OK\r\n"
    gateway.answer = lambda frame: (1, gateway.down(ack=True)[:-1] + b"\0")
    await board.ask("AT+SEND=2:01")
    assert await board.until(b"\r\n", 7) == MISSED


@SCENES
async def a_window_is_open_for_25_ms_around_its_moment(desk: Desk) -> None:
    gateway = await desk.gateway()
    gateway.answer = lambda frame: None
    board = await desk.board("dut", RUI5, *READY)
    for number, (late_us, heard) in enumerate(((24_000, True), (-24_000, True), (27_000, False))):
        await board.ask("AT+SEND=2:01")
        await gateway.heard(number)
        up = gateway.emissions[number]
        gateway.send(
            gateway.down(f_port=3, payload=b"\1"),
            at_us=up.end_us + 1_000_000 + late_us,
            freq_hz=up.modulation.freq_hz,
            sf=7,
        )
        await board.until(b"+EVT:TX_DONE\r\n")
        assert (b"+EVT:RX_1:" in await board.quiet(0.1)) is heard


@SCENES
async def a_confirmed_downlink_makes_it_send_once_more_by_itself(desk: Desk) -> None:
    gateway = await desk.gateway()
    board = await desk.board("dut", RUI5, *READY)
    answers = [gateway.down(confirmed=True, f_port=3, payload=b"\1")]
    gateway.answer = lambda frame: (1, answers.pop()) if answers else None
    await board.ask("AT+SEND=2:01")
    await board.until(b"UNICAST:3:01\r\n")
    assert await board.ask("AT+SEND=2:01") == "AT_BUSY_ERROR\r\n"
    assert await board.until(b"\r\n") == b"+EVT:TX_DONE\r\n"
    own = gateway.frames[1]
    assert isinstance(own, Data)
    assert (own.ack, own.f_port, own.f_cnt) == (True, None, 2)


@SCENES
async def link_adr_is_granted_without_adr_and_only_done_with_it(desk: Desk) -> None:
    gateway = await desk.gateway()
    request = encode([LinkADRReq(dr=5, tx_power=1, ch_mask=7, nb_trans=2)])
    first = [True]
    gateway.answer = lambda frame: (
        (1, gateway.down(f_opts=request)) if first and first.pop() else None
    )
    board = await desk.board("dut", RUI5, *READY)
    await board.ask("AT+SEND=2:01")
    await board.until(b"+EVT:TX_DONE\r\n")
    await board.set("AT+ADR=1")
    first.append(True)
    await board.ask("AT+SEND=2:02")
    await board.until(b"+EVT:TX_DONE\r\n")
    await board.set("AT+CFM=1")
    await board.ask("AT+SEND=2:03")
    assert await board.until(b"\r\n", 12) == MISSED
    ignored, accepted, again = (f for f in gateway.frames[1:4] if isinstance(f, Data))
    assert parse_uplink(ignored.f_opts) == (LinkADRAns(),)
    assert parse_uplink(accepted.f_opts) == (LinkADRAns(),)
    assert again == accepted and len(gateway.frames) == 4


@SCENES
async def fixed_sessions_count_on_over_a_reset_until_they_are_written_anew(desk: Desk) -> None:
    gateway = await desk.gateway()
    board = await desk.board("dut", RUI5, *READY)
    board.write(b"ATZ\r\n")  # the counters begin anew with the boot after the identity was written
    await board.until(BANNER)
    assert await board.ask("AT+JOIN=1") == "OK\r\n"
    assert await board.quiet(0.1) == b""  # no event
    assert await board.ask("AT+NJS=?", b"OK\r\n") == "AT+NJS=1\r\nOK\r\n"
    await board.ask("AT+SEND=2:01")
    await board.until(b"+EVT:TX_DONE\r\n")
    board.write(b"ATZ\r\n")
    await board.until(BANNER)
    await board.ask("AT+SEND=2:02")
    await board.until(b"+EVT:TX_DONE\r\n")
    await desk.cut_power("dut")
    board = await desk.board("dut", RUI5, "AT+DEVADDR=260B1234")
    await board.ask("AT+SEND=2:03")
    await board.until(b"+EVT:TX_DONE\r\n")
    board.write(b"ATZ\r\n")
    await board.until(BANNER)
    await board.ask("AT+SEND=2:04")
    await gateway.heard(3)
    counters = [frame.f_cnt for frame in gateway.frames if isinstance(frame, Data)]
    assert counters == [1, 2, 3, 1]


@SCENES
async def a_radio_of_class_c_hears_rx2_at_any_time(desk: Desk) -> None:
    gateway = await desk.gateway()
    board = await desk.board("dut", RUI5, *READY)

    async def unasked() -> bytes:
        phy = gateway.down(f_port=4, payload=b"\xc0")
        gateway.send(phy, at_us=now_us() + 20_000, freq_hz=869_525_000, sf=12)
        return await board.quiet(1.5)

    assert await unasked() == b""
    await board.set("AT+CLASS=C")
    assert await unasked() == b"+EVT:RX_C:-44:12:UNICAST:4:c0\r\n"


@SCENES
async def the_time_is_asked_for_once_and_told(desk: Desk) -> None:
    gateway = await desk.gateway()
    gateway.answer = lambda frame: (
        1,
        gateway.down(f_opts=encode([DeviceTimeAns(1_479_175_218, 64)])),
    )
    board = await desk.board("dut", RUI5, *READY, "AT+TIMEREQ=1")
    await board.ask("AT+SEND=2:01")
    assert await board.until(b"TIMEREQ_OK\r\n") == b"+EVT:TX_DONE\r\n+EVT:TIMEREQ_OK\r\n"
    await board.ask("AT+SEND=2:02")
    assert await board.until(b"TX_DONE\r\n") == b"+EVT:TX_DONE\r\n"
    first, second = (frame for frame in gateway.frames[:2] if isinstance(frame, Data))
    assert (first.f_opts, second.f_opts) == (b"\x0d", b"")


@SCENES
async def mac_commands_are_answered_as_the_real_stack_does(desk: Desk) -> None:
    """LoRaMac-node 4.7, as it was seen: DR7 with default channels, an empty mask, a new channel."""
    gateway = await desk.gateway()
    requests = [
        encode([LinkADRReq(dr=7, tx_power=15, ch_mask=7)]),
        encode([LinkADRReq(dr=5, tx_power=15, ch_mask=0)]),
        bytes.fromhex("0703" + (867_100_000 // 100).to_bytes(3, "little").hex() + "50"),
        b"",
    ]
    gateway.answer = lambda frame: (1, gateway.down(f_opts=requests.pop(0))) if requests else None
    board = await desk.board("dut", RUI5, *READY, "AT+ADR=1")
    for _ in range(4):
        await board.ask("AT+SEND=2:01")
        await board.until(b"+EVT:TX_DONE\r\n")
    frames = [frame for frame in gateway.frames if isinstance(frame, Data)]
    assert [frame.f_opts.hex() for frame in frames] == ["", "0305", "0304", "0703"]


@SCENES
async def questions_to_the_server_and_what_debug_adds(desk: Desk) -> None:
    gateway = await desk.gateway()
    board = await desk.board("dut", RUI5, *READY, "AT+LINKCHECK=2", "AT+TIMEREQ=1")
    await board.ask("AT+SEND=2:01")
    assert await board.until(b"TIMEREQ_FAILED\r\n") == (
        b"+EVT:TX_DONE\r\n+EVT:LINKCHECK:1:0:0:0:0\r\n+EVT:TIMEREQ_FAILED\r\n"
    )
    asked = gateway.frames[0]
    assert isinstance(asked, Data) and asked.f_opts == b"\x02\x0d"
    answers = encode([LinkCheckAns(20, 2)])
    gateway.answer = lambda frame: (1, gateway.down(f_opts=answers))
    await board.set("AT+DEBUG=1")
    await board.ask("AT+SEND=2:01")
    said = (await board.until(b"LINKCHECK:0:20:2:-44:12\r\n")).decode()
    for line in ("FCntUp:3", "Receiving in RX_SLOT_WIN_1", "FCntDown:0"):
        assert f"{line}\r\n" in said


@SCENES
async def us915_uses_its_sub_band_and_other_windows(desk: Desk) -> None:
    gateway = await desk.gateway()
    gateway.answer = lambda frame: None
    board = await desk.board("dut", RUI5, "AT+BAND=5", "AT+MASK=0002", "AT+DR=3", *ABP)
    await board.set("AT+CFM=1", "AT+ADR=0")
    await board.ask("AT+SEND=2:01")
    await gateway.heard(0)
    up = gateway.emissions[0]
    assert up.modulation.freq_hz in range(903_900_000, 905_300_001, 200_000)
    wide = Modulation(freq_hz=923_300_000, sf=12, bw_hz=500_000, inverted=True)
    phy = gateway.down(ack=True)
    rx2_us = up.end_us + 2_000_000
    await asyncio.sleep((rx2_us - now_us()) / 1_000_000)
    gateway.line.transmit(phy, wide, power_dbm=26, crc=False, start_us=rx2_us)
    assert await board.until(b"\r\n") == b"+EVT:SEND_CONFIRMED_OK\r\n"


@SCENES
async def a_reset_in_the_middle_of_a_frame_spoils_it(desk: Desk) -> None:
    gateway = await desk.gateway()
    board = await desk.board("dut", RUI5, *READY, "AT+DR=0")
    await board.ask("AT+SEND=2:01")
    board.write(b"ATZ\r\n")
    await board.until(BANNER)
    assert await board.ask("AT+DR=5") == "OK\r\n"
    assert await board.quiet(1.2) == b""
    assert not gateway.frames


@SCENES
async def the_duty_cycle_is_kept_until_it_is_switched_off(desk: Desk) -> None:
    board = await desk.board("dut", RUI5, *READY, "AT+DCS=1")
    await board.ask("AT+SEND=2:01")
    await board.until(b"+EVT:TX_DONE\r\n")
    refused = await board.ask("AT+SEND=2:01", b"AT_BUSY_ERROR\r\n")
    assert refused.startswith("Restricted_Wait_") and refused.count("\r\n") == 2
    await board.set("AT+DCS=0")
    assert await board.ask("AT+SEND=2:01") == "OK\r\n"


@pytest.mark.parametrize("name", SCENES.names)
def test_scene(name: str, tmp_path: Path) -> None:
    SCENES.play_in_memory(name, tmp_path)
