"""What does a row of the findings look like?"""

from pyspark.sql import Column
from pyspark.sql import functions as F

COLUMNS = (
    "night", "run", "case", "owner", "rule", "frame_id", "station", "n",
    "expected", "observed", "t_us", "text", "result", "phase", "place",
)  # fmt: skip
FAIL = "FAIL"
INCONCLUSIVE = "INCONCLUSIVE"


def nothing(type_: str) -> Column:
    """The value of a column that a finding of this kind does not have."""
    return F.lit(None).cast(type_)
