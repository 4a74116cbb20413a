"""The numbers that scripts rely on."""

import io
import json
import sys

import pytest

from bench.cli.output import ProgressDisplay, Refused, print_json, print_lines, time_span_us
from bench.night.record import MEANINGS, ExitCode, worst


def test_the_numbers_stay() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "PASSED": 0,
        "FAILED": 1,
        "INTERRUPTED": 2,
        "USAGE": 4,
        "REPEATED": 10,
        "INCONCLUSIVE": 11,
        "BENCH_ERROR": 12,
    }


def test_every_number_is_explained() -> None:
    assert set(MEANINGS) == set(ExitCode)


@pytest.mark.parametrize(
    ("codes", "together"),
    [
        ([0, 0], ExitCode.PASSED),
        ([0, 10], ExitCode.REPEATED),
        ([10, 11, 0], ExitCode.INCONCLUSIVE),
        ([11, 1], ExitCode.FAILED),
        ([1, 12], ExitCode.BENCH_ERROR),
        ([], ExitCode.BENCH_ERROR),
    ],
)
def test_the_worst_of_several_runs_counts(codes: list[int], together: ExitCode) -> None:
    assert worst(codes) is together


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("10min", 600_000_000),
        ("15d", 1_296_000_000_000),
        ("0.5s", 500_000),
        ("1.000001 s", 1_000_001),
        ("250ms", 250_000),
        ("2h", 7_200_000_000),
    ],
)
def test_a_number_and_a_unit(text: str, us: int) -> None:
    assert time_span_us(text, "--window") == us


@pytest.mark.parametrize("text", ["", "10", "min", "-1s", "1 week", "1.5.2s", "1e3s"])
def test_anything_else_is_refused_with_the_option(text: str) -> None:
    with pytest.raises(Refused, match=r"--window is a number and a unit .* such as 10min"):
        time_span_us(text, "--window")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_an_encoding_without_a_sign_spells_it_with_others(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    octets = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(octets, encoding, write_through=True))
    print_lines(["0 – 1 → 2"])
    print_json({"text": "… 😀"})
    line, _, document = octets.getvalue().decode(encoding).partition("\n")
    assert line == ("0 – 1 → 2" if encoding == "utf-8" else "0 - 1 > 2")
    assert json.loads(document) == {"text": "… 😀"}


def test_a_place_in_a_file_is_no_picture() -> None:
    told = io.StringIO()
    ProgressDisplay(told).line("test_mine.py:100: [red]mine[/red]")
    assert told.getvalue() == "test_mine.py:100: [red]mine[/red]\n"
