import json
from typing import Any

import pytest

from bench.inspection.inspector import Inspector
from bench.inspection.known_device import KnownDevice, Session
from bench.verdict.owner import Found
from bench.virtual.lorawan.air_interface import Keys, Kind, data_frame
from bench.virtual.lorawan.channel_plan import EU868

WEST, ALPHA, ADDRESS = "B827EBFFFE000001", "70B3D57ED0000001", "26000001"
KEYS = Keys(bytes(range(16)), bytes(range(16, 32)))
PHY = data_frame(Kind.CONFIRMED_UP, ADDRESS, KEYS, 10, f_port=2, payload=b"21.5")
FRAME_ID = f"{ADDRESS}:10:{PHY[-4:].hex().upper()}"
ANSWER = data_frame(Kind.UNCONFIRMED_DOWN, ADDRESS, KEYS, 3, ack=True)
UPDF = {
    "msgtype": "updf", "MHdr": PHY[0], "DevAddr": 0x26000001, "FCtrl": PHY[5], "FCnt": 10,
    "FOpts": "", "FPort": 2, "FRMPayload": PHY[9:-4].hex(),
    "MIC": int.from_bytes(PHY[-4:], "little", signed=True), "DR": 5, "Freq": 868_300_000,
    "upinfo": {"rctx": 0, "xtime": 7_000_000, "rssi": -51, "snr": 9.5},
}  # fmt: skip
DNMSG = {
    "msgtype": "dnmsg", "DevEui": "70-B3-D5-7E-D0-00-00-01", "dC": 0, "diid": 1,
    "pdu": ANSWER.hex(), "RxDelay": 1, "priority": 0, "xtime": 7_000_000, "rctx": 0, "RX1DR": 5,
    "RX1Freq": 868_300_000, "RX2DR": 0, "RX2Freq": 869_525_000,
}  # fmt: skip
DNTXED = {
    "msgtype": "dntxed", "diid": 1, "DevEui": "70-B3-D5-7E-D0-00-00-01", "DR": 5,
    "Freq": 868_100_000,
}  # fmt: skip
LINE = "+EVT:SEND_CONFIRMED_OK"


def event(t_us: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "t_us": t_us, "source": "s", "seq": t_us, **fields}


def text(t_us: int, direction: str, told: dict[str, Any]) -> dict[str, Any]:
    said = json.dumps(told)
    return event(t_us, "station.text", station=WEST, direction=direction, text=said)


def found(dnmsg: dict[str, Any], *more: dict[str, Any], dnmsg_us: int = 65_000) -> list[Found]:
    device = KnownDevice(ALPHA, bytes(16), [Session(ADDRESS, KEYS, 0, f_cnt_down=2)])
    events = [
        event(0, "radio.transmit", direction="up", genuine=True, origin="device", phy=PHY.hex(),
              dev_eui=ALPHA, f_cnt=10, session=0, frame_id=FRAME_ID, airtime_us=50_000),
        text(60_000, "up", UPDF),
        text(dnmsg_us, "down", dnmsg),
        *more,
    ]  # fmt: skip
    return Inspector(EU868, "000013", [device], {WEST: "west"}).inspect(events)


