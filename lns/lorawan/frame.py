"""What does a PHYPayload say, and which PHYPayload says it?

LoRaWAN 1.0.x; the frames of 1.1 have the same shape, but another MIC, which is not supported.
A frame that cannot be read is a `MalformedFrame`: it is shorter than 12 bytes (unless proprietary)
or longer than 255, has an RFU or major bit set in its MHDR, or has not the length that its type or
its FOptsLen asks for.
"""

from lns.lorawan.crypto import (
    Direction,
    SessionKeys,
    crypt_payload,
    data_mic,
    decrypt_join_accept,
    encrypt_join_accept,
    join_mic,
)
from lns.lorawan.identifiers import DevAddr, Eui
from lns.lorawan.join_accept import DlSettings, JoinAcceptFields, join_accept_fields
from lns.lorawan.phy_payload import (
    ACK_BIT,
    ADR_ACK_REQ_BIT,
    ADR_BIT,
    DATA_FRAMES,
    DATA_HEAD,
    F_PENDING_BIT,
    JOIN_REQUEST,
    MIC_BYTES,
    REJOIN_0_2,
    REJOIN_1,
    UPLINKS,
    Data,
    Frame,
    JoinAccept,
    JoinRequest,
    MalformedFrame,
    MType,
    Proprietary,
    RejoinRequest,
)

__all__ = [
    "Data",
    "DlSettings",
    "Frame",
    "JoinAccept",
    "JoinAcceptFields",
    "JoinRequest",
    "MType",
    "MalformedFrame",
    "Proprietary",
    "RejoinRequest",
    "build_data",
    "build_join_accept",
    "build_join_request",
    "open_join_accept",
    "parse",
]

PHY_BYTES_MIN = 12
PHY_BYTES_MAX = 255
F_OPTS_BYTES_MAX = 15

_MHDR_RFU_AND_MAJOR = 0x1F
_F_OPTS_LEN = 0x0F
_M_TYPES = tuple(MType)


def parse(phy: bytes) -> Frame:
    """The frame in a PHYPayload; MalformedFrame, and nothing else, if these bytes are none."""
    if not phy or len(phy) > PHY_BYTES_MAX:
        raise MalformedFrame(f"a frame has 1 to {PHY_BYTES_MAX} bytes, not {len(phy)}")
    if phy[0] & _MHDR_RFU_AND_MAJOR:
        raise MalformedFrame(f"RFU or major bits set in MHDR {phy[0]:02X}")
    m_type = _M_TYPES[phy[0] >> 5]
    if m_type in DATA_FRAMES:
        return _parse_data(m_type, phy)
    if m_type is MType.PROPRIETARY:
        return Proprietary(phy[1:])
    if m_type is MType.JOIN_REQUEST:
        return _parse_join_request(phy)
    if m_type is MType.JOIN_ACCEPT:
        _require_join_accept(phy)
        return JoinAccept(phy[1:])
    return _parse_rejoin_request(phy)


# | MHDR 1 | DevAddr 4 | FCtrl 1 | FCnt 2 | FOpts 0..15 | FPort 0/1 | FRMPayload 0.. | MIC 4 |
def _parse_data(m_type: MType, phy: bytes) -> Data:
    if len(phy) < PHY_BYTES_MIN:
        raise MalformedFrame(f"a data frame has at least {PHY_BYTES_MIN} bytes, not {len(phy)}")
    _, dev_addr, f_ctrl, f_cnt = DATA_HEAD.unpack_from(phy)
    port_at = DATA_HEAD.size + (f_ctrl & _F_OPTS_LEN)
    mic_at = len(phy) - MIC_BYTES
    if port_at > mic_at:
        raise MalformedFrame(f"FOptsLen {f_ctrl & _F_OPTS_LEN} reaches beyond the frame")
    return Data(
        m_type=m_type,
        dev_addr=DevAddr(f"{dev_addr:08X}"),
        adr=f_ctrl & ADR_BIT != 0,
        adr_ack_req=f_ctrl & ADR_ACK_REQ_BIT != 0,
        ack=f_ctrl & ACK_BIT != 0,
        f_pending=f_ctrl & F_PENDING_BIT != 0,
        f_cnt=f_cnt,
        f_opts=phy[DATA_HEAD.size : port_at],
        f_port=phy[port_at] if port_at < mic_at else None,
        frm_payload=phy[port_at + 1 : mic_at],
        mic=phy[mic_at:],
    )


def _parse_join_request(phy: bytes) -> JoinRequest:
    if len(phy) != JOIN_REQUEST.size:
        raise MalformedFrame(f"a join-request has {JOIN_REQUEST.size} bytes, not {len(phy)}")
    _, join_eui, dev_eui, dev_nonce, mic = JOIN_REQUEST.unpack(phy)
    return JoinRequest(Eui(f"{join_eui:016X}"), Eui(f"{dev_eui:016X}"), dev_nonce, mic)


