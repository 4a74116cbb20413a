"""The rules that judge the catalogue, against words derived by hand from ADR 007."""

import re

import pytest

from scenarios.catalogue import EdgeCase, read_cases
from scenarios.catalogue_places import DIFFERENCES
from scenarios.edge_case import (
    Restart,
    Setup,
    Step,
    due,
    first_f_cnt,
    joins,
    steps,
    totals,
)

CASES = read_cases(None)
STRATEGIES = ("Drop", "Mark", "None")


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_the_rules_agree_with_the_catalogue(case: EdgeCase) -> None:
    if case.id in DIFFERENCES:
        return
    for strategy in STRATEGIES:
        assert case.due_statuses(strategy) == case.statuses(strategy)
        assert case.due_totals(strategy) == case.totals(strategy)


def test_the_catalogue_is_there_and_few_cases_differ() -> None:
    assert len(CASES) >= 50
    assert len([case for case in CASES if case.id in DIFFERENCES]) <= 2


def test_a_difference_is_one() -> None:
    for case in CASES:
        if case.id in DIFFERENCES:
            assert any(case.due_statuses(s) != case.statuses(s) for s in STRATEGIES)


SHORT = {
    "N": "NonDuplicate",
    "D": "Duplicate",
    "S": "SoftDuplicate",
    "R": "DuplicateDueToResubmission",
    "-": "-",
    "up": "forwarded",
    "mk": "marked",
    "no": "dropped",
    "dup": "dropped(Duplicate)",
    "fcnt": "dropped(InvalidFrameCounter)",
    "lim": "dropped(ResubmissionLimit)",
    "res": "dropped(ResubmissionSuppressed)",
    "mic": "dropped(MicMismatch)",
    "used": "dropped(DevNonceUsed)",
    "unk": "dropped(UnknownDevice)",
    "1": "RX1",
    "s": "Suppressed",
    "n": "NotAsked",
}


def words(text: str) -> list[str]:
    """ "N up 1, D dup s": status, upstream, answer of each reception, in short."""
    return [" ".join(SHORT[word] for word in one.split()) for one in text.split(",")]


STRICT, RELAXED = Setup(relaxed=False), Setup()
NEW = Setup(relaxed=False, srv=-1)
OTAA = Setup(otaa=True)


