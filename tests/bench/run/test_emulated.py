"""The emulated rig as people use it: pytest in a process of its own, real wires and programs."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from bench.host.lns_process import Valkey
from tests.bench.test_pytest_plugin import PASSES, Ran, pytest_in
from tests.blocking import start_now, stop_now

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]

EMULATED = ("--rig", "emulated")


def emulated_in(folder: Path, scenarios: str, *arguments: str, **env: str) -> Ran:
    return pytest_in(folder, scenarios, *EMULATED, *arguments, **env)


STORES = '''

@pytest.mark.requires("own store")
@pytest.mark.fault("store", "restart")
async def test_own(rig):
    """It says that it disturbs the store, and has one of its own."""
    await stimulus(rig)
    await rig.restart_store(empty=True)
    await stimulus(rig)


async def test_shared(rig):
    """It forgot to say so."""
    await stimulus(rig)
    await rig.restart_store(empty=True)
'''


CONSUMER = '''

@pytest.mark.fault("broker", "PUBACK lost")
async def test_consumes(rig):
    """A message that the server sends again has one effect."""
    rig.consumer("one")
    rig.only("west")
    await rig.lose_pubacks()
    uplink = await rig.alpha.send()
    await rig.until_published(uplink)
    await rig.find_broker()
    await rig.until_published(uplink, times=2)
    rig.expect_effects(uplink, consumer="one")
    rig.expect_ignored(uplink, by="window")
'''


OTHERS = '''

@pytest.mark.requires("virtual time", "wires")
async def test_exact(rig):
    """It would need more than real wires have."""
    raise AssertionError


async def test_kills(rig):
    """It forgot to say that it kills."""
    await stimulus(rig)
    await rig.restart_lns()


async def test_deaf(rig):
    """Nobody hears it, so nothing is proven."""
    rig.only()
    uplink = await rig.alpha.send()
    rig.expect(uplink, NEW, first="west")


async def test_w(rig):
    """It expects something else."""
    await stimulus(rig, WRONG)
'''


BREAKS = '''
import os, signal

TIMES = []


async def test_breaks_once(rig):
    """A start that the kernel refuses."""
    TIMES.append(1)
    if len(TIMES) == 1:
        raise OSError(14, "Bad address")
    await stimulus(rig)


async def test_breaks_always(rig):
    """A host that is broken."""
    raise OSError(14, "Bad address")


async def test_is_wrong(rig):
    """A mistake of a scenario."""
    raise RuntimeError("misspelt")


@pytest.mark.fault("lns", "restart")
async def test_dies(rig):
    """It ends by itself."""
    await stimulus(rig)
    os.kill(rig.setup.servers["lns-a"].program.pid, signal.SIGKILL)
'''


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """One run with scenarios that end in every way, side by side."""
    scenarios = PASSES + STORES + CONSUMER + OTHERS + BREAKS
    return emulated_in(tmp_path_factory.mktemp("mixed"), scenarios)


def test_each_case_has_the_verdict_that_it_deserves(mixed: Ran) -> None:
    assert mixed.code == 1, mixed.output
    last = dict(mixed.verdicts)
    wrong = [last.pop("here/w"), last.pop("here/dies")]
    assert last == {
        "here/passes": "PASS",
        "here/own": "PASS",
        "here/shared": "ERROR",
        "here/consumes": "PASS",
        "here/kills": "ERROR",
        "here/deaf": "INCONCLUSIVE",
        "here/breaks_once": "PASS",
        "here/breaks_always": "ERROR",
        "here/is_wrong": "ERROR",
    }, mixed.output
    # Where this host could not keep up, nobody is blamed for what went wrong.
    blamed = {"FAIL", "INCONCLUSIVE"} if stalled(mixed) else {"FAIL"}
    assert set(wrong) <= blamed, mixed.output


def stalled(ran: Ran) -> bool:
    """Whether this host let the bench wait."""
    return any(event["kind"] == "host.stalled" for event in ran.events)


def test_a_scenario_on_real_wires_leaves_every_kind_of_event(mixed: Ran) -> None:
    events = mixed.of("passes")
    kinds = {event["kind"] for event in events}
    assert {"device.command", "radio.transmit", "station.text", "lns.outcome"} <= kinds
    assert {"upstream.published", "upstream.acknowledged"} <= kinds
    assert all("case" in event for event in mixed.events if event["source"] != "bench")
    times = [event["t_us"] for event in events if event["kind"].startswith("case.")]
    assert times == sorted(times)


def test_over_tls_too_and_no_key_is_left_behind(tmp_path: Path) -> None:
    ran = emulated_in(tmp_path, PASSES, "--tls")
    assert ran.passed, ran.output
    [run] = ran.runs
    written = "".join(file.read_text() for file in run.iterdir() if file.is_file())
    assert "PRIVATE KEY" not in written and "nwk_s_key" not in written


def test_what_the_rig_has_not_is_left_out_and_said(mixed: Ran) -> None:
    [left_out] = [event for event in mixed.events if event["kind"] == "case.left_out"]
    assert (left_out["case"], left_out["missing"]) == ("here/exact", ["virtual time"])
    assert "left out   1 (the emulated rig lacks: virtual time)" in mixed.output


def test_a_shared_network_server_is_not_killed(mixed: Ran) -> None:
    assert '@pytest.mark.fault("lns", …)' in mixed.output


def test_only_a_store_of_its_own_is_restarted(mixed: Ran) -> None:
    assert '@pytest.mark.fault("store", …)' in mixed.output
    [begin, end] = [event for event in mixed.of("own") if event.get("seam") == "store"]
    assert (begin["kind"], end["kind"]) == ("fault.begin", "fault.end")
    assert not [event for event in mixed.of("shared") if event.get("seam") == "store"]


def test_a_stimulus_that_fails_is_repeated(mixed: Ran) -> None:
    ends = [end for end in mixed.ends if end["case"].startswith("here/deaf")]
    attempts = [(end["case"], end["attempt"], end.get("repeated", False)) for end in ends]
    assert attempts == [
        ("here/deaf", 1, True),
        ("here/deaf (attempt 2)", 2, True),
        ("here/deaf (attempt 3)", 3, True),
        ("here/deaf (attempt 4)", 4, False),
    ]


def test_what_proved_nothing_is_played_again_after_all_others(mixed: Ran) -> None:
    """Not in the same busy moment."""
    times: dict[str, list[int]] = {"case.begin": [], "case.end": []}
    first_over_us = []
    for event in mixed.events:
        if event["kind"] in times and "(attempt" in event["case"]:
            times[event["kind"]].append(event["t_us"])
        elif event["kind"] == "case.end":
            first_over_us.append(event["t_us"])
    assert times["case.begin"]
    assert max(first_over_us) <= min(times["case.begin"])
    assert "(attempt" not in "".join(event["case"] for event in mixed.of("passes")) or stalled(
        mixed
    )


def test_a_wrong_expectation_is_not_played_again(mixed: Ran) -> None:
    """Attempts before it proved nothing, on a host that was too busy."""
    ends = [end for end in mixed.ends if end["case"].startswith("here/w")]
    *before, last = [end["verdict"] for end in ends]
    assert set(before) <= {"INCONCLUSIVE"}
    assert last == "FAIL" or (len(before) == 3 and stalled(mixed))
    assert not before or stalled(mixed)


def test_a_consumer_is_a_program_whose_decisions_are_collected(mixed: Ran) -> None:
    events = mixed.of("consumes")
    told = [event["kind"] for event in events if event["source"] in ("inbox", "application")]
    assert sorted(told) == ["application.effect", "inbox.accepted", "inbox.ignored"]
    published = [event["kind"] for event in events if event["source"] == "upstream"]
    assert published == ["upstream.published", "upstream.repeated"]
    assert {event["consumer"] for event in events if event["source"] == "inbox"} == {"one"}


def test_a_case_that_hangs_is_ended_and_only_its_own_time_counts(tmp_path: Path) -> None:
    scenarios = (
        PASSES
        + '''

async def test_hangs(rig):
    """It never comes to its end."""
    import asyncio
    rig._limit_s = 3
    await stimulus(rig)
    await asyncio.sleep(3600)
'''
    )
    ran = emulated_in(tmp_path, scenarios, "-p", "pytest_timeout", "--timeout", "1")
    assert ran.verdicts == {"here/passes": "PASS", "here/hangs": "ERROR"}
    assert "not over 3 s after it began" in ran.output


def test_without_a_broker_there_is_one_sentence(tmp_path: Path) -> None:
    ran = emulated_in(tmp_path, PASSES, MOSQUITTO="/there/is/none")
    assert ran.code == 12
    assert "MOSQUITTO names /there/is/none, and there is no such program: unset it" in ran.output
    assert "Traceback" not in ran.output


JOINS = """

