"""What does a device hear that always listens? RX2, whenever no other window takes a frame."""

from bench.device.radio import Received
from bench.device.receive_windows import ReceiveWindow
from bench.device.session import DeviceSession, Downlink
from bench.radio.medium import Heard
from lns.lorawan.region import Region


def unasked(
    session: DeviceSession | None, region: Region, heard: Heard
) -> Received[Downlink] | None:
    """The downlink in a frame that came without an uplink; None where it is none for it."""
    sent = heard.transmission
    if session is None or (sent.dr, sent.freq_hz) != (session.rx2_dr, region.rx2_freq_hz):
        return None
    downlink = session.hear(heard)
    if downlink is None:
        return None
    return Received(downlink, ReceiveWindow("C", sent.start_us, sent.dr, sent.freq_hz), heard)
