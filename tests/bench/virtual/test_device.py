import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.clock import run
from bench.device.interfaces import Abp, CommandRefused, Otaa, Sent
from bench.virtual.air import Heard, Links, Medium
from bench.virtual.device import Asked, Settings, VirtualDevice
from bench.virtual.lorawan.air_interface import Cid, Command, Keys, Session
from bench.virtual.stacks import BASICS_MODEM, LORAMAC_44, LORAMAC_NODE, Stack
from lns.clock import now_us
from lns.lorawan.crypto import SessionKeys, derive_session_keys
from lns.lorawan.frame import (
    Data,
    DlSettings,
    JoinAcceptFields,
    JoinRequest,
    MType,
    build_data,
    build_join_accept,
    parse,
)
from lns.lorawan.identifiers import DevAddr, Eui
from lns.lorawan.mac_commands import (
    DeviceTimeAns,
    DevStatusAns,
    DevStatusReq,
    LinkADRAns,
    LinkADRReq,
    LinkCheckAns,
    MacCommand,
    encode,
    parse_uplink,
)
from lns.lorawan.region import EU868, US915, Region

DEV_EUI, STATION = Eui("70B3D57ED0000001"), Eui("B827EBFFFE000001")
DEV_ADDR = DevAddr("01ABCDEF")
KEYS = SessionKeys(bytes(range(16)), bytes(range(16, 32)))
APP_KEY = bytes(range(32, 48))
ABP = Abp(DEV_ADDR, KEYS)
OTAA = Otaa(Eui("70B3D57ED0000000"), APP_KEY)
ACK_AIRTIME_US = 41_216
RX2_OPEN_US = 228_008  # 6 symbols of SF12, and what it takes to notice


@dataclass(frozen=True)
class Plan:
    """How the server answers one transmission: when after its end, where, with what."""

    after_us: int = 1_000_000
    f_cnt: int | None = None
    freq_hz: int | None = None
    dr: int | None = None
    ack: bool = True
    port: int | None = None
    payload: bytes = b""
    commands: tuple[MacCommand, ...] = ()
    keys: SessionKeys = KEYS
    m_type: MType = MType.UNCONFIRMED_DOWN


@dataclass
class Server:
    """A station and a server in one: answers the n-th transmission as the n-th plan says."""

    medium: Medium
    plans: list[Plan | None]
    region: Region = EU868
    eui: Eui = STATION
    heard: list[Heard] = field(default_factory=list)
    f_cnt_down: int = 0

    def frame_heard(self, heard: Heard) -> None:
        self.heard.append(heard)
        plan = self.plans.pop(0) if self.plans else None
        if plan is not None:
            at_s = (heard.end_us + plan.after_us) / 1_000_000
            asyncio.get_running_loop().call_at(at_s, self.answer, heard, plan)

    def answer(self, heard: Heard, plan: Plan) -> None:
        f_cnt = self.f_cnt_down if plan.f_cnt is None else plan.f_cnt
        self.f_cnt_down += 1
        frame = parse(heard.transmission.phy)
        if isinstance(frame, JoinRequest):
            fields = JoinAcceptFields(
                join_nonce=f_cnt + 1,
                net_id="000013",
                dev_addr=DEV_ADDR,
                dl_settings=DlSettings(rx1_dr_offset=1, rx2_dr=3),
                rx_delay=2,
            )
            phy = build_join_accept(APP_KEY, fields)
        else:
            assert isinstance(frame, Data)
            phy = build_data(
                plan.m_type, dev_addr=frame.dev_addr, f_cnt=f_cnt, keys=plan.keys, ack=plan.ack,
                f_port=plan.port, payload=plan.payload, f_opts=encode(plan.commands),
            )  # fmt: skip
        up = heard.transmission
        dr, freq_hz = self.region.rx1(up.dr, up.freq_hz)
        self.medium.transmit(
            self.eui, phy, direction="down", power_dbm=16,
            freq_hz=freq_hz if plan.freq_hz is None else plan.freq_hz,
            dr=dr if plan.dr is None else plan.dr,
        )  # fmt: skip

    @property
    def frames(self) -> list[Data]:
        frames = [parse(heard.transmission.phy) for heard in self.heard]
        return [frame for frame in frames if isinstance(frame, Data)]


