"""Who is to blame when a station tells of a frame otherwise than it was on the air?"""

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

from bench.inspection.gateway import Gateways
from bench.inspection.station import Orders, StationTime
from bench.verdict.owner import Owner, Scrutiny
from bench.verdict.wire import Uplink, reception_in
from bench.virtual.lorawan.air_interface import read_data
from bench.virtual.lorawan.channel_plan import EU868

PHY = bytes.fromhex("4001000026000A0002B12D79F6271B6F918F42")
FRAME = read_data(PHY)
assert FRAME is not None
CHECK = Scrutiny(rule="reception", of="frame", t_us=0)
SESSION = 0xAB << 48
SECOND_US = 1_000_000
HEARD = Uplink(
    station="west", t_us=0, held_us=0, phy=PHY, frame=FRAME, xtime=SESSION | 7_000_000, rctx=0,
    dr=5, freq_hz=868_100_000, rssi=-80.0, snr=7.0,
)  # fmt: skip
SENT = {"t_us": SECOND_US, "airtime_us": 50_000, "dr": 5, "freq_hz": 868_100_000}


@dataclass(frozen=True)
class Air:
    """Every transmission is sent and heard with this, by two antennas if `other` is given."""

    power: int | None = None
    signal: tuple[int, float] | None = None
    other: tuple[int, float] | None = None

    def power_dbm(self, transmission: int) -> int | None:
        return self.power

    def strength(self, transmission: int, receiver: str, antenna: int) -> tuple[int, float] | None:
        return (self.signal, self.other, None)[antenna]


def gateways_on(rig: str, *, air: Air | None = None) -> Gateways:
    return Gateways(Orders(EU868), StationTime(rig), air or Air())


def found(*heard: tuple[Uplink, int], rig: str = "simulated") -> list[str]:
    """What is wrong with what was heard so many microseconds after the first frame."""
    gateways = gateways_on(rig)
    all_found = []
    for uplink, later_us in heard:
        sent = SENT | {"t_us": SENT["t_us"] + later_us}
        all_found += gateways.heard(uplink, sent, CHECK)
    assert all(one.owner is Owner.GATEWAY for one in all_found)
    return [one.text.removeprefix("frame: ") for one in all_found]


def version(**fields: object) -> dict[str, Any]:
    return {"station": "west", "t_us": 0, **fields}


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
    held = replace(after(SECOND_US), held_us=1)
    assert found((held, SECOND_US), (HEARD, 0)) == []


def test_its_counter_begins_again_behind_its_end() -> None:
    end = replace(HEARD, xtime=SESSION | ((1 << 48) - 1_000))
    assert found((end, 0), (replace(HEARD, xtime=SESSION | 999_000), SECOND_US)) == []


def test_nobody_compares_the_clocks_of_two_lives() -> None:
    assert found((replace(HEARD, xtime=0), 0), (replace(HEARD, xtime=0), SECOND_US)) == []
    gateways = gateways_on("simulated")
    assert not [*gateways.heard(HEARD, SENT, CHECK)]
    gateways.introduced(version(link=2))
    assert not [*gateways.heard(HEARD, SENT | {"t_us": 2 * SECOND_US}, CHECK)]


def test_it_introduces_itself_once_on_each_connection() -> None:
    gateways = gateways_on("simulated")
    for link in (1, 2, 9):
        gateways.introduced(version(link=link))
    gateways.introduced(version(origin="injected"))
    assert not [*gateways.unsaid(0, {})]
    gateways.introduced(version())
    assert [one.text for one in gateways.unsaid(0, {})] == [
        "version of west: times: expected once on each connection, observed again"
    ]


def test_it_is_owed_a_configuration_for_each_time_it_introduces_itself() -> None:
    gateways = gateways_on("simulated")
    assert gateways.configures("west")  # it came before the case began
    assert not gateways.configures("west")
    gateways.introduced(version(link=1))
    gateways.introduced(version())
    assert [gateways.configures("west") for _ in range(3)] == [True, True, False]
    gateways.introduced(version(link=2))
    gateways.introduced(version(link=3))  # the link before had ended too soon
    assert [gateways.configures("west") for _ in range(2)] == [True, False]


