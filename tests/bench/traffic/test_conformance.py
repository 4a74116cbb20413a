"""Conformance logs: devices, times, stations, and what is left out."""

from pathlib import Path
from typing import Any

import pytest

from bench.traffic import read
from bench.traffic.conformance import Stamp, times_us
from bench.traffic.recording import CONFORMANCE as NOTICE
from bench.traffic.recording import TrafficError
from lns.uplink.registry import Activation
from tests.bench.traffic.traffic_files import CONFORMANCE, document, written

REPEATS, JOINS, CONFIRMED = range(3)  # the logs of the excerpt


def test_a_log_is_read_with_the_counts_and_the_notice_of_its_file() -> None:
    found = read(CONFORMANCE)
    assert [log.name for log in found.logs] == [
        "agent_result_fixFCntUpFUN03", "agent_resultACT", "agent_resultFUN",
    ]  # fmt: skip
    assert [len(log.uplinks) for log in found.logs] == [8, 4, 3]
    assert found.facts() == {
        "file": "conformance.json",
        "format": "LoRaWAN conformance logs",
        "logs": 3,
        "uplinks": 15,
        "receptions": 15,
        "frames": 20,
        "downlinks": 5,
        "left_out": [],
    }
    assert found.notices == (NOTICE,)


def test_a_frame_keeps_its_bytes_and_its_radio_facts() -> None:
    first = read(CONFORMANCE).logs[REPEATS].uplinks[0]
    recorded = document()["logs"][REPEATS]["events"][0]
    assert first.phy == bytes.fromhex(recorded["phy"])
    assert (recorded["freq"], recorded["datr"]) == (868.5, "SF8BW125")
    assert (first.freq_hz, first.dr) == (868_500_000, 4)
    (hearing,) = first.hearings
    assert (hearing.rssi_dbm, hearing.snr_db) == (recorded["rssi"], recorded["lsnr"])
    assert hearing.station == "647FDAFFFE007417"  # the gateway that the file names


def test_frames_keep_their_distance_by_the_concentrators_counter() -> None:
    uplinks = read(CONFORMANCE).logs[REPEATS].uplinks
    assert [uplink.at_us for uplink in uplinks][:3] == [0, 1_206_560, 6_206_416]


def test_each_session_is_an_abp_device_and_joins_go_to_an_otaa_device() -> None:
    devices = read(CONFORMANCE).logs[JOINS].devices
    assert [(d.dev_eui, d.activation, d.relaxed_f_cnt) for d in devices] == [
        ("0000000001010101", Activation.ABP, True),
        ("0000000045688DDE", Activation.ABP, False),
        ("0101010101010101", Activation.OTAA, False),
    ]
    assert devices[2].join_eui == "0101010101010101"
    joins = [uplink for uplink in read(CONFORMANCE).logs[JOINS].uplinks if uplink.f_cnt is None]
    assert [(join.dev_eui, join.wants_answer) for join in joins] == [("0101010101010101", True)]


def test_confirmed_frames_want_an_answer() -> None:
    uplinks = read(CONFORMANCE).logs[CONFIRMED].uplinks
    assert [(u.f_cnt, u.confirmed, u.wants_answer) for u in uplinks] == [
        (20, True, True), (22, True, True), (22, True, True),
    ]  # fmt: skip
    assert uplinks[1].frame_id == uplinks[2].frame_id


def test_several_stations_deliver_everything_each_with_its_own_delay() -> None:
    log = read(CONFORMANCE, stations=2, seed=3).logs[REPEATS]
    assert list(log.stations) == ["647FDAFFFE007417", "647FDAFFFE007418"]
    delays = {
        (hearing.station, hearing.arrival_us - uplink.at_us)
        for uplink in log.uplinks
        for hearing in uplink.hearings
    }
    assert len(delays) == 2
    assert all(5_000 <= delay_us <= 400_000 for _, delay_us in delays)
    assert log == read(CONFORMANCE, stations=2, seed=3).logs[REPEATS]
    assert log != read(CONFORMANCE, stations=2, seed=4).logs[REPEATS]


def test_a_gateway_that_the_file_does_not_name_gets_an_eui(tmp_path: Path) -> None:
    content = document()
    del content["meta"]["about"]
    found = read(written(tmp_path / "a.json", content))
    assert list(found.logs[0].stations) == ["0016C001F1510001"]


