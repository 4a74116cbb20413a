"""Does a message of the application say what its frame said, and what its station told of it?"""

from collections.abc import Iterator, Sequence
from typing import Any

from bench.inspection.downlink import Answered
from bench.inspection.found import Found, Scrutiny
from bench.virtual.lorawan.frames import DataFrame

_FIELDS: dict[str, type | tuple[type, ...]] = {
    "messageId": str, "lns": str, "devEui": str, "devAddr": str, "fCnt": int, "payload": str,
    "confirmed": bool, "station": str, "rssi": (int, float), "snr": (int, float), "freqHz": int,
    "dr": int, "receivedAt": str, "partitionKey": str, "sequenceNumber": int,
}  # fmt: skip


def misshapen(body: dict[str, Any], check: Scrutiny) -> list[Found]:
    """The fields that a message has not, or with a value that is none for them."""
    return [
        check.wrong(name, "a value", body.get(name))
        for name, kind in _FIELDS.items()
        if not isinstance(body.get(name), kind)
    ]


def message(body: dict[str, Any], heard: Sequence[Answered], check: Scrutiny) -> Iterator[Found]:
    """What is wrong in the message of an uplink, which was `heard` so through its station."""
    nearest: list[Found] | None = None
    for one in heard:
        found = list(_compared(body, one, check))
        if nearest is None or len(found) < len(nearest):
            nearest = found
    yield from nearest or ()


def _compared(body: dict[str, Any], heard: Answered, check: Scrutiny) -> Iterator[Found]:
    uplink, frame = heard.uplink, heard.uplink.frame
    assert isinstance(frame, DataFrame)
    yield from check.same("devAddr", frame.dev_addr, body["devAddr"])
    yield from check.same("fPort", frame.f_port, body.get("fPort"))
    yield from check.same("confirmed", frame.confirmed, body["confirmed"])
    if heard.session is not None:
        clear = frame.clear(heard.session.keys, heard.f_cnt) if frame.encrypted else b""
        yield from check.same("payload", clear.hex(), body["payload"])
    yield from check.same("partitionKey", heard.device.dev_eui, body["partitionKey"])
    yield from check.same("freqHz", uplink.freq_hz, body["freqHz"])
    yield from check.same("dr", uplink.dr, body["dr"])
    yield from check.same("rssi", uplink.rssi, float(body["rssi"]))
    yield from check.same("snr", uplink.snr, float(body["snr"]))
