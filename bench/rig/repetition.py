"""How is a board told to send each of its frames several times?

By the network: from RUI 4.2 on nothing else makes it (LinkADRReq, NbTrans). Who has the keys of its
session can say so before any network server comes into play.
"""

from bench.device.device_config import DeviceSession
from lns.lorawan.frame import MType, build_data
from lns.lorawan.identifiers import Eui
from lns.lorawan.mac_commands import encode
from lns.lorawan.region import Region
from lns.station.messages import Dnmsg, Updf, parse_up
from lns.station.spelling import dnmsg_text
from lns.uplink.mac_layer import repetitions


def told_to_repeat(
    text: str, dev_eui: Eui, session: DeviceSession, region: Region, nb_trans: int
) -> str:
    """The `dnmsg` that answers a reception (`text`) with a LinkADRReq; uses up an FCntDown."""
    heard = parse_up(text)
    assert isinstance(heard, Updf), "a board was heard by it"
    f_cnt = 0 if session.f_cnt_down is None else session.f_cnt_down + 1
    session.f_cnt_down = f_cnt
    pdu = build_data(
        MType.UNCONFIRMED_DOWN,
        dev_addr=session.dev_addr,
        f_cnt=f_cnt,
        keys=session.keys,
        f_opts=encode([repetitions(nb_trans, dr=heard.dr, region=region)]),
    )
    rx1_dr, rx1_freq_hz = region.rx1(heard.dr, heard.freq_hz, 0)
    return dnmsg_text(
        Dnmsg(
            dev_eui=dev_eui,
            diid=0,
            pdu=pdu,
            rx_delay_s=region.receive_delay_us // 1_000_000,
            rx1_dr=rx1_dr,
            rx1_freq_hz=rx1_freq_hz,
            rx2_dr=region.rx2_dr,
            rx2_freq_hz=region.rx2_freq_hz,
            xtime=heard.upinfo.xtime,
            rctx=heard.upinfo.rctx,
        )
    )