@pytest.mark.parametrize(("limit", "uplinks"), [(1, [1]), (8, [8]), (9, [8, 1]), (99, [8, 4, 3])])
def test_the_limit_counts_the_uplinks_of_the_whole_file(limit: int, uplinks: list[int]) -> None:
    found = read(CONFORMANCE, limit=limit)
    assert [len(log.uplinks) for log in found.logs] == uplinks


def test_a_wrong_mic_and_a_session_without_keys_are_played_all_the_same(tmp_path: Path) -> None:
    content = document()
    content["logs"][REPEATS]["events"][0]["mic_ok"] = False
    del content["logs"][JOINS]["sessions"]["45688dde"]
    found = read(written(tmp_path / "a.json", content))
    assert not found.left_out
    assert [uplink.genuine for uplink in found.logs[REPEATS].uplinks][:2] == [False, True]
    assert [uplink.dev_eui for uplink in found.logs[JOINS].uplinks][2:] == ["0000000045688DDE"] * 2


@pytest.mark.parametrize(
    ("field", "value", "wrong"),
    [
        ("phy", "40", "this is no LoRaWAN frame: a data frame has at least 12 bytes, not 1"),
        ("phy", "E0010203", "this frame is neither a data uplink nor a join request"),
        ("phy", "xy", "non-hexadecimal number found in fromhex() arg at position 0"),
        ("phy", None, "Object missing required field `phy`"),
        ("freq", "868.1", "Expected `float`, got `str` - at `$.freq`"),
        (
            "freq",
            923.2,
            "923.2 MHz is outside EU868 (863 to 870 MHz), the only region whose traffic is played",
        ),
        ("datr", "SF7BW500", "EU868 has no data rate SF7BW500"),
        ("datr", 50_000, "Expected `str`, got `int` - at `$.datr`"),
        ("dir", "sideways", '`dir` is neither "up" nor "down": \'sideways\''),
        ("t", "yesterday", "`t` is no time: 'yesterday'"),
    ],
)
def test_one_bad_record_is_left_out_and_nothing_else(
    tmp_path: Path, field: str, value: Any, wrong: str
) -> None:
    content = document()
    event = content["logs"][REPEATS]["events"][3]
    if value is None:
        del event[field]
    else:
        event[field] = value
    found = read(written(tmp_path / "a.json", content))
    (left_out,) = found.left_out
    assert str(left_out).startswith("a.json: log 'reports_logs_examples/inyected_errors/")
    assert str(left_out).endswith(f"events[3]: {wrong}")
    assert [len(log.uplinks) for log in found.logs] == [7, 4, 3]


def test_a_record_needs_one_of_the_two_clocks(tmp_path: Path) -> None:
    content = document()
    events = content["logs"][REPEATS]["events"]
    del events[0]["t"], events[2]["tmst"], events[3]["t"], events[3]["tmst"]
    found = read(written(tmp_path / "a.json", content))
    (left_out,) = found.left_out
    assert left_out.wrong == "neither `t` nor `tmst` tells when the frame was heard"


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        ({"NwkSKey": "00" * 16}, "keys are missing: Object missing required field `AppSKey`"),
        ({"NwkSKey": "00" * 16, "AppSKey": "C0FFEE"}, "a key has 32 hexadecimal digits"),
        (None, "keys are missing: Expected `object`, got `null`"),
    ],
)
def test_missing_keys_are_refused_and_never_shown(tmp_path: Path, keys: Any, wrong: str) -> None:
    content = document()
    content["logs"][JOINS]["sessions"]["45688dde"] = keys
    with pytest.raises(TrafficError) as refusal:
        read(written(tmp_path / "a.json", content))
    assert refusal.value.place == (
        "log 'reports_logs_examples/agent_resultACT.txt', sessions['45688dde']"
    )
    assert wrong in refusal.value.wrong
    assert "C0FFEE" not in str(refusal.value)


def test_a_session_whose_name_is_no_dev_addr_is_refused(tmp_path: Path) -> None:
    content = document()
    sessions = content["logs"][JOINS]["sessions"]
    sessions["nobody"] = sessions.pop("45688dde")
    with pytest.raises(TrafficError, match="sessions\\['nobody'\\]: not a DevAddr"):
        read(written(tmp_path / "a.json", content))


