"""What the log of a Basics Station says: healthy, stuck, in trouble, and of an earlier start."""

import pytest

from bench.lab.basicstation_host import HEALTHY, PASSING, TROUBLE, advice, health
from lns.lorawan.identifiers import Eui

EUI = Eui("0016C001F1500001")
START = """\
2026-11-21 02:00:00.461 [SYS:INFO] Logging     : stderr (maxsize=10000000, rotate=3)
2026-11-21 02:00:00.461 [SYS:INFO] Station Ver : 2.0.6(corecell/std) 2026-01-25 13:02:48
2026-11-21 02:00:00.461 [SYS:INFO] proto EUI   : 16:c001:f150:1     (station.conf)
2026-11-21 02:00:00.461 [SYS:INFO] prefix EUI  : ::1    (builtin)
2026-11-21 02:00:00.461 [SYS:INFO] Station EUI : 16:c001:f150:1
2026-11-21 02:00:00.662 [TCE:INFO] Starting TC engine
2026-11-21 02:00:00.662 [TCE:INFO] Connecting to INFOS: ws://192.168.10.5:6090
2026-11-21 02:00:00.690 [TCE:INFO] Infos: 16:c001:f150:1 muxs-::0 ws://192.168.10.5:6090/router/1
2026-11-21 02:00:00.691 [TCE:VERB] Connecting to MUXS...
2026-11-21 02:00:00.707 [TCE:VERB] Connected to MUXS.
2026-11-21 02:00:00.710 [S2E:WARN] Dev/test settings: nocca=0 nodc=1 nodwell=0
2026-11-21 02:00:00.710 [S2E:INFO] Configuring for region: EU868 -- 863.0MHz..870.0MHz
2026-11-21 02:00:00.723 [RAL:INFO] Lora gateway library version: Version: 2.1.0;
2026-11-21 02:00:00.731 [RAL:INFO] Station device: spi:/dev/spidev0.0 (PPS capture disabled)
2026-11-21 02:00:03.731 [RAL:INFO] Concentrator started (3s)
2026-11-21 02:00:09.100 [S2E:VERB] RX 868.1MHz DR5 SF7/BW125 snr=9.5 rssi=-66
""".splitlines()


def test_a_healthy_start_needs_no_advice() -> None:
    found = health(START)
    assert found.is_healthy and found.eui == EUI and not found.troubles
    assert advice(found, EUI, conducted=True) == []


@pytest.mark.parametrize("number", range(len(HEALTHY)))
def test_the_first_step_that_is_missing_is_named(number: int) -> None:
    step, marker = HEALTHY[number]
    found = health([line for line in START if not marker.search(line)])
    assert found.missing == step
    said = advice(found, EUI, conducted=True)
    assert f"its log does not say that {step}" in said[0]


def test_steps_in_another_order_are_no_start() -> None:
    assert not health(list(reversed(START))).is_healthy


def test_only_the_latest_start_counts() -> None:
    bad = "2026-11-21 01:00:00.000 [RAL:ERRO] Concentrator start failed: lgw_start"
    assert health([*START[:4], bad, *START]).troubles == ()
    found = health([*START, *START[:4], bad])
    assert found.missing is not None and len(found.troubles) == 1


LINES = (
    "[RAL:ERRO] Concentrator start failed: lgw_start",
    "[S2E:ERRO] ral_config failed with status 0x08",
    "[RAL:ERRO] Radio device '/dev/spidev0.0' in use by process: 417",
    "[S2E:ERRO] Unsupported hwspec=sx1302/1",
    "[S2E:ERRO] ::0 diid=7 [ant#0] - missed TX time: txtime=1",
    "[S2E:WARN] Received 'dnmsg' before 'router_config' - dropped",
    "[S2E:VERB] 868.1MHz DR5 - no DC in band: txtime=1",
    "[SYN:WARN] Cannot convert xtime 0x1 to ustime",
    "[S2E:WARN] Feature not supported in production level code - router_config parameter: nodc",
)


