"""How early answers were, on a capture written by hand."""

from pathlib import Path

import pytest

from tests.bench.score.conftest import Line, Scored, captures, write_run
from tests.bench.score.frames import DataFrame

pytestmark = pytest.mark.spark

ALPHA, WEST = "70B3D57ED0000001", "B827EBFFFE000001"
SECOND = 1_000_000
FRAME = DataFrame("01ABCDEF", 10, confirmed=True)


def sent(t_us: int) -> Line:
    """An attempt that ends 50 ms later on the air."""
    return ("air", t_us, "radio.transmit",
            {"direction": "up", "dev_eui": ALPHA, "session": 0, "f_cnt": 10, "genuine": True,
             "frame_id": FRAME.frame_id, "phy": FRAME.phy, "airtime_us": 50_000})  # fmt: skip


def heard(t_us: int, xtime: int, **more: object) -> list[Line]:
    """The frame at the tap, and an outcome that answers it."""
    told = {"station": WEST, "lns": "lns-a", "frame_id": FRAME.frame_id, "confirmed": True,
            "status": "NonDuplicate", "upstream": "forwarded", "answer": "RX1",
            "xtime": xtime}  # fmt: skip
    text = {"station": WEST, "direction": "up", "text": FRAME.text(xtime), **more}
    return [(f"tap-{WEST}", t_us, "station.text", text), ("lns-a", t_us, "lns.outcome", told)]


def answered(t_us: int, xtime: int, windows: str = "RX1 RX2", **more: object) -> Line:
    """The `dnmsg` at the tap; its diid is the xtime."""
    channels = "".join(f',"{window}Freq":868100000' for window in windows.split())
    text = f'{{"msgtype":"dnmsg","dC":0,"diid":{xtime},"RxDelay":1,"xtime":{xtime}{channels}}}'
    fields = {"station": WEST, "direction": "down", "text": text, **more}
    return f"tap-{WEST}", t_us, "station.text", fields


def reported(t_us: int, diid: int, window: str) -> Line:
    return ("lns-a", t_us, "lns.downlink",
            {"stage": "transmitted", "station": WEST, "diid": diid, "window": window,
             "frame_id": FRAME.frame_id, "xtime": 99})  # fmt: skip


@captures
def write(root: Path) -> dict[str, Path]:
    lines: list[Line] = [("bench", 0, "case.begin", {"case": "c"})]
    lines += [sent(n * 10 * SECOND) for n in range(1, 7)]
    lines += [
        *heard(10_060_000, 1), answered(10_100_000, 1), reported(11 * SECOND, 1, "RX1"),
        *heard(20_060_000, 2), answered(21_040_000, 2), reported(22 * SECOND, 2, "RX2"),
        *heard(30_060_000, 3), answered(32_040_000, 3),
        *heard(40_060_000, 4), answered(41_040_000, 4, "RX1"),
        *heard(50_090_000, 5, held_us=30_000), answered(50_100_000, 5),
        *heard(55_000_000, 6, origin="injected"), answered(55_000_007, 6),
        *heard(60_060_000, 7), answered(60_100_000, 7, held_us=5),
        *heard(60_060_000, 8), answered(60_100_000, 8, dropped=True),
        ("bench", 65 * SECOND, "fault.begin", {"case": "c", "seam": "store", "fault": "slow"}),
        sent(70 * SECOND), *heard(70_060_000, 9), answered(70_100_000, 9),
        ("bench", 80 * SECOND, "case.end", {"case": "c", "verdict": "PASS", "reasons": []}),
    ]  # fmt: skip
    return {"margins": write_run(root / "margins", lines)}


def test_each_answer_has_its_margin_to_the_attempt_that_it_answers(scored: Scored) -> None:
    rows = scored.rows("margins", "margins")
    told = [
        (row["used"], row["usable"], row["margin_rx1_us"], row["measured_from"], row["disturbed"])
        for row in rows
    ]
    assert told == [
        ("RX1", "RX1", 950_000, "air", False),
        ("RX2", "RX2", 10_000, "air", False),  # too little for RX1: a station needs 20 ms
        (None, "none", -990_000, "air", False),  # and 10 ms are too little for RX2
        (None, "none", 10_000, "air", False),  # RX2 is not offered
        (None, "RX1", 950_000, "air", True),  # held back on its way up
        (None, "RX1", 999_993, "tap", True),  # invented: nothing was on the air
        (None, "RX1", 950_000, "air", True),  # held back on its way down
        (None, "RX1", 950_000, "air", True),  # the store is slow
    ]
    assert {row["margin_rx2_us"] - row["margin_rx1_us"] for row in rows} == {SECOND}
