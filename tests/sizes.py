"""How large is a soak? Small in `make test`, full with LORABENCH_SOAK=1 (`make soak`)."""

import os
from typing import TypeVar

SOAK = os.environ.get("LORABENCH_SOAK") == "1"
T = TypeVar("T")


def size(small: T, full: T) -> T:
    """The one that is wanted; what a test asserts is the same for both."""
    return full if SOAK else small
