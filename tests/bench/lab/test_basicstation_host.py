"""The log of a gateway, on the clock of this host."""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bench.lab.basicstation_host import (
    HEALTHY,
    PASSING,
    TROUBLE,
    GatewayFailed,
    GatewayShell,
    Journal,
    advice,
    health,
    journal,
    restart_gateway,
    restart_words,
    shell_of,
)
from bench.lab.inventory.sections import GatewayKind, GatewaySection
from lns.clock import utc_of_this_host
from lns.lorawan.identifiers import Eui
from tests.bench.lab.gateway_host import GatewayHost, gateway_host

__all__ = ["gateway_host"]


def read(host: GatewayHost, kind: GatewayKind, *, local: bool = False) -> Journal:
    gateway = GatewaySection(
        name="west",
        eui=Eui("0016C001F1500001"),
        kind=kind,
        ssh=None if local else "pi@west",
        home=str(host.home),
    )
    return asyncio.run(journal(gateway, 5))


def test_the_lines_of_a_journal_are_put_onto_our_clock(host: GatewayHost) -> None:
    ahead = timedelta(hours=2)
    at = (utc_of_this_host() + ahead).timestamp()
    host.program("date", f"echo {at:.9f}")
    host.journal(f"{at:.6f} west station[417]: [SYS:INFO] Station Ver : 2.0.6\n\n-- Boot --\n")
    found = read(host, GatewayKind.RASPBERRY_PI)
    assert found.ahead_us is not None
    assert abs(found.ahead_us - ahead // timedelta(microseconds=1)) < 5_000_000
    first, boot = found.lines
    assert first.text == "[SYS:INFO] Station Ver : 2.0.6" and first.at is not None
    assert abs(first.at - utc_of_this_host()) < timedelta(seconds=5)
    assert (boot.at, boot.text) == (None, "-- Boot --")
    assert host.calls[-1] == "journalctl -u basicstation --no-pager -o short-unix -n 5"


def test_the_clock_of_this_very_host_is_right(host: GatewayHost) -> None:
    host.journal("1763690400.250000 west station[417]: text\n")
    found = read(host, GatewayKind.RASPBERRY_PI)
    assert found.ahead_us is not None and abs(found.ahead_us) <= found.within_us + 1
    [line] = found.lines
    due = datetime(2025, 11, 21, 2, 0, 0, 250_000, UTC)
    assert line.at is not None and abs(line.at - due) <= timedelta(microseconds=found.within_us + 1)
    assert str(line).endswith("Z text")


def test_a_wisgate_has_no_fraction_of_a_second(host: GatewayHost) -> None:
    host.program("date", "echo 1763690400.%N")
    host.program("logread", "printf 'Fri Nov 21 02:00:00 station: a\\nb\\n\\033[2Jc\\n'")
    found = read(host, GatewayKind.WISGATE)
    assert found.ahead_us is None
    assert found.texts == ("Fri Nov 21 02:00:00 station: a", "b", "?[2Jc")


@pytest.mark.parametrize("name", ["station.log", "log"])
def test_a_station_on_this_host_writes_a_file(host: GatewayHost, name: str, tmp_path: Path) -> None:
    host.home.mkdir()
    (host.home / name).write_text("2026-11-21 02:00:00.461 [SYS:INFO] Station\nother\n")
    found = read(host, GatewayKind.PROGRAM, local=True)
    assert found.texts == ("[SYS:INFO] Station", "other")
    assert found.lines[0].at is not None and found.lines[1].at is None
    assert host.calls == []


def test_a_log_that_is_not_there_is_named(host: GatewayHost) -> None:
    host.home.mkdir()
    with pytest.raises(GatewayFailed, match=r"neither station\.log nor log is in"):
        read(host, GatewayKind.PROGRAM, local=True)


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


def gateway(kind: GatewayKind, **more: object) -> GatewaySection:
    eui = Eui("0016C001F1500001")
    return GatewaySection(name="west", eui=eui, kind=kind, **more)  # type: ignore[arg-type]


def run(ssh: str | None, words: str, **more: int) -> str:
    return asyncio.run(GatewayShell("west", ssh, "/opt/basicstation").run(words, **more))


def test_ssh_never_asks_and_does_not_wait_long(host: GatewayHost) -> None:
    assert run("pi@west", "echo 'a  b'; cat") == "a  b\n"
    assert host.calls == ["ssh -o BatchMode=yes -o ConnectTimeout=10 pi@west echo 'a  b'; cat"]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("pi@nowhere", "west: pi@nowhere cannot be reached: .*is it on, and in this network?"),
        ("pi@stranger", "log in once by hand, `ssh pi@stranger`, and compare the key"),
    ],
)
def test_a_gateway_that_cannot_be_reached(host: GatewayHost, where: str, said: str) -> None:
    with pytest.raises(GatewayFailed, match=said):
        run(where, "true")


def test_what_a_failed_command_says_is_told(host: GatewayHost) -> None:
    with pytest.raises(GatewayFailed, match="west: pi@west ended with 3: no such unit"):
        run("pi@west", "echo no such unit >&2; exit 3")


def test_a_command_that_does_not_end_is_ended(host: GatewayHost) -> None:
    with pytest.raises(GatewayFailed, match="no end of 'exec sleep 60' within 0 s"):
        run("pi@west", "exec sleep 60", limit_us=200_000)


def test_without_ssh_it_is_said_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: os.PathLike[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GatewayFailed, match="no program ssh; install openssh-client"):
        run("pi@west", "true")


def test_a_home_of_somebody_else_is_entered_as_root(host: GatewayHost) -> None:
    host.program("id", "echo 1000")
    host.program("sudo", 'shift; exec "$@"')
    shell = GatewayShell("west", "pi@west", "/proc/nobody/home")
    assert asyncio.run(shell.run_script("echo $0 $((1 + 1))")) == "sh 2\n"
    assert host.calls[-1] == "sudo -n sh -s"
    own = GatewayShell("west", "pi@west", str(host.folder))
    assert asyncio.run(own.run_script("echo own")) == "own\n"
    assert host.calls[-1] == "id -u"


def test_a_password_for_sudo_is_not_asked_for(host: GatewayHost) -> None:
    host.program("id", "echo 1000")
    host.program("sudo", "echo 'sudo: a password is required' >&2; exit 1")
    with pytest.raises(GatewayFailed, match="use sudo without a password, or log in as root"):
        asyncio.run(GatewayShell("west", "pi@west", "/proc/nobody/home").run_script("true"))


def test_each_kind_is_restarted_in_its_way(host: GatewayHost) -> None:
    host.program("id", "echo 1000")
    host.program("sudo", 'shift; exec "$@"')
    host.program("reboot", "")
    asyncio.run(restart_gateway(gateway(GatewayKind.RASPBERRY_PI, ssh="pi@west")))
    assert host.calls[-2:] == [
        "sudo -n systemctl restart basicstation",
        "systemctl restart basicstation",
    ]
    assert "reboot" in restart_words(gateway(GatewayKind.WISGATE, ssh="root@west"))
    mark = host.folder / "it's done"
    for kind in (GatewayKind.PROGRAM, GatewayKind.WISGATE):
        asyncio.run(restart_gateway(gateway(kind, restart=("touch", str(mark)))))
        mark.unlink()


def test_a_gateway_without_a_way_in_says_what_is_missing() -> None:
    with pytest.raises(GatewayFailed, match='give ssh = "user@host"'):
        shell_of(gateway(GatewayKind.RASPBERRY_PI))
    with pytest.raises(GatewayFailed, match="give restart = "):
        asyncio.run(restart_gateway(gateway(GatewayKind.PROGRAM)))
