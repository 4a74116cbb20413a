from pathlib import Path

import pytest

from tests.firmware_scripts.running import Ended, fake_program, script


def check(folder: Path, log: str, *, clock: str = "date -u +%s") -> Ended:
    """Run the check against a gateway whose `ssh` answers with this log and clock."""
    (folder / "log").write_text(log)
    fake_program(
        folder / "bin", "ssh", f'case $2 in date) {clock} ;; logread) cat "{folder}/log" ;; esac'
    )
    return script("gateway/wisgate.sh", "check", "root@192.168.10.12", path=folder / "bin")


HEALTHY = """
[SYS:INFO] Station EUI : ac1f:9ff:fe00:a1
[S2E:INFO] Configuring for region: EU868 -- 863.0MHz..870.0MHz
[RAL:INFO] Concentrator started (2s460ms)
"""


def test_a_healthy_log_is_well(tmp_path: Path) -> None:
    ended = check(tmp_path, HEALTHY)
    assert ended.code == 0, ended.err
    assert "well: Concentrator started" in ended.out and "well: clock" in ended.out


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("Concentrator start failed: lgw_start", "not reset, or not connected"),
        ("[RAL:ERRO] ral_config failed with status 0x08", "device path refused"),
        ("Received 'dnmsg' before 'router_config'", "a mistake of the network server"),
        ("Cannot convert xtime 12 to 13", "send one uplink anew"),
        ("missed TX time: txtime=1", "network or server too slow"),
        ("Feature not supported in production level code: nodc", "this build takes no nodc"),
        ("Infos error: unknown router", "does not know this EUI"),
        ("TLS server certificate verification failed", "the clock of the gateway"),
    ],
)
def test_a_bad_line_is_told_with_what_to_do(tmp_path: Path, line: str, advice: str) -> None:
    ended = check(tmp_path, f"[x] {line}\n")
    assert ended.code == 1
    assert advice in ended.out and "not ready" in ended.err


def test_only_its_latest_start_counts(tmp_path: Path) -> None:
    version, failed = (
        "[SYS:INFO] Station Ver : 2.0.6\n",
        "[RAL:ERRO] Concentrator start failed: x\n",
    )
    ended = check(tmp_path, f"{version}{HEALTHY}{version}{failed}")
    assert ended.code == 1 and "well: Concentrator started" not in ended.out
    ended = check(tmp_path, f"{version}{failed}{version}{HEALTHY}")
    assert ended.code == 0 and "Concentrator start failed" not in ended.out


def test_a_wrong_clock_is_not_ready(tmp_path: Path) -> None:
    ended = check(tmp_path, HEALTHY, clock="echo 1000")
    assert ended.code == 1
    assert "s off: make this host its NTP server" in ended.out


def test_a_gateway_that_is_not_reached_is_one_plain_message(tmp_path: Path) -> None:
    fake_program(tmp_path / "bin", "ssh", "exit 255")
    ended = script("gateway/wisgate.sh", "check", "root@x", path=tmp_path / "bin")
    assert ended.code == 1
    assert "ssh root@x does not work" in ended.err


def test_the_steps_hold_the_values_to_enter(tmp_path: Path) -> None:
    plain = script("gateway/wisgate.sh", "steps", "ws://192.168.10.5:6090")
    assert plain.code == 0
    assert "Server URL           ws://192.168.10.5\n" in plain.out
    assert "Port                 6090\n" in plain.out
    assert "No authentication" in plain.out
    (tmp_path / "tc.trust").write_text("-----BEGIN CERTIFICATE-----\n")
    secure = script("gateway/wisgate.sh", "steps", "wss://h:6090", tmp_path / "tc.trust")
    assert "TLS server authentication" in secure.out and "BEGIN CERTIFICATE" in secure.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say steps or check"),
        (["steps"], "needs the URI"),
        (["steps", "ws://h"], "names no port"),
        (["steps", "http://h:1"], "a tap is ws://"),
        (["steps", "wss://h:1"], "wss:// needs the file"),
        (["check"], "needs the gateway"),
        (["configure"], "what is 'configure'?"),
    ],
)
def test_a_wrong_command_line_is_told(arguments: list[str], message: str) -> None:
    ended = script("gateway/wisgate.sh", *arguments)
    assert ended.code == 4
    assert message in ended.err