@pytest.mark.parametrize(("line", "row"), list(zip(LINES, TROUBLE, strict=True)))
def test_every_marker_of_trouble_is_found(line: str, row: tuple[str, str, str]) -> None:
    _, cause, remedy = row
    [trouble] = health([*START, line, line]).troubles
    assert (trouble.line, trouble.times, trouble.cause) == (line, 2, cause)
    [said] = advice(health([*START, line]), EUI, conducted=True)
    assert said == f"{cause} (1x, at last: {line}); {remedy}"


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("[S2E:ERRO] ::0 diid=7 [ant#0] - missed TX time: txtime=1", 4),
        ("[S2E:VERB] ::0 diid=7 [ant#0] too late for RX2 by 5ms", 4),
    ],
)
def test_some_trouble_has_two_spellings(line: str, number: int) -> None:
    [trouble] = health([*START, line]).troubles
    assert trouble.cause == TROUBLE[number][1]


@pytest.mark.parametrize(
    ("line", "row"),
    [
        ("[TCE:ERRO] No TC URI configured", PASSING[0]),
        ("[TCE:ERRO] Bad TC URI: x", PASSING[0]),
        ("[AIO:ERRO] TLS server certificate verification failed: not trusted", PASSING[1]),
        ("[TCE:ERRO] Infos error: 16:c001:f150:1 unknown router", PASSING[2]),
        ("[TCE:ERRO] TC connect failed - URI: ws://192.168.10.5:6090", PASSING[3]),
        ("[TCE:INFO] INFOS reconnect backoff 10s (retry 1)", PASSING[3]),
        ("[TCE:INFO] MUXS reconnect backoff 1s (retry 0)", PASSING[4]),
    ],
)
def test_trouble_with_the_connection_passes(line: str, row: tuple[str, str, str]) -> None:
    lost = health([*START, "[TCE:VERB] Connection to MUXS closed in state 4", line])
    assert lost.is_healthy and not lost.connected
    [trouble] = lost.troubles
    assert (trouble.cause, trouble.remedy) == row[1:]
    again = health([*START, line, "[TCE:VERB] Connected to MUXS."])
    assert again.connected and again.troubles == ()


ASKS = "[TCE:INFO] Connecting to INFOS: ws://192.168.10.5:6090"
REFUSED = "[TCE:ERRO] Infos error: 16:c001:f150:1 unknown router"
NOBODY = "[TCE:INFO] INFOS reconnect backoff 10s (retry 1)"


@pytest.mark.parametrize(
    ("lines", "row", "times"),
    [
        ((ASKS, REFUSED, NOBODY, ASKS, NOBODY), 3, 2),
        ((ASKS, REFUSED, NOBODY, ASKS, NOBODY, ASKS), 3, 2),
        ((ASKS, NOBODY, ASKS, REFUSED, NOBODY), 2, 1),
    ],
)
def test_only_the_latest_attempt_to_connect_says_what_is_wrong_now(
    lines: tuple[str, ...], row: int, times: int
) -> None:
    [trouble] = health([*START[:6], *lines]).troubles
    assert (trouble.cause, trouble.times) == (PASSING[row][1], times)


def test_what_kept_it_from_connecting_before_it_did_is_over() -> None:
    assert health([*START[:6], ASKS, REFUSED, *START[6:]]).troubles == ()
    [trouble] = health([*START[:6], ASKS, REFUSED, *START[6:], NOBODY]).troubles
    assert trouble.cause == PASSING[3][1]


def test_another_eui_is_not_our_station() -> None:
    [said] = advice(health(START), Eui("0016C001F1500002"), conducted=True)
    assert "it calls itself 0016C001F1500001, bench.toml calls it 0016C001F1500002" in said


def test_a_duty_cycle_that_is_still_kept_is_told_with_cables() -> None:
    kept = [line.replace("nodc=1", "nodc=0") for line in START]
    [said] = advice(health(kept), EUI, conducted=True)
    assert "nodc" in said
    assert advice(health(kept), EUI, conducted=False) == []


def test_an_empty_log_has_no_start() -> None:
    found = health([])
    assert not found.is_healthy and found.eui is None


def test_what_a_station_says_cannot_move_the_cursor() -> None:
    [trouble] = health(["Infos error: \x1b[2J"]).troubles
    assert "\x1b" not in trouble.line
