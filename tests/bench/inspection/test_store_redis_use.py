"""What is wrong with how servers use their Redis, request by request and key by key."""

import json

import pytest

from bench.inspection.store import (
    AGAIN_US,
    DATABASE,
    OTHERS,
    PASSWORD,
    USER,
    Conversation,
    Insistence,
    Key,
    Words,
    counters_left,
    expiries,
    in_the_end,
    is_confirmation,
    is_reservation,
    left_of_before,
    looked_at,
    released,
    reserved,
)

SHA = b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db"  # of "return 1"
WHOLE, NAMED = (b"EVAL", b"return 1", b"1", b"k"), (b"EVALSHA", SHA, b"1", b"k")
OPENING: list[Words] = [
    (b"AUTH", USER.encode(), PASSWORD.encode()),
    (b"SELECT", str(DATABASE).encode()),
]
DEVICE, ADDRESS = "lns:{70B3D57ED0000001}", "26000001"
SESSIONS = json.dumps([{"dev_addr": ADDRESS}]).encode()


def known() -> Conversation:
    talk = Conversation()
    assert list(talk.asked(OPENING)) == []
    talk.answered(len(OPENING))
    return talk


def say(talk: Conversation, words: Words, reply: object = 1) -> list[str]:
    wrong = list(talk.asked([words]))
    talk.learnt([words], [reply])
    talk.answered(1)
    return wrong


def test_a_script_is_sent_whole_once_and_named_then() -> None:
    talk = known()
    assert [say(talk, words) for words in (WHOLE, NAMED, NAMED)] == [[], [], []]
    assert say(talk, WHOLE) == [
        "expected the digest of a script that it has run, observed all of it"
    ]
    assert say(known(), NAMED) == [
        "expected a script that it has not run yet whole, observed its digest"
    ]


@pytest.mark.parametrize(
    ("refused", "said"), [(WHOLE, b"-OOM command not allowed"), (NAMED, b"-NOSCRIPT No")]
)
def test_a_script_that_did_not_run_is_not_known(refused: Words, said: bytes) -> None:
    talk = known()
    if refused is NAMED:
        say(talk, WHOLE)
    assert say(talk, refused, said) == []
    assert say(talk, NAMED) != []


def test_who_it_is_is_said_first() -> None:
    assert say(Conversation(), (b"GET", b"a")) == [
        "expected user, password and database 3, observed others"
    ]


def test_an_answer_is_waited_for() -> None:
    talk = known()
    assert list(talk.asked([(b"GET", b"a")])) == []
    assert list(talk.asked([(b"GET", b"a")])) == ["expected the answer is waited for, observed GET"]


def test_so_many_leave_at_once() -> None:
    assert list(known().asked([(b"GET", b"a")] * 500)) == []
    assert list(known().asked([(b"GET", b"a")] * 501)) == [
        "expected 500 commands at once, observed 501"
    ]


@pytest.mark.parametrize(("go_on", "wrong"), [(False, 0), (True, 1)])
def test_what_comes_in_two_parts_leaves_at_once(go_on: bool, wrong: int) -> None:
    talk = known()
    list(talk.asked([(b"GET", b"a")] * 250))
    talk.answered(250)
    assert len([*talk.asked([(b"GET", b"a")] * 251, go_on=go_on)]) == wrong


HELD = b"inbox:{application}:held:window:a"
KEYS = (b"inbox:{application}:numbers", b"inbox:{application}:window", *[b"k"] * 6, HELD)
ASKED = b'{"places": [[2, "a"]], "groups": [[1]]}'
RESERVE = (b"EVALSHA", SHA, b"9", *KEYS, b"me", b"30000", ASKED, b"1")
CONFIRM = (b"EVALSHA", SHA, b"10", *KEYS, b"inbox:{application}:confirmed:me", b"me", b"{}", b"9")


