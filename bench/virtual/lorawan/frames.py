"""Which octets does a LoRaWAN 1.0.x device send, and what does it read in those it hears?

Source: LoRaWAN 1.0.3, 4 (data frames) and 6.2 (join). What is no frame is None, never an error.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import Protocol

from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from cryptography.hazmat.primitives.cmac import CMAC

UP, DOWN = 0, 1
"""The direction octet of the blocks B0 and A_i."""
# Source: LoRaWAN 1.0.3, 4.3.3 (encryption), 4.4 (MIC), 6.2.4 and 6.2.5 (join). Cipher contexts are
# kept per key, for a bounded number of keys.
_BLOCK = 16
_KEYS_MAX = 1024


class SessionKeyPair(Protocol):
    """The two keys of a session, whoever keeps them."""

    @property
    def nwk_s_key(self) -> bytes:
        """Of the network."""

    @property
    def app_s_key(self) -> bytes:
        """Of the application."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The network and the application session key, 16 bytes each; never shown."""

    nwk_s_key: bytes = field(repr=False)
    app_s_key: bytes = field(repr=False)


def frame_mic(nwk_s_key: bytes, direction: int, dev_addr: str, f_cnt: int, message: bytes) -> bytes:
    """The four octets under a data frame; `message` is MHDR to FRMPayload, `f_cnt` has 32 bits."""
    b0 = _block(0x49, direction, dev_addr, f_cnt, len(message))
    return _cmac(nwk_s_key, b0 + message)[:4]


def crypt(key: bytes, direction: int, dev_addr: str, f_cnt: int, payload: bytes) -> bytes:
    """FRMPayload from clear to cipher text, or back: XOR with the blocks S_i."""
    count = (len(payload) + _BLOCK - 1) // _BLOCK
    blocks = [_block(0x01, direction, dev_addr, f_cnt, i + 1) for i in range(count)]
    stream = _aes(key).update(b"".join(blocks))
    return bytes(a ^ s for a, s in zip(payload, stream, strict=False))


def join_mic(app_key: bytes, message: bytes) -> bytes:
    """The four octets under a join-request, or under a join-accept in clear."""
    return _cmac(app_key, message)[:4]


def clear_of_accept(app_key: bytes, encrypted: bytes) -> bytes:
    """What a join-accept holds after its MHDR: a device has AES encryption only."""
    return _aes(app_key).update(encrypted)


def session_keys(app_key: bytes, join_nonce: int, net_id: str, dev_nonce: int) -> Keys:
    """aes128(AppKey, 01 or 02 | JoinNonce | NetID | DevNonce | pad)."""
    block = bytearray(_BLOCK)
    block[1:4] = join_nonce.to_bytes(3, "little")
    block[4:7] = reversed(bytes.fromhex(net_id))
    block[7:9] = dev_nonce.to_bytes(2, "little")
    made = []
    for kind in (0x01, 0x02):
        block[0] = kind
        made.append(_aes(app_key).update(bytes(block)))
    return Keys(*made)


def _block(first: int, direction: int, dev_addr: str, f_cnt: int, last: int) -> bytes:
    head = bytes((first, 0, 0, 0, 0, direction))
    return head + bytes.fromhex(dev_addr)[::-1] + f_cnt.to_bytes(4, "little") + bytes((0, last))


def _cmac(key: bytes, message: bytes) -> bytes:
    code = _keyed(key).copy()
    code.update(message)
    return code.finalize()


@lru_cache(maxsize=_KEYS_MAX)
def _keyed(key: bytes) -> CMAC:
    return CMAC(AES(key))


@lru_cache(maxsize=_KEYS_MAX)
def _aes(key: bytes) -> CipherContext:
    return Cipher(AES(key), ECB()).encryptor()


F_OPTS_MAX = 15
F_CNT_WIRE = 1 << 16
_MIC = 4
_HEAD = 8  # MHDR, DevAddr, FCtrl, FCnt
_SIZE_MAX = 255
_CHANNELS_OF_CF_LIST = 5
_CF_LIST = 16


class Kind(IntEnum):
    """MType, bits 7 to 5 of the MHDR."""

    JOIN_REQUEST = 0b000
    JOIN_ACCEPT = 0b001
    UNCONFIRMED_UP = 0b010
    UNCONFIRMED_DOWN = 0b011
    CONFIRMED_UP = 0b100
    CONFIRMED_DOWN = 0b101
    REJOIN_REQUEST = 0b110
    PROPRIETARY = 0b111


