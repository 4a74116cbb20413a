from bench.report import write
from bench.report.page import page
from bench.report.score_file import Answers, Duplicates, Ledger, StoreCalls, Verdict, read_score
from bench.report.summary import summary
from bench.report.tables import (
    Asked,
    Cell,
    answer_rows,
    calls,
    exceptions,
    heat,
    life_of,
    percent,
    sentence,
    situations,
)
from tests.bench.report.conftest import Writer
from tests.bench.report.page_outline import outline


def verdict(scenario: str, word: str = "PASS", **more) -> Verdict:
    fields = {"group": "replay", "strategy": "Mark", "confirmed": True} | more
    return Verdict(f"{scenario}-{more}", scenario, word, **fields)


def test_a_cell_shows_its_worst_verdict_and_how_many_have_it() -> None:
    verdicts = [verdict("test_a"), verdict("test_a", "FAIL"), verdict("test_a", "INCONCLUSIVE")]
    (situation,) = situations(verdicts, {1: "s1"}, imported=False)
    assert situation.name == "Replay"
    assert situation.totals == (("FAIL", 1), ("INCONCLUSIVE", 1), ("PASS", 1))
    assert situation.rows[0].cells == (None, None, Cell("FAIL", 1, 3, "s1"), None, None, None)


def test_a_scenario_without_confirmation_has_one_cell_for_each_strategy() -> None:
    (situation,) = situations([verdict("test_join", confirmed=None)], {}, imported=False)
    assert situation.rows[0].cells == (None, Cell("PASS", 1, 1, "c0", 2), None)


def test_a_scenario_without_strategy_has_one_cell() -> None:
    (situation,) = situations([verdict("test_a", strategy=None)], {}, imported=False)
    assert situation.rows[0].cells == (Cell("PASS", 1, 1, "c0", 6),)


def test_situations_stand_in_the_order_of_the_requirement() -> None:
    verdicts = [verdict("test", group=g) for g in ("zebra", "joins", None, "multi_concentrator")]
    assert [situation.name for situation in situations(verdicts, {}, imported=False)] == [
        "Several concentrators hear one frame",
        "Joins",
        "Other",
        "Zebra",
    ]


def test_imported_traffic_is_kept_apart() -> None:
    verdicts = [verdict("test_a"), verdict("test_b", group="imported")]
    (own,) = situations(verdicts, {}, imported=False)
    (foreign,) = situations(verdicts, {}, imported=True)
    assert [row.scenario for row in own.rows] == ["test_a"]
    assert [row.scenario for row in foreign.rows] == ["test_b"]


def test_a_scenario_without_a_title_is_named_for_its_function() -> None:
    (situation,) = situations([verdict("test_a_late_copy")], {}, imported=False)
    assert situation.rows[0].title == "a late copy"


def test_the_heat_table_counts_agreement_and_keeps_the_order_of_the_words() -> None:
    table = heat([("Duplicate", "Duplicate", 3), ("Duplicate", "missing", 1), ("-", "-", 2)])
    assert (table.agree, table.total) == (5, 6)
    assert [row.name for row in table.rows] == [
        "NonDuplicate",
        "Duplicate",
        "SoftDuplicate",
        "DuplicateDueToResubmission",
        "-",
    ]
    assert table.columns == (*[row.name for row in table.rows], "missing")
    assert [(cell.count, cell.share, cell.agrees) for cell in table.rows[1].cells] == [
        (0, 0, False),
        (3, 75, True),
        (0, 0, False),
        (0, 0, False),
        (0, 0, False),
        (1, 25, False),
    ]


def test_answers_are_summed_by_strategy_and_confirmation() -> None:
    rows = answer_rows(
        [
            Answers("NotAsked", 2, "-", None),
            Answers("RX1", 3, "Drop", True),
            Answers("RX1", 1, "Drop", True),
            Answers("TooLate", 1, "Drop", True),
        ]
    )
    assert [(row.strategy, row.confirmed, row.counts, row.total) for row in rows] == [
        ("Drop", "confirmed", (4, 0, 1, 0, 0), 5),
        ("no device", "join or unknown", (0, 0, 0, 0, 2), 2),
    ]


def test_a_hundred_percent_is_said_of_all_only() -> None:
    assert [percent(*of) for of in ((999, 1000), (1, 1000), (1, 3), (5, 5), (0, 5), (0, 0))] == [
        99,
        1,
        33,
        100,
        0,
        0,
    ]


LEDGER = {
    "uplinks": 1200, "delivered": 1200, "consumed": 184, "once": 164, "copies": 14, "more": 6,
    "never": 0,
    "duplicates": [
        {"born": "LNS", "died": "window", "count": 998},
        {"born": "air", "died": "level 1", "count": 1000},
        {"born": "LNS", "died": "effect", "count": 2},
    ],
}  # fmt: skip


def test_places_stand_in_the_order_of_the_chain() -> None:
    life = life_of([
        Duplicates("consumer", "effect", 1),
        Duplicates("air", "window", 3),
        Duplicates("air", "level 1", 9),
        Duplicates("somewhere new", "level 1", 1),
    ])  # fmt: skip
    assert life is not None
    assert life.columns == ("level 1", "window", "effect")
    found = [(name, [cell.count for cell in cells], total) for name, cells, total in life.rows]
    assert found == [
        ("air", [9, 3, 0], 12),
        ("consumer", [0, 0, 1], 1),
        ("somewhere new", [1, 0, 0], 1),
    ]
    assert (life.totals, life.total) == ((10, 3, 1), 14)


def test_one_of_thousands_is_seen_and_nothing_overlaps() -> None:
    life = life_of([Duplicates("air", "level 1", 100_000), Duplicates("LNS", "effect", 1)])
    assert life is not None
    drawing = life.drawing
    for column in (drawing.born, drawing.died):
        assert [node.height >= 2 for node in column] == [True, True]
        assert column[0].y + column[0].height < column[1].y
        assert column[1].y + column[1].height <= drawing.height
    assert [flow.tone for flow in drawing.flows] == ["ok", "un"]


def test_without_duplicates_there_is_no_table() -> None:
    assert life_of([]) is None


def test_the_sentence_tells_of_consumers_only_where_there_are_some() -> None:
    assert sentence(Ledger(uplinks=3, delivered=2)) == (
        "3 uplinks accepted, 2 delivered at least once; no case had a consumer."
    )
    assert sentence(Ledger(uplinks=3, delivered=3, consumed=3, once=2)) == (
        "3 uplinks accepted, 3 delivered at least once, 2 had effect exactly once."
    )
    assert exceptions(Ledger(uplinks=3, delivered=3, consumed=3, once=2, never=1)) == [
        "1 had no effect at some consumer."
    ]


def test_page_and_summary_say_the_same(write_score: Writer) -> None:
    folder = write_score(ledger=LEDGER)
    score = read_score(folder)
    told = (
        "1200 uplinks accepted, 1200 delivered at least once;"
        " of 184 with a consumer, 164 had effect exactly once."
    )
    html, text = page(folder, score, {}), summary(score, {})
    assert told in html
    assert told in text
    assert "14 had one effect for each of several copies" in html
    assert html.count('class="flow ') == 3
    assert "| LNS | · | 998 | 2 | 1000 |" in text
    assert "| all | 1000 | 998 | 2 | 2000 |" in text


def test_a_score_without_a_ledger_has_a_page(write_score: Writer) -> None:
    folder = write_score()
    score = read_score(folder)
    assert "Nothing was there twice." in page(folder, score, {})
    assert "From uplink to effect" not in summary(score, {})


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
