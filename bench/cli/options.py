"""Which options mean the same in every command?"""

import re
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from bench.cli.output import Refused

RUNS = Path("runs")
LAKE = "lake"

Strategy = Literal["Drop", "Mark", "None"]

AsJson = Annotated[
    bool,
    Parameter(
        name="--json",
        negative=(),
        show_default=False,
        help="Print the result as one JSON document.",
    ),
]
Lake = Annotated[
    str, Parameter(name="--lake", help="Where the Parquet tables are written: a folder or a URI.")
]
RunNames = Annotated[list[str], Parameter(help="Run folders, or `latest`.")]
RunsRead = Annotated[
    Path, Parameter(name="--runs", help="Where `latest` and bare names are looked up.")
]
RunsWritten = Annotated[
    Path, Parameter(name=("--runs", "--capture-dir"), help="Where run folders are made.")
]
Seed = Annotated[int, Parameter(name="--seed", help="All chance of the run comes from it.")]
Line = Annotated[
    str | None,
    Parameter(
        name="--line",
        help="What is tested, from night to night, such as lns@main; the branch, if left out.",
    ),
]
Dut = Annotated[
    str | None,
    Parameter(
        name="--dut",
        help="NAME@VERSION or NAME@VERSION+COMMIT of the server under test, if not of this tree.",
    ),
]
Without = Annotated[
    tuple[str, ...],
    Parameter(
        name="--without",
        negative="",
        help="Leave this board or gateway of the bench out, and with it the cases that need it.",
    ),
]
Limit = Annotated[
    int | None,
    Parameter(name="--limit", help="At most so many cases, the first ones. All if left out."),
]


_UNITS_US = {
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}


def time_span_us(text: str, option: str) -> int:
    """`10min`, `15d`, `0.5s` in µs; Refused, which names the option."""
    found = re.fullmatch(r"(\d{1,9})(?:\.(\d{1,6}))?\s*([a-z]+)", text.strip())
    if found is None or found[3] not in _UNITS_US:
        raise Refused(f"{option} is a number and a unit ({', '.join(_UNITS_US)}), such as 10min.")
    unit_us = _UNITS_US[found[3]]
    fraction = (found[2] or "").ljust(6, "0")
    return int(found[1]) * unit_us + int(fraction) * unit_us // 1_000_000
