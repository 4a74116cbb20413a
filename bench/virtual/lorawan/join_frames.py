"""Which octets does a LoRaWAN 1.0.x device send to join, and what does it read in the answer?

Source: LoRaWAN 1.0.3, 6.2. What is no frame is None, never an error.
"""

from dataclasses import dataclass

from bench.virtual.lorawan.air_interface import (
    BLOCK,
    MIC_OCTETS,
    Keys,
    Kind,
    Session,
    aes,
    cmac,
    kind_of,
)
from bench.virtual.lorawan.channel_plan import UpChannel


def join_mic(app_key: bytes, message: bytes) -> bytes:
    """The four octets under a join-request, or under a join-accept in clear."""
    return cmac(app_key, message)[:4]


def clear_of_accept(app_key: bytes, encrypted: bytes) -> bytes:
    """What a join-accept holds after its MHDR: a device has AES encryption only."""
    return aes(app_key).update(encrypted)


def session_keys(app_key: bytes, join_nonce: int, net_id: str, dev_nonce: int) -> Keys:
    """aes128(AppKey, 01 or 02 | JoinNonce | NetID | DevNonce | pad)."""
    block = bytearray(BLOCK)
    block[1:4] = join_nonce.to_bytes(3, "little")
    block[4:7] = reversed(bytes.fromhex(net_id))
    block[7:9] = dev_nonce.to_bytes(2, "little")
    made = []
    for kind in (0x01, 0x02):
        block[0] = kind
        made.append(aes(app_key).update(bytes(block)))
    return Keys(*made)


_CHANNELS_OF_CF_LIST = 5
_CF_LIST = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """A join-request; its MIC is not yet proven."""

    join_eui: str
    dev_eui: str
    dev_nonce: int
    mic: bytes

    @property
    def frame_id(self) -> str:
        """`join_eui:dev_eui:dev_nonce`, its name in every capture."""
        return f"{self.join_eui}:{self.dev_eui}:{self.dev_nonce}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAccept:
    """What a device learns from a join-accept whose MIC is right.

    `rx_delay_s` as it counts (0 on the air is 1); `more_channels_hz`: a CFList of type 0, 0 for a
    channel left out; `channel_masks`: one of type 1.
    """

    join_nonce: int
    net_id: str
    dev_addr: str
    rx1_dr_offset: int
    rx2_dr: int
    rx_delay_s: int
    more_channels_hz: tuple[int, ...] = ()
    channel_masks: tuple[int, ...] = ()


def join_request(app_key: bytes, *, join_eui: str, dev_eui: str, dev_nonce: int) -> bytes:
    """The PHYPayload of a join-request: MHDR, both EUIs, the nonce, the MIC."""
    message = (
        bytes([Kind.JOIN_REQUEST << 5])
        + bytes.fromhex(join_eui)[::-1]
        + bytes.fromhex(dev_eui)[::-1]
        + dev_nonce.to_bytes(2, "little")
    )
    return message + join_mic(app_key, message)


def read_join_request(phy: bytes) -> JoinRequest | None:
    """The join-request in these octets; None if there is none."""
    if kind_of(phy) is not Kind.JOIN_REQUEST or len(phy) != 23:
        return None
    return JoinRequest(
        join_eui=phy[8:0:-1].hex().upper(),
        dev_eui=phy[16:8:-1].hex().upper(),
        dev_nonce=int.from_bytes(phy[17:19], "little"),
        mic=phy[19:],
    )


# | JoinNonce 3 | NetID 3 | DevAddr 4 | DLSettings 1 | RxDelay 1 | CFList 0 or 16 | MIC 4 |
def read_join_accept(app_key: bytes, phy: bytes) -> JoinAccept | None:
    """The join-accept that this key opens; None if its MIC is wrong, or if it is none."""
    if kind_of(phy) is not Kind.JOIN_ACCEPT or len(phy) not in (17, 17 + _CF_LIST):
        return None
    clear = clear_of_accept(app_key, phy[1:])
    body, mic = clear[:-MIC_OCTETS], clear[-MIC_OCTETS:]
    if join_mic(app_key, phy[:1] + body) != mic:
        return None
    cf_list = body[12:]
    return JoinAccept(
        join_nonce=int.from_bytes(body[0:3], "little"),
        net_id=body[5:2:-1].hex().upper(),
        dev_addr=body[9:5:-1].hex().upper(),
        rx1_dr_offset=body[10] >> 4 & 0b111,
        rx2_dr=body[10] & 0b1111,
        rx_delay_s=body[11] & 0b1111 or 1,
        more_channels_hz=_listed(cf_list, kind=0, octets=3, unit=100),
        channel_masks=_listed(cf_list, kind=1, octets=2, unit=1),
    )


def _listed(cf_list: bytes, *, kind: int, octets: int, unit: int) -> tuple[int, ...]:
    if len(cf_list) != _CF_LIST or cf_list[-1] != kind:
        return ()
    numbers = (cf_list[at * octets : (at + 1) * octets] for at in range(_CHANNELS_OF_CF_LIST))
    return tuple(int.from_bytes(number, "little") * unit for number in numbers)


def joined(
    app_key: bytes, accept: JoinAccept, *, dev_nonce: int, first_f_cnt: int, number: int = 0
) -> Session:
    more = [UpChannel(hz, range(6)) if hz else None for hz in accept.more_channels_hz]
    return Session(
        dev_addr=accept.dev_addr,
        keys=session_keys(app_key, accept.join_nonce, accept.net_id, dev_nonce),
        number=number,
        f_cnt_up=first_f_cnt,
        net_id=accept.net_id,
        join_nonce=accept.join_nonce,
        more_channels=tuple(more),
    )
