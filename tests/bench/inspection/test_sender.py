"""Who is to blame when a device does not send what it owes?"""

from typing import Any

import pytest

from bench.capture.reading import Event
from bench.inspection.gateway import UNKNOWN_AIR
from bench.inspection.known_device import KnownDevice, Session
from bench.inspection.sender import Senders
from bench.verdict.owner import Owner
from bench.virtual.lorawan.air_interface import Keys, Kind, data_frame, read_data
from bench.virtual.lorawan.channel_plan import EU868, US915, ChannelPlan
from bench.virtual.lorawan.join_frames import join_request, read_join_request
from tests.bench.inspection.test_gateway import Air

DEV_EUI, DEV_ADDR = "70B3D57ED0000001", "26000001"
KEYS = Keys(bytes(16), bytes(range(16)))
LINK_ADR_REQ = bytes.fromhex("035F070002")
CONFIRMED, UNCONFIRMED = Kind.CONFIRMED_DOWN, Kind.UNCONFIRMED_DOWN


def downlink(kind: Kind, port: int | None, f_opts: bytes) -> bytes:
    body = b"on" if port is not None else b""
    return data_frame(
        kind, DEV_ADDR, KEYS, 0, f_port=port, payload=body, f_opts=f_opts, ack=not port
    )


class Told:
    """What happens to one device, a second after the other; remembers what was found."""

    def __init__(
        self,
        dev_eui: str = DEV_EUI,
        *,
        rig: str = "",
        newest: int = 9,
        asks_at_lowest_dr: bool = True,
        lowers_data_rate: bool = False,
        air: Air | None = None,
        is_class_c: bool = False,
        plan: ChannelPlan = EU868,
    ) -> None:
        self.told_to_repeat: list[tuple[int, int]] = []
        session = Session(DEV_ADDR, KEYS, 0, f_cnt_up=newest)
        known = KnownDevice(
            DEV_EUI, bytes(16), [session], join_eui="0" * 16, counts_dev_nonces=True,
            asks_at_lowest_dr=asks_at_lowest_dr, is_class_c=is_class_c,
            lowers_data_rate=lowers_data_rate, told_to_repeat=self.told_to_repeat,
        )  # fmt: skip
        self._senders = Senders({DEV_EUI: known}, plan, air or UNKNOWN_AIR)
        self._dev_eui = dev_eui
        self._t_us = 0
        self._found: list[str] = []
        if rig:
            self._take(kind="case.begin", rig=rig)

    @property
    def found(self) -> list[str]:
        found = [*self._senders.end()]
        assert all(one.owner is Owner.DEVICE for one in found)
        return [*self._found, *(one.text.partition(": ")[2] for one in found)]

    def types(self, command: str, answer: str = "OK") -> "Told":
        return self._take(kind="device.command", text=command).says(answer)

    def waits(self, seconds: int) -> "Told":
        self._t_us += seconds * 1_000_000
        return self

    def is_told_to_repeat(self, nb_trans: int) -> "Told":
        """By nobody but its scenario."""
        self.told_to_repeat.append((self._t_us, nb_trans))
        return self

    def restarts(self, **facts: object) -> "Told":
        return self._take(kind="device.command", text="ATZ", **facts)

    def says(self, line: str) -> "Told":
        return self._take(kind="device.line", text=line)

    def hears(self, kind: Kind, *, port: int | None = 7, f_opts: bytes = b"") -> "Told":
        """A downlink, of which it says so where there is something to say."""
        self.is_sent(kind, port=port, f_opts=f_opts)
        return self.says(f"+EVT:RX_1:-84:12:UNICAST:{port}:6f6e" if port else "+EVT:TX_DONE")

    def is_sent(self, kind: Kind, *, port: int | None = 7, f_opts: bytes = b"") -> "Told":
        self._senders.handed_over(self._dev_eui, downlink(kind, port, f_opts), {})
        return self

    def is_on_air(self, *, port: int | None = 7, f_opts: bytes = b"") -> "Told":
        phy = downlink(UNCONFIRMED, port, f_opts).hex()
        facts = {"direction": "down", "dr": 5, "freq_hz": 868_100_000, "transmission": 7}
        return self._take(kind="radio.transmit", phy=phy, **facts)

    def sends(
        self,
        f_cnt: int,
        /,
        *,
        kind: Kind = Kind.UNCONFIRMED_UP,
        ack: bool = False,
        f_opts: bytes = b"",
        port: int = 2,
        keys: Keys = KEYS,
        origin: str = "device",
        session: int = 0,
        adr: bool = False,
        adr_ack_req: bool = False,
        dr: int = 5,
        freq_hz: int = 868_300_000,
        class_b: bool = False,
        **believed: object,
    ) -> "Told":
        phy = data_frame(
            kind, DEV_ADDR, keys, f_cnt, f_port=port, payload=b"21.5 C",
            f_opts=f_opts, ack=ack, adr=adr, bit_6=adr_ack_req, bit_4=class_b,
        )  # fmt: skip
        facts = {"f_cnt": f_cnt, "session": session, "origin": origin, "freq_hz": freq_hz}
        return self._transmits(phy, dr=dr, **{**facts, **believed})

    def joins(
        self,
        dev_nonce: int = 1,
        *,
        key: bytes = bytes(16),
        join_eui: str = "0" * 16,
        **believed: object,
    ) -> "Told":
        phy = join_request(key, join_eui=join_eui, dev_eui=DEV_EUI, dev_nonce=dev_nonce)
        return self._transmits(phy, **believed)

    def answered(
        self, *, late_us: int = 0, lost: bool = False, before: bool = False, f_opts: bytes = b""
    ) -> "Told":
        """A right acknowledgement is in RX1 of its newest frame, and ends 50 ms later."""
        phy = data_frame(UNCONFIRMED, DEV_ADDR, KEYS, 0, ack=True, f_opts=f_opts)
        opens_us = self._t_us + 50_000 + 1_000_000
        self._senders.handed_over(self._dev_eui, phy, {(5, 868_100_000): (opens_us,)})
        on_air = {"direction": "down", "dr": 5, "freq_hz": 868_100_000, "airtime_us": 50_000}
        facts = {"t_us": opens_us + late_us, "transmission": 7, **on_air}
        if before:
            early = {**facts, "t_us": opens_us - 100_000, "transmission": 6, "phy": "60"}
            self._take(kind="radio.transmit", **early)
        self._take(kind="radio.transmit", phy=phy.hex(), **facts)
        if lost:
            self._take(kind="radio.lost", receiver=DEV_EUI, transmission=7)
        self._t_us += 5_000_000
        return self

    def is_sent_at_once(self, *, lost: bool = False) -> "Told":
        """A right downlink goes to a device that always listens."""
        phy = downlink(UNCONFIRMED, 7, b"")
        self._senders.handed_over(self._dev_eui, phy, {(0, 869_525_000): ()})
        facts = {"direction": "down", "dr": 0, "freq_hz": 869_525_000, "transmission": 7}
        self._take(kind="radio.transmit", phy=phy.hex(), **facts)
        return self._take(kind="radio.lost", receiver=DEV_EUI, transmission=7) if lost else self

    def _transmits(self, phy: bytes, **facts: object) -> "Told":
        frame = read_data(phy) or read_join_request(phy)
        facts = {"frame_id": frame and frame.frame_id} | facts
        facts = {"direction": "up", "genuine": True, "origin": "device", "phy": phy.hex()} | facts
        return self._take(kind="radio.transmit", **facts)

    def _take(self, **fields: object) -> "Told":
        self._t_us += 1_000_000
        event: Event = {
            "t_us": self._t_us,
            "dev_eui": self._dev_eui,
            "airtime_us": 50_000,
            **fields,
        }
        self._found += [one.text.partition(": ")[2] for one in self._senders.take(event)]
        return self