@pytest.mark.parametrize(
    ("events", "setup", "strategy", "expected"),
    [
        # Retention: gone when the silence is 60 s, and every hit renews it.
        ("S1@0:U10 S2@59.999999:U10", STRICT, "Drop", "N up n, D dup n"),
        ("S1@0:U10 S2@60:U10", STRICT, "Drop", "N up n, N fcnt n"),
        ("S1@0:C10 S2@60:C10", STRICT, "Drop", "N up 1, N up 1"),
        ("S1@0:U10 S2@59:U10 S2@118:U10", STRICT, "Drop", "N up n, D dup n, D dup n"),
        ("S1@0:U10 S2@59:U10 S2@119:U10", STRICT, "Drop", "N up n, D dup n, N fcnt n"),
        ("S1@0:U10 S2@50:U10 S1@100:U10", STRICT, "Mark", "N up n, S mk n, R fcnt n"),
        # The first station stays the first one, until the entry is gone.
        ("S1@0:C10 S2@1:C10 S2@5:C10 S1@9:C10", STRICT, "None", "N up 1, S up s, S up s, R up 1"),
        ("S1@0:C10 S2@60:C10 S2@64:C10 S1@65:C10", STRICT, "None",
         "N up 1, N up 1, R up 1, S up s"),
        # What each strategy makes of copies and of repetitions.
        ("S1@0:C10 S2@1:C10 S1@4:C10", STRICT, "Drop", "N up 1, D dup s, R res 1"),
        ("S1@0:C10 S2@1:C10 S1@4:C10", STRICT, "Mark", "N up 1, S mk s, R mk 1"),
        ("S1@0:C10 S2@1:C10 S1@4:C10", STRICT, "None", "N up 1, S up s, R up 1"),
        ("S1@0:U10 S2@1:U10 S1@4:U10", STRICT, "None", "N up n, S up n, R fcnt n"),
        # Three repeated answers per counter, whichever way they come; a newer frame clears them.
        (
            "S1@0:C10 S1@4:C10 S1@8:C10 S1@12:C10 S1@16:C10",
            STRICT, "Drop", "N up 1, R res 1, R res 1, R res 1, R lim s",
        ),
        (
            "S1@0:C10 S1@60:C10 S1@120:C10 S1@124:C10 S1@184:C10 S2@185:C10",
            STRICT, "None", "N up 1, N up 1, N up 1, R up 1, N lim s, S up s",
        ),
        (
            "S1@0:C10 S1@4:C10 S1@8:C10 S1@12:C10 S1@16:C11 S1@20:C11 S1@21:C10",
            STRICT, "Mark", "N up 1, R mk 1, R mk 1, R mk 1, N up 1, R mk 1, R fcnt s",
        ),
        # Counters: older, too far, after the newest; first of all.
        ("S1@0:U10 S1@1:U9", STRICT, "Drop", "N up n, N fcnt n"),
        ("S1@0:C10 S1@1:C9", STRICT, "Drop", "N up 1, N fcnt s"),
        ("S1@0:U10 S1@1:U16394", STRICT, "Drop", "N up n, N up n"),
        ("S1@0:U10 S1@1:U16395", STRICT, "Drop", "N up n, N fcnt n"),
        ("S1@0:U16384", NEW, "Drop", "N up n"),
        ("S1@0:U16385", NEW, "Drop", "N fcnt n"),
        ("S1@0:U0 S1@1:U0", NEW, "None", "N up n, R fcnt n"),
        ("S1@0:U10 S1@2:U11 S2@3:U10", STRICT, "Mark", "N up n, N up n, S fcnt n"),
        ("S1@0:U10 S1@2:U11 S2@3:U10", STRICT, "Drop", "N up n, N up n, D dup n"),
        # The first message of a relaxed ABP device, and of no other.
        ("S1@0:U1", Setup(srv=500), "Drop", "N up n"),
        ("S1@0:U0", Setup(srv=500), "Drop", "N up n"),
        ("S1@0:U2", Setup(srv=500), "Drop", "N fcnt n"),
        ("S1@0:U1", Setup(relaxed=False, srv=500), "Drop", "N fcnt n"),
        ("S1@0:U1", Setup(otaa=True, srv=500), "Drop", "N fcnt n"),
        ("S1@0:U1 S1@4:U1 S2@5:U1", RELAXED, "Drop", "N up n, R res n, D dup n"),
        ("S1@0:U1 S1@4:U1 S2@5:U1", RELAXED, "Mark", "N up n, R mk n, S mk n"),
        ("S1@0:U1 S1@4:U1 S2@5:U1", RELAXED, "None", "N up n, R up n, S up n"),
        ("S1@0:U1 S1@60:U1", RELAXED, "Drop", "N up n, N up n"),
        ("S1@0:U1 S1@4:U2 S1@8:U1", RELAXED, "None", "N up n, N up n, R up n"),
        (
            "S1@0:C1 S1@4:C1 S1@8:C1 S1@12:C1 S1@16:C1",
            RELAXED, "None", "N up 1, R up 1, R up 1, R up 1, R lim s",
        ),
        # Which frames are the same: device, MIC, counter.
        ("a~S1@0:U10 b~S2@1:U10", STRICT, "Drop", "N up n, N up n"),
        ("S1@0:C10.a S2@1:C10.b", STRICT, "Drop", "N up 1, N up 1"),
        ("S1@0:U10.a S2@1:U10.b", STRICT, "Drop", "N up n, N fcnt n"),
        ("S1@0:C10 S2@1:U10", STRICT, "Drop", "N up 1, N fcnt n"),
        ("S1@0:U5 S2@1:U65541", STRICT, "Drop", "N up n, D dup n"),
        # A wrong MIC is not level 1's business and leaves no trace there.
        ("S1@0:!U10 S2@1:U10 S1@2:!U10", STRICT, "Drop", "- mic n, N up n, - mic n"),
        ("S1@0:!C10", STRICT, "Mark", "- mic n"),
        ("S1@0:!J1 S2@1:J1", OTAA, "Drop", "- mic n, N no 1"),
        # Port 0 carries nothing for the application, but is answered.
        ("S1@0:C23p0 S2@1:C23p0 S1@4:C23p0", STRICT, "None", "N no 1, S no s, R no 1"),
        ("S1@0:C23p0 S1@4:C23p0", STRICT, "Drop", "N no 1, R res 1"),
        # Joins: copies are duplicates for every strategy; a DevNonce is used once, and only grows.
        ("S1@0:J1 S1@8:J1 S2@9:J1", OTAA, "None", "N no 1, D dup s, D dup s"),
        ("S1@0:J1 S1@60:J1", OTAA, "Mark", "N no 1, N used s"),
        ("S1@0:J5 S1@10:J4 S1@20:J6", OTAA, "Drop", "N no 1, N used s, N no 1"),
        ("S1@0:J1.b S1@8:J1", OTAA, "Drop", "N unk s, N no 1"),
        ("S1@0:J1 S1@8:U1 S1@20:J2 S1@28:U1", OTAA, "Drop", "N no 1, N up n, N no 1, N up n"),
        ("S1@0:J1 S1@8:U1 S2@9:U1", OTAA, "Drop", "N no 1, N up n, D dup n"),
        # A restarted server has no level 1, and the counter that it had kept.
        ("S1@0:U10 restart@1 S2@2:U10", STRICT, "Drop", "N up n, N fcnt n"),
        ("S1@0:U10 restart@1=9 S2@2:U10", STRICT, "Drop", "N up n, N up n"),
        ("S1@0:C10 restart@1 S2@2:C10", STRICT, "Drop", "N up 1, N up 1"),
        ("S1@0:J1 restart@1 S2@2:J1", OTAA, "Drop", "N no 1, N used s"),
    ],
)  # fmt: skip
def test_words_derived_by_hand(events: str, setup: Setup, strategy: str, expected: str) -> None:
    assert due(steps(events), setup, strategy) == words(expected)


