"""Is a server believed that tells of itself what did not happen?"""

import json
from typing import Any

import pytest

from bench.inspection.accounts import REFUSED, Accounts, Told
from bench.inspection.known_device import KnownDevice, Wanted
from bench.verdict.owner import Owner

WEST, ALPHA = "B827EBFFFE000001", "70B3D57ED0000001"
FRAME = "26000001:10:0011223344"[:-2]
ANSWER = {
    "msgtype": "dnmsg", "DevEui": ALPHA, "dC": 0, "diid": 7, "RxDelay": 1, "xtime": 1_000_000,
    "pdu": "60010000262003000A0B0C0D0E"[:24], "RX1DR": 5, "RX1Freq": 868_100_000, "rctx": 0,
}  # fmt: skip
SCHEDULED = {
    "stage": "scheduled", "window": "RX1", "xtime": 1_000_000, "frame_id": FRAME,
    "dev_addr": "26000001", "f_cnt_down": 3, "margin_us": 990_000, "diid": 7, "dev_eui": ALPHA,
}  # fmt: skip
SENT = {
    "stage": "transmitted", "window": "RX1", "xtime": 2_000_000, "frame_id": FRAME, "diid": 7,
    "dev_eui": ALPHA,
}  # fmt: skip


def event(kind: str, **fields: object) -> dict[str, Any]:
    return {"kind": kind, "t_us": 1_010_000, "lns": "lns-a", "station": WEST, **fields}


def accounts(*, server: str | None = None) -> Accounts:
    alpha = KnownDevice(ALPHA, bytes(16), [], server=server)
    return Accounts({ALPHA: alpha}, "EU868", lambda eui: "west", alone=True)


def said(books: Accounts, *events: dict[str, Any]) -> list[str]:
    return [found.text for one in events for found in books.take(one)]


def asks(**fields: object) -> dict[str, Any]:
    due = {"dev_eui": ALPHA, "wants": "downlink", "f_port": 2, "payload": "00", "confirmed": False}
    return event("application.request", **{**due, **fields})


def tells(stage: str, **fields: object) -> dict[str, Any]:
    due = {"dev_eui": ALPHA, "f_port": 2, "confirmed": False, "payload_bytes": 1, "waiting": 0}
    return event("lns.request", stage=stage, **{**due, **fields})


def test_a_request_is_queued_and_done() -> None:
    books = accounts()
    carries = {**ANSWER, "pdu": "600100002600030002AA0B0C0D0E"}
    books.told(WEST, 7, Told(carries, frozenset(), None))
    books.reported(WEST, 7, {"DevEui": ALPHA, "xtime": 2_000_000})
    assert said(books, asks(), tells("queued", waiting=1), tells("done", waiting=0)) == []
    assert list(books.end()) == []


@pytest.mark.parametrize("confirmed", [False, True])
def test_what_nobody_proved_is_not_done(confirmed: bool) -> None:
    books = accounts()
    queued = [asks(confirmed=confirmed), tells("queued", waiting=1, confirmed=confirmed)]
    wrong = said(books, *queued, tells("done", waiting=0, confirmed=confirmed))
    assert [text.split("done: ")[1] for text in wrong] == [
        f"expected what {'the device acknowledged' if confirmed else 'a station reported'},"
        " observed what nobody did"
    ]
    books.acknowledged(ALPHA)
    assert bool(said(books, *queued, tells("done", confirmed=confirmed))) is not confirmed


@pytest.mark.parametrize(
    ("told", "found"),
    [
        (tells("queued", waiting=2), "waiting: expected 1, observed 2"),
        (tells("queued", waiting=1, f_port=3), "request: expected (2, False, 1)"),
        (tells("refused", reason="TooLong"), "reason: expected none, observed TooLong"),
        (tells("refused", reason="TooLong"), "stage: expected queued, observed refused"),
        (tells("done"), "done: expected one of those that wait"),
    ],
)
def test_what_is_told_of_a_request_is_compared(told: dict[str, Any], found: str) -> None:
    assert any(found in text for text in said(accounts(), asks(), told))