def test_what_was_confirmed_is_acknowledged_by_the_next_frame() -> None:
    assert Told().hears(CONFIRMED).sends(10, ack=True).sends(11).found == []
    missing = "ACK: expected yes, observed no"
    assert Told().hears(CONFIRMED).sends(10).sends(11).found == [missing]
    assert Told().hears(UNCONFIRMED).sends(10).found == []
    assert Told().sends(9).hears(CONFIRMED).sends(9).sends(10, ack=True).found == []


def test_nobody_knows_whether_it_has_heard_what_it_does_not_speak_of() -> None:
    assert Told().is_sent(CONFIRMED).sends(10).sends(11, ack=True).found == []
    assert (
        Told().is_sent(CONFIRMED, port=8).says("+EVT:RX_1:-1:2:UNICAST:7:6f6e").sends(1).found == []
    )


def test_an_acknowledgement_of_nothing_is_none() -> None:
    surplus = ["ACK: expected no, observed yes"]
    assert Told().sends(10, ack=True).found == surplus
    assert Told().hears(CONFIRMED).sends(10, ack=True).sends(11, ack=True).found == surplus


@pytest.mark.parametrize("line", ['+MSG: PORT: 7; RX: "6F6E"', "+EVT:RX_C:-1:2:UNICAST:7:6f6e"])
def test_every_board_has_its_own_words_for_what_it_hears(line: str) -> None:
    assert Told().is_sent(CONFIRMED).says(line).sends(10).found == [
        "ACK: expected yes, observed no"
    ]


