from bench.report.score_file import Answers, Verdict
from bench.report.tables import Cell, answer_rows, heat, percent, situations


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
