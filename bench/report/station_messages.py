"""What does one message between a station and the server say, in words?

Basics Station, LNS protocol. Anything may stand in such a text: a message that cannot be read is
quoted, never trusted.
"""

import json
from collections.abc import Callable
from typing import Any

from bench.report.foreign_text import shown
from lns.lorawan.frame import Data, JoinAccept, MalformedFrame, parse
from lns.lorawan.identifiers import dev_addr

QUOTE_MAX = 160  # characters of a text that cannot be read


def in_words(text: object) -> str:
    """The message in a short sentence without keys; quoted if it is no known message."""
    message = _message(text)
    tell = _SENTENCES.get(str(message.get("msgtype"))) if message is not None else None
    if message is None or tell is None:
        return f"“{shown(str(text), QUOTE_MAX)}”"
    try:
        return shown(tell(message))
    except (KeyError, TypeError, ValueError):
        return f"{message['msgtype']} with unreadable fields: “{shown(str(text), QUOTE_MAX)}”"


def msgtype(text: object) -> str:
    """The msgtype of a station's text, or "unreadable"."""
    message = _message(text)
    return "unreadable" if message is None else shown(str(message.get("msgtype")), 20)


def label(text: object) -> str:
    """The message in two or three words, for an arrow of the ladder."""
    message = _message(text) or {}
    word, f_cnt = msgtype(text), message.get("FCnt")
    if word == "updf" and type(f_cnt) is int:
        return f"updf FCnt {f_cnt}"
    if word == "jreq":
        return shown(f"jreq DevNonce {message.get('DevNonce')}", 40)
    if word == "dnmsg":
        windows = [window for window in ("RX1", "RX2") if f"{window}Freq" in message]
        return " ".join([word, "/".join(windows)]).strip()
    return word


def _message(text: object) -> dict[str, Any] | None:
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _updf(message: dict[str, Any]) -> str:
    port = message["FPort"]
    return (
        f"updf {dev_addr(_whole(message['DevAddr']))} FCnt {message['FCnt']}, "
        f"{'confirmed' if _whole(message['MHdr']) >> 5 == 4 else 'unconfirmed'}, "
        f"{'no FPort' if port == -1 else f'FPort {port}'}, payload {message['FRMPayload'] or '–'}, "
        f"{_radio(message)}"
    )


def _jreq(message: dict[str, Any]) -> str:
    return (
        f"jreq of {message['DevEui']} for {message['JoinEui']}, DevNonce {message['DevNonce']}, "
        f"{_radio(message)}"
    )


def _dnmsg(message: dict[str, Any]) -> str:
    windows = []
    if "RX1Freq" in message:
        windows.append(f"RX1 DR{message['RX1DR']} {megahertz(message['RX1Freq'])}")
    if "RX2Freq" in message:
        windows.append(f"RX2 DR{message['RX2DR']} {megahertz(message['RX2Freq'])}")
    where = ", ".join(windows) or "no window"
    return f"dnmsg {message['diid']}: {downlink(message['pdu'])}; {where}"


def _dntxed(message: dict[str, Any]) -> str:
    return f"dntxed {message['diid']}: the station has sent the downlink"


def _version(message: dict[str, Any]) -> str:
    return f"version: station {message['station']}, protocol {message['protocol']}"


def _router_config(message: dict[str, Any]) -> str:
    return f"router_config: {message['region']}"


def _timesync(message: dict[str, Any]) -> str:
    return "timesync"


_SENTENCES: dict[str, Callable[[dict[str, Any]], str]] = {
    "updf": _updf,
    "jreq": _jreq,
    "dnmsg": _dnmsg,
    "dntxed": _dntxed,
    "version": _version,
    "router_config": _router_config,
    "timesync": _timesync,
}


def downlink(phy: object) -> str:
    """A downlink's PHYPayload (hex) in words."""
    try:
        frame = parse(bytes.fromhex(str(phy)))
    except (ValueError, MalformedFrame):
        return "unreadable frame"
    match frame:
        case Data():
            kind = "ack" if frame.ack else "data"
            return f"{kind} for {frame.dev_addr}, FCntDown {frame.f_cnt}"
        case JoinAccept():
            return "join accept"
        case _:
            return "not a downlink"


def megahertz(freq_hz: object) -> str:
    """A frequency for reading: 868.1 MHz."""
    hz = _whole(freq_hz)
    decimals = f"{hz % 1_000_000:06d}".rstrip("0") or "0"
    return f"{hz // 1_000_000}.{decimals} MHz"


def _radio(message: dict[str, Any]) -> str:
    info = message["upinfo"]
    return (
        f"DR{message['DR']} {megahertz(message['Freq'])}, RSSI {info['rssi']} dBm, "
        f"SNR {info['snr']} dB, xtime {info['xtime']}"
    )


def _whole(value: object) -> int:
    if type(value) is not int:
        raise TypeError("not a whole number")
    return value
