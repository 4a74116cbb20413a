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
    lines += [sent(f_cnt) for f_cnt in sorted({one[2] for one in heard})]
    for one in heard:
        lines += reception(*one, lns=HOMES[one[1]], xtime=one[0])
    lines.append(("bench", 2 * DAY_US, "case.end", {"verdict": "PASS", "reasons": []}))
    moved = [(s, start_us + t, kind, {"case": name, **fields}) for s, t, kind, fields in lines]
    return sorted(moved, key=lambda line: line[1])


def sent(f_cnt: int, *, genuine: bool = True) -> Line:
    frame = DataFrame("00000001", f_cnt)
    facts = {"direction": "up", "dev_eui": DEVICE, "session": 0, "f_cnt": f_cnt,
             "genuine": genuine, "frame_id": frame.frame_id, "phy": frame.phy}  # fmt: skip
    return "air", 1, "radio.transmit", facts


def untold(t_us: int, station: str, f_cnt: int, *, xtime: int) -> Line:
    """A frame that a station delivers, and of which no server says what became of it."""
    text = DataFrame("00000001", f_cnt).text(xtime)
    fields = {"station": station, "direction": "up", "text": text}
    return f"tap-{station}", t_us, "station.text", fields


def reception(
    t_us: int, station: str, f_cnt: int, words: str, level2: str, *, lns: str, xtime: int
) -> list[Line]:
    """A frame that a station delivers, and what this server says became of it."""
    found = dict(zip(("status", "upstream", "reason", "answer"), words.split(), strict=True))
    told = {name: word for name, word in found.items() if word != "-"}
    outcome = {"station": station, "lns": lns, "xtime": xtime, "dev_eui": DEVICE,
               "frame_id": DataFrame("00000001", f_cnt).frame_id, "confirmed": False,
               "level2": level2}  # fmt: skip
    heard = untold(t_us, station, f_cnt, xtime=xtime)
    return [heard, (lns, t_us, "lns.outcome", {**outcome, **told})]


def fault(t_us: int, **more: object) -> Line:
    fields = {"seam": "store", "fault": "cut", "origin": "injected", **more}
    return "bench", t_us, "fault.begin", fields


LATE = 1_000_000
LOOKS = DAY_US - 600_000_000
CASES: dict[str, tuple[list[Heard], list[Line], str, list[bool | None]]] = {
    # Whether the oracle agrees; None where it cannot know.
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
    # A station goes over to another server, and begins its time anew: what nobody tells of is the
    # former server's until then, whatever the order in which rows lie.
    "station that changes its server": (
        [(LATE, WEST, 10, UP, "Owner"), (3 * LATE, EAST, 11, ELSEWHERE, "NotOwner")],
        [untold(2 * LATE, WEST, 11, xtime=2 * LATE), sent(12),
         *reception(4 * LATE, WEST, 12, UP, "Owner", lns="lns-b", xtime=1)],
        "open", [True, False, True, True],
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
        [(LATE, WEST, 10, UP, "Owner"), (2 * LATE, WEST, 11, UP, "Owner"),
         (LOOKS, EAST, 10, TOO_OLD, "NotAsked")],
        [], "open", [True, True, True],
    ),
    "a day without a look": (
        [(LATE, WEST, 10, UP, "Owner"), (2 * LATE, WEST, 11, UP, "Owner"),
         (LOOKS, EAST, 10, ELSEWHERE, "NotOwner")],
        [], "open", [True, True, False],
    ),
    # The newest frame is no old one, whoever has told of it.
    "the newest frame after a day": (
        [(LATE, WEST, 10, UP, "Owner"), (LOOKS, EAST, 10, ELSEWHERE, "NotOwner")],
        [], "open", [True, True],
    ),
    "the newest frame refused after a day": (
        [(LATE, WEST, 10, UP, "Owner"), (LOOKS, EAST, 10, TOO_OLD, "NotAsked")],
        [], "open", [True, False],
    ),
    "dwell times to tell": (
        [(LATE, WEST, 10, f"{UP[:-8]}RX1", "Owner")],
        [("bench", 0, "case.lns", {"lns": "lns-a", "event": "start", "region": "AS923-1"})],
        "open", [True],
    ),
    "nothing to tell": (
        [(LATE, WEST, 10, f"{UP[:-8]}RX1", "Owner")], [], "open", [False],
    ),
    # Who could not ask the store may not know the address.
    "forged while the store was away": (
        [(2 * LATE, WEST, 10, UP, "Owner")],
        [fault(500), sent(77, genuine=False),
         *reception(LATE, EAST, 77, "- dropped UnknownDevice NotAsked", "NotAsked", lns="lns-b",
                    xtime=1)],
        "open", [None, True],
    ),
    "forged": (
        [(2 * LATE, WEST, 10, UP, "Owner")],
        [sent(77, genuine=False),
         *reception(LATE, EAST, 77, "- dropped UnknownDevice NotAsked", "NotAsked", lns="lns-b",
                    xtime=1)],
        "open", [False, True],
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
    agree: dict[str, list[bool | None]] = {name: [] for name in CASES}
    for row in scored.rows("receptions", "level 2"):
        agrees = row["status_agrees"] and row["disposition_agrees"] and row["level2_agrees"]
        agree[row["case"]].append(None if row["unknowable"] is not None else agrees)
    assert agree == {name: expected for name, (*_, expected) in CASES.items()}
