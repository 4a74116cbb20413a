"""How sure can one be, and when did a series change? Exact tails and intervals of small counts.

Exact but for floating point, and equal to scipy, which only the tests need.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import comb, exp, inf, lgamma, log, sqrt
from statistics import median

Z_95 = 1.959963984540054
_STEPS_MAX = 300
_TINY = 1e-300


def wilson(part: int, whole: int) -> tuple[float, float]:
    """The interval of Wilson's score for a rate, at 95 %; 0 to 1."""
    if whole == 0:
        return 0.0, 1.0
    rate, square = part / whole, Z_95 * Z_95 / whole
    middle = (rate + square / 2) / (1 + square)
    half = Z_95 * sqrt(rate * (1 - rate) / whole + square / (4 * whole)) / (1 + square)
    low = 0.0 if part == 0 else middle - half
    return low, 1.0 if part == whole else middle + half


def log_beta(a: float, b: float) -> float:
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


def mcnemar(worse: int, better: int) -> float:
    """McNemar's exact test, one-sided: how likely so many pairs got worse by chance."""
    return 1.0 if worse <= 0 else incomplete_beta(worse, better + 1, 0.5)


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


PRIOR_A, PRIOR_B = 0.05, 0.5
# Verdicts and misses: Bayesian, with a Beta-Binomial likelihood and recursive splits, as LUCI
# Analysis does. Times: E-divisive with Student's t-test, as Apache Otava does.
PRIOR_CHANGE = 1e-3
WINDOW = 50
P_MAX = 0.001
P_WEAK = 0.01
SHIFT_US_MIN = 2_000
SHIFT_SHARE_MIN = 0.1
NIGHTS_EACH_SIDE = 5
MEDIAN_NIGHTS = 14
MAD_TO_SIGMA = 1.4826
MADS = 4


@dataclass(frozen=True, slots=True)
class Segment:
    """Nights from `begin` to before `end` with one rate of failures.

    `earliest` and `latest`: where it begins with a probability of 99 %.
    """

    begin: int
    end: int
    earliest: int
    latest: int
    fails: int
    n: int

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.fails, self.n)


def segments(nights: Sequence[tuple[int, int]]) -> list[Segment]:
    """The segments of (failures, opportunities) a night, in order; none of nothing."""
    if not nights:
        return []
    fails = [0, *accumulate(fail for fail, _ in nights)]
    whole = [0, *accumulate(n for _, n in nights)]

    def likelihood(begin: int, end: int) -> float:
        x, n = fails[end] - fails[begin], whole[end] - whole[begin]
        return log_beta(x + PRIOR_A, n - x + PRIOR_B) - log_beta(PRIOR_A, PRIOR_B)

    found: list[tuple[int, int, int]] = []
    _split(0, len(nights), likelihood, found)
    begins = [(0, 0, 0), *sorted(found)]
    ends = [*(begin for begin, _, _ in begins[1:]), len(nights)]
    return [
        Segment(begin, end, low, high, fails[end] - fails[begin], whole[end] - whole[begin])
        for (begin, low, high), end in zip(begins, ends, strict=True)
    ]


def _split(
    begin: int, end: int, likelihood: Callable[[int, int], float], found: list[tuple[int, int, int]]
) -> None:
    if end - begin < 2:
        return
    together = likelihood(begin, end)
    gains = [likelihood(begin, at) + likelihood(at, end) - together for at in range(begin + 1, end)]
    best = max(gains)
    if best + log(PRIOR_CHANGE) <= 0:
        return
    at = begin + 1 + gains.index(best)
    found.append((at, *_position(gains, best, begin + 1)))
    _split(begin, at, likelihood, found)
    _split(at, end, likelihood, found)


def _position(gains: Sequence[float], best: float, first: int) -> tuple[int, int]:
    weights = [exp(gain - best) for gain in gains]
    whole, so_far = sum(weights), list(accumulate(weights))
    low = next(n for n, share in enumerate(so_far) if share > 0.005 * whole)
    high = next(n for n, share in enumerate(so_far) if share >= 0.995 * whole)
    return first + low, first + high


def shifts(values: Sequence[float]) -> list[int]:
    """The places from which on the values of the newest nights lie higher or lower than before."""
    offset = max(0, len(values) - WINDOW)
    window = values[offset:]
    weak = _divided(window, 0, len(window))
    while weak:  # what does not hold between its neighbours goes, the weakest first
        edges = [0, *weak, len(window)]
        chances = [
            student(window[edges[n] : edges[n + 1]], window[edges[n + 1] : edges[n + 2]])
            for n in range(len(weak))
        ]
        worst = max(range(len(weak)), key=chances.__getitem__)
        if chances[worst] < P_MAX:
            break
        del weak[worst]
    edges = [0, *weak, len(window)]
    return [
        offset + at
        for n, at in enumerate(weak)
        if is_shift(median(window[edges[n] : at]), median(window[at : edges[n + 2]]))
    ]


def is_shift(before: float, after: float) -> bool:
    """Whether a difference is large enough to be told: 2 ms, and a tenth."""
    return abs(after - before) >= max(SHIFT_US_MIN, SHIFT_SHARE_MIN * abs(before))


def stands_out(earlier: Sequence[float], tonight: float) -> bool:
    """Whether a night is far from the median of the nights before it, five at least."""
    before = earlier[-MEDIAN_NIGHTS:]
    if len(before) < NIGHTS_EACH_SIDE:
        return False
    middle = median(before)
    spread = MAD_TO_SIGMA * median(abs(value - middle) for value in before)
    return abs(tonight - middle) > MADS * spread and is_shift(middle, tonight)


def _divided(values: Sequence[float], begin: int, end: int) -> list[int]:
    if end - begin < 2 * NIGHTS_EACH_SIDE:
        return []
    at, gain = _farthest(values[begin:end])
    if gain <= 0:
        return []
    at += begin
    if student(values[begin:at], values[at:end]) >= P_WEAK:
        return []
    return [*_divided(values, begin, at), at, *_divided(values, at, end)]


def _farthest(values: Sequence[float]) -> tuple[int, float]:
    n = len(values)
    distances = [[abs(a - b) for b in values] for a in values]
    best, best_gain = 0, 0.0
    for at in range(NIGHTS_EACH_SIDE, n - NIGHTS_EACH_SIDE + 1):
        m = n - at
        across = sum(sum(row[at:]) for row in distances[:at])
        left = sum(sum(row[:at]) for row in distances[:at]) / 2
        right = sum(sum(row[at:]) for row in distances[at:]) / 2
        between = 2 * across / (at * m)
        within = left * 2 / (at * (at - 1)) + right * 2 / (m * (m - 1))
        gain = at * m / n * (between - within)
        if gain > best_gain:
            best, best_gain = at, gain
    return best, best_gain