def _require_join_accept(phy: bytes) -> None:
    if len(phy) not in (17, 33):
        raise MalformedFrame(f"a join-accept has 17 or 33 bytes, not {len(phy)}")
    if phy[0] != MType.JOIN_ACCEPT << 5:
        raise MalformedFrame(f"MHDR {phy[0]:02X} is no join-accept")


def _parse_rejoin_request(phy: bytes) -> RejoinRequest:
    match phy[1:2], len(phy):
        case (b"\x00" | b"\x02", REJOIN_0_2.size):
            _, kind, net_id, dev_eui, rj_count, mic = REJOIN_0_2.unpack(phy)
            net_id_text = net_id[::-1].hex().upper()
            return RejoinRequest(kind, net_id_text, None, Eui(f"{dev_eui:016X}"), rj_count, mic)
        case (b"\x01", REJOIN_1.size):
            _, kind, join_eui, dev_eui, rj_count, mic = REJOIN_1.unpack(phy)
            eui = Eui(f"{join_eui:016X}")
            return RejoinRequest(kind, None, eui, Eui(f"{dev_eui:016X}"), rj_count, mic)
        case _:
            raise MalformedFrame(
                f"a rejoin-request has 19 bytes (types 0, 2) or 24 (type 1), not {len(phy)}"
            )


def build_data(
    m_type: MType,
    *,
    dev_addr: DevAddr,
    f_cnt: int,
    keys: SessionKeys,
    f_port: int | None = None,
    payload: bytes = b"",
    f_opts: bytes = b"",
    ack: bool = False,
    adr: bool = False,
    adr_ack_req: bool = False,
    f_pending: bool = False,
) -> bytes:
    """The PHYPayload of a data frame: `payload` encrypted, MIC set, `f_cnt` the 32-bit counter.

    ValueError for what LoRaWAN cannot say: another type, a payload without FPort, FOpts longer
    than 15 bytes or next to FPort 0, more than 255 bytes in all.
    """
    if m_type not in DATA_FRAMES:
        raise ValueError(f"{m_type!r} is no data frame")
    if payload and f_port is None:
        raise ValueError("a payload needs an FPort")
    if f_port is not None and not 0 <= f_port <= 255:
        raise ValueError(f"FPort has 8 bits: {f_port}")
    if len(f_opts) > F_OPTS_BYTES_MAX or (f_opts and f_port == 0):
        raise ValueError("FOpts has at most 15 bytes, and none with FPort 0")
    if DATA_HEAD.size + len(f_opts) + 1 + len(payload) + MIC_BYTES > PHY_BYTES_MAX:
        raise ValueError(f"the frame would be longer than {PHY_BYTES_MAX} bytes")
    direction = Direction.UP if m_type in UPLINKS else Direction.DOWN
    key = keys.nwk_s_key if f_port == 0 else keys.app_s_key
    body = Data(
        m_type=m_type,
        dev_addr=dev_addr,
        adr=adr,
        adr_ack_req=adr_ack_req,
        ack=ack,
        f_pending=f_pending,
        f_cnt=f_cnt & 0xFFFF,
        f_opts=f_opts,
        f_port=f_port,
        frm_payload=crypt_payload(key, direction, dev_addr, f_cnt, payload),
        mic=b"",
    ).body()
    return body + data_mic(keys.nwk_s_key, direction, dev_addr, f_cnt, body)


def build_join_request(app_key: bytes, *, join_eui: Eui, dev_eui: Eui, dev_nonce: int) -> bytes:
    """The PHYPayload of a join-request, 23 bytes, MIC set."""
    body = JoinRequest(join_eui, dev_eui, dev_nonce, bytes(MIC_BYTES)).body()
    return body + join_mic(app_key, body)


def build_join_accept(app_key: bytes, fields: JoinAcceptFields) -> bytes:
    """The PHYPayload of a join-accept, 17 or 33 bytes, MIC set, encrypted for the device.

    ValueError if a field does not fit.
    """
    body = fields.body()
    return encrypt_join_accept(app_key, body + join_mic(app_key, body))


def open_join_accept(app_key: bytes, phy: bytes) -> JoinAcceptFields:
    """The fields of a join-accept from the air; MalformedFrame if its length, type or MIC is wrong.

    A join-accept of a LoRaWAN 1.1 session (OptNeg) has another MIC and is refused as such.
    """
    _require_join_accept(phy)
    clear = decrypt_join_accept(app_key, phy)
    body, mic = clear[:-MIC_BYTES], clear[-MIC_BYTES:]
    if join_mic(app_key, body) != mic:
        raise MalformedFrame("the MIC of the join-accept does not fit this AppKey")
    return join_accept_fields(body)