@pytest.mark.parametrize(
    ("other", "rctx"), [((-80, 7), None), ((-80, 6.75), None), ((-80, 7.25), 1), ((-79, 7), 1)]
)
def test_of_two_antennas_it_tells_the_better(other: tuple[int, float], rctx: int | None) -> None:
    gateways = gateways_on("simulated", air=Air(signal=(-80, 7), other=other))
    wrong = [one.text for one in gateways.heard(HEARD, SENT, CHECK)]
    assert wrong == [f"frame: rctx: expected {rctx}, observed 0"] * (rctx is not None)


def test_for_what_the_bench_said_in_its_name_it_is_not_blamed() -> None:
    assert found((replace(HEARD, dr=4, injected=True), 0)) == []


def test_in_a_lab_a_second_radio_may_have_sent_a_frame_again() -> None:
    assert found((replace(HEARD, dr=4), 0), (after(0), SECOND_US), rig="hardware") == []


def as_loud(rssi_dbm: int, snr_db: float) -> list[str]:
    """What is wrong where the air has given a station this, and it tells of -80 dBm and 7 dB."""
    gateways = gateways_on("simulated", air=Air(signal=(rssi_dbm, snr_db)))
    return [one.text.removeprefix("frame: ") for one in gateways.heard(HEARD, SENT, CHECK)]


def test_it_tells_how_strong_the_frame_was() -> None:
    assert as_loud(-80, 7) == []
    assert as_loud(-83, 7) == ["rssi: expected -83.0, observed -80.0"]
    assert as_loud(176, 71) == []  # one octet, and one of quarters
    assert as_loud(-80, -7) == ["snr: expected -7.0, observed 7.0"]


Happened = tuple[int, str, dict[str, object]]


def unsaid(*events: Happened, until_s: int, rig: str = "simulated") -> str:
    gateways = gateways_on(rig)
    handed = {"station": "west", "t_us": 0}
    windows = {(5, 868_100_000): (SECOND_US,)}
    gateways.handed_over(handed, {"diid": 7, "pdu": "60"}, windows, None)
    for at_s, kind, facts in events:
        gateways.take({"t_us": at_s * SECOND_US, "kind": kind, "station": "west", **facts})
    all_found = list(gateways.unsaid(until_s * SECOND_US, {"west": "west"}))
    assert all(one.owner is Owner.GATEWAY for one in all_found)
    return ", ".join(one.text for one in all_found)


def on_air(phy: str = "60", dr: int = 5, freq_hz: int = 868_100_000) -> dict[str, object]:
    return {"direction": "down", "sender": "west", "phy": phy, "dr": dr, "freq_hz": freq_hz,
            "airtime_us": 50_000}  # fmt: skip


def says(
    at_s: int, direction: str, msgtype: str, *, diid: int | str = 0, **facts: object
) -> Happened:
    text = f'{{"msgtype":"{msgtype}","diid":{diid},"DR":5,"Freq":868100000}}'
    return at_s, "station.text", {"direction": direction, "text": text, **facts}


CUT = {"seam": "tap", "fault": "cut"}
AWAY = ((1, "fault.begin", CUT), (3, "fault.end", CUT))
GONE = "west: new connection: expected one, observed none"


def test_it_comes_again_when_its_link_is_back() -> None:
    assert unsaid(*AWAY, until_s=60) == GONE
    assert unsaid(*AWAY, until_s=60, rig="emulated") == ""
    assert unsaid(*AWAY, until_s=20) == ""  # it may wait for longer
    assert unsaid(AWAY[0], until_s=600) == ""
    assert unsaid(*AWAY, says(8, "up", "version"), until_s=60) == ""
    assert unsaid(*AWAY, says(8, "up", "updf", origin="injected"), until_s=60) == GONE


def test_who_came_and_was_refused_is_not_away() -> None:
    assert unsaid(*AWAY, (8, "station.link", {"event": "refused"}), until_s=600) == ""
    closed, killed = (2, "station.link", {"event": "closed"}), {"event": "kill", "lns": "a"}
    assert unsaid(closed, until_s=60) == GONE
    assert unsaid((2, "case.lns", killed), closed, until_s=600) == ""
    again = (9, "case.lns", {"event": "restart", "lns": "a"})
    assert unsaid((2, "case.lns", killed), closed, again, until_s=600) == GONE