async def test_joins(rig):
    \"\"\"It joins, and its DevNonce is new.\"\"\"
    rig.only("west")
    joining = await rig.bravo.join()
    rig.expect(joining, JOINED, first="west")
    rig.expect_reply(joining)


JOINED = Table(\'\'\'
    strategy kind | first
    *        join | NonDuplicate dropped RX1
\'\'\')
"""


def test_a_store_that_is_there_serves_one_run_after_another_and_is_nobodys_to_restart(
    tmp_path: Path,
) -> None:
    store = start_now(Valkey(tmp_path, password="the-secret"))
    try:
        for run in ("first", "second"):
            folder = tmp_path / run
            folder.mkdir()
            words = ("--redis", store.url, "-k", "own or joins")
            ran = emulated_in(folder, STORES + JOINS, *words)
            assert ran.passed and ran.verdicts == {"here/joins": "PASS"}, ran.output
            [left_out] = [event for event in ran.events if event["kind"] == "case.left_out"]
            assert (left_out["case"], left_out["missing"]) == ("here/own", ["own store"])
            assert "the-secret" not in ran.output
            assert "the-secret" not in (ran.runs[0] / "manifest.json").read_text()
    finally:
        stop_now(store)


def test_a_program_that_logs_keys_fails(tmp_path: Path) -> None:
    tells = 'cat "$(dirname "$0")/devices.toml" >&2; exec "$PYTHON" -m lns "$0"'
    server = shlex.join(["sh", "-c", tells])
    ran = emulated_in(tmp_path, PASSES, LORABENCH_SERVER=server, PYTHON=sys.executable)
    assert ran.verdicts == {"here/passes": "FAIL"}
    reasons = [reason for end in ran.ends for reason in end["reasons"]]
    assert "what is logged: keys of 70B3D57ED0000101: expected none, observed one" in reasons
    assert not re.search("[0-9a-fA-F]{32}", ran.output)


def test_a_url_that_names_no_store_is_refused(tmp_path: Path) -> None:
    ran = emulated_in(tmp_path, PASSES, "--redis", "http://:the-secret@here")
    assert ran.code == 4
    assert "--redis: not the URL of a Redis server" in ran.output
    assert "the-secret" not in ran.output


def test_a_store_that_is_away_is_told_before_anything_starts(tmp_path: Path) -> None:
    ran = emulated_in(tmp_path, PASSES, "--redis", "redis://user:the-secret@127.0.0.1:1")
    assert (ran.code, ran.runs) == (4, [])
    assert "--redis: redis://127.0.0.1:1/0 is not available: Error 111" in ran.output
    assert "the-secret" not in ran.output


def test_what_this_host_broke_is_played_again_and_a_mistake_of_a_scenario_is_not(
    mixed: Ran,
) -> None:
    def attempts(case: str) -> list[tuple[str, bool]]:
        ends = [end for end in mixed.ends if end["case"].startswith(f"here/{case}")]
        return [(end["verdict"], end.get("repeated", False)) for end in ends]

    assert attempts("breaks_always") == [("ERROR", True), ("ERROR", True), ("ERROR", False)]
    assert attempts("is_wrong") == [("ERROR", False)]
    first, *again = attempts("breaks_once")
    assert first == ("ERROR", True)
    assert again[-1] == ("PASS", False)


def test_a_network_server_that_dies_is_no_fault_of_the_bench(mixed: Ran) -> None:
    end = [end for end in mixed.ends if end["case"].startswith("here/dies")][-1]
    assert (end["verdict"], end["owner"]) == ("FAIL", "LNS") or stalled(mixed)
    assert any("ServerDied" in reason for reason in end["reasons"])