@pytest.mark.parametrize(
    ("books", "asked", "reason"),
    [
        (accounts(), {"payload": "00" * 223}, "TooLong"),
        (accounts(server="lns-b"), {}, "BelongsToAnotherServer"),
        (accounts(), {"dev_eui": "70B3D57ED0000009"}, "UnknownDevice"),
    ],
)
def test_what_cannot_be_sent_is_to_be_refused(
    books: Accounts, asked: dict[str, Any], reason: str
) -> None:
    size = len(str(asked.get("payload", "00"))) // 2
    eui = asked.get("dev_eui", ALPHA)
    refused = tells("refused", reason=reason, dev_eui=eui, payload_bytes=size)
    assert said(books, asks(**asked), refused) == []
    assert any(
        "reason" in text for text in said(books, asks(**asked), tells("queued", dev_eui=eui))
    )


def test_a_request_that_nobody_can_read_is_to_be_refused() -> None:
    books = accounts()
    refused = event("lns.request", stage="refused", reason="not a downlink: no JSON")
    said(books, asks(wants="unreadable"))
    assert [found.text for found in books.end()] == [
        "unreadable requests: 1 more than were refused"
    ]
    assert said(books, refused) == []
    assert list(books.end()) == []
    said(books, refused)
    assert [found.text for found in books.end()] == [
        "requests that can be read: 1 refused as unreadable"
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("window", "RX2"), ("xtime", 2), ("frame_id", "26000001:11:00"), ("f_cnt_down", 4),
        ("dev_addr", "26000002"), ("margin_us", 1_990_000), ("f_port", 2), ("confirmed", True),
        ("f_cnt_down", None), ("dev_eui", "70B3D57ED0000009"),
    ],
)  # fmt: skip
def test_what_was_scheduled_is_what_passed_the_tap(field: str, value: object) -> None:
    for scheduled, wrong in ((SCHEDULED, []), ({**SCHEDULED, field: value}, [field])):
        books = accounts()
        said(books, event("lns.downlink", **scheduled))
        books.told(WEST, 7, Told(ANSWER, frozenset({FRAME}), 2_000_000))
        assert [found.text.split(": ")[1] for found in books.end()] == wrong


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("window", "RX2"), ("xtime", 1_000_000), ("frame_id", None), ("f_port", 2),
        ("confirmed", False), ("dev_eui", "70B3D57ED0000009"),
    ],
)  # fmt: skip
def test_what_was_sent_is_what_its_station_reported(field: str, value: object) -> None:
    for sent, wrong in ((SENT, []), ({**SENT, field: value}, [field])):
        books = accounts()
        said(books, event("lns.downlink", **sent))
        books.told(WEST, 7, Told(ANSWER, frozenset({FRAME}), None))
        books.reported(WEST, 7, {"DevEui": ALPHA, "xtime": 2_000_000})
        assert [found.text.split(": ")[1] for found in books.end()] == wrong


@pytest.mark.parametrize(("xtime", "window"), [(2_000_000, "RX1"), (3_000_000, "RX2")])
def test_the_window_on_the_air_follows_from_the_report(xtime: int, window: str) -> None:
    for told, wrong in (("RX1", window != "RX1"), ("RX2", window != "RX2")):
        books = accounts()
        said(books, event("lns.downlink", **{**SENT, "window": told, "xtime": xtime}))
        books.told(WEST, 7, Told(ANSWER, frozenset({FRAME}), None))
        books.reported(WEST, 7, {"DevEui": ALPHA, "xtime": xtime})
        assert bool(list(books.end())) is wrong


def test_a_downlink_is_on_the_air_once_and_only_if_its_station_says_so() -> None:
    sent = event("lns.downlink", **SENT)
    for report, wrong in (
        ({"DevEui": ALPHA, "xtime": 2_000_000}, []),
        ({"DevEui": "70-B3-D5-7E-D0-00-00-09", "xtime": 2_000_000}, ["no report of it"]),
        ({}, ["no report of it"]),
    ):
        books = accounts()
        books.told(WEST, 7, Told(ANSWER, frozenset({FRAME}), None))
        books.reported(WEST, 7, report)
        assert said(books, sent) == []
        assert [found.observed for found in books.end()] == wrong
        assert [text.split(": ")[1:] for text in said(books, sent)] == [
            ["stage", "expected once, observed again"]
        ]


