import io
import sys

import pytest

from bench.cli.progress import print_styled, printable

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
