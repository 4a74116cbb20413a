"""How did a run go, as a number for a shell?"""

from collections import Counter
from typing import Any

PASSED, FAILED, INTERRUPTED, USAGE, REPEATED, UNPROVEN, BENCH_ERROR = 0, 1, 2, 4, 10, 11, 12
PASS_ON_REPEAT = "PASS on repeat"


def exit_code(score: dict[str, Any], *, inconclusive_share_max: float = 0.0) -> int:
    """The exit code of a scored run, from the verdicts of score.json (a dict, as it is read).

    - 12 bench error: the run is incomplete, a verdict is ERROR (or no known word), or there is
      none at all;
    - 1 at least one FAIL;
    - 11 no FAIL, but more INCONCLUSIVE than `inconclusive_share_max` (0 to 1) allows, or no PASS;
    - 10 no FAIL, but passes on a repeated stimulus;
    - 0 every verdict a first-attempt PASS, but for the INCONCLUSIVE ones that the caller allows.

    Several may apply; the first of this list wins. A bench error comes before a FAIL because a
    broken instrument makes every other verdict of the run doubtful. Never 0 with no verdict.
    """
    listed = score.get("verdicts")
    verdicts = [v for v in listed if isinstance(v, dict)] if isinstance(listed, list) else []
    words = Counter(word(v.get("verdict"), v.get("attempt")) for v in verdicts)
    books = score.get("wholeness")
    if isinstance(books, dict) and books.get("whole") is not True:
        return BENCH_ERROR
    return code_of(words, inconclusive_share_max)


def code_of(words: Counter[str], inconclusive_share_max: float = 0.0) -> int:
    """The same for so many cases of each word."""
    cases = words.total()
    if cases == 0 or words["ERROR"]:
        return BENCH_ERROR
    if words["FAIL"]:
        return FAILED
    proven = words["PASS"] + words[PASS_ON_REPEAT]
    if words["INCONCLUSIVE"] > inconclusive_share_max * cases or proven == 0:
        return UNPROVEN
    return REPEATED if words[PASS_ON_REPEAT] else PASSED


def word(verdict: object, attempt: object) -> str:
    """The verdict as people read it: a pass on a repeated stimulus is labelled so.

    A word that this version does not know is an ERROR, never a pass.
    """
    if verdict == "PASS":
        repeated = isinstance(attempt, int) and attempt > 1
        return PASS_ON_REPEAT if repeated else "PASS"
    return str(verdict) if verdict in ("FAIL", "INCONCLUSIVE") else "ERROR"