_DATA_UP = (Kind.UNCONFIRMED_UP, Kind.CONFIRMED_UP)
_DATA_DOWN = (Kind.UNCONFIRMED_DOWN, Kind.CONFIRMED_DOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFrame:
    """A data frame as it is on the air: 16 bits of its counter, its payload encrypted.

    `bit_6` and `bit_4` of FCtrl: ADRACKReq and class B in uplinks, RFU and FPending in downlinks.
    """

    kind: Kind
    dev_addr: str
    adr: bool
    bit_6: bool
    ack: bool
    bit_4: bool
    f_cnt: int
    f_opts: bytes
    f_port: int | None
    encrypted: bytes
    mic: bytes
    signed: bytes = field(repr=False)

    @property
    def direction(self) -> int:
        return UP if self.kind in _DATA_UP else DOWN

    @property
    def confirmed(self) -> bool:
        """Whether it asks for an acknowledgement."""
        return self.kind in (Kind.CONFIRMED_UP, Kind.CONFIRMED_DOWN)

    @property
    def frame_id(self) -> str:
        """`dev_addr:f_cnt:mic`, its name in every capture."""
        return f"{self.dev_addr}:{self.f_cnt}:{self.mic.hex().upper()}"

    def is_signed_by(self, nwk_s_key: bytes, f_cnt: int) -> bool:
        """Whether its MIC is that of this key and this 32-bit counter."""
        return self.mic == frame_mic(nwk_s_key, self.direction, self.dev_addr, f_cnt, self.signed)

    def clear(self, keys: SessionKeyPair, f_cnt: int) -> bytes:
        """FRMPayload in clear: FPort 0 belongs to the network key."""
        key = keys.app_s_key if self.f_port else keys.nwk_s_key
        return crypt(key, self.direction, self.dev_addr, f_cnt, self.encrypted)


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


def data_frame(
    kind: Kind,
    dev_addr: str,
    keys: SessionKeyPair,
    f_cnt: int,
    *,
    f_port: int | None = None,
    payload: bytes = b"",
    f_opts: bytes = b"",
    adr: bool = False,
    bit_6: bool = False,
    ack: bool = False,
    bit_4: bool = False,
) -> bytes:
    """The PHYPayload of a data frame, encrypted and signed; `f_cnt` has 32 bits."""
    assert len(f_opts) <= F_OPTS_MAX, "FOpts has at most 15 octets"
    assert f_port is not None or not payload, "a payload needs an FPort"
    direction = UP if kind in _DATA_UP else DOWN
    f_ctrl = adr << 7 | bit_6 << 6 | ack << 5 | bit_4 << 4 | len(f_opts)
    signed = bytearray([kind << 5])
    signed += bytes.fromhex(dev_addr)[::-1]
    signed.append(f_ctrl)
    signed += (f_cnt % F_CNT_WIRE).to_bytes(2, "little")
    signed += f_opts
    if f_port is not None:
        signed.append(f_port)
        key = keys.app_s_key if f_port else keys.nwk_s_key
        signed += crypt(key, direction, dev_addr, f_cnt, payload)
    return bytes(signed) + frame_mic(keys.nwk_s_key, direction, dev_addr, f_cnt, bytes(signed))


def join_request(app_key: bytes, *, join_eui: str, dev_eui: str, dev_nonce: int) -> bytes:
    """The PHYPayload of a join-request: MHDR, both EUIs, the nonce, the MIC."""
    message = (
        bytes([Kind.JOIN_REQUEST << 5])
        + bytes.fromhex(join_eui)[::-1]
        + bytes.fromhex(dev_eui)[::-1]
        + dev_nonce.to_bytes(2, "little")
    )
    return message + join_mic(app_key, message)


def kind_of(phy: bytes) -> Kind | None:
    """What these octets say they are; None for RFU bits, another major version, or too many."""
    if not 1 <= len(phy) <= _SIZE_MAX or phy[0] % 32:
        return None
    return Kind(phy[0] >> 5)


def read_data(phy: bytes) -> DataFrame | None:
    """The data frame in these octets; None if there is none."""
    kind = kind_of(phy)
    if kind is None or kind not in (*_DATA_UP, *_DATA_DOWN):
        return None
    end = len(phy) - _MIC
    if end < _HEAD or (port_at := _HEAD + phy[5] % 16) > end:
        return None
    return DataFrame(
        kind=kind,
        dev_addr=phy[4:0:-1].hex().upper(),
        adr=bool(phy[5] & 1 << 7),
        bit_6=bool(phy[5] & 1 << 6),
        ack=bool(phy[5] & 1 << 5),
        bit_4=bool(phy[5] & 1 << 4),
        f_cnt=int.from_bytes(phy[6:8], "little"),
        f_opts=phy[_HEAD:port_at],
        f_port=phy[port_at] if port_at < end else None,
        encrypted=phy[port_at + 1 : end],
        mic=phy[end:],
        signed=phy[:end],
    )


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
    body, mic = clear[:-_MIC], clear[-_MIC:]
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


def counter_of(frame: DataFrame, nwk_s_key: bytes, last: int | None) -> int | None:
    """The 32-bit counter that proves a frame to be newer than `last` (None: nothing came yet).

    It is the next one above `last` with these 16 bits (LoRaWAN 1.0.3, 4.3.1.5).
    """
    newest = -1 if last is None else last
    f_cnt = newest - newest % F_CNT_WIRE + frame.f_cnt
    if f_cnt <= newest:
        f_cnt += F_CNT_WIRE
    return f_cnt if frame.is_signed_by(nwk_s_key, f_cnt) else None