@pytest.mark.parametrize("line", ["+EVT:SEND_CONFIRMED_OK", "+CMSG: ACK Received"])
def test_who_was_acknowledged_has_heard_the_commands_beside_it(line: str) -> None:
    def asked() -> Told:
        return Told().is_sent(UNCONFIRMED, port=None, f_opts=LINK_ADR_REQ).says(line)

    assert asked().sends(10, f_opts=b"\x03\x07").found == []
    assert asked().sends(10).found == ["answer to LINK_ADR: expected one, observed none"]
    assert asked().sends(10, f_opts=b"\x03\x06").found == ["LinkADRAns: expected 07, observed 06"]


def test_an_answer_to_nothing_is_none() -> None:
    surplus = "answer to LINK_ADR: expected none: nobody has asked, observed one"
    assert Told().sends(10, f_opts=b"\x03\x07").found == [surplus]


def test_commands_are_whole() -> None:
    found = Told().sends(10, f_opts=b"\x06\x0a").found
    assert found == ["FOpts: expected whole commands of a device, observed 060a"]
    assert Told().sends(10, port=0).found == []


def test_what_was_typed_is_asked_with_the_next_frame() -> None:
    missing = ["LINK_CHECK: expected one: it was asked for at the console, observed none"]
    assert Told().types("AT+LINKCHECK=1").sends(10, f_opts=b"\x02").sends(11).found == []
    assert Told().types("AT+LINKCHECK=1").sends(10).found == missing
    assert Told().types("AT+LINKCHECK=1", "AT_BUSY_ERROR").sends(10).found == []
    assert Told().types("AT+LINKCHECK=1").types("ATZ").sends(10).found == []
    assert Told().types("AT+TIMEREQ=1").sends(10, f_opts=b"\x0d").found == []


def test_what_nobody_has_typed_is_not_asked() -> None:
    surplus = "LINK_CHECK: expected none: nobody has asked for it at the console, observed one"
    assert told_to_send(known()).sends(10, f_opts=b"\x02").found == [surplus]
    asked = told_to_send(known().types("AT+LINKCHECK=1"))
    assert told_to_send(asked.sends(10, f_opts=b"\x02")).sends(11).found == []
    kept = told_to_send(known().types("AT+LINKCHECK=1").types("ATZ", answer=""))
    assert kept.sends(1, f_opts=b"\x02").found == []


def test_a_frame_is_signed_with_the_key_and_the_counter_of_its_session() -> None:
    [found] = Told().sends(10, keys=Keys(bytes(range(16)), bytes(16))).found
    assert found.startswith("MIC: expected that of its session and FCnt 10, observed ")


def test_what_was_typed_or_heard_at_the_moment_of_a_frame_was_before_it() -> None:
    told = Told().is_sent(CONFIRMED).sends(10)
    told._t_us -= 1_000_000
    found = told.says("+EVT:RX_1:-84:12:UNICAST:7:6f6e").found
    assert found == ["ACK: expected yes, observed no"]


def test_whoever_is_not_heard_asks_for_a_sign_of_life() -> None:
    def unheard(frames: int) -> Told:
        told = Told()
        for f_cnt in range(frames):
            told.sends(f_cnt, adr=True)
        return told

    missing = ["ADRACKReq: expected yes: 64 frames unheard, observed no"]
    assert unheard(65).found == missing
    assert unheard(64).sends(64, adr=True, adr_ack_req=True).found == []
    assert unheard(64).sends(64).found == []
    assert unheard(64).is_sent(UNCONFIRMED).sends(64, adr=True).found == []


