"""A consumer in this process and one as a program are asked for the same."""

from itertools import pairwise

from bench.cli.output import time_span_us
from bench.rig.interfaces import ConsumerSettings
from lns.delivery import Detectors, RemoveDuplicatesKeys

DAY_US = 86_400_000_000


def settings(**more: object) -> ConsumerSettings:
    facts: dict[str, object] = {
        "name": "one", "window_us": 20_000_001, "partitioned": False, "sessions": False,
        "sequence": True,
        "keys": False, "retention_us": 15 * DAY_US, "retry_us": 60_000_000, "network_us": 500_000,
        "knows_oldest": False, "store": None, "elsewhere": False,
    }  # fmt: skip
    return ConsumerSettings(**(facts | more))  # type: ignore[arg-type]


def test_every_time_is_written_as_the_program_reads_it() -> None:
    options = settings(keys=True).options()
    told = dict(pairwise(options))
    times = [time_span_us(told[name], name) for name in ("--window", "--retention", "--retry")]
    assert times == [20_000_001, 15 * DAY_US, 60_000_000]
    assert time_span_us(told["--network"], "--network") == 500_000


def test_what_is_off_is_said() -> None:
    assert settings(window_us=None, sequence=False).options() == [
        "--window",
        "off",
        "--no-sequence",
    ]
    assert "--partitioned" in settings(partitioned=True).options()


def test_the_detectors_are_those() -> None:
    detectors: Detectors = settings(keys=True, sequence=False).detectors()
    assert detectors.window is not None and detectors.window.window_us == 20_000_001
    assert detectors.sequence is not None and not detectors.sequence.performs_duplicate_checking
    assert isinstance(detectors.keys, RemoveDuplicatesKeys)
    late_us = 60_500_000
    assert detectors.keys.cut_off_us(20 * DAY_US) == 5 * DAY_US - late_us
    knowing = settings(keys=True, knows_oldest=True).detectors(lambda: 7 * DAY_US)
    assert knowing.keys is not None
    assert knowing.keys.cut_off_us(20 * DAY_US) == 7 * DAY_US - late_us
    assert settings(window_us=None).detectors().window is None
