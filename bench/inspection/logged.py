"""Does what a network server says to a person agree with what its capture tells of the same?

Of what is in the capture as well, each line of the log names whom it is about, and why, in the same
words. The log may leave lines out, of which so many are written in a minute; it never has one of
its own.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from bench.capture.reading import Event
from bench.verdict.owner import Found, Scrutiny

_PARKED = re.compile(r"WARNING (\d+) messages are parked: they wait for longer than (\d+) s")
_TOO_LONG = re.compile(r"WARNING (.+) takes longer than (\d+) us;")
_WAITED_US = {"the store of the claims": 250_000, "the store": 2_000_000}
_LINES: tuple[tuple[re.Pattern[str], str, Callable[[Event], str | None]], ...] = (
    (
        re.compile(r"WARNING \S+: internal error \(.*"),
        "lns.failure",
        lambda one: f"WARNING {one['station']}: internal error ({one['during']}): {one['error']}",
    ),
    (
        re.compile(r"WARNING [0-9A-F]{16}: TooLate \("),
        "lns.outcome",
        lambda one: _too_late(one),
    ),
    (
        re.compile(r"WARNING [0-9A-F]{16}: (answers again|cannot answer)"),
        "lns.too_late",
        lambda one: _in_a_row(one),
    ),
    (
        re.compile(r"WARNING [0-9A-F]{16}: unreadable message: (?!no JSON|updf|jreq)"),
        "lns.unreadable",
        lambda one: f"WARNING {one['station']}: unreadable message: {one['why']}",
    ),
)
"""Which lines, the kind of event, and how the line of an event begins; None: it has none."""


def disagreements(
    lines: Sequence[str], events: Sequence[Event], retry_s: Collection[int], check: Scrutiny
) -> Iterator[Found]:
    """Lines that no event stands for; a message may wait for one of `retry_s`."""
    for shape, kind, said_of in _LINES:
        if of_kind := [line for line in lines if shape.match(line)]:
            told = {said_of(one) for one in events if one["kind"] == kind} - {None}
            yield from _alone(of_kind, told, check)
    for one in filter(None, map(_TOO_LONG.match, lines)):
        yield from check.same(
            f"how long {one[1]} may take (us)", _WAITED_US.get(one[1]), int(one[2])
        )
    parked = [found for found in map(_PARKED.match, lines) if found]
    due = sum(1 for one in events if one["kind"] == "upstream.parked")
    yield from check.same("messages put aside", due, sum(int(found[1]) for found in parked))
    for found in parked:
        if int(found[2]) not in retry_s:
            yield check.wrong("how long they wait (s)", [*retry_s][-1], found[2])


def _alone(lines: Iterable[str], told: set[str | None], check: Scrutiny) -> Iterator[Found]:
    for line in Counter(lines):
        if not any(one and line.partition("\n")[0].startswith(one) for one in told):
            yield check.wrong("line", "what the capture tells", line)


def _too_late(one: Event) -> str | None:
    if one.get("answer") != "TooLate":
        return None
    return f"WARNING {one['station']}: TooLate ({one.get('frame_id')}): "


def _in_a_row(one: Event) -> str:
    if one["stage"] == "over":
        return f"WARNING {one['station']}: answers again, after {one['n']} TooLate"
    said = f"WARNING {one['station']}: cannot answer: {one['n']} TooLate in a row, at last because"
    return f"{said} {one['cause']}; what it hears first stays unanswered"
