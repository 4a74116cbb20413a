"""Would anybody notice a memory of nights that turns red into green?"""

from tests.mutants.mutant import Mutant

MORNING = "tests/bench/night/test_morning.py"
AGREEMENT = "tests/bench/score/test_agreement.py"

MUTANTS = (
    Mutant(
        "a table that nobody waits for is made first",
        "bench/score/cut.py",
        "name = ready.pop()",
        "name = ready.pop(0)",
        "tests/bench/score/test_cut.py",
    ),
    Mutant(
        "a copy that waits is older than what came meanwhile",
        "bench/score/oracle.py",
        "f_cnt = last OR {_WAITS} AS equal",
        "f_cnt = last AS equal",
        AGREEMENT,
    ),
    Mutant(
        "a frame that failed ends the sessions before its own",
        "bench/score/oracle.py",
        "|> EXTEND coalesce(max(if({_ACCEPTED} AND NOT failed, session, NULL))",
        "|> EXTEND coalesce(max(if({_ACCEPTED}, session, NULL))",
        AGREEMENT,
    ),
    Mutant(
        "what the bench found while it had the keys is not scored",
        "bench/score/findings.py",
        "case_finding WHERE case IS NOT NULL",
        "case_finding WHERE false",
        AGREEMENT,
    ),
    Mutant(
        "what is wrong before the antenna comes last",
        "bench/score/findings.py",
        'FAIL, (-1, "seq"), "text"',
        'FAIL, (9, "seq"), "text"',
        AGREEMENT,
    ),
    Mutant(
        "what was not provoked is not missed",
        "bench/verdict/expectation.py",
        "        if due.rule == TOO_LATE_RULE and due not in evidence.provoked",
        "        if False",
        "tests/bench/verdict/test_expectation.py",
    ),
    Mutant(
        "a station that answers again provokes as well",
        "bench/verdict/evidence.py",
        '    if event["stage"] == "going on":',
        "    if True:",
        "tests/bench/verdict/test_expectation.py",
    ),
    Mutant(
        "a broken night counts",
        "bench/night/morning.py",
        "        return bool(self.runs) and all(run.whole and run.scored for run in self.runs)",
        "        return bool(self.runs)",
        MORNING,
    ),
    Mutant(
        "a broken night is a baseline",
        "bench/night/morning.py",
        "NO_BASELINE_CODES = frozenset({2, 4, 12})",
        "NO_BASELINE_CODES = frozenset({2, 4})",
        MORNING,
    ),
    Mutant(
        "a lost case is not missed",
        "bench/night/morning.py",
        "        if glyph == NOT_RUN and was_there and before.state is not State.LOST:",
        "        if False and was_there and before.state is not State.LOST:",
        MORNING,
    ),
    Mutant(
        "another signature is the same failure",
        "bench/night/series.py",
        "    same = facts.signature == facts.last_signature",
        "    same = True",
        MORNING,
    ),
    Mutant(
        "inconclusive counts as passed",
        "bench/night/record.py",
        "CONCLUSIVE = PASSES | {FAIL}",
        'CONCLUSIVE = PASSES | {FAIL, "?"}',
        MORNING,
    ),
    Mutant(
        "known for ever",
        "bench/night/morning.py",
        "        return self.until is not None and night[:10] > self.until.isoformat()",
        "        return False",
        MORNING,
    ),
    Mutant(
        "a part of the catalogue is compared with all of it",
        "bench/night/morning.py",
        "if n.part == part and n.code not in NO_BASELINE_CODES)",
        "if n.code not in NO_BASELINE_CODES)",
        MORNING,
    ),
    Mutant(
        "a join tells no server that a session is over",
        "bench/score/oracle.py",
        "coalesce(max(newest_told) OVER {_HERE_BEFORE} > session, false)",
        "false",
        AGREEMENT,
    ),
    Mutant(
        "no server looks for a counter that is too far",
        "bench/score/oracle.py",
        "{_NEW} AND NOT pinned AND f_cnt > {MAX_GAP}",
        "{_NEW} AND false AND f_cnt > {MAX_GAP}",
        AGREEMENT,
    ),
    Mutant(
        "a copy at another server gives spent answers back",
        "bench/score/level2.py",
        "        session.kept_spent = before | known",
        "        session.kept_spent = seat.spent",
        AGREEMENT,
    ),
    Mutant(
        "a first message that was claimed before is answered",
        "bench/score/oracle.py",
        "({_NEW} AND NOT retried)",
        "{_NEW}",
        AGREEMENT,
    ),
    Mutant(
        "an id is used once in a case",
        "bench/score/laws.py",
        "1 + count_if(since_us < retention_us)",
        "count(*)",
        AGREEMENT,
    ),
)