class Bench:
    """One device under one server, and what its console printed."""

    def __init__(
        self,
        *plans: Plan | None,
        activation: Abp | Otaa = ABP,
        stack: Stack = LORAMAC_NODE,
        region: Region = EU868,
        settings: Settings | None = None,
        seed: int = 1,
    ) -> None:
        self.lines: list[str] = []
        self.commands: list[str] = []
        self.air: list[dict[str, object]] = []
        medium = Medium(region, Links(), self.record)
        self.server = Server(medium, list(plans), region)
        medium.attach(self.server, hears="up")
        self.device = VirtualDevice(
            "alpha", DEV_EUI, activation, medium,
            seed=seed, record=self.record, stack=stack, settings=settings,
        )  # fmt: skip

    def record(self, source: str, kind: str, fields: dict[str, object]) -> None:
        if kind == "radio.transmit" and fields["direction"] == "up":
            self.air.append(fields)
        elif source == "device-alpha":
            assert fields["dev_eui"] == DEV_EUI
            sink = self.lines if kind == "device.line" else self.commands
            sink.append(str(fields["text"]))


def play(scene: Callable[[], Coroutine[object, object, Bench]]) -> Bench:
    return run(scene())


def sends(
    *plans: Plan | None, times: int = 1, confirmed: bool = True, **setup: object
) -> tuple[Bench, list[Sent]]:
    """A device that sends `times` messages one after the other."""
    sent: list[Sent] = []

    async def scene() -> Bench:
        bench = Bench(*plans, **setup)  # type: ignore[arg-type]
        while len(sent) < times:
            sent.append(await bench.device.send(b"\xc0\xff\xee", confirmed=confirmed))
        return bench

    return play(scene), sent


def test_an_unconfirmed_message_ends_when_rx2_has_closed() -> None:
    async def scene() -> Bench:
        bench = Bench()
        sent = await bench.device.send(b"\x01\x02", port=7)
        (transmission,) = sent.transmissions
        assert now_us() == transmission.end_us + 2_000_000 + RX2_OPEN_US
        return bench

    bench = play(scene)
    assert bench.commands == ["AT+SEND=7:0102"]
    assert bench.lines == ["OK", "+EVT:TX_DONE"]
    (frame,) = bench.server.frames
    assert (frame.f_cnt, frame.f_port, frame.confirmed) == (1, 7, False)
    assert frame.payload(KEYS, 1) == b"\x01\x02"
    assert frame.mic_is_valid(KEYS.nwk_s_key, 1)


def test_facts_of_a_transmission() -> None:
    bench, (sent,) = sends(None, settings=Settings(retries=1))
    assert sent.frame_id == f"{DEV_ADDR}:1:{sent.phy[-4:].hex().upper()}"
    facts = [
        {k: f[k] for k in ("sender", "dev_eui", "session", "f_cnt", "frame_id", "genuine")}
        for f in bench.air
    ]
    expected = {
        "sender": DEV_EUI, "dev_eui": DEV_EUI, "session": 0, "f_cnt": 1,
        "frame_id": sent.frame_id, "genuine": True,
    }  # fmt: skip
    assert facts == [expected, expected]
    assert [f["attempt"] for f in bench.air] == [1, 2]


