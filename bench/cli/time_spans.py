"""How does a person write a length of time?"""

import re

from bench.cli.exit_code import Refused

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
