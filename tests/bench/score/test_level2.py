"""Level 2 worked out from arrivals: races, outages and what a day forgets, in captures by hand."""

from pathlib import Path

import pytest

from tests.bench.score.conftest import Line, Scored, captures, write_run
from tests.bench.score.frames import DataFrame

pytestmark = pytest.mark.spark

DEVICE = "70B3D57ED0000001"
HOMES = {"B827EBFFFE000001": "lns-a", "B827EBFFFE000002": "lns-b"}
WEST, EAST = HOMES
DAY_US = 86_400_000_000
UP = "NonDuplicate forwarded - NotAsked"
ELSEWHERE = "NonDuplicate dropped DuplicateAtOtherServer NotAsked"
CLOSED = "NonDuplicate dropped StoreUnavailable NotAsked"
TOO_OLD = "NonDuplicate dropped InvalidFrameCounter NotAsked"

Heard = tuple[int, str, int, str, str]  # t_us, station, FCnt, words of the outcome, level 2


def case(name: str, start_us: int, heard: list[Heard], *more: Line, on_outage: str) -> list[Line]:
    """A case with a device under Drop whose unconfirmed frames two servers hear."""
    device = {"dev_eui": DEVICE, "activation": "abp", "strategy": "Drop", "f_cnt_bits": 32,
              "relaxed_f_cnt": False, "nb_trans": 1, "lorawan": "1.0.4", "f_cnt_up": 9}  # fmt: skip
    lines: list[Line] = [("bench", 0, "case.begin", {}), ("bench", 0, "case.device", device)]
    for lns in sorted(set(HOMES.values())):
        facts = {"lns": lns, "retention_us": 60_000_000, "event": "start", "on_outage": on_outage}
        lines.append(("bench", 0, "case.lns", facts))
    lines += more
    for f_cnt in sorted({one[2] for one in heard}):
        frame = DataFrame("00000001", f_cnt)
        sent = {"direction": "up", "dev_eui": DEVICE, "session": 0, "f_cnt": f_cnt,
                "genuine": True, "frame_id": frame.frame_id, "phy": frame.phy}  # fmt: skip
        lines.append(("air", 1, "radio.transmit", sent))
    for t_us, station, f_cnt, words, level2 in heard:
        frame = DataFrame("00000001", f_cnt)
        found = dict(zip(("status", "upstream", "reason", "answer"), words.split(), strict=True))
        told = {name: word for name, word in found.items() if word != "-"}
        outcome = {"station": station, "lns": HOMES[station], "xtime": t_us, "dev_eui": DEVICE,
                   "frame_id": frame.frame_id, "confirmed": False, "level2": level2}  # fmt: skip
        text = {"station": station, "direction": "up", "text": frame.text(t_us)}
        lines.append((f"tap-{station}", t_us, "station.text", text))
        lines.append((HOMES[station], t_us, "lns.outcome", {**outcome, **told}))
    lines.append(("bench", 2 * DAY_US, "case.end", {"verdict": "PASS", "reasons": []}))
    moved = [(s, start_us + t, kind, {"case": name, **fields}) for s, t, kind, fields in lines]
    return sorted(moved, key=lambda line: line[1])


def fault(t_us: int, **more: object) -> Line:
    fields = {"seam": "store", "fault": "cut", "origin": "injected", **more}
    return "bench", t_us, "fault.begin", fields


