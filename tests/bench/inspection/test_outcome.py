"""An outcome names the frame and its sender; each wrong field is told."""

from dataclasses import replace
from typing import Any

import pytest

from bench.inspection.downlink import Answered
from bench.inspection.known_device import KnownDevice, Session
from bench.inspection.outcome import (
    Claims,
    Decided,
    Remembered,
    claimed,
    forgotten,
    misshapen,
    outcome,
)
from bench.verdict.owner import Scrutiny
from bench.verdict.wire import Uplink
from bench.virtual.lorawan.air_interface import Keys, Kind, data_frame, read_data
from bench.virtual.lorawan.join_frames import join_request, read_join_request
from lns.dedup.strategy import Strategy

KEYS = Keys(bytes(16), bytes(range(16)))
DEV_EUI, JOIN_EUI, STATION = "70B3D57ED0000001", "70B3D57ED0000000", "0016C001F1500001"
CHECK = Scrutiny(rule="outcome", of="outcome", t_us=0)
DEVICE = KnownDevice(DEV_EUI, bytes(16), [Session("26000001", KEYS, 0)])
DATA = data_frame(Kind.CONFIRMED_UP, "26000001", KEYS, 0x1000A, f_port=2, payload=b"hi")
JOIN = join_request(bytes(16), join_eui=JOIN_EUI, dev_eui=DEV_EUI, dev_nonce=1)


def heard(phy: bytes) -> Uplink:
    frame = read_join_request(phy) if phy is JOIN else read_data(phy)
    assert frame is not None
    return Uplink(
        station=STATION, t_us=0, held_us=0, phy=phy, frame=frame, xtime=1, rctx=0, dr=5,
        freq_hz=868_100_000, rssi=-80, snr=7,
    )  # fmt: skip


def wrong(phy: bytes, told: dict[str, Any], *, sent: bool = True) -> list[str]:
    uplink = heard(phy)
    sender = Answered(uplink, DEVICE, 0x1000A, DEVICE.sessions[0]) if sent else None
    return [one.text.split(": ")[1] for one in outcome(told, uplink, sender, "Drop", CHECK)]


def data(**changed: object) -> dict[str, Any]:
    mic = DATA[-4:].hex().upper()
    told = {"dev_eui": DEV_EUI, "dev_addr": "26000001", "f_cnt": 0x1000A, "mic": mic}
    told |= {"confirmed": True, "strategy": "Drop", "status": "NonDuplicate"}
    told |= {"upstream": "forwarded", "answer": "RX1", **changed}
    return {name: value for name, value in told.items() if value is not None}


@pytest.mark.parametrize(
    "changed",
    [
        {"dev_eui": "70B3D57ED0000002"},
        {"dev_addr": "26000002"},
        {"f_cnt": 10},
        {"mic": "00000000"},
        {"confirmed": False},
        {"strategy": "Mark"},
        {"strategy": None},
    ],
)
def test_every_field_is_that_of_the_frame(changed: dict[str, object]) -> None:
    assert wrong(DATA, data()) == []
    assert wrong(DATA, data(**changed)) == list(changed)


def test_a_word_is_the_same_from_another_process() -> None:
    assert wrong(DATA, data(strategy=Strategy.DROP)) == []


def test_a_duplicate_is_dropped_as_one() -> None:
    told = {"status": "Duplicate", "upstream": "dropped", "reason": "Duplicate"}
    told["answer"] = "Suppressed"
    assert wrong(DATA, data(**told)) == []
    assert wrong(DATA, data(**told | {"reason": None})) == ["reason"]
    assert wrong(DATA, data(**told | {"upstream": "marked"})) == ["upstream"]


def test_nobody_is_named_who_is_not_known() -> None:
    unknown = {"status": None, "upstream": "dropped", "reason": "MicMismatch", "answer": "NotAsked"}
    assert wrong(DATA, data(**unknown, dev_eui=None), sent=False) == []
    assert wrong(DATA, data(**unknown), sent=False) == ["dev_eui"]