@pytest.mark.parametrize("rx2", [False, True])
def test_an_acknowledgement_is_heard_in_either_window(rx2: bool) -> None:
    plan = Plan(after_us=2_000_000, freq_hz=869_525_000, dr=0) if rx2 else Plan()
    bench, (sent,) = sends(plan)
    assert sent.acknowledged
    assert bench.commands == ["AT+CFM=1", "AT+SEND=2:C0FFEE"]
    assert bench.lines == ["OK", "OK", "+EVT:SEND_CONFIRMED_OK"]


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from([1, 2]),
    st.sampled_from([-300_000, -20_001, -20_000, 0, 20_000, 20_001, 300_000]),
    st.sampled_from([868_100_000, 868_300_000, 868_500_000, 869_525_000]),
    st.sampled_from([0, 3, 5]),
)
def test_a_downlink_is_heard_only_where_the_device_listens(
    window: int, off_us: int, freq_hz: int, dr: int
) -> None:
    plan = Plan(after_us=window * 1_000_000 + off_us, freq_hz=freq_hz, dr=dr)
    _, (sent,) = sends(plan)
    # The model: RX1 as the uplink, RX2 fixed, each 20 ms around its opening.
    uplink = sent.transmissions[0]
    listens = (uplink.freq_hz, uplink.dr) if window == 1 else (869_525_000, 0)
    assert sent.acknowledged is (listens == (freq_hz, dr) and abs(off_us) <= 20_000)


def test_a_message_without_acknowledgement_fails_after_3_to_5_seconds() -> None:
    ends_us: list[int] = []

    async def scene() -> Bench:
        bench = Bench(seed=len(ends_us))
        sent = await bench.device.send(b"\x01", confirmed=True)
        assert not sent.acknowledged
        ends_us.append(now_us() - sent.transmissions[-1].end_us)
        return bench

    for _ in range(20):
        bench = play(scene)
        assert bench.lines[-1] == "+EVT:SEND_CONFIRMED_FAILED(4)"
    assert all(3_000_000 <= end_us <= 5_000_000 for end_us in ends_us)
    assert len(set(ends_us)) == 20


@pytest.mark.parametrize("stack", [LORAMAC_NODE, LORAMAC_44, BASICS_MODEM], ids=lambda s: s.name)
def test_a_repetition_is_the_same_frame_some_seconds_later(stack: Stack) -> None:
    bench, (sent,) = sends(stack=stack, settings=Settings(retries=7))
    assert len(sent.transmissions) == 8
    assert {transmission.phy for transmission in sent.transmissions} == {sent.phy}
    pairs = list(zip(sent.transmissions, sent.transmissions[1:], strict=False))
    waits_us = [second.start_us - first.end_us for first, second in pairs]
    assert all(3_000_000 <= wait_us <= 5_000_000 + RX2_OPEN_US for wait_us in waits_us)
    drs = [5, 5, 4, 4, 3, 3, 2, 2] if stack is LORAMAC_44 else [5] * 8
    assert [transmission.dr for transmission in sent.transmissions] == drs
    assert bench.lines.count("+EVT:SEND_CONFIRMED_FAILED(4)") == 1


def test_a_repetition_ends_with_the_acknowledgement() -> None:
    _, (first, second) = sends(None, Plan(), Plan(), times=2, settings=Settings(retries=3))
    assert (len(first.transmissions), len(second.transmissions)) == (2, 1)
    assert (first.f_cnt, second.f_cnt) == (1, 2)


def test_the_counter_moves_on_after_a_failure() -> None:
    _, sent = sends(times=3)
    assert [message.f_cnt for message in sent] == [1, 2, 3]


@pytest.mark.parametrize(("stack", "first"), [(LORAMAC_NODE, 1), (BASICS_MODEM, 0)])
def test_the_first_counter_of_a_session(stack: Stack, first: int) -> None:
    _, (sent,) = sends(stack=stack)
    assert sent.f_cnt == first


def test_a_repeated_down_counter_is_no_acknowledgement() -> None:
    _, (first, second, third) = sends(Plan(f_cnt=5), Plan(f_cnt=5), Plan(f_cnt=6), times=3)
    assert [s.acknowledged for s in (first, second, third)] == [True, False, True]


def test_a_lower_down_counter_is_refused_and_a_roll_over_is_not() -> None:
    _, sent = sends(Plan(f_cnt=65535), Plan(f_cnt=65534), Plan(f_cnt=65536), times=3)
    assert [message.acknowledged for message in sent] == [True, False, True]


def test_a_forged_downlink_is_no_acknowledgement() -> None:
    forged = Plan(keys=SessionKeys(bytes(16), bytes(16)))
    _, (sent,) = sends(forged)
    assert not sent.acknowledged


