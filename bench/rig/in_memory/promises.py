"""Does whoever uses a part of a consumer, or of an outbox, alone get what it promises?

How topic filters, times and brokers are spelled is written down by hand, from MQTT 5.0 (4.7),
ISO 8601 and RFC 3986.
"""

import asyncio
import io
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import cache
from typing import NoReturn, TypeVar

from bench.chance import stream
from lns.delivery import Incoming
from lns.delivery.detectors import (
    Detectors,
    Judge,
    MessageIdWindow,
    MinMsgTime,
    RemoveDuplicatesKeys,
    SequenceTracker,
    duration,
    time_us,
)
from lns.delivery.effect import EffectUnavailable, JsonLinesStream, effect_of, json_lines
from lns.delivery.inbox import Decisions, Tries, figures
from lns.delivery.incoming import Offered
from lns.delivery.mqtt_session import Broker, broker
from lns.delivery.outbox import Entry, Turns
from lns.delivery.subscription import HeldSubscription, expect_topic_filter
from lns.store.inbox_store import (
    MemoryEntries,
    MemoryInboxStore,
    Transaction,
    TransactionLost,
    at_once,
)

T = TypeVar("T")

_REFUSED = "refused"
_LONG = "x" * 65_535
_FILTERS = ("#", "+", "/", "a", "a/#", "+/+/up", "/+", "a/+/#", "a//b", "ä", _LONG)
_NO_FILTERS: tuple[str, ...] = (
    "",
    "a#",
    "#/a",
    "a/#/b",
    "+a",
    "a+",
    "a/b+/c",
    "##",
    "++",
    "a\0",
    _LONG + "/",
)
_NO_FILTERS += ("é" + _LONG[1:],)
_AT_US = 1_767_225_600_000_000
_TIMES: Mapping[str, int | None] = {
    "": None, " \n": None, "0": 0, "12": 12_000_000, " 7\n": 7_000_000, "1.5": 1_500_000,
    "1.05": 1_050_000, "1.000001": 1_000_001, "1.0000019": 1_000_001, "12.": 12_000_000,
    "253402300799": 253_402_300_799_000_000, "9999-12-31T23:59:59Z": 253_402_300_799_000_000,
    "2026-01-01": _AT_US, "2026-01-01T00:00:00.001Z": _AT_US + 1_000,
    "2026-01-01T01:30:00+01:30": _AT_US, "2025-12-31T19:00:01-05:00": _AT_US + 1_000_000,
}  # fmt: skip
_NO_TIMES = ("x", "1.2.3", "-1", "12:00", "1e3", "2026-13-01", "253402300800", "1" * 5_000)
_STATED: Mapping[str, int | None] = {
    "7": 7_000_000,
    '{"lns":"a","minMsgTime":"2026-01-01T00:00:00Z","retryMaxS":60}': _AT_US,
}
_NOT_STATED = ("[1]", '{"lns":"a","minMsgTime":7,"retryMaxS":60}', '{"z":' + "[" * 5_000)
_DURATIONS = {
    0: "0 s", 1: "1 us", 999_999: "999999 us", 1_000_000: "1 s", 59_000_000: "59 s",
    60_000_000: "1 min", 60_000_001: "60000001 us", 61_000_000: "61 s", 5_400_000_000: "90 min",
    3_600_000_000: "1 h", 90_000_000_000: "25 h", 86_400_000_000: "1 d", 604_800_000_000: "7 d",
}  # fmt: skip
_BROKERS = {
    "mqtt://a": "mqtt://a:1883", "mqtt://a:1/": "mqtt://a:1", "mqtt://u:p@A:65535": "mqtt://a:65535",
    "mqtt://[::1]": "mqtt://[::1]:1883", "mqtt://u@[1:2:3:4:5:6:7:8]:2": "mqtt://[1:2:3:4:5:6:7:8]:2",
}  # fmt: skip
_OLDEST = {None: (None, 9_000_000), 7: (7, 7), 10_000_000: (10_000_000, 9_000_000)}
_WINDOW_US = 600_000_000
_TOPICS = "a", "b", "c"
_ACTS = "come", "come", "take", "take", "end", "end", "lose", "leave out"
_UNREAD = "Unread"
_EFFECTS: Mapping[str, tuple[Callable[[Transaction], Awaitable[None] | None], object]] = {
    "returns": (lambda tx: None, ([_UNREAD, "Accepted"], 1, 0)),
    "is awaited": (lambda tx: MemoryInboxStore().close(), ([_UNREAD, "Accepted"], 1, 0)),
    "waits": (lambda tx: asyncio.sleep(0), "EffectMustNotWait"),
    "fails": (lambda tx: _raised(KeyError()), ([_UNREAD, "failed"], 0, 1)),
    "writes": (lambda tx: _raised(TypeError(tx.execute("SELECT"))), ([_UNREAD, "failed"], 0, 1)),
    "has no room": (lambda tx: _raised(EffectUnavailable()), ([_UNREAD, "waits"], 0, 0)),
    "loses all": (lambda tx: _raised(TransactionLost()), "TransactionLost"),
}
"""What an effect does that is a function, and what becomes of two messages then."""
_ACCEPTED: Mapping[Judge, tuple[list[int], int]] = {
    MessageIdWindow(20_000_000): ([1, 2, 5, 3, 5, 6], 0),
    MessageIdWindow(20_000_001): ([1, 2, 5, 3, 6], 0),
    RemoveDuplicatesKeys(retention_us=10_000_000, retry_us=0): ([1, 2, 5, 3, 6], 0),
    RemoveDuplicatesKeys(retention_us=9_999_999, retry_us=0): ([1, 2, 5, 3, 5, 6], 0),
    SequenceTracker(): ([1, 2, 5, 6], 2),
    SequenceTracker(perform_duplicate_checking=False): ([1, 2, 5, 3, 5, 6], 0),
}
_NO_BROKERS: tuple[str, ...] = (
    "a",
    "http://a",
    "mqtt://",
    "mqtt://a:0",
    "mqtt://a:65536",
    "mqtt://:p@a",
)
_NO_BROKERS += tuple(f"mqtt://a{rest}" for rest in ("/x", "?x", "#x", " b"))


