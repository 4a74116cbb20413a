"""Who is to blame when a device does not send what it owes?"""

from dataclasses import replace

import pytest

from bench.capture.reading import Event
from bench.inspection.downlink import KnownDevice, Session
from bench.inspection.sender import Gateways, Senders
from bench.verdict.owner import Owner, Scrutiny
from bench.verdict.wire import Uplink
from bench.virtual.lorawan.air_interface import Keys, Kind, data_frame, read_data
from bench.virtual.lorawan.channel_plan import EU868

DEV_EUI, DEV_ADDR = "70B3D57ED0000001", "26000001"
KEYS = Keys(bytes(16), bytes(range(16)))
LINK_ADR_REQ = bytes.fromhex("035F070002")
CONFIRMED, UNCONFIRMED = Kind.CONFIRMED_DOWN, Kind.UNCONFIRMED_DOWN


class Told:
    """What happens to one device, a second after the other; remembers what was found."""

    def __init__(self, dev_eui: str = DEV_EUI) -> None:
        known = KnownDevice(DEV_EUI, bytes(16), [Session(DEV_ADDR, KEYS, 0)])
        self._senders = Senders({DEV_EUI: known}, EU868)
        self._dev_eui = dev_eui
        self._t_us = 0
        self._found: list[str] = []

    @property
    def found(self) -> list[str]:
        found = [*self._senders.end()]
        assert all(one.owner is Owner.DEVICE for one in found)
        return [*self._found, *(one.text.partition(": ")[2] for one in found)]

    def types(self, command: str, answer: str = "OK") -> "Told":
        return self._take(kind="device.command", text=command).says(answer)

    def says(self, line: str) -> "Told":
        return self._take(kind="device.line", text=line)

    def hears(self, kind: Kind, *, port: int | None = 7, f_opts: bytes = b"") -> "Told":
        """A downlink, of which it says so where there is something to say."""
        self.is_sent(kind, port=port, f_opts=f_opts)
        return self.says(f"+EVT:RX_1:-84:12:UNICAST:{port}:6f6e" if port else "+EVT:TX_DONE")

    def is_sent(self, kind: Kind, *, port: int | None = 7, f_opts: bytes = b"") -> "Told":
        body = b"on" if port else b""
        ack = not port
        phy = data_frame(kind, DEV_ADDR, KEYS, 0, f_port=port, payload=body, f_opts=f_opts, ack=ack)
        self._senders.handed_over(self._dev_eui, phy)
        return self

    def sends(
        self,
        f_cnt: int,
        *,
        ack: bool = False,
        f_opts: bytes = b"",
        port: int = 2,
        keys: Keys = KEYS,
        origin: str = "device",
        session: int = 0,
        adr: bool = False,
        adr_ack_req: bool = False,
    ) -> "Told":
        phy = data_frame(
            Kind.UNCONFIRMED_UP, DEV_ADDR, keys, f_cnt, f_port=port, payload=b"21.5 C",
            f_opts=f_opts, ack=ack, adr=adr, bit_6=adr_ack_req,
        )  # fmt: skip
        return self._transmits(phy, f_cnt=f_cnt, session=session, origin=origin)

    def joins(self) -> "Told":
        return self._transmits(bytes(23))

    def _transmits(self, phy: bytes, **facts: object) -> "Told":
        facts = {"direction": "up", "genuine": True, "origin": "device", "phy": phy.hex()} | facts
        return self._take(kind="radio.transmit", **facts)

    def _take(self, **fields: object) -> "Told":
        self._t_us += 1_000_000
        event: Event = {"t_us": self._t_us, "dev_eui": self._dev_eui, **fields}
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


def test_who_begins_again_owes_nothing() -> None:
    assert Told().sends(12).hears(CONFIRMED).sends(0).found == []
    assert Told().hears(CONFIRMED).joins().sends(1, session=1).found == []
    assert Told().hears(CONFIRMED).types("ATZ").sends(13).found == []


