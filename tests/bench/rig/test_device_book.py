"""What is known of a device on the air by whoever has its keys?"""

import pytest
from msgspec.structs import replace

from bench.device.interfaces import Otaa
from bench.rig.provisioning import Answer, DeviceBook
from bench.virtual import crafted
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.frame import JoinAcceptFields, MType, build_data, build_join_accept
from lns.lorawan.identifiers import dev_addr, eui
from lns.lorawan.region import EU868
from lns.station.messages import Dnmsg, UpInfo, dnmsg_text
from tests.station_texts import dntxed_text, frame_text

DEV_EUI = eui("AC1F09FFFE000001")
JOIN_EUI = eui("70B3D57ED0000000")
ADDRESS = dev_addr("26012345")
KEYS = SessionKeys(bytes(range(16)), bytes(range(16, 32)))
APP_KEY = bytes(range(32, 48))
OTAA = Otaa(JOIN_EUI, APP_KEY)


def told(phy: bytes, xtime: int = 1) -> str:
    text = frame_text(phy, dr=5, freq_hz=868_100_000, upinfo=UpInfo(xtime=xtime))
    assert text is not None
    return text


def data(f_cnt: int, keys: SessionKeys = KEYS, payload: bytes = b"hello") -> bytes:
    return crafted.data(DEV_EUI, ADDRESS, keys, f_cnt, payload=payload).phy


def down(f_cnt: int, keys: SessionKeys = KEYS) -> str:
    pdu = build_data(MType.UNCONFIRMED_DOWN, dev_addr=ADDRESS, f_cnt=f_cnt, keys=keys, ack=True)
    return dnmsg_text(answer(pdu, xtime=1))


def answer(pdu: bytes, xtime: int) -> Dnmsg:
    return Dnmsg(dev_eui=DEV_EUI, diid=1, pdu=pdu, xtime=xtime, rx1_dr=5, rx1_freq_hz=868_100_000)


def book(f_cnt_up: int = 10) -> DeviceBook:
    made = DeviceBook(DEV_EUI, OTAA)
    made.begin(ADDRESS, KEYS, f_cnt_up=f_cnt_up)
    return made


def test_a_frame_is_recognised_by_its_mic_and_told_with_payload_and_counter() -> None:
    known = book().recognise(told(data(12)))
    assert known is not None
    assert (known.f_cnt, known.payload) == (12, b"hello")


def test_the_counter_has_32_bits() -> None:
    known = book(65_534).recognise(told(data(65_537)))
    assert known is not None and known.f_cnt == 65_537


def test_what_another_device_sent_or_nobody_could_sign_is_not_recognised() -> None:
    other = SessionKeys(bytes(16), bytes(16))
    assert book().recognise(told(data(12, keys=other))) is None
    assert book().recognise('{"msgtype": "updf"}') is None
    assert book().recognise("") is None


def test_the_next_counter_follows_what_was_sent() -> None:
    made = book()
    known = made.recognise(told(data(41)))
    assert known is not None
    made.sent(known)
    assert made.session is not None and made.session.f_cnt_up == 42


def test_after_a_reset_the_same_keys_count_anew() -> None:
    made = book(500)
    made.begin(ADDRESS, KEYS, f_cnt_up=0)
    known = made.recognise(told(data(0)))
    assert known is not None and known.session is made.session
    made.sent(known)
    assert made.session is not None and made.session.f_cnt_up == 1
    assert made.session.number == 0, "a new session has other keys"


def test_a_downlink_on_its_way_uses_up_a_counter() -> None:
    made = book()
    made.hear_down(down(7))
    made.hear_down(down(3))  # an older one that came late
    assert made.session is not None and made.session.f_cnt_down == 7
    made.hear_down(down(9, SessionKeys(bytes(16), bytes(16))))
    assert made.session.f_cnt_down == 7