def test_at_its_lowest_data_rate_it_need_not_ask() -> None:
    """LoRaWAN 1.0.3, 4.3.1.1 forbids it; 1.0.4 does not."""

    def unheard(told: Told, dr: int) -> list[str]:
        for f_cnt in range(64):
            told_to_send(told).sends(f_cnt, adr=True, dr=dr)
        return told_to_send(told).sends(64, adr=True, dr=dr).found

    def simulated(*, asks: bool) -> Told:
        return Told(rig="simulated", newest=-1, asks_at_lowest_dr=asks).types("AT+ADR=1")

    missing = ["ADRACKReq: expected yes: 64 frames unheard, observed no"]
    assert unheard(Told(), 0) == []
    assert unheard(Told(), 1) == missing
    assert unheard(simulated(asks=True), 0) == missing
    assert unheard(simulated(asks=False), 0) == []
    assert unheard(simulated(asks=False), 1) == missing
    surplus = told_to_send(simulated(asks=False)).sends(0, adr=True, adr_ack_req=True, dr=0)
    assert surplus.found == ["ADRACKReq: expected no: 0 frames unheard, observed yes"]


def test_who_begins_again_owes_nothing() -> None:
    assert Told().sends(12).hears(CONFIRMED).sends(0).found == []
    assert Told().hears(CONFIRMED).joins().sends(1, session=1).found == []
    assert Told().hears(CONFIRMED).types("ATZ").sends(13).found == []


def test_nobody_else_is_looked_at() -> None:
    assert Told("70B3D57ED00000FF").is_sent(CONFIRMED).sends(10, ack=True).found == []
    assert Told().sends(10, ack=True, origin="injected").found == []


def known(newest: int = 9, **facts: Any) -> Told:
    """A device whose settings and counters are known from the first frame on."""
    return Told(rig="simulated", newest=newest, **facts)


def told_to_send(told: Told, payload: bytes = b"21.5 C", port: int = 2) -> Told:
    return told.types(f"AT+SEND={port}:{payload.hex().upper()}")


def test_it_sends_what_its_console_was_told() -> None:
    assert told_to_send(known()).sends(10).found == []
    assert told_to_send(known(), b"on").sends(10).found == [
        "payload: expected 6f6e, observed 32312e352043"
    ]
    assert told_to_send(known(), port=3).sends(10).found == ["FPort: expected 3, observed 2"]
    unasked = "frame: expected none: nobody has told it to send, observed one"
    assert known().sends(10).found == [unasked]
    assert known().types("AT+SEND=2:00", answer="AT_BUSY_ERROR").sends(10).found == [unasked]
    assert Told(rig="emulated").sends(10).found == []


def test_it_asks_for_an_acknowledgement_where_its_console_was_told_to() -> None:
    def told(setting: str) -> Told:
        return told_to_send(known().types(setting))

    assert told("AT+CFM=1").sends(10, kind=Kind.CONFIRMED_UP).found == []
    assert told("AT+CFM=1").sends(10).found == ["confirmed: expected yes, observed no"]
    surplus = "confirmed: expected no, observed yes"
    assert told("AT+CFM=0").sends(10, kind=Kind.CONFIRMED_UP).found == [surplus]
    assert told("AT+ADR=1").sends(10, adr=True).found == []
    assert told("AT+ADR=1").sends(10).found == ["ADR: expected yes, observed no"]


@pytest.mark.parametrize(
    ("second", "wrong"),
    [(11, []), (12, ["FCnt: expected 11, observed 12"]), (10, ["FCnt: expected 11, observed 10"])],
)
def test_a_new_message_has_the_next_counter(second: int, wrong: list[str]) -> None:
    assert told_to_send(told_to_send(known()).sends(10)).sends(second).found == wrong
    repeats = told_to_send(known().types("AT+RETY=1").types("AT+CFM=1"))
    for _ in range(2):
        repeats.sends(10, kind=Kind.CONFIRMED_UP).waits(3)
    assert repeats.found == []