def test_a_station_that_is_late_is_told_of_at_five_and_ten() -> None:
    books = accounts()
    late = event("lns.outcome", answer="TooLate")
    said(books, *[late] * 5)
    assert [found.text for found in books.end()] == [
        "late station west: expected going on after 5, observed nothing"
    ]
    assert said(books, event("lns.too_late", stage="going on", n=5), *[late] * 5) == []
    assert said(books, event("lns.too_late", stage="going on", n=10)) == []
    answered = event("lns.outcome", answer="RX1")
    assert said(books, answered, event("lns.too_late", stage="over", n=10)) == []
    assert len(said(books, event("lns.too_late", stage="over", n=10))) == 1
    assert list(books.end()) == []


NO_CLOCK = "the clock of the station is not known"
OTHER_SESSION = "the frame is of a radio session that does not run"
LATE = "the frame was told too late"


@pytest.mark.parametrize(
    ("xtime", "right"),
    [
        (0, {NO_CLOCK}),
        (7 << 48 | 5, {LATE, NO_CLOCK}),
        (8 << 48 | 5, {OTHER_SESSION, NO_CLOCK}),
        (None, {NO_CLOCK, OTHER_SESSION, LATE}),
    ],
)
def test_a_station_that_is_late_is_named_with_the_reason(
    xtime: int | None, right: set[str]
) -> None:
    moment = {} if xtime is None else {"xtime": xtime}
    late = event("lns.outcome", answer="TooLate", **moment)
    for cause in (NO_CLOCK, OTHER_SESSION, LATE):
        books = accounts()
        said(books, text("up", 0, msgtype="getxtime", xtimes=[7 << 48 | 1]), *[late] * 5)
        wrong = said(books, event("lns.too_late", stage="going on", n=5, cause=cause))
        assert len(wrong) == (cause not in right)


@pytest.mark.parametrize(
    ("waited_us", "wrong"),
    [
        ([50_000, 100_000, 200_000, 400_000, 800_000, 1_000_000, 1_000_000], 0),
        ([70_000, 120_000], 0),
        ([49_999], 1),
        ([70_001], 1),
        ([50_000, 50_000], 1),
        ([50_000, 100_000, 200_000, 400_000, 800_000, 1_600_000], 1),
    ],
)
def test_a_station_that_shows_no_clock_is_asked_less_and_less_often(
    waited_us: list[int], wrong: int
) -> None:
    books = accounts()
    now_us = 0
    simulated = {"kind": "case.begin", "rig": "simulated", "t_us": 0}
    said(books, simulated, text("up", 0, msgtype="getxtime", xtimes=[7 << 48 | 1]))
    for wait_us in waited_us:
        clockless = text("up", now_us, msgtype="getxtime", xtimes=[0])
        now_us += wait_us
        said(books, clockless, text("down", now_us, msgtype="getxtime"))
    assert len(list(books.end())) == wrong


@pytest.mark.parametrize(("again_us", "wrong"), [(149_999, 1), (150_000, 0), (174_000, 0)])
def test_frames_make_nobody_ask_more_often(again_us: int, wrong: int) -> None:
    books = accounts()
    said(
        books,
        {"kind": "case.begin", "rig": "simulated", "t_us": 0},
        text("up", 0, msgtype="getxtime", xtimes=[7 << 48 | 1]),
        text("up", 0, msgtype="getxtime", xtimes=[0]),
        text("down", 50_000, msgtype="getxtime"),
        text("up", 54_000, msgtype="getxtime", xtimes=[0]),
        text("up", 60_000, msgtype="updf"),
        text("down", again_us, msgtype="getxtime"),
    )
    assert len(list(books.end())) == wrong


def test_a_frame_is_a_reason_to_ask_earlier() -> None:
    books = accounts()
    said(
        books,
        {"kind": "case.begin", "rig": "simulated", "t_us": 0},
        text("up", 0, msgtype="getxtime", xtimes=[7 << 48 | 1]),
        text("up", 0, msgtype="updf"),
        text("up", 10_000, msgtype="getxtime", xtimes=[0]),
        text("down", 50_000, msgtype="getxtime"),
    )
    assert list(books.end()) == []