def test_a_downlink_without_ack_does_not_end_a_confirmed_message() -> None:
    data = Plan(ack=False, port=1, payload=b"\xaa\xbb")
    bench, (sent,) = sends(data, Plan(), settings=Settings(retries=2))
    assert sent.acknowledged
    assert len(sent.transmissions) == 2
    shown = ["OK", "OK", "+EVT:RX_1:-84:12:UNICAST:1:aabb", "+EVT:SEND_CONFIRMED_OK"]
    assert bench.lines == shown


def test_data_with_the_acknowledgement_is_shown_after_it() -> None:
    bench, _ = sends(Plan(port=9, payload=b"\x01", after_us=2_000_000, freq_hz=869_525_000, dr=0))
    assert bench.lines[-2:] == ["+EVT:SEND_CONFIRMED_OK", "+EVT:RX_2:-84:12:UNICAST:9:01"]


def test_unconfirmed_repetitions_end_with_any_downlink() -> None:
    setup = Settings(nb_trans=4)
    _, (sent,) = sends(None, Plan(ack=False), confirmed=False, settings=setup)
    assert len(sent.transmissions) == 2
    _, (sent,) = sends(confirmed=False, settings=setup)
    assert len(sent.transmissions) == 4


ADR_ON, ADR_OFF = Settings(adr=True), Settings(adr=False)


def test_link_adr_req_sets_the_repetitions_and_is_answered_in_the_next_frame() -> None:
    request = LinkADRReq(dr=4, tx_power=0, ch_mask=7, nb_trans=3)
    plan = Plan(commands=(request, DevStatusReq()))
    bench, sent = sends(plan, times=2, settings=ADR_ON)
    assert [len(message.transmissions) for message in sent] == [1, 3]
    assert sent[1].transmissions[0].dr == 4
    first, second = bench.server.frames[:2]
    assert (first.adr, first.f_opts) == (True, b"")
    assert parse_uplink(second.f_opts) == (LinkADRAns(), DevStatusAns(255, 12))


def test_without_adr_link_adr_req_is_granted_and_nothing_is_done() -> None:
    request = LinkADRReq(dr=4, tx_power=0, ch_mask=7, nb_trans=3)
    bench, sent = sends(Plan(commands=(request,)), times=2, settings=ADR_OFF)
    assert [len(message.transmissions) for message in sent] == [1, 1]
    assert [message.transmissions[0].dr for message in sent] == [5, 5]
    first, second = bench.server.frames
    assert not first.adr
    assert second.f_opts == bytes.fromhex("0307")


@pytest.mark.parametrize(
    ("setup", "request_", "answer"),
    [
        # As seen of LoRaMac-node 4.7: DR7 with the default channels, an empty mask.
        (ADR_ON, LinkADRReq(dr=7, tx_power=15, ch_mask=7), "0305"),
        (ADR_ON, LinkADRReq(dr=12, tx_power=15, ch_mask=7), "0305"),
        (ADR_ON, LinkADRReq(dr=5, tx_power=15, ch_mask=0), "0304"),
        (ADR_ON, LinkADRReq(dr=5, tx_power=15, ch_mask=0, ch_mask_cntl=6), "0307"),
        (ADR_ON, LinkADRReq(dr=15, tx_power=15, ch_mask=1), "0307"),
        (ADR_OFF, LinkADRReq(dr=7, tx_power=15, ch_mask=7), "0307"),
    ],
)
def test_link_adr_req_is_judged_part_by_part(
    setup: Settings, request_: LinkADRReq, answer: str
) -> None:
    bench, sent = sends(Plan(commands=(replace(request_, nb_trans=3),)), times=2, settings=setup)
    assert bench.server.frames[1].f_opts == bytes.fromhex(answer)
    repeats = setup.adr and answer == "0307"
    assert len(sent[1].transmissions) == (3 if repeats else 1)


def test_no_repetitions_are_one_transmission() -> None:
    request = LinkADRReq(dr=5, tx_power=15, ch_mask=7, nb_trans=0)
    setup = Settings(adr=True, nb_trans=2)
    _, sent = sends(Plan(commands=(request,)), times=2, settings=setup)
    assert len(sent[1].transmissions) == 1