def test_it_answers_what_its_server_asks() -> None:
    asked, wrong = (
        says(1, "down", "getxtime"),
        "west: answer to getxtime: expected one, observed none",
    )
    assert unsaid(asked, until_s=3) == wrong
    assert unsaid(asked, says(1, "up", "getxtime"), until_s=3) == ""
    twice = "getxtime of west: times: expected one for each question, observed one more"
    assert unsaid(asked, *[says(1, "up", "getxtime")] * 2, until_s=3) == twice
    assert unsaid(asked, says(2, "down", "router_config"), until_s=9) == ""
    assert unsaid(asked, (1, "station.link", {"event": "refused"}), until_s=3) == ""


def test_it_tells_what_it_has_sent() -> None:
    sent = (1, "radio.transmit", on_air())
    wrong = "west: dntxed of what it has sent: expected one, observed none"
    assert unsaid(sent, until_s=4) == wrong
    assert unsaid(sent, until_s=1) == ""
    assert unsaid(sent, says(1, "up", "dntxed", diid=7), until_s=4) == ""
    assert unsaid(sent, sent, says(1, "up", "dntxed", diid=7), until_s=4) == wrong
    other = unsaid(sent, says(1, "up", "dntxed", diid=8), until_s=4)
    assert other == "dntxed of west: diid: expected one that it was handed, observed 8"
    unnamed = unsaid(sent, says(1, "up", "dntxed", diid="[7]"), until_s=4)
    assert unnamed == "dntxed of west: diid: expected one that it was handed, observed [7]"
    assert unsaid(sent, (1, "station.link", {"event": "refused"}), until_s=4) == ""


@pytest.mark.parametrize(
    ("reports", "wrong"),
    [
        ([{}], ""),
        ([{"DevEui": "00-00-00-00-00-00-00-01"}], "DevEui: expected none, observed"),
        ([{"rctx": 1}], "rctx: expected 0, observed 1"),
        ([{}, {}], "times: expected once for 7, observed again"),
    ],
)
def test_it_tells_of_what_it_was_handed(reports: list[dict[str, object]], wrong: str) -> None:
    told = [
        {"msgtype": "dntxed", "diid": 7, "DR": 5, "Freq": 868_100_000, **one} for one in reports
    ]
    texts = [(1, "station.text", {"direction": "up", "text": json.dumps(one)}) for one in told]
    found = unsaid((1, "radio.transmit", on_air()), *texts, until_s=4)
    assert found.startswith(f"dntxed of west: {wrong}") if wrong else not found


def test_its_answer_repeats_the_time_of_the_question() -> None:
    def asked(answer: object) -> str:
        texts = [("down", {"msgtype": "getxtime", "MuxTime": 12.25})]
        texts.append(("up", {"msgtype": "getxtime", "MuxTime": answer}))
        happened = [
            (1, "station.text", {"direction": way, "text": json.dumps(one)}) for way, one in texts
        ]
        return unsaid(*happened, until_s=2)

    assert asked(12.25) == ""
    assert asked(0) == "getxtime of west: MuxTime: expected 12.25, as asked, observed 0.0"


def test_it_speaks_the_protocol_of_stations() -> None:
    gateways = gateways_on("simulated")
    for number, origin in ((2, "station"), (1, "injected"), (1, "station")):
        text = json.dumps({"msgtype": "version", "protocol": number})
        gateways.introduced({**version(link=1), "origin": origin, "text": text})
    wrong = "version of west: protocol: expected 2, observed 1"
    assert [one.text for one in gateways.unsaid(0, {})] == [wrong]


@pytest.mark.parametrize(
    ("at_s", "sent", "wrong"),
    [
        (1, on_air(), ""),
        (1, on_air(phy="61"), "octets: expected some that it was handed, observed 61"),
        (1, on_air(dr=4), "data rate and frequency: expected DR5 on 868100000, observed DR4 on"
         " 868100000"),
        (2, on_air(), "time: expected when its window opens, observed 1000000 us after that"),
    ],
)  # fmt: skip
def test_it_sends_what_it_was_handed(at_s: int, sent: dict[str, object], wrong: str) -> None:
    found = unsaid((at_s, "radio.transmit", sent), until_s=at_s)
    assert found == (f"downlink of west on the air: {wrong}" if wrong else "")


