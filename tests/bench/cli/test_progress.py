"""Progress where there is no terminal: plain lines, and not too many of them."""

import io

from bench.cli.progress import ProgressDisplay


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_new_step_is_printed_at_once() -> None:
    stream = io.StringIO()
    with ProgressDisplay(stream, clock=Clock()) as progress:
        progress("reading captures")
        progress("writing the lake", 1, 4)
    assert stream.getvalue() == "reading captures\nwriting the lake (1/4)\n"


def test_a_step_that_only_counts_on_is_printed_every_five_seconds_and_at_its_end() -> None:
    stream, clock = io.StringIO(), Clock()
    with ProgressDisplay(stream, clock=clock) as progress:
        for done in range(1, 11):
            clock.now_s += 1.0
            progress("frames", done, 10)
    assert stream.getvalue() == "frames (1/10)\nframes (6/10)\nframes (10/10)\n"


def test_lines_and_texts_are_printed_as_they_are() -> None:
    stream = io.StringIO()
    with ProgressDisplay(stream) as progress:
        progress.line("[1/2] PASS  joins/[None-True] " + "x" * 120)
        progress("[bold]not markup[/bold]")
    assert stream.getvalue() == (
        "[1/2] PASS  joins/[None-True] " + "x" * 120 + "\n[bold]not markup[/bold]\n"
    )