@cache
def broken_promises() -> tuple[str, ...]:
    """What is taken for something else than it is, or remembered in another way."""
    return tuple(_broken())


def _broken() -> Iterator[str]:
    for read in (expect_topic_filter, _retained):
        yield from _wrong(read, dict.fromkeys(_FILTERS), _NO_FILTERS)
    yield from _wrong(time_us, _TIMES, _NO_TIMES)
    yield from _wrong(_stated_us, _STATED, _NOT_STATED)
    yield from _wrong(duration, _DURATIONS, ())
    yield from _wrong(lambda url: str(broker(url)), _BROKERS, _NO_BROKERS)
    yield from _wrong(_accepted, _ACCEPTED, ())
    yield from _wrong(_window_us, {20_000_000: 20_000_000, 0: None, -1: _WINDOW_US}, ())
    yield from _wrong(_oldest_us, _OLDEST, ())
    yield from _wrong(_done, {how: due for how, (_, due) in _EFFECTS.items()}, ())
    yield from _wrong(_is_stream, {"-": True, "/dev/null": True, "/": False}, ())


def _accepted(judge: Judge) -> tuple[list[int], int]:
    """Which of these numbers are accepted, a second after each other, and what is counted."""
    entries, accepted = MemoryEntries(), []
    for second, number in enumerate((1, 2, 5, 3, 5, 6)):
        text = str(number)
        message = Incoming(
            channel="up", message_id=text, sequence_number=number, remove_duplicates_key=text
        )
        if judge.take(entries, message, 10_000_000 * second) is None:
            accepted.append(number)
    counts = judge.num_dup_msgs_rcvd(entries) if isinstance(judge, SequenceTracker) else 0
    return accepted, counts


def _window_us(stored_us: int) -> int | None:
    """The window of who looks into a store; less than 0: one that nobody has created."""
    created = {"created": 1, "window_us": stored_us} if stored_us >= 0 else {}
    window = Detectors(MessageIdWindow(_WINDOW_US)).with_window_of(created).window
    return None if window is None else window.window_us


