"""Fuzz target: any bytes at the CUPS listener are a request, or none; nothing raises.

And what an application asks for over the broker, which is read in the same spirit.
"""

import json

from hypothesis import given
from hypothesis import strategies as st

from lns.downlink.downlink_queue import ApplicationDownlink, Refused, parse_request
from lns.server.cups_server import parse_head
from lns.station import cups
from lns.station.messages import Malformed
from tests.fuzz.mutation import mutated
from tests.fuzz.test_station_messages import JSON

HEADS = [
    b"POST /update-info HTTP/1.1\r\nHost: a:1\r\nContent-Type: application/json\r\n"
    b"Content-Length:        277\r\n\r\n",
    b"POST /update-info HTTP/1.1\r\nAuthorization: Bearer abc\r\nContent-Length: 0\r\n\r\n",
    b"GET /router-info?x=1 HTTP/1.0\r\n\r\n",
]
ASKED = {
    "router": "16:c001:f150:1", "cupsUri": "http://127.0.0.1:16122", "tcUri": None,
    "cupsCredCrc": 2077607535, "tcCredCrc": 2077607535, "station": "2.0.6(linux/testsim)",
    "model": "linux", "package": "1", "keys": [4154008533],
}  # fmt: skip
BODY = json.dumps(ASKED).encode()
REQUESTS = [b'{"fPort":7,"payload":"c0ffee","confirmed":true}', b'{"fPort":223,"payload":""}']
TOPIC = "lorawan/lns-a/70B3D57ED0000001/down"


@given(mutated(HEADS) | st.binary(max_size=400))
def test_any_bytes_are_the_head_of_a_request_or_none(head: bytes) -> None:
    read = parse_head(head)
    if read is not None:
        assert read.path.startswith("/")
        assert read.body_bytes is None or 0 <= read.body_bytes < 10**9


def check_question(body: bytes) -> None:
    request = cups.parse_request(body)
    if isinstance(request, Malformed):
        assert request.why
        return
    nothing = cups.Category()
    assert cups.answer(request, cups=nothing, tc=nothing).body == cups.NO_CHANGE


@given(mutated([BODY]) | st.binary(max_size=400))
def test_any_bytes_are_a_question_or_malformed(body: bytes) -> None:
    check_question(body)


@given(st.dictionaries(st.sampled_from(sorted(ASKED)), JSON, max_size=4))
def test_any_json_in_a_question_is_read_or_malformed(fields: dict[str, object]) -> None:
    check_question(json.dumps(ASKED | fields).encode("utf-8", "surrogatepass"))


@given(mutated(REQUESTS) | st.binary(max_size=400) | JSON.map(lambda v: json.dumps(v).encode()))
def test_any_bytes_are_a_downlink_or_refused(body: bytes) -> None:
    asked = parse_request(TOPIC, body)
    if isinstance(asked, Refused):
        assert asked.why
        return
    _, downlink = asked
    assert isinstance(downlink, ApplicationDownlink)
    assert 1 <= downlink.f_port <= 223
