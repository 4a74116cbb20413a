"""The numbers that scripts rely on."""

import pytest

from bench.cli.output import MEANINGS, ExitCode, worst


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