@pytest.mark.parametrize(
    ("asks", "answer", "line"),
    [
        (Asked.DEVICE_TIME, DeviceTimeAns(1, 0), "+EVT:TIMEREQ_OK"),
        (Asked.DEVICE_TIME, None, "+EVT:TIMEREQ_FAILED"),
        (Asked.DEVICE_TIME, LinkCheckAns(17, 2), "+EVT:TIMEREQ_FAILED"),
        (Asked.LINK_CHECK, LinkCheckAns(17, 2), "+EVT:LINKCHECK:0:17:2:-84:12"),
        (Asked.LINK_CHECK, None, "+EVT:LINKCHECK:1:0:0:0:0"),
    ],
)
def test_what_a_device_asks_is_answered_at_once_or_not_at_all(
    asks: Asked, answer: MacCommand | None, line: str
) -> None:
    async def scene() -> Bench:
        bench = Bench(Plan(ack=False, commands=(answer,)) if answer else None)
        bench.device.ask(asks)
        await bench.device.send(b"\x01")
        await bench.device.send(b"\x02")
        return bench

    bench = play(scene)
    assert [frame.f_opts for frame in bench.server.frames] == [asks.command.octets, b""]
    assert bench.lines == ["OK", "OK", "+EVT:TX_DONE", line, "OK", "+EVT:TX_DONE"]


def test_a_confirmed_downlink_is_acknowledged_with_the_next_frame() -> None:
    bench, _ = sends(Plan(m_type=MType.CONFIRMED_DOWN), Plan(), times=3)
    assert [frame.ack for frame in bench.server.frames] == [False, True, False]


JOINED = ["OK", "+EVT:JOINED"]
JOIN_RX1 = Plan(after_us=5_000_000)
JOIN_RX2 = Plan(after_us=6_000_000, freq_hz=869_525_000, dr=0)


@pytest.mark.parametrize("plan", [JOIN_RX1, JOIN_RX2])
def test_a_device_joins_in_either_window(plan: Plan) -> None:
    async def scene() -> Bench:
        bench = Bench(plan, activation=OTAA)
        assert await bench.device.join()
        return bench

    bench = play(scene)
    assert bench.commands == ["AT+JOIN=1:0:8:0"]
    assert bench.lines == JOINED
    session, joining = bench.device.session, bench.device.last_join
    assert session is not None
    assert joining is not None
    assert joining.accepted
    assert joining.frame_id == "70B3D57ED0000000:70B3D57ED0000001:1"
    keys = derive_session_keys(APP_KEY, join_nonce=1, net_id="000013", dev_nonce=1)
    assert session.keys == Keys(keys.nwk_s_key, keys.app_s_key)
    settings = bench.device.settings
    assert (settings.rx1_delay_us, settings.rx1_dr_offset, settings.rx2_dr) == (2_000_000, 1, 3)


def test_the_receive_parameters_of_the_join_accept_are_used() -> None:
    async def scene() -> Bench:
        keys = derive_session_keys(APP_KEY, join_nonce=1, net_id="000013", dev_nonce=1)
        answer = Plan(after_us=2_000_000, dr=4, keys=keys)
        bench = Bench(JOIN_RX1, answer, activation=OTAA)
        await bench.device.join()
        sent = await bench.device.send(b"\x01", confirmed=True)
        assert sent.acknowledged
        assert (sent.session, sent.f_cnt) == (0, 1)
        return bench

    play(scene)


def test_a_join_without_answer_fails_and_the_next_has_a_new_nonce() -> None:
    async def scene() -> Bench:
        bench = Bench(None, Plan(after_us=4_000_000), JOIN_RX1, activation=OTAA)
        assert not await bench.device.join()
        assert not await bench.device.join()
        assert await bench.device.join()
        assert bench.device.dev_nonce == 3
        return bench

    failed = ["OK", "+EVT:JOIN_FAILED_RX_TIMEOUT"]
    assert play(scene).lines == [*failed, *failed, *JOINED]