@pytest.mark.parametrize(
    ("holder", "left_ms", "count"),
    [(b"me", 30_000, 0), (b"me", 30_001, 1), (b"me", -1, 1), (b"you", 30_000, 1), (None, -2, 1)],
)
def test_what_is_granted_is_held_for_a_lease(
    holder: bytes | None, left_ms: int, count: int
) -> None:
    assert is_reservation(RESERVE)
    assert not is_confirmation(RESERVE)
    free, held = {HELD: (None, -2)}, {HELD: (holder, left_ms)}
    assert len(list(reserved(RESERVE, [[1], [], [], 7], free, held, 7))) == count


@pytest.mark.parametrize(
    ("before", "granted", "count"),
    [(None, 1, 0), (b"me", 1, 0), (None, 0, 1), (b"me", 0, 1), (b"you", 0, 0), (b"you", 1, 1)],
)
def test_what_nobody_else_has_is_granted(before: bytes | None, granted: int, count: int) -> None:
    now = {HELD: (b"me", 30_000)}
    assert (
        len(list(reserved(RESERVE, [[granted], [], [], 7], {HELD: (before, 1)}, now, 7))) == count
    )


def test_positions_go_on_where_the_last_ones_ended() -> None:
    free, held = {HELD: (None, -2)}, {HELD: (b"me", 30_000)}
    [told] = reserved(RESERVE, [[1], [], [], 8], free, held, 7)
    assert told == "positions: expected those behind 7, observed behind 8"


def test_a_place_is_named_by_its_table() -> None:
    words = [b"inbox:{application}:held:a" if word == HELD else word for word in RESERVE]
    held = {b"inbox:{application}:held:a": (b"me", 30_000)}
    assert len(list(reserved(words, [[1], [], [], 7], held, held, 7))) == 1


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [(b"me", None, 0), (b"me", b"me", 1), (b"you", b"you", 0), (b"you", None, 1)],
)
def test_who_has_decided_releases_its_own_places(
    before: bytes | None, after: bytes | None, count: int
) -> None:
    assert is_confirmation(CONFIRM)
    assert not is_reservation(CONFIRM)
    assert len(list(released(CONFIRM, {HELD: (before, 1)}, {HELD: (after, 1)}))) == count


def test_only_sessions_that_are_kept_have_downlink_counters_after_a_join() -> None:
    assert list(counters_left(SESSIONS, [ADDRESS.encode()])) == []
    assert len(list(counters_left(SESSIONS, [ADDRESS.encode(), b"26000002"]))) == 1
    assert len(list(counters_left(SESSIONS, []))) == 1


def left(*keys: Key, is_sure: bool = True) -> list[str]:
    others = [Key(name.decode(), None, value) for name, value in OTHERS.items()]
    taken = {"inbox:{application}:numbers": 3}
    return list(in_the_end([*others, *keys], 60_000, taken, is_sure=is_sure))


GOOD = (
    Key(f"{DEVICE}:sessions", None, SESSIONS),
    Key(f"{DEVICE}:dev_nonces", None, [b"1", b"lns-a"]),
    Key(f"lns:dev_addr:{ADDRESS}", None, [b"70B3D57ED0000001"]),
    Key(f"{DEVICE}:claim:{ADDRESS}", 86_399_000, []),
    Key(f"{DEVICE}:frame:{ADDRESS}:10:73BA0DD8", 59_000, b"0 lns-a"),
    Key("inbox:{application}:numbers", None, [b"position", b"3"]),
    Key("inbox:{application}:window", None, [b"a", b"7 1 0"]),
    Key("inbox:{application}:window:order", None, [b"a", b"1"]),
)


def test_what_stays_is_what_is_known() -> None:
    assert left(*GOOD) == []


