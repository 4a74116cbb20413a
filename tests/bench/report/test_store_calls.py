"""How many calls to the shared store the uplinks cost."""

from bench.report import write
from bench.report.score_file import StoreCalls, read_score
from bench.report.summary import summary
from bench.report.tables import Asked, calls
from tests.bench.report.conftest import Writer
from tests.bench.report.page_outline import outline

ROWS = [
    {"strategy": "Drop", "status": "NonDuplicate", "uplinks": 10, "receptions": 14, "asked": 14},
    {"strategy": "Drop", "status": "Duplicate", "uplinks": 0, "receptions": 30, "asked": 0},
    {"strategy": "Mark", "status": "SoftDuplicate", "uplinks": 0, "receptions": 5, "asked": 1},
]


def test_calls_are_counted_by_status_and_strategy_and_for_each_uplink() -> None:
    found = calls([StoreCalls(**row) for row in ROWS])  # type: ignore[arg-type]
    assert found is not None
    assert (found.asked, found.uplinks, found.receptions, found.saved) == (15, 10, 49, 34)
    assert (found.per_uplink, found.per_reception) == ("1.50", "4.90")
    assert [(row.status, row.may_ask, row.places, row.total) for row in found.rows] == [
        ("NonDuplicate", True, (Asked(14, 14), None, None), Asked(14, 14)),
        ("Duplicate", False, (Asked(0, 30), None, None), Asked(0, 30)),
        ("SoftDuplicate", False, (None, Asked(1, 5), None), Asked(1, 5)),
    ]


def test_a_run_in_which_nobody_shares_a_device_has_no_calls(write_score: Writer) -> None:
    assert calls([]) is None
    assert "shared store" not in summary(read_score(write_score()), {})


def test_the_summary_tells_the_calls(write_score: Writer) -> None:
    told = summary(read_score(write_score(store_calls=ROWS)), {})
    assert "15 calls for 10 uplinks, heard 49 times: 1.50 calls an uplink." in told
    assert "| NonDuplicate | 14 of 14 | – | – | 14 of 14 |" in told
    assert "| SoftDuplicate | – | 1 of 5 | – | 1 of 5 |" in told


def test_the_page_has_a_table_of_them_and_points_at_a_copy_that_asked(write_score: Writer) -> None:
    page = outline(write(write_score(store_calls=ROWS)).read_text("utf-8"))
    told = " ".join(page.text_of["store-calls"].split())
    assert "cost 15 calls: 1.50 an uplink" in told
    assert "34 receptions asked nobody" in told
    assert "≠ 1 of 5" in told
    assert "≠ 14" not in told
    assert "#store-calls" in page.links
