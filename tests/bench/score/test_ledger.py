"""The ledger of runs with consumers: where duplicates are born and die, and what a damage opens."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.capture.reading import Event
from bench.score import laws
from bench.verdict.expectation import Evidence
from bench.verdict.particulars import wrong_effects
from tests.bench.score.conftest import Scored, captures, unsealed
from tests.reading import cases, read

ROOT = Path(__file__).resolve().parents[3]
RULES = {
    laws.NEVER_DELIVERED, laws.NEVER_DECIDED, laws.NO_EFFECT,
    laws.EFFECT_TWICE, laws.EFFECT_OF_NOTHING, laws.IGNORED_AS_NEW,
}  # fmt: skip

SCENARIOS = '''
import pytest

from scenarios.words import COPY, FIRST


@pytest.mark.parametrize("damage", [
    "nothing", "never delivered", "never decided", "no effect", "effect twice",
    "effect of nothing sent", "effect of nothing accepted", "ignored as new",
])
async def test_a_resend_is_recognised(rig, damage):
    """The server sends the second message twice; the consumer knows it by its id."""
    rig.consumer()
    rig.only("west")
    before = await rig.alpha.send()
    await rig.until_published(before)
    await rig.lose_pubacks()
    uplink = await rig.alpha.send()
    await rig.until_published(uplink)
    await rig.find_broker()
    await rig.until_published(uplink, times=2)
    for one in (before, uplink):
        rig.expect(one, FIRST, first="west")
        rig.expect_effects(one)
    rig.expect_ignored(uplink, by="window")


async def test_a_consumer_crashes(rig):
    """It has had the effect, and the broker does not know."""
    rig.consumer()
    rig.only("west")
    await rig.crash_consumer("ack")
    uplink = await rig.alpha.send()
    await rig.until_published(uplink)
    await rig.start_consumer()
    rig.expect(uplink, FIRST, first="west")
    rig.expect_effects(uplink)


async def test_an_acknowledgement_is_lost(rig):
    """The broker brings the message again."""
    rig.consumer()
    rig.only("west")
    before = await rig.alpha.send()
    await rig.until_published(before)
    await rig.lose_acks()
    uplink = await rig.alpha.send()
    await rig.until_published(uplink)
    await rig.redeliver()
    for one in (before, uplink):
        rig.expect(one, FIRST, first="west")
        rig.expect_effects(one)


async def test_copies(rig, strategy):
    """A copy that is let through is another message, and for one consumer another effect."""
    rig.consumer("by id")
    rig.consumer("by key", keys=True)
    rig.east.delay_uplinks(50_000)
    uplink = await rig.alpha.send()
    rig.expect(uplink, FIRST + COPY, first="west", copy="east")
    rig.expect_effects(uplink, consumer="by key")


async def test_one_store(rig):
    """Two consumers have one effect together."""
    rig.consumer("first", store="shared", sequence=False)
    rig.consumer("second", store="shared", sequence=False)
    rig.only("west")
    uplink = await rig.alpha.send()
    rig.expect(uplink, FIRST, first="west")
    rig.expect_effects(uplink)


async def test_twice_as_due(rig):
    """Nobody compares anything, and the scenario says so."""
    rig.consumer(window=None)
    message = await rig.inject(rig.alpha, message_id="x")
    await rig.inject(rig.alpha, message_id="x")
    rig.expect_effects(message, 2)


async def test_wrong_number_of_effects(rig):
    """Two are due, one is there; and an ignored one is due, and none is there."""
    rig.consumer()
    rig.only("west")
    uplink = await rig.alpha.send()
    rig.expect(uplink, FIRST, first="west")
    rig.expect_effects(uplink, 2, consumer="application")
    rig.expect_ignored(uplink, by="window")
    rig.expect_effects(await rig.inject(rig.alpha, message_id="x"), 3)
'''

Damage = Callable[[Event], list[Event]]


def _second(event: Event) -> bool:
    """Whether a line is of the second message of a case, the one that is sent twice."""
    message_id = event.get("message_id") or event.get("body", {}).get("messageId", "")
    return str(message_id).endswith("-11")


def _without(*kinds: str) -> Damage:
    return lambda event: [] if event["kind"] in kinds and _second(event) else [event]


def _doubled(event: Event) -> list[Event]:
    return [event, event] if event["kind"] == "application.effect" and _second(event) else [event]


def _invented(event: Event) -> list[Event]:
    if event["kind"] != "application.effect" or not _second(event):
        return [event]
    return [event, {**event, "position": 3, "message_id": "nobody sent it"}]


def _refused(event: Event) -> list[Event]:
    if event["kind"] == "lns.outcome" and event["f_cnt"] == 11:
        return [{**event, "upstream": "dropped", "reason": "InvalidFrameCounter"}]
    return [event]


def _of_another(event: Event) -> list[Event]:
    return [{**event, "first_position": 1}] if event["kind"] == "inbox.ignored" else [event]


_PUBLISHED = ("upstream.published", "upstream.repeated")
_DECIDED = ("inbox.accepted", "inbox.ignored", "application.effect")
DAMAGES: dict[str, tuple[Damage, set[tuple[str, str]]]] = {
    "nothing": (lambda event: [event], set()),
    "never delivered": (
        _without(*_PUBLISHED, *_DECIDED),
        {("LNS", "accepted but never delivered")},
    ),
    "never decided": (_without(*_DECIDED), {("broker", "delivered but never decided")}),
    # What was ignored has its first message in what the consumer said of it.
    "no effect": (_without("application.effect"), {("application", "accepted without effect")}),
    "effect twice": (_doubled, {("application", "effect twice")}),
    "effect of nothing sent": (_invented, {("application", "effect of nothing accepted")}),
    "effect of nothing accepted": (_refused, {("LNS", "effect of nothing accepted")}),
    "ignored as new": (_of_another, {("application", "ignored though never accepted before")}),
}


def _run(folder: Path, scenarios: Path) -> Path:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--noconftest"]
    command += ["--rootdir", str(ROOT), "--capture-dir", str(folder), "-p", "lorabench"]
    ran = subprocess.run(
        [*command, str(scenarios)], cwd=ROOT, capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip
    runs = list(folder.glob("*"))
    assert len(runs) == 1, ran.stdout + ran.stderr
    return runs[0]


def _damaged(run: Path) -> Path:
    """The same run, in which each case that names a damage has it."""
    damaged = run.with_name(f"{run.name}-damaged")
    damaged.mkdir()
    for path in run.glob("*.jsonl"):
        events: list[Event] = []
        for line in path.read_bytes().splitlines():
            event = unsealed(json.loads(line))
            name = str(event.get("case", "")).partition("[")[2].rstrip("]")
            found = DAMAGES[name][0](event) if name in DAMAGES else [event]
            events += [{**one, "seq": len(events) + n} for n, one in enumerate(found)]
        lines = [json.dumps(event) + "\n" for event in events]
        (damaged / path.name).write_text("".join(lines), encoding="utf-8")
    return damaged


@captures
def write(root: Path) -> dict[str, Path]:
    root.mkdir()
    scenarios = root / "test_consumers.py"
    scenarios.write_text(SCENARIOS, encoding="utf-8")
    run = _run(root / "runs", scenarios)
    return {"consumers": run, "damaged consumers": _damaged(run)}


def _wrong(scored: Scored, name: str) -> list[tuple[str, str]]:
    """What Spark finds of effects that are not as due, by case and text."""
    found = scored.scores[name]["findings"]
    return sorted((row["case"], row["text"]) for row in found if row["rule"] == "effect")


def _open(scored: Scored, name: str) -> dict[str, set[tuple[str, str]]]:
    """The laws between acceptance and effect that are broken, by the damage of the case."""
    broken: dict[str, set[tuple[str, str]]] = {}
    for row in scored.scores[name]["findings"]:
        if row["rule"] in RULES:
            damage = row["case"].partition("[")[2].rstrip("]")
            broken.setdefault(damage, set()).add((row["owner"], row["rule"]))
    return broken


def _wrong_in_python(run: Path) -> list[tuple[str, str]]:
    return sorted(
        (part[0]["case"], text)
        for part in cases(read(run).events)
        for _, text in wrong_effects(Evidence.of(part), part)
    )


@pytest.mark.spark
def test_the_ledger_of_consumers_closes(scored: Scored) -> None:
    assert _open(scored, "consumers") == {}
    assert {text for _, text in _wrong(scored, "consumers")} == {
        "effects of 70B3D57ED0000001 FCnt 10 at application: expected 2, observed 1",
        "window duplicates of 70B3D57ED0000001 FCnt 10 at all consumers: expected 1, observed 0",
        "effects of message x at all consumers: expected 3, observed 1",
    }
    assert _wrong(scored, "consumers") == _wrong_in_python(scored.folders["consumers"])
    books = dict(scored.scores["consumers"]["ledger"])
    lives = {(row["born"], row["died"]): row["count"] for row in books.pop("duplicates")}
    assert lives == {
        ("air", "level 1"): 1,  # the copy under Drop
        ("LNS", "window"): 8,
        ("LNS", "effect"): 2,  # the copies under Mark and None
        ("LNS", "key"): 2,
        ("consumer", "window"): 1,
        ("broker", "window"): 2,  # brought again, and to both consumers of one store
        ("bench", "effect"): 1,
    }
    # Eight cases with two uplinks, and one, two, three, one and one of the others.
    assert books == {
        "uplinks": 24, "delivered": 24, "consumed": 24, "once": 22, "copies": 2, "more": 0,
        "never": 0,
    }  # fmt: skip
    _has_a_row_for_each_copy_and_each_uplink(scored.rows("ledger", "consumers"))


@pytest.mark.spark
def test_a_damage_opens_the_ledger_of_consumers(scored: Scored) -> None:
    name = "damaged consumers"
    assert _open(scored, name) == {name: laws for name, (_, laws) in DAMAGES.items() if laws}
    assert _wrong(scored, name) == _wrong_in_python(scored.folders[name])
    assert len(_wrong(scored, name)) > len(_wrong(scored, "consumers"))


def _has_a_row_for_each_copy_and_each_uplink(rows: list[dict[str, Any]]) -> None:
    of_copies = [row for row in rows if "/copies[" in row["case"]]
    told = sorted(
        (row["what"], row["case"].partition("[")[2].rstrip("]"), str(row["consumer"]),
         str(row["born"]), row["died"])
        for row in of_copies
    )  # fmt: skip
    assert told == [
        ("duplicate", "Drop", "None", "air", "level 1"),
        ("duplicate", "Mark", "by id", "LNS", "effect"),
        ("duplicate", "Mark", "by key", "LNS", "key"),
        ("duplicate", "None", "by id", "LNS", "effect"),
        ("duplicate", "None", "by key", "LNS", "key"),
        ("uplink", "Drop", "by id", "None", "effect"),
        ("uplink", "Drop", "by key", "None", "effect"),
        ("uplink", "Mark", "by id", "None", "effect"),
        ("uplink", "Mark", "by key", "None", "effect"),
        ("uplink", "None", "by id", "None", "effect"),
        ("uplink", "None", "by key", "None", "effect"),
    ]
    uplink = next(row for row in of_copies if row["what"] == "uplink" and "[None]" in row["case"])
    assert (uplink["which"], uplink["delivered"]) == ("70B3D57ED0000001-26000001-10", 2)