def test_a_right_answer_is_nothing_to_speak_of() -> None:
    assert found(DNMSG) == []


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("RX1DR", 4, "RX1DR: expected 5, observed 4"),
        ("RX1Freq", 868_100_000, "RX1Freq: expected 868300000, observed 868100000"),
        ("RX2DR", 3, "RX2DR: expected 0, observed 3"),
        ("RX2Freq", 869_425_000, "RX2Freq: expected 869525000, observed 869425000"),
        ("RxDelay", 5, "RxDelay: expected 1, observed 5"),
        ("rctx", 1, "rctx: expected 0, observed 1"),
        ("xtime", 7_050_000, "xtime: expected 7000000, observed 7050000, +50000 µs"),
        ("dC", 2, "dC: expected 0, observed 2"),
        ("priority", 256, "priority: expected 0 to 255, observed 256"),
        ("DevEui", "01-02-03-04-05-06-07-08",
         "DevEui: expected 70B3D57ED0000001, observed 0102030405060708"),
        ("pdu", data_frame(Kind.UNCONFIRMED_DOWN, ADDRESS, KEYS, 3).hex(),
         "ACK: expected yes, observed no"),
        ("pdu", data_frame(Kind.UNCONFIRMED_DOWN, ADDRESS, KEYS, 2, ack=True).hex(),
         "FCntDown: expected more than 2, observed 2"),
        ("pdu", (ANSWER[:-1] + bytes([ANSWER[-1] ^ 1])).hex(),
         f"MIC: expected {ANSWER[-4:].hex()}, observed"),
        ("pdu", data_frame(Kind.UNCONFIRMED_DOWN, ADDRESS, KEYS, 3, ack=True, f_port=7,
                           payload=b"on").hex(),
         "FPort and payload: expected nothing of the application, observed 7:6f6e unconfirmed"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named_with_both_values(field: str, value: object, says: str) -> None:
    [first, *_] = found({**DNMSG, field: value})
    assert says in first.text
    assert (first.owner, first.station) == ("LNS", WEST)


def test_an_answer_that_comes_after_its_window_is_late() -> None:
    [late] = found(DNMSG, dnmsg_us=1_100_000)
    assert late.text.endswith("time: expected 20 ms before RX1 opens, observed 70 ms after that")


def expected(line: str) -> dict[str, Any]:
    return event(90_000, "case.expect", expect="device", dev_eui=ALPHA, line=line)


def test_a_right_downlink_that_never_went_on_the_air_is_the_gateways() -> None:
    later = event(9_000_000, "device.line", dev_eui=ALPHA, text="+EVT:TX_DONE")
    [kept] = found(DNMSG, expected(LINE), later)
    assert (kept.owner, kept.rule) == ("gateway", "downlink on the air")
    assert found(DNMSG, expected(LINE), text(1_060_000, "up", DNTXED), later) == []
    assert found(DNMSG, expected(LINE)) == []  # its windows are not over


def test_a_station_without_a_clock_is_why_nothing_was_answered() -> None:
    clockless = {**UPDF, "upinfo": {"rctx": 0, "rssi": -51, "snr": 9.5}}
    words = {"status": "NonDuplicate", "upstream": "forwarded", "station": WEST}
    events = [
        event(0, "radio.transmit", direction="up", genuine=True, origin="device", phy=PHY.hex(),
              dev_eui=ALPHA, f_cnt=10, session=0, frame_id=FRAME_ID, airtime_us=50_000),
        text(60_000, "up", clockless),
        event(61_000, "lns.outcome", **words, xtime=0, answer="TooLate", frame_id=FRAME_ID),
        event(62_000, "case.expect", **words, expect="outcome", answer="RX1", reason="-",
              frame_id=FRAME_ID),
    ]  # fmt: skip
    device = KnownDevice(ALPHA, bytes(16), [Session(ADDRESS, KEYS, 0)])
    told = Inspector(EU868, "000013", [device], {WEST: "west"}).inspect(events)
    [deaf] = [one for one in told if one.owner == "gateway"]
    assert (deaf.owner, deaf.text) == (
        "gateway", f"{WEST} cannot answer {FRAME_ID}: its clock is not known",
    )  # fmt: skip


def sent_at(t_us: int, freq_hz: int) -> dict[str, Any]:
    return event(
        t_us, "radio.transmit", direction="up", genuine=True, origin="device", phy=PHY.hex(),
        dev_eui=ALPHA, f_cnt=10, session=0, frame_id=FRAME_ID, airtime_us=50_000, dr=5,
        freq_hz=freq_hz, transmission=t_us,
    )  # fmt: skip


@pytest.mark.parametrize("before", [0, 1])
def test_a_late_copy_of_a_frame_is_the_transmission_that_its_clock_or_its_channel_shows(
    before: int,
) -> None:
    """A frame was sent twice, and its station tells of the first when the second is on the air."""
    earlier = [sent_at(0, 868_500_000), text(60_000, "up", {**UPDF, "Freq": 868_500_000})]
    first = {**UPDF["upinfo"], "xtime": 12_000_000}
    second = {**first, "xtime": 14_300_000}
    events = [
        event(0, "case.begin", rig="emulated"),
        *earlier[: 2 * before],
        sent_at(5_000_000, 868_300_000),
        sent_at(7_300_000, 868_100_000),
        text(7_320_000, "up", {**UPDF, "upinfo": first}),
        text(7_400_000, "up", {**UPDF, "Freq": 868_100_000, "upinfo": second}),
    ]
    device = KnownDevice(ALPHA, bytes(16), [Session(ADDRESS, KEYS, 0)])

    def blamed(events: list[dict[str, Any]]) -> list[str]:
        found = Inspector(EU868, "000013", [device], {WEST: "west"}).inspect(events)
        return [one.text.split(": ", 1)[1] for one in found if one.owner == "gateway"]

    assert blamed(events) == []
    wrong = text(7_500_000, "up", {**UPDF, "Freq": 868_500_000, "upinfo": second})
    assert blamed([*events, wrong]) == ["Freq: expected 868100000, observed 868500000"]


@pytest.mark.parametrize(
    ("said", "again"),
    [("version config", 0), ("version config config", 1), ("version config version config", 0)],
)
def test_a_station_is_configured_once_for_each_version(said: str, again: int) -> None:
    texts = {
        "version": ("up", {"msgtype": "version", "station": "2.0.6"}),
        "config": ("down", {"msgtype": "router_config"}),
    }
    events = [text(1_000 * n, *texts[word]) for n, word in enumerate(said.split())]
    all_found = Inspector(EU868, "000013", [], {}).inspect(events)
    assert len([one for one in all_found if "one for each version" in one.text]) == again


@pytest.mark.parametrize(
    ("rig", "since_us", "is_wrong"),
    [("emulated", 2_000, False), ("emulated", 1_000_000, True), ("simulated", 2_000, True)],
)
def test_what_may_not_have_come_to_the_server_yet_need_not_be_told_as_pending(
    rig: str, since_us: int, is_wrong: bool
) -> None:
    """Where messages take real time, the second of two may be under way when the first leaves."""
    asked = {"dev_eui": ALPHA, "wants": "downlink", "f_port": 8, "confirmed": False}
    pdu = data_frame(Kind.UNCONFIRMED_DOWN, ADDRESS, KEYS, 3, f_port=8, payload=b"on")
    dnmsg = {**DNMSG, "dC": 2, "pdu": pdu.hex()}
    for name in ("xtime", "rctx", "RX1DR", "RX1Freq"):
        del dnmsg[name]
    events = [
        event(0, "case.begin", rig=rig),
        event(1_000, "application.request", **asked, payload=b"on".hex()),
        event(2_000, "application.request", **asked, payload=b"off".hex()),
        text(2_000 + since_us, "down", dnmsg),
    ]
    device = KnownDevice(ALPHA, bytes(16), [Session(ADDRESS, KEYS, 0, f_cnt_down=2)])
    all_found = Inspector(EU868, "000013", [device], {WEST: "west"}).inspect(events)
    assert any("FPending: expected yes" in one.text for one in all_found) is is_wrong
