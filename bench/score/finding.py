"""What does a row of the findings look like?"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

FAIL = "FAIL"
INCONCLUSIVE = "INCONCLUSIVE"
_FACTS = {
    "frame_id": "string", "station": "string", "n": "int", "expected": "string",
    "observed": "string", "t_us": "bigint",
}  # fmt: skip
COLUMNS = (
    "night", "run", "case", "owner", "rule", *_FACTS, "text", "result", "phase", "place",
)  # fmt: skip


def finding_rows(
    rows: DataFrame,
    *,
    owner: Column | str,
    rule: Column | str,
    text: Column,
    result: Column | str | None,
    phase: Column | int,
    place: Column,
    **facts: Column,
) -> DataFrame:
    """The findings that these rows of night, run and case are.

    The reasons of a verdict stand in order of `phase` and `place`; `facts` are those of _FACTS that
    a finding of this kind has.
    """
    columns = {
        "owner": owner,
        "rule": rule,
        **{name: facts.get(name, F.lit(None)).cast(type_) for name, type_ in _FACTS.items()},
        "text": text,
        "result": F.lit(result).cast("string"),
        "phase": phase,
        "place": place.cast("bigint"),
    }
    filled = (F.lit(value).alias(name) for name, value in columns.items())
    return rows.select("night", "run", "case", *filled)
