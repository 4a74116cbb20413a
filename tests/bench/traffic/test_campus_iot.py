"""Archived uplinks: who heard them and when, sessions, frames built anew, lines left out."""

from pathlib import Path
from typing import Any

import pytest

from bench.traffic import read
from bench.traffic.campus_iot import station_eui
from bench.traffic.recording import SAINT_EYNARD as NOTICE
from bench.traffic.recording import Log, TrafficError
from lns.lorawan.frame import Data, parse
from lns.uplink.registry import Activation
from tests.bench.traffic.traffic_files import SAINT_EYNARD, records, written

# The uplinks of the excerpt: an ordinary one, one without any time, one with a gateway whose clock
# is 9 s ahead, one heard only by a gateway whose clock is years behind.
ORDINARY, TIMELESS, AHEAD, BEHIND = range(4)


def excerpt(seed: int = 1) -> Log:
    (log,) = read(SAINT_EYNARD, seed=seed).logs
    return log


def uplink_lines() -> list[dict[str, Any]]:
    return [row for row in records() if "rxInfo" in row]


def test_the_excerpt_is_read_with_its_counts_and_its_notice() -> None:
    found = read(SAINT_EYNARD)
    assert found.facts() == {
        "file": "saint-eynard.ndjson",
        "format": "ChirpStack events, one per line",
        "logs": 1,
        "uplinks": 4,
        "receptions": 16,
        "status_lines": 1,
        "wrong_clocks": 2,
        "left_out": [],
    }
    assert found.notices == (NOTICE,)
    assert found.logs[0].title == "4 archived uplinks of 1 device, heard by 8 gateways"


def test_a_frame_is_built_anew_from_what_the_archive_has() -> None:
    log, recorded = excerpt(), uplink_lines()[ORDINARY]
    uplink, device = log.uplinks[ORDINARY], log.devices[0]
    frame = parse(uplink.phy)
    assert isinstance(frame, Data) and device.session_keys is not None
    assert (frame.f_cnt, frame.f_port, frame.adr, frame.confirmed) == (1151, 3, True, False)
    assert frame.payload(device.session_keys, 1151).hex() == recorded["data"]
    assert frame.mic_is_valid(device.session_keys.nwk_s_key, 1151)
    assert (uplink.freq_hz, uplink.dr, uplink.f_cnt) == (868_500_000, 5, 1151)


def test_every_entry_is_a_reception_and_a_gateway_may_be_there_twice() -> None:
    uplink = excerpt().uplinks[ORDINARY]
    assert [(h.station, h.rssi_dbm, h.snr_db) for h in uplink.hearings] == [
        (entry["gatewayID"][:16].upper(), entry["rssi"], entry["loRaSNR"])
        for entry in uplink_lines()[ORDINARY]["rxInfo"]
    ]
    stations = [hearing.station for hearing in uplink.hearings]
    assert stations.count("489EBDE27FABEE58") == 2


def test_a_time_that_is_given_is_the_arrival_and_others_are_drawn() -> None:
    uplink = excerpt().uplinks[ORDINARY]
    delays = [hearing.arrival_us - uplink.at_us for hearing in uplink.hearings]
    times = [entry.get("time") for entry in uplink_lines()[ORDINARY]["rxInfo"]]
    assert [delay for delay, time in zip(delays, times, strict=True) if time] == [0] * 4
    drawn = [delay for delay, time in zip(delays, times, strict=True) if not time]
    assert len(set(drawn)) == 3
    assert all(5_000 <= delay_us <= 400_000 for delay_us in drawn)


def test_the_same_seed_draws_the_same_times_and_keys() -> None:
    assert excerpt(seed=7) == excerpt(seed=7)
    assert excerpt(seed=7).uplinks[ORDINARY].phy != excerpt(seed=8).uplinks[ORDINARY].phy


def test_a_clock_that_is_wrong_does_not_count() -> None:
    uplinks = excerpt().uplinks
    ahead = uplinks[AHEAD]
    assert all(h.arrival_us - ahead.at_us <= 400_000 for h in ahead.hearings)
    behind = uplinks[BEHIND]
    assert behind.at_us - ahead.at_us > 50 * 86_400 * 1_000_000