def test_a_claim_says_what_its_outcome_says() -> None:
    named = {"xtime": 1, "frame_id": FRAME, "f_cnt": 10, "dev_eui": ALPHA, "dev_addr": "26000001"}
    outcome = event("lns.outcome", answer="RX1", level2="Owner", **named)
    claim = event("lns.claim", decision="Owner", owner="lns-a", **named)
    assert said(accounts(), claim, outcome) == []
    assert len(said(accounts(), outcome)) == 1
    assert len(said(accounts(), {**claim, "owner": "lns-b"}, outcome)) == 1
    assert len(said(accounts(), {**claim, "decision": "NotOwner"}, outcome)) == 1
    assert len(said(accounts(), {**claim, "f_cnt": 11}, outcome)) == 1


def test_whose_a_session_is_follows_from_what_was_granted() -> None:
    named = {"dev_eui": ALPHA, "dev_addr": "26000001", "frame_id": FRAME, "f_cnt": 10, "xtime": 1}
    named["duration_us"] = 0
    lost = event("lns.claim", decision="NotOwner", owner="lns-b", **named)
    won = {**event("lns.claim", decision="Owner", owner="lns-b", **named), "lns": "lns-b"}
    books = accounts()
    assert said(books, event("case.begin", rig="simulated")) == []
    assert said(books, lost) == []  # who was granted what was before, nobody knows
    assert said(books, won, lost) == []
    assert [text.split(": ")[1] for text in said(books, {**lost, "owner": "lns-a"})] == ["owner"]


def test_an_answer_has_the_counter_of_its_claim() -> None:
    named = {"dev_eui": ALPHA, "dev_addr": "26000001", "frame_id": FRAME, "f_cnt": 10}
    claim = event("lns.claim", decision="Owner", owner="lns-a", xtime=1_000_000, **named)
    for taken, wrong in ((None, 0), (3, 0), (4, 1)):
        books = accounts()
        told = claim if taken is None else {**claim, "f_cnt_down": taken}
        assert len(said(books, told, event("lns.downlink", **SCHEDULED))) == wrong


BEGIN = event("case.begin", rig="simulated")
DAY_US = 86_400_000_000


def leaves(f_cnt_down: int, diid: int, t_us: int = 1_010_000) -> dict[str, Any]:
    sent = {"f_cnt_down": f_cnt_down, "diid": diid, "xtime": diid}
    return {**event("lns.downlink", **{**SCHEDULED, **sent}), "t_us": t_us}


@pytest.mark.parametrize(
    ("taken", "newest", "t_us", "left_out"),
    [
        (4, 5, 1_010_000, None),  # its answer came too late, or was another server's by then
        (4, 6, 1_010_000, 5),
        (None, 5, 1_010_000, 4),
        (None, 4, 1_010_000, None),
        (None, 9, 1_010_000 + DAY_US, None),  # claims have forgotten which was the last
    ],
)
def test_no_downlink_counter_is_left_out_that_no_claim_has_brought(
    taken: int | None, newest: int, t_us: int, left_out: int | None
) -> None:
    named = {"dev_eui": ALPHA, "dev_addr": "26000001", "frame_id": FRAME, "f_cnt": 10}
    claim = event("lns.claim", decision="Owner", owner="lns-a", duration_us=0, xtime=77, **named)
    brought = claim if taken is None else {**claim, "f_cnt_down": taken}
    told = said(accounts(), BEGIN, leaves(3, 7), brought, leaves(newest, 8, t_us))
    due = [] if left_out is None else [f"f_cnt_down: expected {left_out}, observed {newest}"]
    assert [text.partition(": ")[2] for text in told if "f_cnt_down" in text] == due


def test_who_cannot_ask_the_store_may_leave_counters_out() -> None:
    lost = event("fault.begin", seam="store", fault="cut", detail={})
    assert said(accounts(), BEGIN, leaves(3, 7), lost, leaves(9, 8)) == []


@pytest.mark.parametrize("kind", ["upstream.published", "upstream.status"])
def test_what_nobody_verified_is_marked_so_and_nothing_else(kind: str) -> None:
    outcome = {"dev_eui": ALPHA, "f_cnt": 10, "answer": "NotAsked", "frame_id": FRAME}
    claim = {"dev_eui": ALPHA, "dev_addr": "26000001", "f_cnt": 10, "frame_id": FRAME}
    body = {"lns": "lns-a", "station": WEST, "devEui": ALPHA, "fCnt": 10, "messageId": "m"}
    for word in ("Unavailable", "Owner"):
        for unverified in (True, False):
            books = accounts()
            told = {**body, "unverified": True} if unverified else body
            owner = "lns-a" if word == "Owner" else None
            decided = event("lns.claim", decision=word, owner=owner, **claim)
            assert said(books, event(kind, body=told), decided) == []
            assert said(books, event("lns.outcome", level2=word, **outcome)) == []
            wrong = [found.text.split(": ")[1] for found in books.end()]
            assert wrong == ([] if unverified is (word == "Unavailable") else ["unverified"])