def test_a_join_nonce_that_does_not_increase_fails_the_join() -> None:
    async def scene() -> Bench:
        plans = [replace(JOIN_RX1, f_cnt=f_cnt) for f_cnt in (4, 4, 3, 5)]
        bench = Bench(*plans, activation=OTAA)
        joined = [await bench.device.join() for _ in plans]
        assert joined == [True, False, False, True]
        return bench

    failed = ["OK", "+EVT:JOIN_FAILED_7"]
    assert play(scene).lines == [*JOINED, *failed, *failed, *JOINED]


def test_an_older_stack_takes_any_join_nonce() -> None:
    async def scene() -> Bench:
        plans = [replace(JOIN_RX1, f_cnt=f_cnt) for f_cnt in (4, 4, 3)]
        bench = Bench(*plans, activation=OTAA, stack=LORAMAC_44)
        assert all([await bench.device.join() for _ in plans])
        return bench

    play(scene)


def test_sessions_are_counted_from_zero() -> None:
    async def scene() -> Bench:
        bench = Bench(JOIN_RX1, None, JOIN_RX1, activation=OTAA)
        for session in (0, 1):
            await bench.device.join()
            assert (await bench.device.send(b"\x01")).session == session
        return bench

    play(scene)


def test_a_device_without_session_does_not_send() -> None:
    async def scene() -> Bench:
        bench = Bench(activation=OTAA)
        with pytest.raises(CommandRefused, match="AT_NO_NETWORK_JOINED"):
            await bench.device.send(b"\x01")
        return bench

    assert play(scene).air == []


def test_a_busy_device_refuses_the_second_message() -> None:
    async def scene() -> Bench:
        bench = Bench()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(bench.device.send(b"\x01"))
            await asyncio.sleep(0.5)
            with pytest.raises(CommandRefused, match="AT_BUSY_ERROR"):
                await bench.device.send(b"\x02")
        assert (await bench.device.send(b"\x03")).f_cnt == 2
        return bench

    play(scene)


def test_a_payload_too_long_is_refused() -> None:
    async def scene() -> Bench:
        bench = Bench(settings=Settings(dr=0))
        with pytest.raises(CommandRefused, match="AT_PARAM_ERROR"):
            await bench.device.send(bytes(52))
        return bench

    play(scene)


def test_a_restart_with_memory_goes_on() -> None:
    async def scene() -> Bench:
        bench = Bench()
        await bench.device.send(b"\x01")
        await bench.device.restart()
        assert (await bench.device.send(b"\x02")).f_cnt == 2
        return bench

    bench = play(scene)
    assert bench.commands[1] == "ATZ"
    assert bench.lines[2] == "Current Work Mode: LoRaWAN."


def test_a_fixed_session_without_memory_counts_anew() -> None:
    async def scene() -> Bench:
        bench = Bench()
        await bench.device.send(b"\x01")
        await bench.device.restart(memory=False)
        sent = await bench.device.send(b"\x02")
        assert (sent.f_cnt, sent.session) == (1, 0)
        return bench

    play(scene)


def test_a_joined_device_without_memory_joins_again() -> None:
    async def scene() -> Bench:
        bench = Bench(JOIN_RX1, JOIN_RX1, activation=OTAA)
        await bench.device.join()
        await bench.device.restart(memory=False)
        with pytest.raises(CommandRefused):
            await bench.device.send(b"\x01")
        await bench.device.join()
        assert bench.device.dev_nonce == 2
        return bench

    play(scene)


@pytest.mark.parametrize("after_s", [0.02, 1.0, 2.0, 3.9])
def test_a_restart_ends_what_is_under_way(after_s: float) -> None:
    async def scene() -> Bench:
        bench = Bench(settings=Settings(retries=3))
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(bench.device.send(b"\x01", confirmed=True))
            await asyncio.sleep(after_s)
            await bench.device.restart()
        sent = sending.result()
        assert not sent.acknowledged
        assert len(sent.transmissions) <= 2
        assert (await bench.device.send(b"\x02")).f_cnt == 2
        return bench

    assert "+EVT:SEND_CONFIRMED_FAILED(4)" not in play(scene).lines