def test_without_any_time_the_archive_tells_it() -> None:
    uplinks, lines = excerpt().uplinks, uplink_lines()
    began_us = 1_687_514_516_746_000  # 2023-06-23T10:01:56.746Z
    assert uplinks[TIMELESS].at_us == lines[TIMELESS]["_timestamp"] * 1000 - began_us
    assert uplinks[BEHIND].at_us == lines[BEHIND]["_timestamp"] * 1000 - began_us


def test_the_first_session_begins_with_the_counter_before_and_keeps_the_dev_eui() -> None:
    (device,) = excerpt().devices
    assert device.dev_eui == "D1D1E80000000033"
    assert (device.activation, device.f_cnt_up, device.relaxed_f_cnt) == (
        Activation.ABP, 1150, False,
    )  # fmt: skip


def test_a_counter_that_goes_back_begins_another_session(tmp_path: Path) -> None:
    lines = uplink_lines()
    lines[AHEAD]["fCnt"], lines[BEHIND]["fCnt"] = 0, 70_000
    (log,) = read(written(tmp_path / "a.ndjson", lines)).logs
    first, second = log.devices
    assert (first.name, second.name) == (
        "D1D1E80000000033 session 1", "D1D1E80000000033 session 2",
    )  # fmt: skip
    assert (second.f_cnt_up, second.dev_addr) == (None, "26000002")
    assert second.dev_eui != first.dev_eui and second.session_keys != first.session_keys
    assert [uplink.dev_eui for uplink in log.uplinks] == [first.dev_eui] * 2 + [second.dev_eui] * 2
    assert log.uplinks[BEHIND].f_cnt == 70_000


@pytest.mark.parametrize("freq_hz", [904_300_000, 916_800_000, 486_300_000, 862_900_000])
def test_traffic_of_another_region_is_refused(tmp_path: Path, freq_hz: int) -> None:
    lines = uplink_lines()
    for line in lines:
        line["txInfo"]["frequency"] = freq_hz
    with pytest.raises(
        TrafficError, match=r"no uplink that can be used; .*line 1: .*MHz is outside"
    ):
        read(written(tmp_path / "us915.ndjson", lines))
    lines[0]["txInfo"]["frequency"] = 863_000_000
    lines[1]["txInfo"]["frequency"] = 870_000_000
    (log,) = read(written(tmp_path / "mixed.ndjson", lines)).logs
    assert [uplink.freq_hz for uplink in log.uplinks] == [863_000_000, 870_000_000]


def test_the_same_counter_again_stays_in_its_session(tmp_path: Path) -> None:
    lines = uplink_lines()[:1] * 2
    (log,) = read(written(tmp_path / "a.ndjson", lines)).logs
    assert len(log.devices) == 1
    assert log.uplinks[0].frame_id == log.uplinks[1].frame_id


def test_devices_of_one_archive_have_addresses_of_their_own(tmp_path: Path) -> None:
    lines = uplink_lines()[:2]
    lines[1]["devEUI"] = "d1d1e80000000099"
    (log,) = read(written(tmp_path / "a.ndjson", lines)).logs
    assert [(device.dev_eui, device.dev_addr) for device in log.devices] == [
        ("D1D1E80000000033", "26000001"),
        ("D1D1E80000000099", "26000002"),
    ]


def test_lines_out_of_order_are_put_in_order(tmp_path: Path) -> None:
    lines = uplink_lines()
    (log,) = read(written(tmp_path / "a.ndjson", lines[::-1])).logs
    assert [uplink.f_cnt for uplink in log.uplinks] == [1151, 2330, 3710, 11358]
    assert log.uplinks[0].at_us == 0


def test_a_confirmed_uplink_is_built_confirmed_and_wants_an_answer(tmp_path: Path) -> None:
    lines = uplink_lines()[:1]
    lines[0]["confirmedUplink"] = True
    (log,) = read(written(tmp_path / "a.ndjson", lines)).logs
    frame = parse(log.uplinks[0].phy)
    assert isinstance(frame, Data) and frame.confirmed
    assert log.uplinks[0].confirmed and log.uplinks[0].wants_answer