def test_it_tells_of_frames_in_the_order_in_which_they_ended() -> None:
    later = replace(after(SECOND_US), phy=b"later")
    assert found((HEARD, 0), (later, SECOND_US)) == []
    assert found((later, SECOND_US), (HEARD, 0)) == [
        "order: expected as they ended, observed 1000000 us before the last"
    ]
    held = replace(HEARD, t_us=2 * SECOND_US, held_us=2 * SECOND_US - HEARD.t_us)
    assert found((later, SECOND_US), (held, 0)) == []


def test_it_tells_of_a_frame_once_and_at_once() -> None:
    assert found((HEARD, 0), (HEARD, 0)) == ["times: expected once, observed again"]
    late = replace(HEARD, t_us=SECOND_US + 50_000 + 700_000)
    assert found((late, 0)) == ["time: expected when it has ended, observed 700000 us after that"]
    assert found((replace(late, held_us=700_000), 0)) == []


PLACES = {"transmission": 7, "direction": "up", "genuine": True, "phy": PHY.hex(), "frame_id": "a",
          "dr": 5, "freq_hz": 868_100_000, "airtime_us": 50_000}  # fmt: skip
UPDF = (
    '{"msgtype":"updf","MHdr":64,"DevAddr":%d,"FCtrl":0,"FCnt":10,"FOpts":"","FPort":2,'
    '"FRMPayload":"B12D79F6271B","MIC":1116705135,"DR":5,"Freq":868100000,"upinfo":{"xtime":7}}'
)


def told_of(*events: Happened, until_s: int = 3, heard: bool = True) -> list[str]:
    """What is wrong where a station hears transmission 7, or does not."""
    gateways = gateways_on("simulated", air=Air(signal=(-80, 7.0) if heard else None))
    for at_s, kind, facts in events:
        gateways.take({"t_us": at_s * SECOND_US, "kind": kind, "station": "west", **facts})
    found = list(gateways.unsaid(until_s * SECOND_US, {"west": "west"}))
    assert all(one.owner is Owner.GATEWAY for one in found)
    return [one.text for one in found]


def test_what_it_has_heard_it_tells() -> None:
    sent, tells = (1, "radio.transmit", PLACES), {"direction": "up", "text": UPDF % 0x26000001}
    silent = ["west: word of a, which it has heard: expected one, observed none"]
    assert told_of(sent) == silent
    assert told_of(sent, (2, "station.text", tells)) == []
    assert told_of(sent, (2, "station.text", tells | {"dropped": True})) == []
    assert told_of(sent, (2, "station.text", tells | {"origin": "injected"})) == silent
    assert told_of(sent, heard=False) == []
    assert told_of(sent, until_s=1) == []
    lost = {"receiver": "west", "transmission": 7}
    assert told_of(sent, (1, "radio.lost", lost)) == []
    assert told_of(sent, (2, "station.link", {"event": "refused"})) == []


@pytest.mark.parametrize(
    ("back_s", "owes"), [(2, True), (3, True), (4, False), (5, True), (12, False)]
)
def test_what_it_has_heard_without_a_link_it_tells_when_it_is_back(back_s: int, owes: bool) -> None:
    cut = {"seam": "tap", "fault": "cut"}
    version = {"direction": "up", "text": '{"msgtype": "version"}'}
    events: list[Happened] = [
        (1, "fault.begin", cut), (1, "radio.transmit", PLACES), (1, "fault.end", cut)
    ]  # fmt: skip
    tells = (back_s, "station.text", {"direction": "up", "text": UPDF % 0x26000001})
    back = (back_s, "station.text", version)
    untold = "west: word of a, which it has heard: expected one, observed none"
    assert told_of(*events, back, until_s=20) == [untold] * owes
    assert told_of(*events, back, tells, until_s=20) == []
    assert told_of(*events, back, (back_s, "fault.begin", cut), until_s=back_s + 1) == []


def given(*told: int, of: int) -> list[str]:
    """What is wrong where the radio of a station is given so many frames and tells these."""
    texts = [UPDF % (0x26000001 + n) for n in range(of)]
    events: list[Happened] = [(1, "station.text", {"direction": "down", "text": CONFIG})]
    for n, text in enumerate(texts):
        uplink = reception_in(text)
        assert uplink is not None
        phy = uplink.phy.hex()
        sent = {"transmission": n, "direction": "up", "genuine": True, "phy": phy, "frame_id": n}
        events.append((1, "radio.transmit", sent))
        detail = {"phy": phy}
        events.append((2, "fault.begin", {"seam": "air", "fault": "replay", "detail": detail}))
    events += [(2, "station.text", {"direction": "up", "text": texts[n]}) for n in told]
    return told_of(*events)