LATE = 1_000_000
LOOKS = DAY_US - 600_000_000
CASES: dict[str, tuple[list[Heard], list[Line], str, list[bool]]] = {
    # Twenty milliseconds apart the wires leave the order open: either is right, but one has it.
    "race won by the second": (
        [(LATE, WEST, 10, ELSEWHERE, "NotOwner"), (LATE + 9_000, EAST, 10, UP, "Owner")],
        [], "open", [True, True],
    ),
    "race that nobody wins": (
        [(LATE, WEST, 10, ELSEWHERE, "NotOwner"), (LATE + 9_000, EAST, 10, ELSEWHERE, "NotOwner")],
        [], "open", [False, True],
    ),
    "race that both win": (
        [(LATE, WEST, 10, UP, "Owner"), (LATE + 9_000, EAST, 10, UP, "Owner")],
        [], "open", [True, False],
    ),
    "no race": (
        [(LATE, WEST, 10, ELSEWHERE, "NotOwner"), (LATE + 90_000, EAST, 10, UP, "Owner")],
        [], "open", [False, False],
    ),
    "overtaken by a newer frame": (
        [(LATE, WEST, 10, ELSEWHERE, "NotOwner"), (LATE + 5_000, EAST, 11, UP, "Owner")],
        [], "open", [True, True],
    ),
    # What is too far for all belongs to nobody, and nobody is told whose it is.
    "too far for all": (
        [(LATE, WEST, 16_394, TOO_OLD, "NotAsked"), (2 * LATE, EAST, 16_393, UP, "Owner")],
        [], "open", [True, True],
    ),
    "too far and granted": (
        [(LATE, WEST, 16_394, UP, "Owner")], [], "open", [False],
    ),
    # An outage is believed where the capture shows one.
    "outage that nobody saw": (
        [(LATE, WEST, 10, UP, "Unavailable")], [], "open", [False],
    ),
    "outage of another server": (
        [(LATE, WEST, 10, UP, "Unavailable")], [fault(500, lns="lns-b")], "open", [False],
    ),
    "open outage": (
        [(LATE, WEST, 10, UP, "Unavailable"), (LATE + 90_000, EAST, 10, UP, "Unavailable"),
         (2 * LATE, WEST, 11, UP, "Owner")],
        [fault(500)], "open", [True, True, True],
    ),
    "closed outage": (
        [(LATE, WEST, 10, CLOSED, "Unavailable"), (2 * LATE, WEST, 10, CLOSED, "Unavailable"),
         (3 * LATE, WEST, 10, UP, "Owner")],
        [fault(500)], "closed", [True, True, True],
    ),
    "dropped though open": (
        [(LATE, WEST, 10, CLOSED, "Unavailable")], [fault(500)], "open", [False],
    ),
    # The answer of the store was lost: the claim may have been granted, or not.
    "lost answer, not granted": (
        [(LATE, WEST, 10, UP, "Unavailable"), (2 * LATE, EAST, 10, UP, "Owner")],
        [fault(500, lns="lns-a")], "open", [True, True],
    ),
    "lost answer, granted": (
        [(LATE, WEST, 10, UP, "Unavailable"), (2 * LATE, EAST, 10, ELSEWHERE, "NotOwner")],
        [fault(500, lns="lns-a")], "open", [True, True],
    ),
    "an empty store": (
        [(LATE, WEST, 10, UP, "Owner"), (2 * LATE, EAST, 10, UP, "Owner")],
        [fault(LATE + 500, fault="restart", detail={"empty": True})], "open", [True, True],
    ),
    "a claim of a stranger": (
        [(LATE, EAST, 10, ELSEWHERE, "NotOwner"), (2 * LATE, EAST, 11, UP, "Owner")],
        [fault(500, fault="orphan", detail={"lns": "x", "dev_eui": DEVICE, "f_cnt": 10})],
        "open", [True, True],
    ),
    # A claim lasts a day. Ten minutes before that, who has not looked since looks into the store.
    "nearly a day": (
        [(LATE, WEST, 10, UP, "Owner"), (LOOKS - 1, EAST, 10, ELSEWHERE, "NotOwner")],
        [], "open", [True, True],
    ),
    "a day": (
        [(LATE, WEST, 10, UP, "Owner"), (LOOKS, EAST, 10, TOO_OLD, "NotAsked")],
        [], "open", [True, True],
    ),
    "a day without a look": (
        [(LATE, WEST, 10, UP, "Owner"), (LOOKS, EAST, 10, ELSEWHERE, "NotOwner")],
        [], "open", [True, False],
    ),
    "a day after a restart": (
        [(LATE, WEST, 10, UP, "Owner"), (LATE + LOOKS, EAST, 11, UP, "Owner")],
        [("bench", 2 * LATE, "case.lns", {"lns": "lns-b", "event": "restart"})],
        "open", [True, True],
    ),
}  # fmt: skip


@captures
def write(root: Path) -> dict[str, Path]:
    written: list[Line] = []
    for number, (name, (heard, more, on_outage, _)) in enumerate(CASES.items()):
        written += case(name, number * 3 * DAY_US, heard, *more, on_outage=on_outage)
    return {"level 2": write_run(root / "level2", written)}


def test_what_arrivals_tell_of_level_2_and_what_they_leave_open(scored: Scored) -> None:
    agree: dict[str, list[bool]] = {name: [] for name in CASES}
    for row in scored.rows("receptions", "level 2"):
        assert row["unknowable"] is None, row["case"]
        agree[row["case"]].append(
            row["status_agrees"] and row["disposition_agrees"] and row["level2_agrees"]
        )
    assert agree == {name: expected for name, (*_, expected) in CASES.items()}