def test_a_join_is_of_the_device_that_it_names() -> None:
    mic = {"mic": JOIN[-4:].hex().upper()}
    told = {"status": "NonDuplicate", "upstream": "dropped", "strategy": "Drop", **mic}
    told["answer"] = "RX1"
    assert wrong(JOIN, told | {"dev_eui": DEV_EUI}) == []
    assert wrong(JOIN, told | {"dev_eui": JOIN_EUI}, sent=False) == ["dev_eui"]
    assert wrong(JOIN, told | {"dev_eui": DEV_EUI, "mic": "00000000"}) == ["mic"]
    refused = {"upstream": "dropped", "reason": "UnknownDevice", "answer": "NotAsked", **mic}
    assert wrong(JOIN, refused, sent=False) == []
    assert wrong(JOIN, refused | {"dev_eui": DEV_EUI}, sent=False) == ["dev_eui"]
    others = {"upstream": "dropped", "reason": "BelongsToAnotherServer", **mic}
    others |= {"dev_eui": DEV_EUI, "answer": "Suppressed"}
    assert wrong(JOIN, others, sent=False) == []


REFUSED = {"upstream": "dropped", "reason": "InvalidFrameCounter"}
NAMELESS = {"status": None, "dev_eui": None, "strategy": None, "f_cnt": None}


def asking(*, confirmed: bool = False, f_opts: bytes = b"", port: int = 2) -> bytes:
    kind = Kind.CONFIRMED_UP if confirmed else Kind.UNCONFIRMED_UP
    payload = b"\x0d" if port == 0 else b"hi"
    return data_frame(kind, "26000001", KEYS, 0x1000A, f_port=port, payload=payload, f_opts=f_opts)


@pytest.mark.parametrize(
    ("phy", "changed", "answer", "is_right"),
    [
        (DATA, {}, "NotAsked", False),
        (DATA, REFUSED, "NotAsked", False),
        (DATA, REFUSED, "Suppressed", True),
        (asking(), {}, "NotAsked", True),
        (asking(), {}, "RX1", True),
        (asking(), REFUSED, "Suppressed", False),
        (asking(), {"status": "SoftDuplicate"}, "Suppressed", False),
        (asking(f_opts=b"\x02"), REFUSED, "NotAsked", False),
        (asking(f_opts=b"\x06\x00\x00\x0d"), REFUSED, "NotAsked", False),
        (asking(port=0), REFUSED, "NotAsked", False),
        (DATA, {**NAMELESS, "upstream": "dropped", "reason": "MicMismatch"}, "Suppressed", False),
    ],
)
def test_whoever_asks_for_an_answer_is_told_to_have_asked(
    phy: bytes, changed: dict[str, object], answer: str, is_right: bool
) -> None:
    told = data(**changed, answer=answer)
    told |= {"mic": phy[-4:].hex().upper(), "confirmed": phy is DATA}
    assert wrong(phy, told, sent="dev_eui" in told) == ([] if is_right else ["answer"])


@pytest.mark.parametrize(
    ("changed", "answer", "is_right"),
    [
        ({"status": "NonDuplicate"}, "RX2", True),
        ({"status": "NonDuplicate"}, "Suppressed", False),
        ({"status": "NonDuplicate", "reason": "DevNonceUsed"}, "Suppressed", True),
        ({"status": "Duplicate", "reason": "Duplicate"}, "NotAsked", False),
        ({"reason": "MicMismatch"}, "Suppressed", False),
    ],
)
def test_a_join_that_is_proven_asks_for_its_accept(
    changed: dict[str, object], answer: str, is_right: bool
) -> None:
    told = {"mic": JOIN[-4:].hex().upper(), "upstream": "dropped", "answer": answer, **changed}
    if "status" in told:
        told |= {"dev_eui": DEV_EUI, "strategy": "Drop"}
    assert wrong(JOIN, told, sent="status" in told) == ([] if is_right else ["answer"])


