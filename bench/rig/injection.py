"""How does a frame that nobody sends now reach a station, and when did it reach the server last?"""

from collections.abc import Sequence

from bench.capture.reading import Event
from bench.station.retelling import frame_id_of
from lns.lorawan.region import Region
from lns.station.messages import UpInfo
from lns.station.spelling import frame_text

RSSI_DBM = -80
SNR_DB = 7.5
DR = 5


def reception_text(phy: bytes, region: Region, xtime: int, *, dr: int = DR) -> str:
    """The text of a station that has heard this frame at `xtime`, on the first channel."""
    upinfo = UpInfo(xtime=xtime, rssi_dbm=RSSI_DBM, snr_db=SNR_DB)
    freq_hz = region.default_channels_hz[0]
    return frame_text(phy, dr=dr, freq_hz=freq_hz, upinfo=upinfo)


def last_heard_us(events: Sequence[Event], frame_id: str) -> int:
    """When a reception of this frame left a tap last (µs); LookupError if none ever did."""
    for event in reversed(events):
        if event["kind"] != "station.text" or event["direction"] != "up" or "dropped" in event:
            continue
        if frame_id_of(event["text"]) == frame_id:
            return int(event["t_us"])
    raise LookupError(f"no station has delivered {frame_id} yet, so it cannot be replayed")
