"""Progress where there is no terminal: plain lines, and not too many of them."""

import io
import sys

import pytest

from bench.cli.output import ProgressDisplay, print_styled, printable


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


LINES = [[("▶ ", "bold red"), ("FAIL", "red")], []]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_without_a_terminal_there_are_no_colours(capsys: pytest.CaptureFixture[str]) -> None:
    print_styled(LINES)
    assert capsys.readouterr().out == "▶ FAIL\n\n"


@pytest.mark.parametrize(("no_color", "red"), [("", True), ("1", False)])
def test_on_a_terminal_no_color_is_respected(
    no_color: str, red: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", no_color)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    print_styled(LINES)
    assert ("31" in terminal.getvalue()) is red
    assert "FAIL" in terminal.getvalue()


def test_an_encoding_without_lines_gets_plain_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", narrow)
    assert printable("├──►│ ✗ é") == "|-->| x ?"
