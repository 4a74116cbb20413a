"""Fuzz target: no text from either side of a station link makes a reader raise.

Whatever is read as a frame can be put together again; whatever cannot be read says why.
"""

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bench.verdict.wire import is_reception
from lns.lorawan.frame import MalformedFrame, parse
from lns.station.messages import (
    Dnmsg,
    Jreq,
    Malformed,
    Propdf,
    Updf,
    dnmsg_text,
    parse_up,
    refusal_text,
    router_asked_for,
)
from tests.fuzz.mutation import mutated
from tests.station_texts import parse_down

RECORDED = json.loads(
    (Path(__file__).resolve().parents[1] / "vectors" / "station" / "recorded.json").read_text()
)["messages"]


def recorded(direction: str) -> list[dict[str, Any]]:
    return [message["msg"] for message in RECORDED if message["dir"] == direction]


def genuine(direction: str) -> list[bytes]:
    """One text of each type."""
    named = {message.get("msgtype", ""): message for message in recorded(direction)}
    return [json.dumps(message, separators=(",", ":")).encode() for message in named.values()]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([1 << 31, -(1 << 31) - 1, 1 << 32, 1 << 53, 1 << 63, 1 << 64, 10**400])
    | st.floats()
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@st.composite
def respelt(draw: st.DrawFn, direction: str) -> str:
    """A genuine message with any JSON in some of its fields, and fields of other messages."""
    messages = recorded(direction)
    message = dict(draw(st.sampled_from(messages)))
    for _ in range(draw(st.integers(1, 4))):
        other = draw(st.sampled_from(messages))
        key = draw(st.sampled_from(sorted({*message, *other, "DevEUI", "seqno"})))
        message[key] = draw(JSON | st.just(other.get(key)))
    return json.dumps(message)


def texts(direction: str) -> st.SearchStrategy[str]:
    spoilt = mutated(genuine(direction)).map(lambda data: data.decode("utf-8", "surrogateescape"))
    return respelt(direction) | spoilt | st.text()


@given(texts("up"))
def test_any_text_of_a_station_is_a_message(text: str) -> None:
    message = parse_up(text)
    if isinstance(message, Malformed):
        assert message.why
        assert message.is_reception == is_reception(text)
        return
    assert isinstance(message, Updf | Jreq) == is_reception(text)
    if isinstance(message, Updf | Jreq):
        assert parse(message.phy()).to_bytes() == message.phy()
    if isinstance(message, Propdf):
        try:
            assert parse(message.phy()).to_bytes() == message.phy()
        except MalformedFrame as malformed:
            assert str(malformed)


@given(texts("down"))
def test_any_text_of_a_server_is_a_message(text: str) -> None:
    message = parse_down(text)
    if isinstance(message, Malformed):
        assert message.why
    if isinstance(message, Dnmsg):
        assert len(message.pdu) <= 255
        assert message.rx1 or message.rx2
        assert isinstance(parse_down(dnmsg_text(message)), Dnmsg)


@given(texts("up") | st.binary())
def test_any_question_has_an_answer(question: str | bytes) -> None:
    answer = json.loads(refusal_text(router_asked_for(question), "no"))
    assert answer["error"] == "no"