@pytest.mark.parametrize(
    ("key", "silent_us", "wrong"),
    [
        (f"{DEV_EUI}:{DATA[-4:].hex().upper()}:10", 60_000_000, []),
        (f"{DEV_EUI}:{DATA[-4:].hex().upper()}:10", 59_000_000, ["silent_us"]),
        (f"{DEV_EUI}:{DATA[-4:].hex().upper()}:11", 60_000_000, ["FCnt"]),
        (f"{DATA[-4:].hex().upper()}:10", 60_000_000, ["key"]),
        (f"{JOIN_EUI}:{DEV_EUI}:1", 60_000_000, []),
        (f"{JOIN_EUI}:{DEV_EUI}:1", 0, ["silent_us"]),
        (f"{DEV_EUI}:00000000:10", 1, []),
    ],
)
def test_what_is_forgotten_is_named_with_its_silence(
    key: str, silent_us: int, wrong: list[str]
) -> None:
    event: dict[str, Any] = {"t_us": 60_000_000, "key": key, "silent_us": silent_us}
    found = forgotten(event, [heard(DATA), heard(JOIN)])
    assert [one.text.split(": ")[1] for one in found] == wrong


@pytest.mark.parametrize(
    ("status", "reason", "t_us", "told"),
    [
        ("SoftDuplicate", "InvalidFrameCounter", 710_000, []),
        ("SoftDuplicate", "InvalidFrameCounter", 710_001, ["expected at once, observed 10 ms"]),
        ("Duplicate", "Duplicate", 850_000, ["expected at once, observed 150 ms"]),
        ("SoftDuplicate", None, 850_000, []),
        ("DuplicateDueToResubmission", "InvalidFrameCounter", 850_000, []),
    ],
)
def test_a_copy_that_goes_nowhere_waits_for_its_first_one_alone(
    status: str, reason: str | None, t_us: int, told: list[str]
) -> None:
    frame = {"kind": "lns.outcome", "lns": "lns-a", "frame_id": "26000001:10:01020304"}
    first = {**frame, "t_us": 700_000, "status": "NonDuplicate", "reason": None}
    copy = {**frame, "t_us": t_us, "status": status, "reason": reason}
    decided = Decided()
    assert list(decided.compare(first, 0, CHECK)) == []
    found = [one.text.partition("told: ")[2] for one in decided.compare(copy, 100_000, CHECK)]
    assert [text.removesuffix(" later") for text in found] == told
    assert list(Decided().compare(copy, 100_000, CHECK)) == []


def test_a_downlink_counter_that_is_left_out_is_named_however_many_are() -> None:
    books = Claims(is_in_order=True)
    claim = {"dev_eui": DEV_EUI, "dev_addr": "26000001", "decision": "Duplicate", "f_cnt_down": 8}
    assert list(books.tell({**claim, "t_us": 0, "duration_us": 0}, CHECK)) == []
    sent = {"dev_eui": DEV_EUI, "dev_addr": "26000001", "t_us": 1}
    assert list(books.in_sequence({**sent, "f_cnt_down": 7}, CHECK)) == []
    [found] = books.in_sequence({**sent, "f_cnt_down": (1 << 32) - 1}, CHECK)
    assert (found.expected, found.observed) == ("9", "4294967295")


@pytest.mark.parametrize(("told_us", "wrong"), [(100, 0), (1_000_000, 0), (1_000_001, 1)])
def test_who_loses_a_frame_may_tell_of_it_before_its_owner(told_us: int, wrong: int) -> None:
    """Of two servers at the same moment either may be the first to write down what it was told."""
    books = Claims()
    claim = {"dev_eui": DEV_EUI, "dev_addr": "26000001", "duration_us": 0}
    mine = {"decision": "Owner", "lns": "lns-a", "owner": "lns-a", "frame_id": "26000001:9:0"}
    lost = {"decision": "NotOwner", "lns": "lns-a", "owner": "lns-b", "frame_id": "26000001:10:0"}
    owned = {**lost, "decision": "Owner", "lns": "lns-b"}
    for t_us, told in ((-5, {**mine, "f_cnt": 9}), (0, lost), (told_us, {**owned, "f_cnt": 10})):
        assert list(books.tell({**claim, **told, "t_us": t_us}, CHECK)) == []
    assert [found.observed for found in books.end()] == ["lns-b"] * wrong


