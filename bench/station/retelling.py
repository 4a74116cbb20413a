"""How does a station tell of a reception that it did not have?"""

import json

from bench.verdict.wire import json_of, uplink_of

_SESSION_SHIFT = 48


def frame_id_of(text: str) -> str | None:
    """The frame_id of a reception; None if it cannot be read."""
    uplink = uplink_of("", 0, 0, text)
    return None if uplink is None else uplink.frame_id


def told_by(xtime_now: int, text: str, *, teller_now: int | None = None) -> str:
    """A reception with the `xtime` of another moment or another station's clock.

    `xtime_now` is the clock that tells it now. `teller_now` is the clock that told it first, now:
    the frame ended as long ago as that clock says. None: the frame ended just now. A text that has
    no xtime stays as it is.
    """
    fields = json_of(text)
    upinfo = None if fields is None else fields.get("upinfo")
    if not isinstance(upinfo, dict) or not isinstance(upinfo.get("xtime"), int):
        return text
    elapsed_us = 0
    if teller_now is not None and teller_now >> _SESSION_SHIFT == upinfo["xtime"] >> _SESSION_SHIFT:
        elapsed_us = teller_now - upinfo["xtime"]
    told = {**upinfo, "xtime": max(xtime_now - elapsed_us, 0)}
    return json.dumps({**(fields or {}), "upinfo": told}, ensure_ascii=False, separators=(",", ":"))