def test_a_restart_ends_a_join() -> None:
    async def scene() -> Bench:
        bench = Bench(JOIN_RX1, activation=OTAA)
        async with asyncio.TaskGroup() as tasks:
            joining = tasks.create_task(bench.device.join())
            await asyncio.sleep(1)
            await bench.device.restart()
        assert not joining.result()
        return bench

    assert "+EVT:JOINED" not in play(scene).lines


def test_an_acknowledgement_longer_than_the_window_is_awaited() -> None:
    plan = Plan(after_us=2_000_000, freq_hz=869_525_000, dr=0)
    ended: list[int] = []

    async def scene() -> Bench:
        bench = Bench(plan)
        sent = await bench.device.send(b"\x01", confirmed=True)
        assert sent.acknowledged
        ended.append(now_us() - sent.transmissions[0].end_us)
        return bench

    play(scene)
    assert ended == [2_000_000 + 991_232]


def test_a_fixed_session_has_joined() -> None:
    async def scene() -> Bench:
        bench = Bench()
        assert await bench.device.join()
        return bench

    bench = play(scene)
    assert (bench.lines, bench.air) == (["OK"], [])


def test_a_join_accept_of_another_key_is_none() -> None:
    async def scene() -> Bench:
        bench = Bench(JOIN_RX1, activation=Otaa(OTAA.join_eui, bytes(16)))
        assert not await bench.device.join()
        return bench

    play(scene)


@pytest.mark.parametrize("phy", ["", "60efcdab01", "20" + "00" * 16, "40efcdab0100010000000000",
                                 "6000000000000100000000ff"])  # fmt: skip
def test_frames_for_nobody_or_another_device_are_not_believed(phy: str) -> None:
    async def scene() -> Bench:
        bench = Bench()
        session = bench.device.session
        assert session is not None
        assert session.believe(bytes.fromhex(phy)) is None
        return bench

    play(scene)


def test_answers_that_do_not_fit_fopts_are_left_out() -> None:
    session = Session(dev_addr=DEV_ADDR, keys=KEYS)
    session.answers = [Command(Cid.DEV_STATUS, b"\xff\x00")] * 6
    session.asked = [Command(Cid.LINK_CHECK)]
    frame = parse(session.uplink(b"", 2, confirmed=False, adr=True))
    assert isinstance(frame, Data)
    assert frame.f_opts == b"\x06\xff\x00" * 4 + b"\x02"
    assert (session.answers, session.asked) == ([], [])


def test_the_console_sets_retries() -> None:
    async def scene() -> Bench:
        bench = Bench()
        bench.device.set_retries(2)
        bench.device.set_nb_trans(2)
        assert len((await bench.device.send(b"\x01")).transmissions) == 2
        assert len((await bench.device.send(b"\x01", confirmed=True)).transmissions) == 3
        return bench

    assert play(scene).commands[0] == "AT+RETY=2"


def test_in_us915_a_device_uses_sub_band_2() -> None:
    _, sent = sends(Plan(), times=20, region=US915, settings=Settings(dr=3))
    freqs_hz = {message.transmissions[0].freq_hz for message in sent}
    assert freqs_hz <= {903_900_000 + 200_000 * n for n in range(8)}
    assert len(freqs_hz) > 4
    assert sent[0].acknowledged


def test_no_key_is_ever_told() -> None:
    bench, sent = sends(Plan())
    told = repr((bench.air, bench.lines, sent, ABP, OTAA, bench.device.session))
    for key in (KEYS.nwk_s_key, KEYS.app_s_key, APP_KEY):
        assert repr(key) not in told
        assert key.hex() not in told.lower()


def test_the_same_seed_gives_the_same_run() -> None:
    first, _ = sends(times=5, settings=Settings(retries=2))
    second, _ = sends(times=5, settings=Settings(retries=2))
    other, _ = sends(times=5, settings=Settings(retries=2), seed=2)
    assert first.air == second.air != other.air
