"""How does an application ask for a downlink over the broker, and has a network server taken it?"""

import json
from collections.abc import Iterable

from bench.capture.reading import Event
from lns.downlink.downlink_queue import ApplicationDownlink, StatusWanted
from lns.lorawan.identifiers import Eui

TAKEN_WITHIN_US = 10_000_000


def request(
    lns: str, dev_eui: Eui, wanted: ApplicationDownlink | StatusWanted
) -> tuple[str, bytes]:
    """Topic and body, as any application writes them."""
    body: dict[str, object] = {"devStatus": True}
    if isinstance(wanted, ApplicationDownlink):
        body = {
            "fPort": wanted.f_port,
            "payload": wanted.payload.hex(),
            "confirmed": wanted.confirmed,
        }
    return posted(lns, dev_eui, json.dumps(body).encode())


def posted(lns: str, dev_eui: Eui, body: bytes) -> tuple[str, bytes]:
    """Topic and body of something that an application writes for a device, whatever it is."""
    return f"lorawan/{lns}/{dev_eui}/down", body


def times_queued(events: Iterable[Event], dev_eui: Eui) -> int:
    """How many downlinks for a device a network server has taken into its queue."""
    return sum(
        event["kind"] == "lns.request"
        and event["stage"] == "queued"
        and event.get("dev_eui") == dev_eui
        for event in events
    )
