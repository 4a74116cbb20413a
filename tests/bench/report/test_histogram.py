from bench.report.facts import BARS_MAX, histogram


def test_a_bar_for_each_millisecond_where_they_are_few() -> None:
    drawing = histogram([(980, 3), (981, 6), (985, 1)])
    assert drawing is not None
    assert [(bar.from_ms, bar.to_ms, bar.count) for bar in drawing.bars] == [
        (980, 981, 3), (981, 982, 6), (985, 986, 1),
    ]  # fmt: skip
    assert (drawing.count_max, drawing.gap_x) == (6, None)
    heights = [bar.height for bar in drawing.bars]
    assert heights[1] == 2 * heights[0] == drawing.base - drawing.top
    assert all(bar.y + bar.height == drawing.base for bar in drawing.bars)
    assert drawing.left <= drawing.bars[0].x < drawing.bars[-1].x < drawing.right


def test_bars_are_wider_where_the_margins_lie_far_apart_and_none_crosses_the_limit() -> None:
    drawing = histogram([(-3_007, 1), (19, 2), (20, 4), (997, 5)])
    assert drawing is not None
    assert len(drawing.bars) <= BARS_MAX
    assert sum(bar.count for bar in drawing.bars) == 12
    assert [(bar.late, bar.count) for bar in drawing.bars] == [
        (True, 1), (True, 2), (False, 4), (False, 5),
    ]  # fmt: skip
    in_time = next(bar for bar in drawing.bars if not bar.late)
    assert (in_time.from_ms, in_time.x) == (20, drawing.gap_x)


def test_the_second_window_is_later() -> None:
    first, second = histogram([(980, 3)]), histogram([(980, 3)], 1000)
    assert first is not None
    assert second is not None
    assert [bar.from_ms for bar in (*first.bars, *second.bars)] == [980, 1980]


def test_however_far_they_lie_apart_there_are_few_bars() -> None:
    drawing = histogram([(-10_000_000, 1), (0, 1), (15_000, 1)])
    assert drawing is not None
    assert len(drawing.bars) <= BARS_MAX
    assert len(drawing.ticks) <= 12


def test_no_margin_is_no_drawing() -> None:
    assert histogram([]) is None