@pytest.mark.parametrize(
    "wrong",
    [
        Key(f"{DEVICE}:sessions", 1_000, SESSIONS),
        Key(f"{DEVICE}:claim:{ADDRESS}", None, []),
        Key(f"{DEVICE}:claim:{ADDRESS}", 60_000, []),
        Key(f"{DEVICE}:frame:{ADDRESS}:10:73BA0DD8", None, b"0 lns-a"),
        Key(f"{DEVICE}:frame:{ADDRESS}:10:73BA0DD8", 60_001, b"0 lns-a"),
        Key(f"lns:dev_addr:{ADDRESS}", None, []),
        Key("lns:dev_addr:26000002", None, [b"70B3D57ED0000001"]),
        Key("inbox:{application}:window:order", None, [b"a", b"2"]),
        Key("inbox:{application}:window:order", None, [b"a", b"1", b"b", b"2"]),
        Key("inbox:{application}:held:window:a", 30_000, b"application:1:1"),
        Key("inbox:{application}:confirmed:application:1:1", 60_000, b"1"),
        Key("inbox:{application}:numbers", None, [b"position", b"4"]),
        Key("something", None, b""),
        Key("a", None, b"2"),
    ],
)
def test_what_should_not_be_so_is_told(wrong: Key) -> None:
    assert len(left(*(key for key in GOOD if key.name != wrong.name), wrong)) == 1


def test_a_fault_may_leave_places_and_addresses_behind() -> None:
    held = Key("inbox:{application}:held:window:a", 30_000, b"application:1:1")
    address = Key("lns:dev_addr:26000002", None, [b"70B3D57ED0000001"])
    assert left(*GOOD, held, address, is_sure=False) == []


@pytest.mark.parametrize(
    ("key", "stays"),
    [
        (b"lns:{A}:claim:26000001", False),
        (b"lns:{A}:claim:26000002", True),
        (b"lns:{A}:frame:26000001:3:0A0B0C0D", False),
        (b"lns:{A}:f_cnt_down", False),
        (b"lns:{A}:dev_nonces", True),
    ],
)
def test_whoever_begins_anew_is_known_by_nothing_of_before(key: bytes, *, stays: bool) -> None:
    wrong = list(left_of_before(b"lns:{A}:", b'[{"dev_addr": "26000001"}]', [key]))
    assert (not wrong) is stays


@pytest.mark.parametrize(
    ("keys", "values", "wrong"),
    [
        ("claim f_cnt_down x:frame:y", "lns-a 86400000 60000", 0),
        ("claim f_cnt_down x:frame:y elder", "lns-a 86400000 60001", 1),
        ("claim f_cnt_down x:frame:y", "lns-a 60000 60000", 1),
        ("claim x:frame:y", "lns-a 1 0 86400000 7", 0),
        ("claim x:frame:y", "lns-a 1 0 60000 86400000", 1),
        ("claim f_cnt_down", "lns-a 1", 0),
    ],
)
def test_what_is_remembered_for_a_time_has_it(keys: str, values: str, wrong: int) -> None:
    words = f"EVALSHA {'0' * 40} {len(keys.split())} {keys} {values}".encode().split()
    assert len(list(expiries(words, 60_000))) == wrong


@pytest.mark.parametrize(("after_us", "wrong"), [(AGAIN_US, 0), (AGAIN_US + 1, 1)])
def test_what_could_not_be_confirmed_is_said_again_soon(after_us: int, wrong: int) -> None:
    insistence = Insistence()
    assert not list(insistence.comes("a", 7))
    insistence.failed("a", 10)
    assert len(list(insistence.comes("a", 10 + after_us))) == wrong
    insistence.is_over("a")
    assert not list(insistence.comes("a", 100_000_000))


def test_a_frame_that_is_given_back_is_remembered_no_longer_than_it_was() -> None:
    claim, frame = b"lns:{1}:claim:26000001", b"lns:{1}:frame:26000001:1:AAAAAAAA"
    words = (b"EVALSHA", b"0" * 40, b"2", claim, frame, b"lns-a")
    assert looked_at(words) == [frame]
    assert looked_at((*words[:2], b"3", claim, b"lns:{1}:f_cnt_down", frame, b"lns-a")) == []
    before = {frame: (b"0 lns-a", 500)}
    for left_ms, wrong in ((499, 0), (500, 0), (501, 1)):
        assert len(list(released(words, before, {frame: (b"0- ", left_ms)}))) == wrong
