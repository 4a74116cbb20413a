"""Where duplicates were born and died, on the page and in the summary."""

from bench.report.page import page
from bench.report.score_file import Duplicates, Ledger, read_score
from bench.report.summary import summary
from bench.report.tables import exceptions, life_of, sentence
from tests.bench.report.conftest import Writer

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