@pytest.mark.parametrize(
    ("command", "f_cnt", "wrong"),
    [
        ("ATZ", 1, []),
        ("ATZ", 0, ["FCnt: expected 1, observed 0"]),
        ("ATZ", 11, ["FCnt: expected 1, observed 11"]),
        ("AT+JOIN", 11, []),
        ("AT+JOIN", 0, ["FCnt: expected 11 or 1, observed 0"]),
    ],
)
def test_who_has_lost_its_memory_counts_anew(command: str, f_cnt: int, wrong: list[str]) -> None:
    """And whoever may have begun again does so, or counts on."""
    begun = told_to_send(known()).sends(10).types(command, answer="")
    assert told_to_send(begun).sends(f_cnt).found == wrong


def test_counters_that_the_bench_has_used_are_skipped() -> None:
    crafted = told_to_send(known()).sends(10).sends(11, origin="injected")
    assert told_to_send(crafted).sends(12).found == []
    crafted = told_to_send(known()).sends(10).sends(11, origin="injected")
    assert told_to_send(crafted).sends(13).found == ["FCnt: expected 11, observed 13"]


@pytest.mark.parametrize(("nonce", "found"), [(6, 0), (5, 1), (4, 1)])
def test_dev_nonces_are_counted(nonce: int, found: int) -> None:
    wrong = [f"DevNonce: expected more than 5, observed {nonce}"] * found
    assert known().joins(5).joins(nonce).found == wrong
    assert [one[:4] for one in known().joins(5, key=bytes(range(16))).found] == ["MIC:"]
    other = "JoinEUI: expected 0000000000000000, observed 70B3D57ED0000000"
    assert known().joins(5, join_eui="70B3D57ED0000000").found == [other]


def test_a_sign_of_life_is_asked_for_after_64_frames_and_not_before() -> None:
    told = known(newest=-1).types("AT+ADR=1")
    for f_cnt in range(63):
        told_to_send(told).sends(f_cnt, adr=True)
    too_soon = told_to_send(told).sends(63, adr=True, adr_ack_req=True)
    assert too_soon.found == ["ADRACKReq: expected no: 63 frames unheard, observed yes"]


@pytest.mark.parametrize(
    ("slower_at", "wrong"),
    [
        (128, []),
        (127, ["data rate: expected 5, observed 4"]),
        (129, ["data rate: expected 4, observed 5"]),
    ],
)
def test_whom_nobody_answers_is_slower_with_its_129th_frame(
    slower_at: int, wrong: list[str]
) -> None:
    told = known(newest=-1).types("AT+ADR=1")
    for f_cnt in range(131):
        dr = 5 - (f_cnt >= slower_at)
        told_to_send(told).sends(f_cnt, adr=True, adr_ack_req=f_cnt >= 64, dr=dr)
    assert told.found[: len(wrong) or None] == wrong


@pytest.mark.parametrize(
    ("lowers", "drs", "wrong"),
    [
        (False, (5, 5, 5), []),
        (False, (5, 4, 5), ["data rate of its repetition: expected 5, observed 4"]),
        (True, (5, 5, 4), []),
        (True, (5, 5, 5), ["data rate of its repetition: expected 4, observed 5"]),
    ],
)
def test_a_repetition_is_as_fast_as_its_stack_has_it(
    lowers: bool, drs: tuple[int, ...], wrong: list[str]
) -> None:
    told = Told(rig="simulated", lowers_data_rate=lowers)
    told = told_to_send(told.types("AT+CFM=1").types("AT+RETY=2"))
    for dr in drs:
        told.sends(10, kind=Kind.CONFIRMED_UP, dr=dr).waits(3)
    assert told.found == wrong


def test_what_it_had_to_hear_is_a_sign_of_life() -> None:
    told = known(newest=-1).types("AT+ADR=1")
    for f_cnt in range(65):
        told_to_send(told).sends(f_cnt, adr=True, adr_ack_req=f_cnt == 64)
    asks = told_to_send(told.answered()).sends(65, adr=True, adr_ack_req=True)
    assert asks.found == ["ADRACKReq: expected no: 0 frames unheard, observed yes"]