@pytest.mark.parametrize("unverified", [True, False])
def test_a_marked_message_is_not_verified_by_one_that_is_not_marked(*, unverified: bool) -> None:
    books = accounts()
    of_frame = {"dev_eui": ALPHA, "f_cnt": 10, "answer": "NotAsked", "frame_id": FRAME}
    for upstream, level2 in ("forwarded", "Owner"), ("marked", "Unavailable"):
        said(books, event("lns.outcome", upstream=upstream, level2=level2, **of_frame))
    body = {"lns": "lns-a", "station": WEST, "devEui": ALPHA, "fCnt": 10, "messageId": "m"}
    marked = {**body, "dupMsg": True, "unverified": unverified}
    for told in body, marked:
        assert said(books, event("upstream.published", body=told)) == []
    assert len(list(books.end())) == (0 if unverified else 1)


def text(direction: str, t_us: int, **told: object) -> dict[str, Any]:
    return {
        "kind": "station.text", "t_us": t_us, "station": WEST, "direction": direction,
        "text": json.dumps(told),
    }  # fmt: skip


def heard(session: int, t_us: int) -> dict[str, Any]:
    fields = {
        "msgtype": "updf", "MHdr": 64, "DevAddr": 1, "FCtrl": 0, "FCnt": 1, "FOpts": "",
        "FPort": 1, "FRMPayload": "00", "MIC": 1, "DR": 5, "Freq": 868_100_000,
    }  # fmt: skip
    upinfo = {"rctx": 0, "xtime": session << 48 | t_us, "gpstime": 0, "rssi": -80, "snr": 7}
    return text("up", t_us, **fields, upinfo=upinfo)


def test_a_clock_that_was_never_named_is_to_be_asked_for() -> None:
    named = text("up", 0, msgtype="getxtime", xtimes=[7 << 48 | 1, 0])
    asks = text("down", 2_000_000, msgtype="getxtime")
    config = text("down", 2_000_000, msgtype="router_config")
    lost = event("station.link", event="closed")
    late = text("up", 9_000_000, msgtype="timesync", txtime=1)
    for events, wrong in (
        ([named, heard(8, 1_000_000), late], 1),
        ([named, heard(7, 1_000_000), late], 0),
        ([heard(8, 1_000_000), late], 0),
        ([named, heard(8, 1_000_000), asks, late], 0),
        ([named, heard(8, 1_000_000), config, heard(8, 3_000_000), late], 0),
        ([named, heard(8, 1_000_000), lost, late], 0),
        ([named, heard(8, 1_000_000), {**late, "t_us": 3_900_000}], 0),
    ):
        books = accounts()
        assert said(books, *events) == []
        assert [found.observed for found in books.end()] == ["none"] * wrong


def test_what_cannot_be_read_is_to_be_told() -> None:
    books = accounts()
    books.unreadable(WEST, "version")
    assert [found.text for found in books.end()] == [
        "unreadable messages of west, version msgtype: expected 1, observed 0"
    ]
    assert said(books, event("lns.unreadable", msgtype="version", why="no station")) == []
    assert list(books.end()) == []


@pytest.mark.parametrize("msgtype", ["updf", "jreq"])
def test_a_reception_is_no_message_that_cannot_be_read(msgtype: str) -> None:
    books = accounts()
    books.doubtful(WEST, msgtype)
    assert said(books, event("lns.unreadable", msgtype=msgtype, why="FCnt is odd")) == []
    assert [found.observed for found in books.end()] == ["1"]


def test_a_server_that_ends_loses_what_waited_there() -> None:
    books = accounts()
    assert said(books, asks(), tells("queued", waiting=1), event("case.lns", event="kill")) == []
    assert said(books, asks(), tells("queued", waiting=1)) == []