CONFIG = '{"msgtype": "router_config"}'


def test_it_tells_what_its_radio_has_heard_in_one_moment_in_that_order() -> None:
    assert given(0, 1, 2, of=3) == []
    order = "order: expected as they ended, observed 0 us before the last"
    assert [one.partition(": ")[2] for one in given(1, 0, 2, of=3)] == [order]
    assert [one.partition(": ")[2] for one in given(0, 2, of=3)] == [
        "word of 1, which it has heard: expected one, observed none"
    ]
    assert given(*range(64), of=66) == []
    assert len(given(*range(63), of=66)) == 1


def test_what_it_tells_was_on_the_air() -> None:
    other = {"direction": "up", "text": UPDF % 0x26000002}
    told = told_of((2, "station.text", other))
    assert [one.partition(", observed")[0] for one in told] == [
        "updf of west: octets: expected some that were on the air"
    ]
    replayed = {"seam": "air", "fault": "replay", "detail": {"phy": told[0].rpartition(" ")[2]}}
    assert told_of((1, "fault.begin", replayed), (2, "station.text", other)) == []
    by_radio = {**replayed, "detail": {"radio": "second"}}
    assert told_of((1, "fault.begin", by_radio), (2, "station.text", other)) == told
    assert told_of((2, "station.text", other | {"origin": "injected"})) == []


@pytest.mark.parametrize(
    ("answers", "wrong"),
    [(0, False), (40_000, False), (5_000_000, True), (-5_000_000, True), (1 << 48, True)],
)
def test_the_clock_that_it_shows_is_its_own(answers: int, wrong: bool) -> None:
    """At 3 s it shows what it counts, of which it tells at 10 s to whoever asks in the end."""
    gateways = gateways_on("simulated")
    gateways.time.shows = {"west": [(SESSION | 10_500_000, 10 * SECOND_US)]}
    shown = SESSION + 3_500_000 + answers
    for at_s, direction, text in (
        (1, "down", '{"msgtype":"router_config"}'),
        (2, "down", '{"msgtype":"getxtime"}'),
        (3, "up", f'{{"msgtype":"getxtime","xtimes":[{shown}]}}'),
    ):
        event = {"kind": "station.text", "station": "west", "direction": direction, "text": text}
        gateways.take({"t_us": at_s * SECOND_US, **event})
    said = [one.text for one in gateways.unsaid(4 * SECOND_US, {})]
    due = f"xtimes: expected {SESSION | 3_500_000}, as its clock shows, observed {shown}"
    assert said == [f"getxtime of west: {due}"] * wrong
    event = {"kind": "station.text", "station": "west", "direction": "down"}
    gateways.take({"t_us": 5 * SECOND_US, **event, "text": '{"msgtype":"router_config"}'})
    assert list(gateways.unsaid(5 * SECOND_US, {})) == []  # it may have begun another one


@pytest.mark.parametrize(("power_dbm", "weak"), [(16, False), (15, True), (None, False)])
def test_it_sends_as_strongly_as_its_region_lets_it(power_dbm: int | None, weak: bool) -> None:
    gateways = gateways_on("simulated", air=Air(power=power_dbm))
    gateways.take({"kind": "radio.transmit", "t_us": 1, **on_air(), "transmission": 8})
    said = [one.text for one in gateways.unsaid(1, {})]
    wrong = "downlink of west: power: expected 16 dBm at least, observed 15 dBm"
    assert (wrong in said) == weak
    assert any("power" in one for one in said) == weak


@pytest.mark.parametrize(("freq_hz", "dr", "deaf"), [
    (868_100_000, 5, True), (868_100_000, 6, False), (868_800_000, 5, False),
])  # fmt: skip
def test_it_hears_on_the_channels_of_its_region(freq_hz: int, dr: int, deaf: bool) -> None:
    sent = (1, "radio.transmit", PLACES | {"dev_eui": "alpha", "freq_hz": freq_hz, "dr": dr})
    lost = (1, "radio.lost", {"receiver": "west", "transmission": 7, "cause": "not tuned"})
    wrong = ["west: channels: expected one on 868100000, observed none"]
    assert told_of(sent, lost) == wrong * deaf
