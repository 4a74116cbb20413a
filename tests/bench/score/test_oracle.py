"""The oracle against the sequential model, on random histories that love the edges."""

import ast
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import bench.score
from bench.chance import stream
from tests.bench.score.conftest import Line, Scored, captures, write_run
from tests.bench.score.frames import DataFrame, Frame, JoinRequest
from tests.reference.dedup_model import DedupModel, Device, Due, Heard

pytestmark = pytest.mark.spark

RETENTION_US = 60_000_000
STATIONS = ("B827EBFFFE000001", "B827EBFFFE000002", "B827EBFFFE000003")
DEVICES = ("70B3D57ED0000001", "F0B3D57ED0000002")
JOIN_EUI = "70B3D57ED0000000"
WAITS_US = (1, 700_000, 20_000_000, RETENTION_US - 1, RETENTION_US, RETENTION_US + 1)
CASES = 60
RECEPTIONS = 30


def histories() -> tuple[list[Line], dict[int, Due]]:
    lines: list[Line] = []
    due: dict[int, Due] = {}
    for number in range(CASES):
        history = History(number, stream(7, f"history {number}"))
        lines += history.lines
        due |= history.due
    return lines, due


@captures
def write(root: Path) -> dict[str, Path]:
    failed: Line = ("upstream", 1_500, "upstream.failed", {"topic": "t", "cause": "cut"})
    written = {
        "histories": histories()[0],
        "failed upstream": [*_history_of_one_frame(), failed],
        "failure that nobody saw": _history_of_one_frame(),
    }
    return {name: write_run(root / name, lines) for name, lines in written.items()}


def test_the_oracle_agrees_with_the_model_on_random_histories(scored: Scored) -> None:
    _, due = histories()
    words = ("oracle_status", "oracle_upstream", "oracle_reason", "oracle_answer")
    rows = scored.rows("receptions", "histories")
    observed = {row["t_us"]: tuple(row[word] for word in words) for row in rows}
    wrong = {t: (due[t], observed[t]) for t in due if due[t] != observed.get(t)}
    assert wrong == {}
    assert len(observed) == len(due) == CASES * RECEPTIONS
    met = {words[0] for words in due.values()} | {words[2] for words in due.values()}
    assert met >= {
        "NonDuplicate", "Duplicate", "SoftDuplicate", "DuplicateDueToResubmission", "-",
        "MicMismatch", "UnknownDevice", "InvalidFrameCounter", "ResubmissionLimit",
        "ResubmissionSuppressed", "DevNonceUsed",
    }  # fmt: skip


WORDS_AND_BOOKS = (
    "bench.spark.",
    "bench.lake.",
    "bench.capture.",
    "bench.verdict.owner",
    "bench.night.",
)


def test_the_oracle_shares_no_code_with_the_network_server() -> None:
    for file in Path(bench.score.__path__[0]).rglob("*.py"):
        for imported in _imports(ast.parse(file.read_text("utf-8"))):
            assert imported.split(".")[0] != "lns", file
            of_bench = imported.startswith("bench.") and not imported.startswith("bench.score")
            assert not of_bench or imported.startswith(WORDS_AND_BOOKS), file