def test_what_went_up_and_down_is_counted() -> None:
    stimulus = steps("S1@0:C10 S2@1:C10 S1@4:C10 S1@5:C23p0")
    assert totals(due(stimulus, STRICT, "Mark")) == (3, 2, 3)
    assert totals(due(stimulus, STRICT, "Drop")) == (1, 0, 3)
    assert totals([]) == (0, 0, 0)


def test_a_step_is_read_in_all_its_parts() -> None:
    assert steps("b~S2@12.5:!C10p0.x restart@5 restart@6=10 S1@0:J65535") == [
        Step(12.5, "S2", "C", 10, device="b", port=0, variant="x", forged=True),
        Restart(5.0, None),
        Restart(6.0, 10),
        Step(0.0, "S1", "J", 65535),
    ]
    assert steps("") == []


@pytest.mark.parametrize(
    "wrong",
    ["S1@0:X10", "S1@x:U1", "S@0:U1", "S10@0:U1", "S1:U1", "S1@0:U", "S1@0", "A~S1@0:U1",
     "S1@0:U1.", "S1@0:U1p", "restart", "restart@", "restart@5=", "S1@0:U1;", "S1@0:u1",
     "S1@1.2.3:U1", "restart@.:", "S1@.:U1"],
)  # fmt: skip
def test_a_step_that_cannot_be_read_is_named(wrong: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"cannot read the step '{wrong}'")):
        steps(f"S1@0:U1 {wrong} S2@1:U1")


def test_what_a_device_begins_with() -> None:
    stimulus = steps("a~S1@0:J1 b~S1@1:C7 a~S1@2:U3 a~S1@3:U4")
    assert (first_f_cnt(stimulus, "a"), first_f_cnt(stimulus, "b")) == (3, 7)
    assert first_f_cnt(stimulus, "c") == 1
    assert joins(stimulus)
    assert not joins(steps("S1@0:U1 restart@5"))


def test_who_may_begin_again() -> None:
    assert RELAXED.restarts
    assert not STRICT.restarts
    assert not OTAA.restarts