def test_a_join_accept_opens_a_session_whose_frames_are_recognised() -> None:
    made = DeviceBook(DEV_EUI, OTAA)
    joining = crafted.join(crafted.Identity(DEV_EUI, JOIN_EUI, APP_KEY), 5)
    text = told(joining.phy, xtime=99)
    request = made.recognise(text)
    assert request is not None and request.payload is None
    made.asked(text)
    made.sent(request)
    assert made.dev_nonce == 5
    fields = JoinAcceptFields(join_nonce=1, net_id="000013", dev_addr=ADDRESS)
    accept = dnmsg_text(answer(build_join_accept(APP_KEY, fields), xtime=99))
    made.hear_down(accept)
    made.hear_down(accept)  # told by both taps
    assert made.session is not None and len(made.sessions) == 1
    assert made.recognise(told(data(0, keys=made.session.keys))) is not None


JOINED = build_join_accept(
    APP_KEY, JoinAcceptFields(join_nonce=7, net_id="000013", dev_addr=ADDRESS)
)


def reported(
    pdu: bytes, *, up: bytes, after_us: int, dr: int = 5, freq_hz: int = 868_100_000
) -> list[Answer]:
    """What had to be heard of a downlink that a gateway has sent so long after an uplink."""
    made = book()
    made.otaa = OTAA
    made.asked(told(up, xtime=99))
    dnmsg = answer(pdu, xtime=99)
    made.hear_down(dnmsg_text(dnmsg))
    report = dntxed_text(dnmsg, dr=dr, freq_hz=freq_hz, xtime=99 + after_us, txtime=0.0)
    for _ in range(2):  # told by both taps
        made.hear_report(report, EU868)
    return made.on_air


def acknowledging(f_cnt: int = 7, keys: SessionKeys = KEYS) -> bytes:
    return build_data(
        MType.UNCONFIRMED_DOWN, dev_addr=ADDRESS, f_cnt=f_cnt, keys=keys, f_port=None, ack=True
    )


@pytest.mark.parametrize(
    ("pdu", "after_us", "dr", "freq_hz", "answers"),
    [
        (acknowledging(), 1_000_000, 5, 868_100_000, [Answer.ACK]),
        (acknowledging(), 2_000_000, 0, 869_525_000, [Answer.ACK]),
        (acknowledging(), 1_000_900, 5, 868_100_000, [Answer.ACK]),
        # The network server, or the gateway, has not sent it as the device listens.
        (acknowledging(), 1_010_000, 5, 868_100_000, []),
        (acknowledging(), 1_000_000, 4, 868_100_000, []),
        (acknowledging(), 1_000_000, 5, 868_300_000, []),
        (acknowledging(), 2_000_000, 5, 868_100_000, []),
        (acknowledging(), 5_000_000, 5, 868_100_000, []),
        # Nothing that a device would believe.
        (acknowledging(keys=SessionKeys(bytes(16), bytes(16))), 1_000_000, 5, 868_100_000, []),
    ],
)
def test_an_acknowledgement_in_its_window_had_to_be_heard(
    pdu: bytes, after_us: int, dr: int, freq_hz: int, answers: list[Answer]
) -> None:
    heard = reported(pdu, up=data(41), after_us=after_us, dr=dr, freq_hz=freq_hz)
    assert heard == answers


def test_a_used_counter_is_no_acknowledgement() -> None:
    made = book()
    for xtime in (99, 100):
        made.asked(told(data(41), xtime=xtime))
        dnmsg = replace(answer(acknowledging(7), xtime=xtime), diid=xtime)
        made.hear_down(dnmsg_text(dnmsg))
        report = dntxed_text(dnmsg, dr=5, freq_hz=868_100_000, xtime=xtime + 1_000_000, txtime=0.0)
        made.hear_report(report, EU868)
    assert made.on_air == [Answer.ACK, Answer.OTHER]


@pytest.mark.parametrize(
    ("after_us", "answers"), [(5_000_000, [Answer.JOIN_ACCEPT]), (1_000_000, [])]
)
def test_a_join_accept_in_its_window_had_to_be_heard(after_us: int, answers: list[Answer]) -> None:
    joining = crafted.join(crafted.Identity(DEV_EUI, JOIN_EUI, APP_KEY), 5)
    assert reported(JOINED, up=joining.phy, after_us=after_us) == answers
