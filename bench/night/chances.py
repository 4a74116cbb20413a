"""How sure can one be? Exact tails and intervals of small counts.

Everything here is exact but for floating point, and agrees with scipy, which only the tests need.
"""

from collections.abc import Sequence
from math import comb, exp, inf, lgamma, log, sqrt

Z_95 = 1.959963984540054
_STEPS_MAX = 300
_TINY = 1e-300


def wilson(part: int, whole: int, z: float = Z_95) -> tuple[float, float]:
    """The interval of Wilson's score for a rate, at 95 % unless `z` says otherwise; 0 to 1."""
    if whole == 0:
        return 0.0, 1.0
    rate, square = part / whole, z * z / whole
    middle = (rate + square / 2) / (1 + square)
    half = z * sqrt(rate * (1 - rate) / whole + square / (4 * whole)) / (1 + square)
    low = 0.0 if part == 0 else middle - half
    return low, 1.0 if part == whole else middle + half


def log_beta(a: float, b: float) -> float:
    """The logarithm of the beta function."""
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function (Lentz's continued fraction)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    front = exp(a * log(x) + b * log(1 - x) - log_beta(a, b)) / a
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    found = d
    for m in range(1, _STEPS_MAX):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / ((1 + step * d) or _TINY)
            c = (1 + step / c) or _TINY
            found *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return front * found


def binomial_tail(part: int, whole: int, rate: float = 0.5) -> float:
    """How likely `part` or more of `whole` are, where each is with this `rate`."""
    return 1.0 if part <= 0 else incomplete_beta(part, whole - part + 1, rate)


def mcnemar(worse: int, better: int) -> float:
    """McNemar's exact test, one-sided: how likely so many pairs got worse by chance."""
    return binomial_tail(worse, worse + better)


def fisher(old_fails: int, old: int, new_fails: int, new: int) -> float:
    """Fisher's exact test, one-sided: how likely so many new failures are if nothing changed."""
    fails, whole = old_fails + new_fails, old + new
    ways = sum(
        comb(new, n) * comb(old, fails - n)
        for n in range(new_fails, min(new, fails) + 1)
        if fails - n <= old
    )
    return ways / comb(whole, fails)


def false_discovery(chances: Sequence[float]) -> list[float]:
    """The same, adjusted for how many there are (Benjamini and Hochberg)."""
    order = sorted(range(len(chances)), key=chances.__getitem__, reverse=True)
    adjusted, least = [0.0] * len(chances), 1.0
    for rank, place in zip(range(len(chances), 0, -1), order, strict=True):
        least = min(least, chances[place] * len(chances) / rank)
        adjusted[place] = least
    return adjusted


def evidence(worse: int, better: int) -> float:
    """How strongly discordant pairs speak for "worse": valid at any time, 20 is enough.

    Robbins' mixture over all rates above one half.
    """
    upper = 1 - incomplete_beta(worse + 1, better + 1, 0.5)
    if upper <= 0:
        return 0.0
    exponent = (worse + better + 1) * log(2) + log_beta(worse + 1, better + 1) + log(upper)
    return exp(exponent) if exponent < 700 else inf


def student(before: Sequence[float], after: Sequence[float]) -> float:
    """Student's t-test, two-sided: how likely the means differ so much by chance."""
    n, m = len(before), len(after)
    left, right = sum(before) / n, sum(after) / m
    spread = sum((x - left) ** 2 for x in before) + sum((x - right) ** 2 for x in after)
    freedom = n + m - 2
    if spread <= 1e-12 * max(1.0, abs(left), abs(right)):
        return float(left == right)
    t_square = (left - right) ** 2 / (spread / freedom * (1 / n + 1 / m))
    return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t_square))
