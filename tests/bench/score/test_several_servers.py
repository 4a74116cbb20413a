"""Several network servers that share devices: what the oracle and the laws between them say."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.verdict.case import judge
from tests.bench.score.conftest import Scored, captures, unsealed
from tests.reading import cases, read

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[3]
GROUP = "several_servers"
FIRST = f"{GROUP}/the_server_that_hears_first_owns_the_frame"
NEWER = f"{GROUP}/a_newer_frame_may_have_another_owner"
COPIES = f"{GROUP}/every_server_has_copies_of_its_own"
PINNED = f"{GROUP}/a_device_of_one_server_is_ignored_by_the_other"

Event = dict[str, Any]


class Capture:
    """A run folder whose lines can be changed, and written to another folder."""

    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        self.manifest = unsealed(json.loads((folder / "manifest.json").read_bytes()))
        self.sources = {
            path.name: [unsealed(json.loads(line)) for line in path.read_bytes().splitlines()]
            for path in sorted(folder.glob("*.jsonl"))
        }

    def find(self, case: str, kind: str, **fields: object) -> Event:
        """The first line of a kind in a case that has these fields."""
        for events in self.sources.values():
            for event in events:
                of_case = event["kind"] == kind and event.get("case") == case
                if of_case and all(event.get(name) == value for name, value in fields.items()):
                    return event
        raise LookupError(f"{case} has no {kind} with {fields}")

    def add(self, like: Event, **changes: object) -> None:
        """One more line of the same source."""
        events = self.sources[f"{like['source']}.jsonl"]
        events.append({**like, **changes, "seq": events[-1]["seq"] + 1})

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text(json.dumps(self.manifest), encoding="utf-8")
        for name, events in self.sources.items():
            lines = (json.dumps(event, separators=(",", ":")) + "\n" for event in events)
            (folder / name).write_text("".join(lines), encoding="utf-8")
        return folder


def swap_the_owner(capture: Capture) -> str:
    case = f"{FIRST}[Mark-confirmed]"
    for lns, word in (("lns-a", "NotOwner"), ("lns-b", "Owner")):
        capture.find(case, "lns.outcome", lns=lns)["level2"] = word
        capture.find(case, "lns.claim", lns=lns)["decision"] = word
    return case


def let_both_own_it(capture: Capture) -> str:
    case = f"{FIRST}[None-unconfirmed]"
    capture.find(case, "lns.outcome", lns="lns-b")["level2"] = "Owner"
    capture.find(case, "lns.claim", lns="lns-b")["decision"] = "Owner"
    return case


def let_both_answer(capture: Capture) -> str:
    case = f"{FIRST}[None-confirmed]"
    outcome = capture.find(case, "lns.outcome", lns="lns-b")
    outcome["answer"] = "RX1"
    downlink = capture.find(case, "lns.downlink", stage="scheduled", lns="lns-a")
    theirs = {name: outcome[name] for name in ("lns", "station", "xtime", "t_us")}
    capture.add(downlink, **theirs, f_cnt_down=1)
    return case


def use_a_downlink_counter_twice(capture: Capture) -> str:
    case = f"{NEWER}[Drop-confirmed]"
    capture.find(case, "lns.claim", f_cnt_down=1)["f_cnt_down"] = 0
    return case


def send_twice_under_drop(capture: Capture) -> str:
    case = f"{FIRST}[Drop-unconfirmed]"
    outcome = capture.find(case, "lns.outcome", lns="lns-b")
    del outcome["reason"]
    outcome["upstream"] = "forwarded"
    message = capture.find(case, "upstream.published")
    body = {**message["body"], "lns": "lns-b", "station": outcome["station"], "messageId": "other"}
    capture.add(message, t_us=outcome["t_us"], body=body)
    return case


def ask_for_a_soft_duplicate(capture: Capture) -> str:
    case = f"{COPIES}[Mark-unconfirmed]"
    outcome = capture.find(case, "lns.outcome", status="SoftDuplicate", lns="lns-a")
    _let_it_ask(capture, case, outcome)
    return case


def ask_for_a_pinned_device(capture: Capture) -> str:
    case = f"{PINNED}[Drop-unconfirmed]"
    outcome = capture.find(case, "lns.outcome", lns="lns-a")
    some = capture.find(f"{FIRST}[Drop-confirmed]", "lns.claim", lns="lns-a")
    facts = {name: outcome[name] for name in ("frame_id", "dev_eui", "dev_addr", "f_cnt")}
    _let_it_ask(capture, case, outcome, like=some, **facts)
    return case


def _let_it_ask(
    capture: Capture, case: str, outcome: Event, like: Event | None = None, **facts: object
) -> None:
    outcome["level2"] = "Owner"
    like = like or capture.find(case, "lns.claim", lns=outcome["lns"])
    where = {name: outcome[name] for name in ("station", "xtime", "t_us")}
    capture.add(like, case=case, **where, **facts, f_cnt_down=None, decision="Owner")


def keep_a_claim_to_itself(capture: Capture) -> str:
    case = f"{COPIES}[None-unconfirmed]"
    capture.find(case, "lns.claim", lns="lns-b")["decision"] = "Unavailable"
    return case


DAMAGE: dict[Callable[[Capture], str], set[str]] = {
    swap_the_owner: {"oracle level 2"},
    let_both_own_it: {"oracle level 2", "one owner per frame"},
    let_both_answer: {"oracle disposition", "one server answers"},
    use_a_downlink_counter_twice: {"no downlink counter claimed twice"},
    send_twice_under_drop: {"oracle disposition", "one message under Drop"},
    ask_for_a_soft_duplicate: {"oracle level 2"},
    ask_for_a_pinned_device: {"oracle level 2"},
    keep_a_claim_to_itself: {"claims and outcomes agree"},
}


_DAMAGED: dict[str, set[str]] = {}


@captures
def write(root: Path) -> dict[str, Path]:
    """The scenarios of several servers, played on the simulated rig, as they are and damaged."""
    command = [sys.executable, "-m", "bench", "run", GROUP, "--capture-dir", str(root / "runs")]
    ran = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    [good] = (root / "runs").glob("*")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    capture = Capture(good)
    _DAMAGED.update({harm(capture): rules for harm, rules in DAMAGE.items()})
    return {"servers": good, "damaged servers": capture.write(root / "damaged" / good.name)}


def test_nothing_is_unknowable_and_the_oracle_agrees_with_every_server(scored: Scored) -> None:
    agreement = dict(scored.scores["servers"]["oracle_agreement"])
    assert agreement["unknowable"] == {}
    receptions = agreement.pop("receptions")
    assert receptions == scored.scores["servers"]["counts"]["receptions"] > 200
    assert {agreement[word] for word in ("status_agree", "disposition_agree", "level2_agree")} == {
        receptions
    }
    assert scored.scores["servers"]["findings"] == []


def test_every_damage_is_found_and_belongs_to_the_network_server(scored: Scored) -> None:
    found: dict[str, set[str]] = {case: set() for case in _DAMAGED}
    for finding in scored.scores["damaged servers"]["findings"]:
        assert finding["case"] in _DAMAGED, finding
        assert finding["owner"] == "LNS", finding
        found[finding["case"]].add(finding["rule"])
    for case, rules in _DAMAGED.items():
        assert rules <= found[case], case


def test_copies_that_one_server_knows_ask_nobody(scored: Scored) -> None:
    calls = scored.scores["servers"]["store_calls"]
    asked = {row["status"] for row in calls if row["asked"]}
    assert asked == {"NonDuplicate", "DuplicateDueToResubmission"}
    silent = [row for row in calls if row["status"] in ("Duplicate", "SoftDuplicate")]
    assert {row["strategy"] for row in silent} == {"Drop", "Mark", "None"}
    assert sum(row["asked"] for row in silent) == 0 < sum(row["receptions"] for row in silent)
    claims = sum(event["kind"] == "lns.claim" for event in read(scored.folders["servers"]).events)
    # The scenario with a pinned device alone asks nobody, so its receptions are not counted.
    assert sum(row["asked"] for row in calls) == claims


def test_plain_python_has_the_same_verdicts(scored: Scored) -> None:
    for name in ("servers", "damaged servers"):
        folder, found = scored.folders[name], scored.scores[name]
        events = read(folder).events
        again = {part[0]["case"]: str(judge(part).result) for part in cases(events)}
        assert again == {row["case"]: row["verdict"] for row in found["verdicts"]}