@pytest.mark.parametrize(
    ("app_key", "wrong"),
    [(None, "`app_key` is missing, and devices join"), ("00", "a key has 32 hexadecimal digits")],
)
def test_join_requests_need_the_app_key(tmp_path: Path, app_key: str | None, wrong: str) -> None:
    content = document()
    content["meta"]["app_key"] = app_key
    with pytest.raises(TrafficError, match=wrong):
        read(written(tmp_path / "a.json", content))


def test_broken_json_says_where(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    whole = CONFORMANCE.read_bytes()
    path.write_bytes(whole[:3000])
    line = whole[:3000].count(b"\n") + 1
    with pytest.raises(TrafficError, match=rf"^a\.json: line {line}: the document cannot be read"):
        read(path)
    path.write_bytes(whole.replace(b'"tmst": 99052172', b'"tmst" 99052172'))
    with pytest.raises(TrafficError, match=r"^a\.json: line 4: the document cannot .* malformed"):
        read(path)
    path.write_bytes(whole.replace(b'"tmst": 99052172', b'"tmst": ' + b"[" * 200_000))
    with pytest.raises(TrafficError, match=r"^a\.json: the document cannot be read"):
        read(path)


def test_a_document_of_another_shape_says_where(tmp_path: Path) -> None:
    content = document()
    del content["logs"][1]["sessions"]
    with pytest.raises(TrafficError, match=r"required field `sessions` - at `\$\.logs\[1\]`"):
        read(written(tmp_path / "a.json", content))


def test_a_notice_is_made_of_what_the_file_says(tmp_path: Path) -> None:
    content = document()
    content["meta"]["source"] = {"repo": "our own walks", "license": "CC0"}
    found = read(written(tmp_path / "a.json", content))
    assert found.notices == ("Traffic of our own walks: CC0",)
    del content["meta"]["source"]
    assert read(written(tmp_path / "b.json", content)).notices == ()


SECOND = 1_000_000


def test_the_counter_is_followed_where_the_wall_clock_is_late() -> None:
    stamps = [
        Stamp.of("2020-08-11 22:17:31,291", 251_908_868),
        Stamp.of("2020-08-11 22:17:32,558", 253_115_412),
    ]
    assert times_us(stamps) == [0, 1_206_544]


def test_the_counter_wraps() -> None:
    stamps = [
        Stamp.of("2020-08-12 23:16:32,000", 4_292_918_628),
        Stamp.of("2020-08-12 23:16:42,019", 7_970_580),
    ]
    assert times_us(stamps) == [0, 10_019_248]


def test_the_wall_clock_tells_how_often_the_counter_has_wrapped() -> None:
    stamps = [
        Stamp.of("2020-08-12 00:00:00,000", 5 * SECOND),
        Stamp.of("2020-08-12 02:23:10,000", 5 * SECOND + 65_408),
    ]
    assert times_us(stamps) == [0, 2 * (1 << 32) + 65_408]


def test_a_gateway_that_began_anew_is_followed_by_the_wall_clock() -> None:
    stamps = [
        Stamp.of("2020-08-12 00:00:00,000", 3_000 * SECOND),
        Stamp.of("2020-08-12 00:01:00,000", 17),
        Stamp.of("2020-08-12 00:01:05,100", 17 + 5 * SECOND),
    ]
    assert times_us(stamps) == [0, 60 * SECOND, 65 * SECOND]


def test_records_out_of_order_keep_their_times() -> None:
    stamps = [
        Stamp.of("2020-08-12 00:00:10", 20 * SECOND),
        Stamp.of("2020-08-12 00:00:04", 14 * SECOND),
        Stamp.of("2020-08-12T00:00:12.500+00:00", 22 * SECOND),
    ]
    assert times_us(stamps) == [6 * SECOND, 0, 8 * SECOND]


def test_one_clock_is_enough() -> None:
    assert times_us([Stamp.of(None, 4_294_967_290), Stamp.of(None, 4)]) == [0, 10]
    assert times_us(
        [Stamp.of("2020-08-12 00:00:00", None), Stamp.of("2020-08-12 00:00:01", None)]
    ) == [0, SECOND]


def test_no_frames_no_times() -> None:
    assert times_us([]) == []


@pytest.mark.parametrize("text", ["", "22:17", "2020-13-01 00:00:00"])
def test_a_time_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="`t` is no time"):
        Stamp.of(text, 1)