def told(t_us: int, xtime: int) -> Uplink:
    return replace(heard(DATA), t_us=t_us, xtime=xtime)


def test_a_frame_that_was_silent_may_be_new_to_level_1() -> None:
    level1 = Remembered(retention_us=10_000_000)
    uplinks = [told(t_us, n) for n, t_us in enumerate((0, 9_000_000, 19_000_000, 19_000_001))]
    for uplink in uplinks:
        level1.tell(uplink)
    assert [level1.may_be_new(uplink) for uplink in uplinks] == [False, False, True, False]


def test_a_frame_that_left_or_was_lost_with_its_server_may_be_new() -> None:
    level1 = Remembered()
    mic = DATA[-4:].hex().upper()
    level1.tell(told(0, 0))
    for number, key in enumerate(("", f"{DEV_EUI}:{mic}:10", f"{DEV_EUI}:01234567:10"), start=1):
        level1.forget(key)
        level1.tell(told(number, number))
    assert [level1.may_be_new(told(n, n)) for n in range(4)] == [False, True, True, False]


@pytest.mark.parametrize(("owner", "wrong"), [(None, 0), ("lns-b", 1)])
def test_what_nobody_could_say_names_no_owner(owner: str | None, wrong: int) -> None:
    claim = {"decision": "Unavailable", "owner": owner}
    assert len(list(claimed(claim, {"level2": "Unavailable"}, CHECK))) == wrong


@pytest.mark.parametrize(
    ("late_us", "before", "wrong"), [(100_000, 1, 1), (0, 1, 0), (100_000, 0, 0)]
)
def test_an_owner_goes_on_at_once_with_a_session_of_its_own(
    late_us: int, before: int, wrong: int
) -> None:
    claims, check = Claims(is_in_order=True), Scrutiny(rule="claim", of="claim", t_us=0)
    told = {"lns": "lns-a", "station": "A", "dev_eui": "1", "dev_addr": "2", "decision": "Owner"}
    for f_cnt in range(1 - before, 2):
        claim = {**told, "f_cnt": f_cnt, "frame_id": f"2:{f_cnt}:M", "t_us": 0, "duration_us": 0}
        assert not [*claims.tell(claim, check)]
    body = {"lns": "lns-a", "station": "A", "devEui": "1", "fCnt": 1}
    assert len([*claims.published({"t_us": late_us, "body": body})]) == wrong


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"kind": "lns.unreadable", "station": STATION, "msgtype": "updf", "why": ""}, []),
        ({"kind": "lns.connection", "stage": "connected", "station": STATION, "peer": ""}, []),
        (
            {"kind": "lns.too_late", "stage": "going on", "station": STATION, "n": 5},
            [
                "lns.too_late going on of lns-a: names: expected cause, lns, n, stage, station,"
                " observed lns, n, stage, station"
            ],
        ),
        (
            {"kind": "lns.failed"},
            ["lns.failed of lns-a: kind: expected one of a network server, observed lns.failed"],
        ),
        ({"kind": "upstream.published", "topic": "t"}, []),
    ],
    ids=["whole", "with a stage", "a name is missing", "a kind nobody knows", "no server's"],
)
def test_an_event_has_the_names_of_its_kind(fields: dict[str, Any], says: list[str]) -> None:
    event = {"schema": 1, "run_id": "", "source": "lns-a", "seq": 0, "t_us": 0, "lns": "lns-a"}
    assert [found.text for found in misshapen(event | fields)] == says