def test_nobody_has_joined_without_an_accept() -> None:
    wrong = [
        "JOINED: expected after an accept: nothing came down since it asked, observed +EVT:JOINED"
    ]
    for dev_eui in (DEV_EUI, "70B3D57ED0000009"):
        assert Told(dev_eui, rig="simulated").joins().says("+EVT:JOINED").found[-1:] == wrong
    assert known().joins().is_sent_at_once().says("+EVT:JOINED").found == []
    spoke = told_to_send(known().joins().is_sent_at_once()).sends(1).says("+EVT:JOINED")
    assert not any("JOINED" in one for one in spoke.found)
    again = known().joins().is_sent_at_once().joins(2)
    again._t_us -= 1_000_000
    assert again.says("+EVT:JOINED").found == []


def test_it_tells_of_a_downlink_once() -> None:
    heard, done = "+EVT:RX_1:-84:12:UNICAST:7:6f6e", "+EVT:SEND_CONFIRMED_OK"
    told = told_to_send(known()).sends(10).is_sent(UNCONFIRMED).says(heard)
    assert told.found == []
    assert told.says(heard).found == ["downlinks that it tells of: expected 1 at most, observed 2"]
    none = told_to_send(known()).sends(10).says(done)
    assert none.found == ["acknowledgements that it tells of: expected 0 at most, observed 1"]


@pytest.mark.parametrize(
    ("line", "answer", "name"),
    [
        ("+EVT:TIMEREQ_OK", bytes.fromhex("0D0102030405"), "DEVICE_TIME"),
        ("+EVT:LINKCHECK:0:20:1:-84:12", bytes.fromhex("021401"), "LINK_CHECK"),
    ],
)
def test_it_tells_of_an_answer_that_was_handed_over(line: str, answer: bytes, name: str) -> None:
    wrong = f"{name} that it tells of: expected 0 at most, observed 1"
    assert known().says(line).found == [wrong]
    assert known().is_sent(UNCONFIRMED, port=None, f_opts=answer).says(line).found == []
    assert known().is_sent(UNCONFIRMED, port=0).says(line).found == []
    assert Told().says(line).found == []


def test_an_answer_is_given_as_often_as_it_was_asked_for() -> None:
    def asked() -> Told:
        told = Told().is_sent(UNCONFIRMED, port=None, f_opts=LINK_ADR_REQ)
        return told.says("+EVT:SEND_CONFIRMED_OK")

    twice = ["answers to LINK_ADR: expected 1 in all, observed 2"]
    assert asked().sends(10, f_opts=b"\x03\x07" * 2).found == twice
    assert asked().sends(10, f_opts=b"\x03\x07").sends(11, f_opts=b"\x03\x07").found == twice


def test_it_sends_on_its_channels_and_as_class_a() -> None:
    beside = "frequency: expected one of its channels, observed 868400000"
    assert told_to_send(known()).sends(10, freq_hz=868_400_000).found == [beside]
    beacons = "class B: expected no, observed yes"
    assert told_to_send(known()).sends(10, class_b=True).found == [beacons]
    assert Told().sends(10, freq_hz=868_400_000, class_b=True).found == []


def test_in_us915_its_channels_are_those_of_its_sub_band() -> None:
    def sends(freq_hz: int) -> list[str]:
        told = known(plan=US915)
        return told_to_send(told).sends(10, dr=3, freq_hz=freq_hz).found

    assert sends(903_900_000) == sends(904_600_000) == []
    beside = "frequency: expected one of its channels, observed 902300000"
    assert sends(902_300_000) == [beside]
    assert known(plan=US915).joins(freq_hz=902_300_000).found == [beside]
    assert known(plan=US915).joins(freq_hz=903_900_000).found == []


def test_what_is_in_its_window_is_heard() -> None:
    def sent() -> Told:
        return told_to_send(known().types("AT+CFM=1")).sends(10, kind=Kind.CONFIRMED_UP)

    failed = "+EVT:SEND_CONFIRMED_FAILED(4)"
    missed = f"downlink in its window: expected one that it hears, observed {failed}"
    again = "transmissions: expected no more: it was answered, observed one more"
    assert sent().answered().says(failed).found == [missed]
    answered = sent().types("AT+RETY=1").answered()
    assert answered.sends(10, kind=Kind.CONFIRMED_UP).found == [again]
    assert sent().says(failed).found == []
    for excuse in ({"late_us": 5_000}, {"lost": True}, {"before": True}):
        assert sent().answered(**excuse).says(failed).found == []
        excused = sent().types("AT+RETY=1").answered(**excuse)
        assert excused.sends(10, kind=Kind.CONFIRMED_UP).found == []