def _oldest_us(known_us: int | None) -> tuple[int | None, ...]:
    """What a consumer goes by that has kept this: at first, and with what is said."""
    said = MinMsgTime(known_us, lambda topic, retry_us: None)
    before = said.oldest_us
    said.hear("up", b"9")
    return before, said.oldest_us


def _stated_us(payload: str) -> int | None:
    """The time that a producer retains."""
    said = MinMsgTime(None, lambda topic, retry_us: None)
    said.hear("up", payload.encode())
    return said.oldest_us


def _is_stream(where: str) -> bool:
    """Whether effects go into a stream; standard output is somebody else's, and stays open."""
    standard_output = io.BytesIO()
    try:
        lines = json_lines(where, standard_output)
    except EffectUnavailable:
        return False
    lines.close()
    return isinstance(lines, JsonLinesStream) and not standard_output.closed


def _retained(topic_filter: str) -> None:
    """Ask for what is retained beside the messages."""
    there = Broker("/nowhere", 1)
    HeldSubscription(there, "#", "consumer", lambda delivery: None, retained=topic_filter)


def _done(how: str) -> object:
    """What becomes of a message behind one that cannot be read, whose effect is a function."""
    store, effect = MemoryInboxStore(), effect_of(lambda message, tx: _EFFECTS[how][0](tx))
    decisions = Decisions(Detectors(), effect, Tries())
    offered = Incoming.of("up", b"?", {}, 1), Incoming(channel="other", message_id="a")
    batch = [Offered(number, message, lambda: None) for number, message in enumerate(offered)]
    decided = store.transact([], lambda tx: decisions.decide(tx, batch, 0))
    try:
        words = [
            type(one.event).__name__ if one.event else "failed" if one.failed else "waits"
            for one in at_once(decided)
        ]
    except Exception as error:
        return type(error).__name__
    seen = figures(at_once(store.summary()))
    return words, seen.accepted, seen.tries_failed


def _raised(error: Exception) -> NoReturn:
    raise error


@cache
def broken_turns() -> tuple[str, ...]:
    """What is said of messages that are to be sent, and not so; whatever is drawn to be done."""
    dice, turns = stream(7, "turns"), Turns()
    waits, taken, refused = list[Entry](), dict[str, Entry](), list[str]()
    for position in range(1, 500):
        topic, due, seen = dice.choice(_TOPICS), None, None
        match dice.choice(_ACTS):
            case "come":
                waits.append(Entry(position, topic, "", "", 0, b"", ""))
                turns.add(waits[-1:])
            case "take":
                due = next((e for e in waits if e.topic not in taken.keys() | {*refused}), None)
                seen = turns.take()
                waits = [entry for entry in waits if entry is not due]
                taken |= {due.topic: due} if due else {}
            case "end" if topic in refused:
                refused.remove(topic)
                turns.try_again(topic)
            case "end" if topic in taken and position % 2:
                turns.let_go(taken.pop(topic).topic)
            case "end" if topic in taken:
                refused.append(topic)
                turns.refuse(taken[topic])
                waits.append(taken.pop(topic))
            case "lose":
                turns.put_back(taken.values())
                waits += taken.values()
                taken.clear()
            case "leave out":
                turns.leave_out(range(0, position, 3))
                waits = [entry for entry in waits if entry.position % 3]
        waits.sort(key=lambda entry: entry.position)
        told = [turns.ahead, turns.earliest(), *(one in turns for one in _TOPICS)]
        is_so = sum(e.topic not in refused for e in waits), waits[:1]
        topics = {*taken, *(entry.topic for entry in waits)}
        if [seen, *told] != [due, *is_so, *(one in topics for one in _TOPICS)]:
            return ("what is to be sent: expected what waits and may go, observed something else",)
    return ()


def _wrong(
    read: Callable[[T], object], right: Mapping[T, object], wrong: tuple[T, ...]
) -> Iterator[str]:
    for one, due in {**right, **dict.fromkeys(wrong, _REFUSED)}.items():
        try:
            seen = read(one)
        except ValueError:
            seen = _REFUSED
        except Exception as error:
            seen = error
        if seen != due:
            yield f"{_name(one)}: expected {due}, observed {seen}"


def _name(one: object) -> str:
    return f"{one!s:.50}" if isinstance(one, str | int) else type(one).__name__
