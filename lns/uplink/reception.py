"""One frame as one station reported it."""

from msgspec import Struct

from lns.lorawan.identifiers import Eui


class Reception(Struct, frozen=True, gc=False):
    """A PHYPayload with the station's report about it.

    `xtime` is the station's own clock at the end of the frame (µs, opaque but for adding µs);
    `rctx` names its antenna; both go back in the answer. `heard_us` is the same moment on this
    server's clock, None while the station's clock is not known yet. `arrived_us` is when the
    text reached the server. `gps_us` is the same moment in GPS time (µs since 1980-01-06), 0 where
    the station does not know it. SNR in dB, RSSI in dBm. Source: Basics Station, uplink messages.
    """

    station: Eui
    phy: bytes
    dr: int
    freq_hz: int
    rssi_dbm: float
    snr_db: float
    xtime: int
    rctx: int
    arrived_us: int
    heard_us: int | None
    gps_us: int = 0
