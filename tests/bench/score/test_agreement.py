"""The verdict that pytest shows and the one that Spark finds are the same, good news or bad."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.verdict.case import judge
from tests.bench.score.conftest import Scored, captures, unsealed
from tests.reading import cases, read

ROOT = Path(__file__).resolve().parents[3]

GOOD_AND_BAD = '''
import msgspec

from lns.station import protocol
from bench.clock import milliseconds, seconds
from bench.verdict.expectation import Table

NEW = Table("""
    strategy kind        | first
    *        confirmed   | NonDuplicate forwarded RX1
    *        unconfirmed | NonDuplicate forwarded NotAsked
""")
WRONG_STATUS = Table("""
    strategy kind        | first
    *        *           | SoftDuplicate forwarded NotAsked
""")
WRONG_ANSWER = Table("""
    strategy kind        | first
    *        *           | NonDuplicate forwarded RX2
""")
ENDED = Table("""
    strategy kind        | ended
    *        *           | no outcome
""")


async def test_right(rig, strategy):
    """Everything as expected."""
    rig.only("west")
    rig.expect(await rig.alpha.send(), NEW, first="west")


async def test_wrong_status(rig, strategy):
    """The words differ."""
    rig.only("west")
    rig.expect(await rig.alpha.send(), WRONG_STATUS, first="west")


async def test_wrong_answer(rig):
    """One word differs."""
    rig.only("west")
    rig.expect(await rig.alpha.send(confirmed=True), WRONG_ANSWER, first="west")


async def test_nobody_hears(rig):
    """The stimulus did not happen."""
    rig.only()
    rig.expect(await rig.alpha.send(), NEW, first="west")


async def test_the_wrong_station_hears(rig):
    """The stimulus was another one."""
    rig.only("east")
    rig.expect(await rig.alpha.send(), NEW, first="west")


async def test_one_too_many_hears(rig):
    """A reception that was not to be."""
    rig.east.delay_uplinks(milliseconds(50))
    rig.expect(await rig.alpha.send(), NEW, first="west")


async def test_wrong_words_and_a_deaf_station(rig):
    """A failure beats a doubt."""
    rig.only("west")
    rig.expect(await rig.alpha.send(), WRONG_STATUS + NEW, first="west")


async def test_the_device_says_something_else(rig):
    """A line that never came, though it was answered."""
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, NEW, first="west")
    rig.expect_reply(uplink, "+EVT:SEND_CONFIRMED_FAILED(4)")


async def test_the_device_does_not_say_that_it_is_done(rig):
    """A line that needs no answer."""
    rig.only("west")
    uplink = await rig.alpha.send()
    rig.expect(uplink, NEW, first="west")
    rig.expect_reply(uplink, "+EVT:TX_DONE")
    rig.expect_reply(uplink, "+EVT:TX_DONE")


async def test_the_device_hears_what_the_application_sends(rig):
    """A line of which nobody knows the signal."""
    rig.only("west")
    await rig.queue_downlink(rig.alpha, payload=b"on", port=7)
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, NEW, first="west")
    rig.expect_downlink(rig.alpha, b"on", port=7)


async def test_the_device_hears_something_else(rig):
    """A line that is due with another port."""
    rig.only("west")
    await rig.queue_downlink(rig.alpha, payload=b"on", port=7)
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, NEW, first="west")
    rig.expect_downlink(rig.alpha, b"on", port=8)


async def test_the_server_names_another_data_rate(rig):
    """An answer that the device cannot hear: what it does not say then is no fault of its own."""
    rig.only("west")
    right = protocol.dnmsg_text
    protocol.dnmsg_text = lambda down: right(msgspec.structs.replace(
        down, rx1_dr=3, rx2_dr=None, rx2_freq_hz=None))
    try:
        uplink = await rig.alpha.send(confirmed=True)
        await rig.settle()
    finally:
        protocol.dnmsg_text = right
    rig.expect(uplink, NEW, first="west")
    rig.expect_reply(uplink)


async def test_one_effect(rig):
    """Nothing but an effect is due."""
    rig.consumer()
    rig.expect_effects(await rig.inject(rig.alpha, message_id="x"))


async def test_two_effects_are_due(rig):
    """One message has one effect, and is ignored by nobody."""
    rig.consumer()
    rig.only("west")
    uplink = await rig.alpha.send()
    rig.expect(uplink, NEW, first="west")
    rig.expect_effects(uplink, 2)
    rig.expect_ignored(uplink, by="window")


async def test_a_server_is_ended_over_a_frame(rig):
    """It says nothing of it."""
    rig.only("west")
    rig.delay_upstream(seconds(60))
    frame = await rig.craft(rig.alpha)
    await rig.say(rig.told(frame, by="west"), by="west")
    await rig.wait(seconds(1))
    await rig.restart_lns()
    rig.expect(frame, ENDED, ended="west")


async def test_a_server_goes_on(rig):
    """It says something where it was to be ended."""
    rig.only("west")
    rig.expect(await rig.alpha.send(), ENDED, ended="west")


async def test_nothing_is_expected(rig):
    """A scenario that proves nothing."""
    await rig.alpha.send()


async def test_the_bench_breaks(rig):
    """A bug of the bench itself."""
    rig.only("west")
    rig.expect(await rig.alpha.send(), NEW, first="west")
    raise OSError("the bench is broken")


async def test_it_breaks_before_anything_is_due(rig):
    """A bug of the bench before the first frame."""
    raise OSError("the bench is broken")
'''


def _run(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["--rootdir", str(ROOT), "--capture-dir", str(folder), *arguments]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def _run_in(folder: Path, ran: "subprocess.Popen[str]") -> Path:
    said, _ = ran.communicate(timeout=300)
    runs = list(folder.glob("*"))
    assert len(runs) == 1, said
    return runs[0]


def _side_by_side(run: Path) -> Path:
    """The same run, as if all its cases had begun at nearly the same time."""
    begins = {
        event["case"]: event["t_us"] for event in read(run).events if event["kind"] == "case.begin"
    }
    earlier_us = {case: begin - 1_000 * place for place, (case, begin) in enumerate(begins.items())}
    moved = run.with_name(f"{run.name}-side-by-side")
    moved.mkdir()
    for path in run.glob("*.jsonl"):
        events = [unsealed(json.loads(line)) for line in path.read_bytes().splitlines()]
        for event in events:
            event["t_us"] += 10**13 - earlier_us.get(event.get("case"), 0)
        lines = [json.dumps(event, separators=(",", ":")) for event in events]
        (moved / path.name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return moved


def _said(found: dict[str, Any]) -> object:
    """What a score says of a run, but for the times and the order in which cases began."""
    verdicts = {row["case"]: (row["verdict"], row["owner"]) for row in found["verdicts"]}
    rules = sorted((row["case"], row["rule"], row["text"]) for row in found["findings"])
    same = ("totals", "counts", "confusion", "oracle", "oracle_agreement", "answers", "margins")
    return verdicts, rules, {name: found[name] for name in same}


NAMES = ("good and bad", "scenarios", "good and bad side by side", "scenarios side by side")


@captures
def write(root: Path) -> dict[str, Path]:
    root.mkdir()
    bad = root / "test_good_and_bad.py"
    bad.write_text(GOOD_AND_BAD, encoding="utf-8")
    good = "slow_backhaul or three_stations or a_replay_a or a_join_heard or new_session"
    good += " or always_listens or was_over_without_the_store or test_explored"
    good += " or handed_over_when or died_over_is or still_writes"
    side_by_side = {
        "bad": _run(root / "bad", "-p", "lorabench", "--noconftest", str(bad)),
        "good": _run(root / "good", "scenarios", "-k", good),
    }
    runs = [_run_in(root / name, ran) for name, ran in side_by_side.items()]
    runs += [_side_by_side(run) for run in runs]
    return dict(zip(NAMES, runs, strict=True))


@pytest.mark.spark
def test_python_and_spark_agree_on_every_verdict(scored: Scored) -> None:
    runs, scores = scored.folders, scored.scores
    for name in NAMES:
        run = runs[name]
        events = read(run).events
        ends = [event for event in events if event["kind"] == "case.end"]
        shown = {end["case"]: (end["verdict"], end.get("owner")) for end in ends}
        assert shown, "a run without cases proves nothing"
        found = {row["case"]: (row["verdict"], row["owner"]) for row in scores[name]["verdicts"]}
        assert found == shown
        again = {part[0]["case"]: str(judge(part).result) for part in cases(events)}
        assert again == {case: verdict for case, (verdict, _) in shown.items()}
    for name in NAMES[:2]:
        assert _said(scores[f"{name} side by side"]) == _said(scores[name])
    assert scores["scenarios"]["findings"] == scores["scenarios side by side"]["findings"] == []
    words = {row["verdict"] for row in scores["good and bad"]["verdicts"]}
    assert words == {"PASS", "FAIL", "INCONCLUSIVE", "ERROR"}
    assert {row["verdict"] for row in scores["scenarios"]["verdicts"]} == {"PASS"}
    told = json.loads((runs["good and bad"] / "score.json").read_text(encoding="utf-8"))
    assert told["totals"]["PASS"] == 6