def test_an_uplink_may_have_no_payload_and_no_port(tmp_path: Path) -> None:
    lines = uplink_lines()[:1]
    lines[0] |= {"fPort": None, "data": None}
    (log,) = read(written(tmp_path / "a.ndjson", lines)).logs
    frame = parse(log.uplinks[0].phy)
    assert isinstance(frame, Data)
    assert (frame.f_port, frame.frm_payload) == (None, b"")


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"data": "abc"}, "non-hexadecimal number found in fromhex() arg at position 3"),
        ({"data": "00" * 300}, "the frame would be longer than 255 bytes"),
        ({"fPort": None}, "a payload needs an FPort"),
        ({"fPort": 300}, "Expected `int` <= 255 - at `$.fPort`"),
        ({"fCnt": -1}, "Expected `int` >= 0 - at `$.fCnt`"),
        ({"rxInfo": []}, "Expected `array` of length >= 1 - at `$.rxInfo`"),
        ({"rxInfo": [{}]}, "Object missing required field `gatewayID` - at `$.rxInfo[0]`"),
        ({"txInfo": {"dr": 5}}, "Object missing required field `frequency` - at `$.txInfo`"),
        ({"txInfo": {"dr": "SF7", "frequency": 1}}, "Expected `int`, got `str` - at `$.txInfo.dr`"),
        ({"devEUI": "x"}, "not an EUI: 'x'"),
        ({"_timestamp": None}, "Expected `int`, got `null` - at `$._timestamp`"),
        ({"_timestamp": -1}, "Expected `int` >= 0 - at `$._timestamp`"),
        ({"_timestamp": 1 << 63}, "Expected `int` <= 253402300799999 - at `$._timestamp`"),
    ],
)
def test_one_bad_line_is_left_out_and_nothing_else(
    tmp_path: Path, change: dict[str, Any], wrong: str
) -> None:
    lines = uplink_lines()
    lines[2] |= change
    found = read(written(tmp_path / "a.ndjson", lines))
    assert [str(left_out) for left_out in found.left_out] == [f"a.ndjson: line 3: {wrong}"]
    assert [uplink.f_cnt for uplink in found.logs[0].uplinks] == [1151, 2330, 11358]


def test_a_mark_of_utf_8_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_bytes(b"\xef\xbb\xbf" + SAINT_EYNARD.read_bytes())
    found = read(path)
    whole = read(SAINT_EYNARD).facts() | {"file": "a.ndjson"}
    assert found.facts() == whole


@pytest.mark.parametrize(
    "bad", [b'{"devEUI": "d1d1', b"\xff\xfe", b"[]", b"17", b'{"devEUI":' + b"[" * 200_000]
)
def test_a_broken_line_is_left_out_and_nothing_else(tmp_path: Path, bad: bytes) -> None:
    whole = SAINT_EYNARD.read_bytes().splitlines()
    path = tmp_path / "a.ndjson"
    path.write_bytes(b"\n".join([whole[0], b"", bad, *whole[1:]]))
    found = read(path)
    assert [left_out.place for left_out in found.left_out] == ["line 3"]
    assert found.facts()["receptions"] == 16


@pytest.mark.parametrize(("limit", "status_lines"), [(1, 0), (2, 1)])
def test_the_limit_counts_uplinks_and_ends_the_reading(limit: int, status_lines: int) -> None:
    (log,) = read(SAINT_EYNARD, limit=limit).logs
    assert len(log.uplinks) == limit
    assert log.facts.get("status_lines", 0) == status_lines


def test_traffic_of_others_has_no_notice(tmp_path: Path) -> None:
    lines = uplink_lines()
    for line in lines:
        line["devEUI"] = "0102030405060708"
    assert read(written(tmp_path / "a.ndjson", lines)).notices == ()


@pytest.mark.parametrize(
    ("gateway_id", "expected"),
    [
        ("489ebde27fabee5863cb111ba9720cb9", "489EBDE27FABEE58"),
        ("0016c001f1500001", "0016C001F1500001"),
    ],
)
def test_the_eui_of_a_gateway_shows_its_id(gateway_id: str, expected: str) -> None:
    assert station_eui(gateway_id) == expected


def test_an_id_that_is_no_number_is_hashed() -> None:
    assert station_eui("roof") == station_eui("roof") != station_eui("cellar")
