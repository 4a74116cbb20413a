"""Since when is it different? Change points in what a series of nights has shown.

Verdicts and misses: Bayesian, with a Beta-Binomial likelihood and recursive splits, as LUCI
Analysis does. Times: E-divisive with Student's t-test, as Apache Otava does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp, log
from statistics import median

from bench.night.chances import log_beta, student, wilson

PRIOR_A, PRIOR_B = 0.05, 0.5
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
    begin: int,
    end: int,
    likelihood: Callable[[int, int], float],
    found: list[tuple[int, int, int]],
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
    """The least and the greatest place that the change has with a probability of 99 %."""
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
    """Where the energy distance of both sides is greatest (E-divisive)."""
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