def test_why_a_request_is_given_up_follows_from_what_was_sent() -> None:
    given_up = tells("given_up", waiting=0, reason="NotProven")
    alpha = KnownDevice(ALPHA, bytes(16), [])
    books = Accounts({ALPHA: alpha}, "EU868", lambda eui: "west", alone=True)
    wrong = said(books, asks(), tells("queued", waiting=1), given_up)
    assert [text.split(": ", 1)[1] for text in wrong] == [
        "reason: expected TooLong, observed NotProven"
    ]
    alpha.handed.append(Wanted(2, b"\0", confirmed=False))
    assert said(books, asks(), tells("queued", waiting=1), given_up) == []


@pytest.mark.parametrize(("window", "opens_us"), [("RX1", 310_000), ("RX2", 1_310_000)])
def test_nothing_is_given_up_before_its_device_may_have_heard_it(
    window: str, opens_us: int
) -> None:
    alpha = KnownDevice(ALPHA, bytes(16), [])
    alpha.handed.append(Wanted(2, b"\0", confirmed=False))
    books = Accounts({ALPHA: alpha}, "EU868", lambda eui: "west", alone=True)
    books.told(WEST, 7, Told({"DevEui": ALPHA, f"{window}DR": 5}, frozenset(), opens_us))
    given_up = tells("given_up", waiting=0, reason="NotProven")
    assert said(books, asks(), tells("queued", waiting=1), given_up) == []
    books.told(WEST, 8, Told({"DevEui": ALPHA, f"{window}DR": 5}, frozenset(), opens_us + 1_000))
    [early] = said(books, asks(), tells("queued", waiting=1), given_up)
    assert early.endswith(
        "time: expected when the device may have heard it, observed 1 ms before that"
    )


@pytest.mark.parametrize(
    ("outcome", "wrong"),
    [
        ({"f_cnt": 12}, True),
        ({"f_cnt": 11}, False),
        ({"f_cnt": 12, "reason": "StoreUnavailable"}, False),
        ({"f_cnt": 12, "level2": "NotOwner"}, False),
        ({"f_cnt": 12, "status": "SoftDuplicate"}, False),
    ],
)
def test_the_application_is_told_the_status_in_a_new_frame(
    outcome: dict[str, Any], *, wrong: bool
) -> None:
    names = {"status": "NonDuplicate", "dev_eui": ALPHA, "dev_addr": "26000001"}
    begin = {"kind": "case.begin", "t_us": 0, "rig": "simulated"}
    for is_told in (False, True):
        books = accounts()
        said(books, begin, event("lns.outcome", frame_id="before", answer="RX1", f_cnt=11, **names))
        books.status_told(ALPHA, "tells")
        body = {"lns": "lns-a", "station": WEST, "devEui": ALPHA, "fCnt": 12, "battery": 255}
        if is_told:
            said(books, event("upstream.status", body=body))
        said(
            books, event("lns.outcome", frame_id="tells", answer="NotAsked", **{**names, **outcome})
        )
        due = ["status in tells: expected told to the application, observed nothing"]
        found = [one.text for one in books.end() if one.text.startswith("status in")]
        assert found == (due if wrong and not is_told else [])


def test_only_a_status_that_somebody_wants_is_told_of() -> None:
    books = accounts()
    wants = {"wants": "status", "f_port": None, "confirmed": None, "payload_bytes": None}
    queued, done = tells("queued", **wants), tells("done", **wants)
    said(books, asks(wants="status"), queued)
    books.status_told(ALPHA, "told")
    # It is decided after the next one is wanted, and tells the application that as well.
    assert said(books, done, asks(wants="status"), queued, done) == []
    said(books, event("lns.outcome", frame_id="told", answer="NotAsked", level2="NotAsked"))
    assert any("a status that an application wants" in text for text in said(books, done))
    assert said(books, asks(wants="status"), queued) == []
    [nobody_did] = said(books, done)
    said(books, asks(wants="status"), queued)
    assert nobody_did.endswith("done: expected what the device has told, observed what nobody did")
    [wrong] = said(books, tells("given_up", **wants))
    assert wrong.endswith("reason: expected NotAnswered, observed none")