def test_what_was_asked_in_its_window_is_answered() -> None:
    missing = "answer to LINK_ADR: expected one, observed none"
    sent = told_to_send(known()).sends(10).answered(f_opts=LINK_ADR_REQ)
    assert told_to_send(sent).sends(11).found == [missing]
    lost = told_to_send(known()).sends(10).answered(f_opts=LINK_ADR_REQ, lost=True)
    assert told_to_send(lost).sends(11).found == []


def test_what_nobody_answers_is_repeated() -> None:
    def sent(times: int, after_s: int = 3) -> Told:
        told = told_to_send(known().types("AT+CFM=1").types("AT+RETY=2"))
        for _ in range(times):
            told.sends(10, kind=Kind.CONFIRMED_UP).waits(after_s)
        return told.says("+EVT:SEND_CONFIRMED_FAILED(4)")

    assert sent(3).found == []
    assert sent(4).found == ["transmissions: expected 3 at most, observed 4"]
    soon = "time of its repetition: expected 3000000 us after it at least, observed 2950000"
    assert sent(3, after_s=2).found == [soon, soon]
    assert sent(2).found == ["transmissions of its message: expected 3, observed 2"]


def test_what_asks_for_no_answer_is_sent_as_often_as_its_network_has_asked() -> None:
    def granted(times: int) -> Told:
        told = told_to_send(known().types("AT+ADR=1")).sends(10, adr=True)
        told = told_to_send(told.answered(f_opts=LINK_ADR_REQ))
        for _ in range(times):
            told.sends(11, adr=True, f_opts=b"\x03\x07")
        return told

    done = "+EVT:TX_DONE"
    assert granted(2).says(done).found == []
    assert granted(1).says(done).found == ["transmissions of its message: expected 2, observed 1"]
    assert granted(1).says("").answered().says(done).found == []
    assert Told().sends(10).says(done).found == []


def test_what_its_network_has_asked_is_over_when_it_joins() -> None:
    def joined(told: Told) -> list[str]:
        told = told_to_send(told.joins().is_sent_at_once().says("+EVT:JOINED"))
        return told.sends(1, session=1).sends(1, session=1).found[-1:]

    asked = (
        told_to_send(known().types("AT+ADR=1")).sends(10, adr=True).answered(f_opts=LINK_ADR_REQ)
    )
    assert joined(asked) == ["transmissions: expected 1 at most, observed 2"]
    assert joined(told_to_send(known().is_told_to_repeat(2)).sends(10)) == []


def test_what_a_scenario_tells_it_to_repeat_is_sent_as_often() -> None:
    def sent(times: int) -> Told:
        told = told_to_send(known().is_told_to_repeat(2))
        for _ in range(times):
            told.sends(10)
        return told.says("+EVT:TX_DONE")

    assert sent(2).found == []
    assert sent(1).found == ["transmissions of its message: expected 2, observed 1"]
    assert sent(3).found == ["transmissions: expected 2 at most, observed 3"]


def test_what_keeps_its_session_at_a_restart_counts_on() -> None:
    begun = told_to_send(told_to_send(known()).sends(10).restarts()).sends(1)
    assert begun.found == []
    kept = told_to_send(told_to_send(known()).sends(10).restarts(keeps="session"))
    assert kept.sends(1).found == ["FCnt: expected 11, observed 1"]


def test_what_has_joined_has_another_session() -> None:
    joined = told_to_send(known()).sends(10).joins().is_sent_at_once().says("+EVT:JOINED")
    same = "session: expected another one: it has joined since, observed 0"
    assert told_to_send(joined).sends(1).found == [same]
    joined = told_to_send(known()).sends(10).joins().says("+EVT:JOINED")
    assert same not in told_to_send(joined).sends(1, session=1).found


def test_what_is_on_the_air_is_what_it_believes_to_send() -> None:
    of_another = told_to_send(known()).sends(10, frame_id="another").found
    assert len(of_another) == 1 and of_another[0].startswith("octets: expected another, observed")
    cut = told_to_send(known()).sends(10, f_cnt=(1 << 16) + 11).found
    assert "FCnt on the air: expected 11, observed 10" in cut
    assert Told("70B3D57ED0000009", rig="simulated").joins(frame_id="of a stranger").found


