"""What an event says, and what it leaves out."""

from lns.dedup.strategy import Reason, Status, Strategy, Upstream
from lns.events import Acknowledged, Downlink, Evicted, Outcome, as_fields
from lns.lorawan.identifiers import DevAddr, Eui, Mic
from lns.lorawan.region import Answer
from lns.uplink.registry import Activation
from tests.lns.served_network import ALPHA, WEST


def test_an_outcome_in_full() -> None:
    outcome = Outcome(
        station=WEST,
        lns="lns-a",
        frame_id="01ABCDEF:10:5B3EB521",
        dev_eui=ALPHA.dev_eui,
        dev_addr=DevAddr("01ABCDEF"),
        f_cnt=10,
        mic=Mic("5B3EB521"),
        confirmed=True,
        strategy=Strategy.DROP,
        status=Status.DUPLICATE,
        upstream=Upstream.DROPPED,
        reason=Reason.DUPLICATE,
        answer=Answer.SUPPRESSED,
        xtime=7,
    )
    assert (outcome.kind, as_fields(outcome)) == (
        "lns.outcome",
        {
            "station": "0016C001F1500001",
            "lns": "lns-a",
            "frame_id": "01ABCDEF:10:5B3EB521",
            "dev_eui": "70B3D57ED0000001",
            "dev_addr": "01ABCDEF",
            "f_cnt": 10,
            "mic": "5B3EB521",
            "confirmed": True,
            "strategy": "Drop",
            "status": "Duplicate",
            "upstream": "dropped",
            "reason": "Duplicate",
            "answer": "Suppressed",
            "level2": "NotAsked",
            "xtime": 7,
        },
    )


def test_what_is_not_known_is_left_out_but_zero_and_false_are_known() -> None:
    outcome = Outcome(
        station=WEST,
        lns="lns-a",
        f_cnt=0,
        confirmed=False,
        upstream=Upstream.FORWARDED,
        answer=Answer.NOT_ASKED,
    )
    assert as_fields(outcome) == {
        "station": "0016C001F1500001",
        "lns": "lns-a",
        "f_cnt": 0,
        "confirmed": False,
        "upstream": "forwarded",
        "answer": "NotAsked",
        "level2": "NotAsked",
    }


def test_a_downlink_and_an_eviction() -> None:
    downlink = Downlink(
        stage="scheduled",
        lns="lns-a",
        station=WEST,
        dev_eui=Eui("70B3D57ED0000001"),
        diid=1,
        window="RX1",
        xtime=7,
        margin_us=0,
    )
    assert (downlink.kind, as_fields(downlink)["margin_us"]) == ("lns.downlink", 0)
    evicted = Evicted(lns="lns-a", key="a:b:1", silent_us=5)
    assert (evicted.kind, as_fields(evicted)) == (
        "lns.evicted",
        {"lns": "lns-a", "key": "a:b:1", "silent_us": 5},
    )


def test_the_words_of_the_interface_are_complete() -> None:
    assert set(Answer) == {"RX1", "RX2", "TooLate", "Suppressed", "NotAsked"}
    assert set(Upstream) == {"forwarded", "marked", "dropped"}
    assert set(Activation) == {"otaa", "abp"}
    assert set(Reason) == {
        "Duplicate",
        "DuplicateAtOtherServer",
        "ResubmissionSuppressed",
        "ResubmissionLimit",
        "InvalidFrameCounter",
        "MicMismatch",
        "UnknownDevice",
        "DevNonceUsed",
        "BelongsToAnotherServer",
        "Malformed",
        "StoreUnavailable",
        "UpstreamUnavailable",
        "InternalError",
    }


def test_a_message_that_the_broker_has() -> None:
    acknowledged = Acknowledged(
        lns="lns-a",
        topic="lorawan/lns-a/70B3D57ED0000001/up",
        message_id="70B3D57ED0000001-01ABCDEF-10",
        sequence_number=1,
        waiting=0,
    )
    assert (acknowledged.kind, as_fields(acknowledged)) == (
        "upstream.acknowledged",
        {
            "lns": "lns-a",
            "topic": "lorawan/lns-a/70B3D57ED0000001/up",
            "message_id": "70B3D57ED0000001-01ABCDEF-10",
            "sequence_number": 1,
            "waiting": 0,
        },
    )
