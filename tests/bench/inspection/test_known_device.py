"""What is remembered of a device that begins again."""

from bench.inspection.downlink import Answered
from bench.inspection.known_device import KnownDevice, Session
from bench.verdict.wire import Uplink
from bench.virtual.crafted import data
from bench.virtual.lorawan.air_interface import DataFrame, Keys, read_data

KEYS = Keys(bytes(16), bytes(16))
DEV_EUI, DEV_ADDR = "70B3D57ED0000001", "26000001"


def frame_of(f_cnt: int) -> DataFrame:
    frame = read_data(data(DEV_EUI, DEV_ADDR, KEYS, f_cnt).phy)
    assert frame is not None
    return frame


def test_of_octets_that_come_in_two_lives_nobody_says_what_their_answer_asks() -> None:
    session = Session(DEV_ADDR, KEYS, rx2_dr=0)
    device = KnownDevice(DEV_EUI, bytes(16), [session])
    frame = frame_of(5)
    uplink = Uplink(
        station="west", t_us=0, held_us=0, phy=b"", frame=frame, xtime=1, rctx=0, dr=5,
        freq_hz=868_100_000, rssi=-80.0, snr=7.0,
    )  # fmt: skip
    answered = Answered(uplink, device, 5, session)
    session.hear(frame, 5)
    session.answered.add(frame.frame_id)
    assert answered.is_again
    assert not answered.is_open
    session.hear(frame_of(1), 1)
    session.hear(frame, 5)
    assert answered.is_open
