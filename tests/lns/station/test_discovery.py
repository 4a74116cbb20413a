"""The question on `/router-info`, and the answer that names no server."""

import pytest

from lns.lorawan.identifiers import Eui
from lns.station.messages import refusal_text, router_asked_for

WEST = Eui("0016C001F1500001")


@pytest.mark.parametrize(
    "question",
    [
        '{"router":"16:c001:f150:1"}',
        '{"router":"00-16-C0-01-F1-50-00-01"}',
        '{"router":"0016C001F1500001"}',
        '{"router":6403564063686657}',
        '{"router":"16:c001:f150:1","more":1}',
    ],
)
def test_a_station_says_who_it_is(question: str) -> None:
    assert router_asked_for(question) == WEST


@pytest.mark.parametrize("question", ["", "[]", "{}", '{"router":[]}', b'{"router":"::1"}'])
def test_some_questions_cannot_be_read(question: str | bytes) -> None:
    assert router_asked_for(question) is None


def test_a_refusal_has_an_error_and_no_uri() -> None:
    assert refusal_text(WEST, "no") == '{"router":"16:c001:f150:1","error":"no"}'
    assert refusal_text(None, "no") == '{"error":"no"}'
