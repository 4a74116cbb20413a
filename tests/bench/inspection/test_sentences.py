import pytest

from bench.inspection.sentences import disagreements, half_told, oddities
from bench.verdict.owner import Scrutiny

WEST = "0016C001F1500001"
CHECK = Scrutiny(rule="log", of="what is logged", t_us=0)
PARKED = "WARNING 2 messages are parked: they wait for longer than 60 s"
LATE = f"WARNING {WEST}: TooLate (ABP:10): the clock of the station is not known"
AGAIN = f"WARNING {WEST}: answers again, after 7 TooLate"
UNREADABLE = f"WARNING {WEST}: unreadable message: timesync: Expected `int`"
FAILED = f"WARNING {WEST}: internal error (reception): KeyError at data.py:7\n  File"
SLOW = "WARNING the store of the claims takes longer than 250000 us; nobody can say"
TOLD = {
    PARKED: [{"kind": "upstream.parked"}] * 2,
    LATE: [
        {"kind": "lns.outcome", "station": WEST, "frame_id": "ABP:10", "answer": "TooLate"},
    ],
    AGAIN: [{"kind": "lns.too_late", "stage": "over", "station": WEST, "n": 7}],
    UNREADABLE: [{"kind": "lns.unreadable", "station": WEST, "why": "timesync: Expected `int`"}],
    FAILED: [
        {
            "kind": "lns.failure",
            "station": WEST,
            "during": "reception",
            "error": "KeyError at data.py:7",
        }
    ],
    SLOW: [],
}


def wrong(line: str, events: list[dict[str, object]]) -> list[str]:
    check = Scrutiny(rule="log", of="what is logged", t_us=0)
    return [found.text for found in disagreements([line], events, [60], check)]


@pytest.mark.parametrize("line", TOLD)
def test_a_line_says_what_the_capture_tells(line: str) -> None:
    assert wrong(line, TOLD[line]) == []


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        (PARKED, PARKED.replace("2", "3")),
        (PARKED, PARKED.replace("60", "60000")),
        (LATE, LATE.replace("10", "11")),
        (AGAIN, AGAIN.replace("7 ", "8 ")),
        (UNREADABLE, UNREADABLE.replace("int", "str")),
        (FAILED, FAILED.replace("data", "join")),
        (SLOW, SLOW.replace("250000", "250")),
    ],
)
def test_a_line_with_another_fact_is_found(line: str, changed: str) -> None:
    assert len(wrong(changed, TOLD[line])) == 1


def test_what_was_put_aside_is_logged() -> None:
    assert wrong("INFO something else", TOLD[PARKED]) == [
        "what is logged: messages put aside: expected 2, observed 0"
    ]


OPEN = "WARNING the devices file /a b/my devices.toml can be read by others (mode 604): chmod 600 "
WHOLE = (
    f"INFO {WEST}: station 2.0.6(linux/std)",
    f"WARNING {WEST}: TooLate (ABP:10): the frame was told too late",
    "WARNING 7 more complaints were not logged",
    "WARNING the store takes longer than 2000000 us; devices are not answered until it is back",
    f"WARNING {WEST}: internal error (reception): KeyError at data.py:7\n  File\n    x\n",
    f"{OPEN}'/a b/my devices.toml'",
)
ODD = (
    f"WARNING {WEST}: station 2.0.6(linux/std)",
    f"INFO {WEST}: station \x1b[2J",
    "WARNING 0 more complaints were not logged",
    "INFO 7 more complaints were not logged",
    f"ERROR {WEST}: the connection failed",
    "WARNING the frame is late",
    f"{OPEN}/a b/my devices.toml",
)


@pytest.mark.parametrize("line", WHOLE)
def test_a_line_that_servers_have_is_none_to_wonder_at(line: str) -> None:
    assert [*oddities([line], CHECK)] == []


@pytest.mark.parametrize("line", ODD)
def test_a_line_that_no_server_has_is_found(line: str) -> None:
    assert len([*oddities([line], CHECK)]) == 1


WHOLLY_TOLD = (
    "lns.toml:3: lns.regoin: unknown key; did you mean 'region'?",
    "lns.toml:3: lns.x: unknown key; known here: devices, id",
    "lns.toml:4: capture.path: the name of a capture ends in .jsonl, by which scores and reports"
    " find it",
    "lns.toml:3: lns.public_uri: too long: a station takes 127 characters, not 128",
    "devices.toml:7: device[0].class: Input should be 'A' or 'C'",
    "devices.toml: cannot be read: it is not UTF-8",
    "stdout: No space left on device",
)
HALF_TOLD = (
    "lns.toml:3: lns.regoin: unknown key; did you mean 'region'",
    "lns.toml:3: lns.x: unknown key",
    "lns.toml:4: capture.path: the name of a capture ends in .jsonl",
    "lns.toml:3: lns.public_uri: too long: a station takes 127 characters, not 127",
    "devices.toml:7: device[0].class: Input should be",
    "lns.toml: lns.regoin: is missing",
)


@pytest.mark.parametrize("line", WHOLLY_TOLD)
def test_a_whole_sentence_is_one(line: str) -> None:
    assert [*half_told([line], CHECK)] == []


@pytest.mark.parametrize("line", HALF_TOLD)
def test_half_a_sentence_is_found(line: str) -> None:
    assert len([*half_told([line], CHECK)]) == 1