class History:
    """One case: devices of random character, what they sent, and what the model says is due."""

    def __init__(self, number: int, chance: random.Random) -> None:
        self.case = f"case-{number}"
        self.t_us = number * 10_000_000_000
        self.chance = chance
        self.lines: list[Line] = []
        self.due: dict[int, Due] = {}
        self.model = DedupModel(RETENTION_US)
        self.sent: list[tuple[str, Frame, int, int]] = []
        self.sessions = dict.fromkeys(DEVICES, 0)
        self.counters = dict.fromkeys(DEVICES, 0)
        self._note("bench", "case.begin", case=self.case, scenario="test_it")
        self._note(
            "bench", "case.lns", case=self.case, lns="a", retention_us=RETENTION_US, event="start"
        )
        self.devices = {dev_eui: self._device(dev_eui, number) for dev_eui in DEVICES}
        for _ in range(RECEPTIONS):
            self._hear()
        self._note("bench", "case.end", case=self.case, verdict="PASS", reasons=[])

    def _device(self, dev_eui: str, number: int) -> Device:
        otaa = dev_eui == DEVICES[1]
        device = Device(
            strategy=("Drop", "Mark", "None")[number % 3],
            relaxed=not otaa and number % 2 == 0,
            lorawan=self.chance.choice(("1.0.2", "1.0.4")),
        )
        facts: dict[str, object] = {
            "case": self.case, "dev_eui": dev_eui, "name": dev_eui, "strategy": device.strategy,
            "activation": "otaa" if otaa else "abp", "relaxed_f_cnt": device.relaxed,
            "f_cnt_bits": 32, "nb_trans": 1, "lorawan": device.lorawan,
        }  # fmt: skip
        if not otaa and number % 5 < 2:
            device.last[0] = facts["f_cnt_up"] = self.chance.choice((0, 3, 40_000))
            self.counters[dev_eui] = device.last[0]
        self._note("bench", "case.device", **facts)
        return device

    def _hear(self) -> None:
        self.t_us += self.chance.choice(WAITS_US[:3] if self.chance.random() < 0.7 else WAITS_US)
        if self.chance.random() < 0.04:
            stale = self.chance.choice(({}, {"f_cnt_up": self.chance.randrange(5)}))
            self._note("bench", "case.lns", case=self.case, lns="a", event="restart", **stale)
            self.model.restart(self.devices.values(), stale.get("f_cnt_up"))
        if not self.sent or self.chance.random() < 0.3:
            self._send()
        recent = self.sent[-2:] if self.chance.random() < 0.8 else self.sent
        dev_eui, frame, counter, session = self.chance.choice(recent)
        forged = self.chance.random() < 0.05
        station = self.chance.choice((STATIONS[0], *STATIONS))
        self.t_us += 1
        changed = {"MIC": 99} if forged else {}
        text = frame.text(self.t_us, **changed)
        self._note(f"tap-{station}", "station.text", station=station, direction="up", text=text)
        join = isinstance(frame, JoinRequest)
        heard = Heard(
            self.t_us, station, dev_eui + frame.frame_id, counter, session=session, join=join,
            confirmed=isinstance(frame, DataFrame) and frame.confirmed,
            f_port=frame.f_port if isinstance(frame, DataFrame) else 2, genuine=not forged,
        )  # fmt: skip
        words = self.model.receive(self.devices[dev_eui], heard)
        if forged and not join and session < self.devices[dev_eui].newest_session:
            words = "-", "dropped", "UnknownDevice", "NotAsked"
        self.due[self.t_us] = words

    def _send(self) -> None:
        dev_eui = self.chance.choice(DEVICES)
        frame: Frame
        if dev_eui == DEVICES[1] and self.chance.random() < 0.3:
            counter = self.chance.randrange(6)
            frame = JoinRequest(JOIN_EUI, dev_eui, counter)
            if self.chance.random() < 0.5:
                self.sessions[dev_eui] += 1
                self.counters[dev_eui] = 0
        else:
            counter = self._next_counter(dev_eui)
            frame = DataFrame(
                f"{DEVICES.index(dev_eui):04X}{self.sessions[dev_eui]:04X}",
                counter,
                confirmed=self.chance.random() < 0.5,
                payload=self.chance.choice(("AA", "BB")),
                f_port=2,
            )
        session = self.sessions[dev_eui]
        self.sent.append((dev_eui, frame, counter, session))
        fields: dict[str, object] = {
            "transmission": len(self.sent), "direction": "up", "dev_eui": dev_eui, "phy": frame.phy,
            "frame_id": frame.frame_id, "genuine": True, "origin": "device",
        }  # fmt: skip
        if isinstance(frame, DataFrame):
            fields |= {"session": session, "f_cnt": counter}
        self._note("air", "radio.transmit", **fields)

    def _next_counter(self, dev_eui: str) -> int:
        step = self.chance.choice((1, 1, 1, 1, 0, -1, 16_384, 16_385, 30_000))
        last = self.counters[dev_eui]
        counter = self.chance.choice((0, 1)) if self.chance.random() < 0.15 else last + step
        self.counters[dev_eui] = min(max(counter, 0), 65_535)
        return self.counters[dev_eui]

    def _note(self, source: str, kind: str, **fields: object) -> None:
        self.lines.append((source, self.t_us, kind, dict(fields)))


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_what_a_failed_upstream_touched_is_not_judged(scored: Scored) -> None:
    rows = scored.rows("receptions", "failed upstream")
    assert [row["unknowable"] for row in rows] == [
        "upstream or store failed",
        "upstream or store had failed",
    ]


def test_a_failure_that_nobody_else_saw_is_not_believed(scored: Scored) -> None:
    rows = scored.rows("receptions", "failure that nobody saw")
    assert [(row["unknowable"], row["disposition_agrees"]) for row in rows] == [
        (None, False),
        (None, False),
    ]


def _history_of_one_frame() -> list[Line]:
    """A confirmed frame of a device under Drop, heard twice by one station, and its outcomes."""
    outcomes = (
        {"upstream": "dropped", "reason": "UpstreamUnavailable", "answer": "Suppressed"},
        {"upstream": "forwarded", "answer": "RX1"},
    )
    frame = DataFrame("00000001", 1, confirmed=True)
    device = {"dev_eui": DEVICES[0], "activation": "abp", "strategy": "Drop", "f_cnt_bits": 32,
              "relaxed_f_cnt": False, "nb_trans": 1, "lorawan": "1.0.4"}  # fmt: skip
    sent = {"direction": "up", "dev_eui": DEVICES[0], "session": 0, "f_cnt": 1, "genuine": True,
            "frame_id": frame.frame_id, "phy": frame.phy}  # fmt: skip
    lines: list[Line] = [
        ("bench", 0, "case.begin", {"case": "c"}),
        ("bench", 0, "case.device", {"case": "c", **device}),
        ("air", 500, "radio.transmit", sent),
    ]
    for number, outcome in enumerate(outcomes):
        t_us = 1_000 * (number + 1)
        text = {"station": STATIONS[0], "direction": "up", "text": frame.text(t_us)}
        words = {"station": STATIONS[0], "xtime": t_us, "frame_id": frame.frame_id, **outcome}
        status = ("NonDuplicate", "DuplicateDueToResubmission")[number]
        lines.append((f"tap-{STATIONS[0]}", t_us, "station.text", text))
        lines.append(("lns-a", t_us, "lns.outcome", {**words, "status": status}))
    return [*lines, ("bench", 9_000, "case.end", {"case": "c", "verdict": "PASS", "reasons": []})]
