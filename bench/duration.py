"""Durations as scenarios say them, in whole microseconds."""


def microseconds(number: int) -> int:
    """That many microseconds."""
    return number


def milliseconds(number: float) -> int:
    """That many milliseconds, in µs."""
    return round(number * 1_000)


def seconds(number: float) -> int:
    """That many seconds, in µs."""
    return round(number * 1_000_000)


def minutes(number: float) -> int:
    """That many minutes, in µs."""
    return round(number * 60_000_000)
