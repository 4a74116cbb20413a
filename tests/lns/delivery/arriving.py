"""Messages as they arrive at a consumer, and inboxes for them."""

import json
from typing import Any

from lns.delivery.incoming import Incoming

ALPHA = "70B3D57ED0000001"
TOPIC = f"lorawan/lns-a/{ALPHA}/up"
SECOND_US = 1_000_000


def incoming(message_id: str, **fields: Any) -> Incoming:
    return Incoming(channel=fields.pop("channel", TOPIC), message_id=message_id, **fields)


def payload(f_cnt: int, **fields: Any) -> bytes:
    """The JSON of an uplink; a field that is None is left out."""
    body = {
        "messageId": f"{ALPHA}-01ABCDEF-{f_cnt}",
        "partitionKey": ALPHA,
        "sequenceNumber": f_cnt,
        "removeDuplicatesKey": f"{ALPHA}-01ABCDEF-{f_cnt}",
        "payload": "c0ffee",
    } | fields
    return json.dumps({name: value for name, value in body.items() if value is not None}).encode()