@pytest.mark.parametrize("is_done", [True, False])
@pytest.mark.parametrize("is_early", [True, False])
def test_a_status_that_is_wanted_is_done_by_the_frame_that_tells_it(
    *, is_early: bool, is_done: bool
) -> None:
    """What is wanted while the frame is under way may be wanted still."""
    books = accounts()
    wants = {"wants": "status", "f_port": None, "confirmed": None, "payload_bytes": None}
    if not is_early:
        books.status_told(ALPHA, "tells")
    said(books, asks(wants="status"), tells("queued", **wants))
    books.status_told(ALPHA, "tells")
    if is_done:
        said(books, tells("done", **wants))
    names = {"status": "NonDuplicate", "dev_eui": ALPHA, "dev_addr": "26000001", "f_cnt": 12}
    found = said(books, event("lns.outcome", frame_id="tells", answer="NotAsked", **names))
    due = "status: expected done, as the device has told it, observed still wanted"
    assert [one.endswith(due) for one in found] == [True] * (is_early and not is_done)


def test_a_clock_that_was_shown_is_not_asked_for_again_and_again() -> None:
    named = text("up", 0, msgtype="getxtime", xtimes=[7 << 48 | 1, 0])
    clockless = text("up", 0, msgtype="getxtime", xtimes=[0, 0])
    asks = text("down", 2_000_000, msgtype="getxtime")
    for events, wrong in (
        ([named, *[asks] * 5], []),
        ([named, *[asks] * 6], ["6 times more"]),
        ([clockless, *[asks] * 6], []),
        ([named, *[heard(8, 1_000_000), asks] * 6], []),
    ):
        books = accounts()
        assert said(books, *events) == []
        assert [found.observed for found in books.end()] == wrong


@pytest.mark.parametrize(
    ("decision", "duration_us", "is_cut", "wrong"),
    [
        ("Unavailable", 200_000, False, 0),
        ("Unavailable", 150_000, False, 1),  # nobody has to give up before
        ("Unavailable", 0, True, 0),
        ("Owner", 150_000, False, 1),
        ("Owner", 200_001, False, 1),  # that is longer than anybody waits
    ],
)
def test_nobody_is_told_by_a_late_store_before_its_time(
    decision: str, duration_us: int, is_cut: bool, wrong: int
) -> None:
    books = accounts()
    begun = event("case.begin", rig="simulated", t_us=0)
    late = {"seam": "store", "fault": "delay", "detail": {"after_us": 1_000_000}, "t_us": 10_000}
    cut = {"seam": "store", "fault": "cut", "detail": {}, "t_us": 20_000}
    assert said(books, begun, event("fault.begin", **late)) == []
    assert said(books, *([event("fault.begin", **cut)] if is_cut else [])) == []
    named = {"dev_eui": ALPHA, "dev_addr": "26000001", "frame_id": FRAME, "f_cnt": 10}
    claim = event("lns.claim", decision=decision, owner="lns-a", duration_us=duration_us, **named)
    assert len(said(books, claim)) == wrong
    healed = {**cut, "t_us": 1_020_000}
    again = event("lns.claim", decision=decision, owner="lns-a", duration_us=0, **named)
    if is_cut:
        assert len(said(books, event("fault.end", **healed), again)) == 1


@pytest.mark.parametrize(
    ("seam", "later_us", "wrong"),
    [("store", 10_000, 0), ("store", 150_000, 1), ("lns", 150_000, 0)],
)
def test_who_does_not_own_a_frame_keeps_nothing_of_it(seam: str, later_us: int, wrong: int) -> None:
    books = accounts()
    begun = event("case.begin", rig="simulated", t_us=0)
    fault = event("fault.begin", seam=seam, fault="restart", detail={}, t_us=0)
    named = {"dev_eui": ALPHA, "dev_addr": "26000001", "frame_id": FRAME, "f_cnt": 10}
    claim = event("lns.claim", decision="NotOwner", owner="lns-b", duration_us=0, **named)
    told = event("lns.outcome", level2="NotOwner", answer="NotAsked", **named)
    told["t_us"] = claim["t_us"] + later_us
    assert said(books, begun, fault, claim) == []
    assert len(said(books, told)) == wrong