def test_nobody_else_is_looked_at() -> None:
    assert Told("70B3D57ED00000FF").is_sent(CONFIRMED).sends(10, ack=True).found == []
    assert Told().sends(10, ack=True, origin="injected").found == []


PHY = bytes.fromhex("4001000026000A0002B12D79F6271B6F918F42")
FRAME = read_data(PHY)
assert FRAME is not None
CHECK = Scrutiny(rule="reception", of="frame", t_us=0)
SESSION = 0xAB << 48
SECOND_US = 1_000_000
HEARD = Uplink(
    station="west", t_us=0, held_us=0, phy=PHY, frame=FRAME, xtime=SESSION | 7_000_000, rctx=0,
    dr=5, freq_hz=868_100_000, rssi=-80, snr=7,
)  # fmt: skip
SENT = {"t_us": SECOND_US, "airtime_us": 50_000, "dr": 5, "freq_hz": 868_100_000}


def found(
    *heard: tuple[Uplink, int], rig: str = "simulated", fault: str | None = None
) -> list[str]:
    """What is wrong with what was heard so many microseconds after the first frame."""
    gateways = Gateways(rig=rig)
    all_found = []
    for uplink, later_us in heard:
        sent = SENT | {"t_us": SENT["t_us"] + later_us}
        all_found += gateways.heard(uplink, sent, CHECK)
    assert all(one.owner is Owner.GATEWAY for one in all_found)
    return [one.text.removeprefix("frame: ") for one in all_found]


def after(us: int) -> Uplink:
    counter_us = (HEARD.xtime + us) % (1 << 48)
    return replace(HEARD, xtime=SESSION | counter_us)


def test_it_tells_the_channel_and_the_data_rate() -> None:
    assert found((HEARD, 0)) == []
    assert found((replace(HEARD, dr=4), 0)) == ["DR: expected 5, observed 4"]
    other = replace(HEARD, freq_hz=868_300_000)
    assert found((other, 0)) == ["Freq: expected 868100000, observed 868300000"]


def test_its_clock_goes_as_time_does() -> None:
    assert found((HEARD, 0), (after(60 * SECOND_US + 3_000), 60 * SECOND_US)) == []
    wrong = "xtime: expected 60000000 us after the first, observed 60010000 us"
    assert found((HEARD, 0), (after(60 * SECOND_US + 10_000), 60 * SECOND_US)) == [wrong]
    assert found((HEARD, 0), (after(60 * SECOND_US + 10_000), 60 * SECOND_US), rig="emulated") == []
    assert len(found((HEARD, 0), (after(-SECOND_US), SECOND_US))) == 1
    assert found((after(SECOND_US), SECOND_US), (HEARD, 0)) == []  # it was held


def test_its_counter_begins_again_behind_its_end() -> None:
    end = replace(HEARD, xtime=SESSION | ((1 << 48) - 1_000))
    assert found((end, 0), (replace(HEARD, xtime=SESSION | 999_000), SECOND_US)) == []


def test_nobody_compares_the_clocks_of_two_lives() -> None:
    other = replace(HEARD, xtime=0xAC << 48 | 5)
    assert found((HEARD, 0), (other, SECOND_US)) == []
    assert found((replace(HEARD, xtime=0), 0), (replace(HEARD, xtime=0), SECOND_US)) == []
    gateways = Gateways(rig="simulated")
    assert not [*gateways.heard(HEARD, SENT, CHECK)]
    gateways.connected("west")
    assert not [*gateways.heard(HEARD, SENT | {"t_us": 2 * SECOND_US}, CHECK)]


def test_for_what_the_bench_said_in_its_name_it_is_not_blamed() -> None:
    assert found((replace(HEARD, dr=4, injected=True), 0)) == []


def test_in_a_lab_a_second_radio_may_have_sent_a_frame_again() -> None:
    assert found((replace(HEARD, dr=4), 0), (after(0), SECOND_US), rig="hardware") == []
