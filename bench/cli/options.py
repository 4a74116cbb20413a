"""Which options mean the same in every command?"""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

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