@pytest.mark.parametrize(("rig", "wrong"), [("simulated", 1), ("emulated", 0)])
def test_nobody_waits_for_a_store_that_answers_at_once(rig: str, wrong: int) -> None:
    books = accounts()
    named = {"dev_eui": ALPHA, "dev_addr": "26000001", "frame_id": FRAME, "f_cnt": 10}
    claim = event("lns.claim", decision="Owner", owner="lns-a", duration_us=1, **named)
    assert len(said(books, event("case.begin", rig=rig, t_us=0), claim)) == wrong


@pytest.mark.parametrize(
    ("disturbance", "wrong"),
    [
        (None, 1),
        (event("fault.begin", seam="tap", fault="cut"), 0),
        (event("fault.begin", seam="lns", fault="pause"), 0),
        (event("case.lns", event="kill"), 0),
        (event("station.link", event="closed"), 0),
    ],
)
def test_what_a_station_has_reported_its_server_tells(
    disturbance: dict[str, Any] | None, wrong: int
) -> None:
    books = accounts()
    assert said(books, event("case.begin", rig="simulated", t_us=0)) == []
    books.told(WEST, 7, Told(ANSWER, frozenset({FRAME}), 2_000_000))
    assert said(books, event("lns.downlink", **SCHEDULED)) == []
    books.reported(WEST, 7, {"DevEui": ALPHA, "xtime": 2_000_000})
    assert said(books, *([disturbance] if disturbance else [])) == []
    assert said(books, event("case.note", t_us=9_000_000)) == []
    told = [found.text for found in books.end() if "transmitted" in found.text]
    assert len(told) == wrong


def test_a_request_of_which_nothing_is_said_is_wrong_after_a_moment() -> None:
    books = accounts()
    later = {**event("lns.claimed"), "t_us": 1_600_000}
    assert said(books, asks(), later) == []
    assert [found.text for found in books.end()] == [
        f"requests for {ALPHA}: 1 more than were queued or refused"
    ]
    books = accounts()
    assert said(books, asks()) == []
    assert list(books.end()) == []


def test_an_internal_error_is_wrong_unless_a_scenario_brought_it_about() -> None:
    failure = event("lns.failure", during="downlink", error="KeyError at downlink.py:1")
    said_of_it = (
        f"mistake of lns-a, {WEST}: internal error (downlink): expected none,"
        " observed KeyError at downlink.py:1"
    )
    assert said(accounts(), failure) == [said_of_it]
    stumble = event("fault.begin", seam="program", fault="stumble", detail={"over": "store"})
    assert said(accounts(), stumble, failure) == [said_of_it]
    books = accounts()
    due = {**failure, "error": "Stumbled at mistakes.py:21"}
    assert said(books, stumble, due) == []
    assert list(books.end()) == []
    assert said(books, due)[0].endswith("expected none, observed Stumbled at mistakes.py:21")


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        ({"error": "Stumbled at mistakes.py:21: geheim"}, "its kind and its place"),
        ({"frame_id": FRAME}, "frame_id: expected none"),
        ({"during": "reception"}, "frame_id: expected that of the reception"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_its_frame(told: dict[str, Any], wrong: str) -> None:
    stumble = event("fault.begin", seam="program", fault="stumble", detail={"over": "store"})
    failure = event("lns.failure", during="downlink", error="Stumbled at mistakes.py:21")
    assert wrong in said(accounts(), stumble, {**failure, **told})[0]


def test_a_mistake_that_nobody_tells_is_missed() -> None:
    stumble = event("fault.begin", seam="program", fault="stumble", detail={"over": "store"})
    books = accounts()
    assert said(books, stumble) == []
    assert [found.text for found in books.end()] == [
        "mistakes of the program: expected 1 more, observed none"
    ]


def test_an_application_refuses_what_it_was_told_to() -> None:
    to_refuse = event("fault.begin", seam="upstream", fault="refuse", detail={"messages": 2})
    refuses = event("upstream.failed", cause=REFUSED, message_id="a", topic="up")
    is_full = event("upstream.failed", cause="the disk is full", message_id="a", topic="up")
    assert said(accounts(), to_refuse, refuses, is_full, refuses) == []
    [found] = [one for many in map(accounts().take, [refuses]) for one in many]
    assert found.owner is Owner.APPLICATION
    assert found.text == "message a: answer of the application: expected taken, observed refused"
    assert len(said(accounts(), to_refuse, *[refuses] * 4)) == 2