@pytest.mark.parametrize(("power_dbm", "wrong"), [(16, False), (2, False), (1, True), (17, True)])
def test_it_sends_with_a_power_of_its_region(power_dbm: int, wrong: bool) -> None:
    found = told_to_send(known(air=Air(power=power_dbm))).sends(10).found
    assert found == [f"power: expected 2 to 16 dBm, observed {power_dbm} dBm"] * wrong


def test_what_always_listens_hears() -> None:
    def sent(*, is_class_c: bool = True, lost: bool = False, again: bool = False) -> Told:
        told = told_to_send(known(is_class_c=is_class_c)).sends(10).waits(5)
        told.is_sent_at_once(lost=lost)
        return told.is_sent_at_once(lost=lost) if again else told

    deaf = "downlink in its window: expected one that it hears, observed none"
    assert told_to_send(sent()).sends(11).found == [deaf]
    heard = sent().says("+EVT:RX_C:-84:12:UNICAST:7:6f6e")
    assert told_to_send(heard).sends(11).found == []
    for other in (sent(is_class_c=False), sent(lost=True)):
        assert told_to_send(other).sends(11).found == []
    once = sent().says("+EVT:RX_C:-84:12:UNICAST:7:6f6e").is_sent_at_once()
    assert told_to_send(once).sends(11).found == []


def test_what_a_device_owed_may_have_gone_with_a_frame_that_nobody_heard() -> None:
    assert Told().sends(10).hears(CONFIRMED, f_opts=LINK_ADR_REQ).sends(12).found == []
    asked = Told().sends(10).types("AT+LINKCHECK=1")
    assert asked.sends(12).found == []


def test_a_frame_that_is_told_of_late_is_not_looked_at_again() -> None:
    told = Told().sends(10).hears(CONFIRMED, f_opts=LINK_ADR_REQ)
    answer = {"ack": True, "f_opts": b"\x03\x07"}
    assert told.sends(11, **answer).sends(12).sends(11, **answer).sends(13).found == []


def test_a_downlink_is_heard_once() -> None:
    heard = "+EVT:RX_1:-84:12:UNICAST:7:6f6e"
    twice = "FCntDown: expected more than 0, observed 0"
    assert Told().hears(CONFIRMED).hears(CONFIRMED).sends(10, ack=True).found == [twice]
    again = Told().hears(CONFIRMED).sends(10, ack=True).is_sent(CONFIRMED)
    assert again.sends(11, ack=True).found == ["ACK: expected no, observed yes"]
    assert Told().is_sent(CONFIRMED).is_sent(CONFIRMED).says(heard).sends(10, ack=True).found == []


@pytest.mark.parametrize(
    ("margin", "wrong"), [(6, []), (7, []), (8, ["expected 6.5, observed 8"]), (-7 % 64, None)]
)
def test_it_tells_how_well_it_heard_the_question(margin: int, wrong: list[str] | None) -> None:
    """LoRaWAN 1.0.4, 5.5: the SNR of DevStatusReq."""

    def asked(snr_db: float | None) -> Told:
        told = Told(air=Air(signal=snr_db and (-80, snr_db)))
        told.is_sent(UNCONFIRMED, port=None, f_opts=b"\x06").is_on_air(port=None, f_opts=b"\x06")
        return told.sends(10, f_opts=bytes([6, 255, margin]))

    due = ["expected 6.5, observed -7"] if wrong is None else wrong
    assert asked(6.5).found == [f"margin of DevStatusAns: {one}" for one in due]
    assert asked(None).found == []


def test_a_virtual_board_knows_of_no_battery() -> None:
    """LoRaWAN 1.0.4, 5.5: 255 says so; a real board may have one."""

    def tells(battery: int, rig: str) -> Told:
        told = Told(rig=rig)
        told.is_sent(UNCONFIRMED, port=None, f_opts=b"\x06")
        return told_to_send(told).sends(10, f_opts=bytes([6, battery, 0]))

    wrong = "battery of DevStatusAns: expected 255, observed 90"
    assert tells(90, "simulated").found == [wrong]
    assert tells(255, "simulated").found == tells(90, "hardware").found == []


def test_what_was_asked_on_port_0_is_not_known() -> None:
    assert Told().sends(10).is_sent(UNCONFIRMED, port=0).sends(11, f_opts=b"\x03\x07").found == []
