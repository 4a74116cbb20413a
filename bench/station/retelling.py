"""How does a station tell of a reception that it did not have?"""

import msgspec

from lns.station.json_fields import json_object
from lns.station.messages import Jreq, Malformed, Updf, parse_up

_SESSION_SHIFT = 48
_encode = msgspec.json.Encoder().encode


def frame_id_of(text: str) -> str | None:
    """The frame_id of a reception; None if it cannot be read."""
    message = parse_up(text)
    return message.frame_id if isinstance(message, Updf | Jreq) else None


def told_by(xtime_now: int, text: str, *, teller_now: int | None = None) -> str:
    """A reception with the `xtime` of another moment or another station's clock.

    `xtime_now` is the clock that tells it now. `teller_now` is the clock that told it first, now:
    the frame ended as long ago as that clock says. None: the frame ended just now. A text that has
    no xtime stays as it is.
    """
    fields = json_object(text)
    if isinstance(fields, Malformed):
        return text
    upinfo = fields.get("upinfo")
    if not isinstance(upinfo, dict) or not isinstance(upinfo.get("xtime"), int):
        return text
    elapsed_us = 0
    if teller_now is not None and teller_now >> _SESSION_SHIFT == upinfo["xtime"] >> _SESSION_SHIFT:
        elapsed_us = teller_now - upinfo["xtime"]
    upinfo["xtime"] = max(xtime_now - elapsed_us, 0)
    return _encode(fields).decode()
