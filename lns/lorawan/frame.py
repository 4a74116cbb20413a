"""Which frames does LoRaWAN 1.0.x have, what do they hold, and which bytes spell them?

All multi-byte fields are little endian. A join-accept is encrypted behind its MHDR:

    | MHDR 20 | JoinNonce 3 | NetID 3 | DevAddr 4 | DLSettings 1 | RxDelay 1 | CFList 0/16 | MIC 4 |
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from msgspec import Struct

from lns.lorawan.crypto import (
    Direction,
    SessionKeys,
    crypt_payload,
    data_mic,
    decrypt_join_accept,
    encrypt_join_accept,
    join_mic,
)
from lns.lorawan.identifiers import DevAddr, Eui, Mic

MIC_BYTES = 4
DATA_HEAD = struct.Struct("<BIBH")
JOIN_REQUEST = struct.Struct("<BQQH4s")
REJOIN_0_2 = struct.Struct("<BB3sQH4s")
REJOIN_1 = struct.Struct("<BBQQH4s")

ADR_BIT = 0x80
ADR_ACK_REQ_BIT = 0x40
ACK_BIT = 0x20
F_PENDING_BIT = 0x10


class MalformedFrame(ValueError):
    """These bytes are no LoRaWAN 1.0.x frame; the text says why."""


class MType(IntEnum):
    """The message type, bits 7..5 of the MHDR."""

    JOIN_REQUEST = 0
    JOIN_ACCEPT = 1
    UNCONFIRMED_UP = 2
    UNCONFIRMED_DOWN = 3
    CONFIRMED_UP = 4
    CONFIRMED_DOWN = 5
    REJOIN_REQUEST = 6
    PROPRIETARY = 7


UPLINKS = (MType.UNCONFIRMED_UP, MType.CONFIRMED_UP)
_CONFIRMED_UP, _CONFIRMED_DOWN = MType.CONFIRMED_UP, MType.CONFIRMED_DOWN
_UP, _DOWN = Direction
DATA_FRAMES = (*UPLINKS, MType.UNCONFIRMED_DOWN, MType.CONFIRMED_DOWN)


class Data(Struct, frozen=True, gc=False):
    """A data frame as on the wire: `f_cnt` has 16 bits, `frm_payload` is encrypted.

    `f_pending` is bit 4 of FCtrl (class B in uplinks, FPending in downlinks), `adr_ack_req` bit 6
    (RFU in downlinks, kept). `f_port` None: neither FPort nor FRMPayload.
    """

    m_type: MType
    dev_addr: DevAddr
    adr: bool
    adr_ack_req: bool
    ack: bool
    f_pending: bool
    f_cnt: int
    f_opts: bytes
    f_port: int | None
    frm_payload: bytes
    mic: bytes

    @property
    def confirmed(self) -> bool:
        """Whether the frame asks for an acknowledgement."""
        return self.m_type is _CONFIRMED_UP or self.m_type is _CONFIRMED_DOWN

    @property
    def is_uplink(self) -> bool:
        """Whether a device sent it."""
        return self.m_type in UPLINKS

    @property
    def direction(self) -> Direction:
        """The direction as the ciphers spell it."""
        return _UP if self.m_type in UPLINKS else _DOWN

    @property
    def frame_id(self) -> str:
        """`dev_addr:f_cnt:mic`, the name of this frame in every capture."""
        return f"{self.dev_addr}:{self.f_cnt}:{self.mic.hex().upper()}"

    @property
    def has_commands_twice(self) -> bool:
        """MAC commands in FOpts and in FRMPayload at once (LoRaWAN 1.0.4, 4.3.1.6: not allowed).

        Such a frame can be read, and stations pass it on; its receiver discards it.
        """
        return self.f_port == 0 and bool(self.f_opts)

    def body(self) -> bytes:
        """The bytes under the MIC, from MHDR to FRMPayload."""
        f_ctrl = (
            self.adr * ADR_BIT
            | self.adr_ack_req * ADR_ACK_REQ_BIT
            | self.ack * ACK_BIT
            | self.f_pending * F_PENDING_BIT
            | len(self.f_opts)
        )
        head = DATA_HEAD.pack(self.m_type << 5, int(self.dev_addr, 16), f_ctrl, self.f_cnt)
        if self.f_port is None:
            return head + self.f_opts
        return b"%b%b%c%b" % (head, self.f_opts, self.f_port, self.frm_payload)

    def to_bytes(self) -> bytes:
        """The PHYPayload."""
        return self.body() + self.mic

    def mic_is_valid(self, nwk_s_key: bytes, f_cnt: int) -> bool:
        """Whether the MIC fits this key and this 32-bit counter."""
        return self.mic_check()(nwk_s_key, f_cnt)

    def mic_check(self, body: bytes | None = None) -> Callable[[bytes, int], bool]:
        """`mic_is_valid` for many keys and counters: what they have in common is built once."""
        direction, dev_addr, mic = self.direction, self.dev_addr, self.mic
        signed = self.body() if body is None else body

        def is_valid(nwk_s_key: bytes, f_cnt: int) -> bool:
            return data_mic(nwk_s_key, direction, dev_addr, f_cnt, signed) == mic

        return is_valid

    def payload(self, keys: SessionKeys, f_cnt: int) -> bytes:
        """FRMPayload in clear, for this 32-bit counter; empty without FPort."""
        key = keys.nwk_s_key if self.f_port == 0 else keys.app_s_key
        return crypt_payload(key, self.direction, self.dev_addr, f_cnt, self.frm_payload)


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """A join-request: MHDR JoinEUI(8) DevEUI(8) DevNonce(2) MIC(4), 23 bytes."""

    join_eui: Eui
    dev_eui: Eui
    dev_nonce: int
    mic: bytes

    @property
    def frame_id(self) -> str:
        """`join_eui:dev_eui:dev_nonce`, the name of this frame in every capture."""
        return f"{self.join_eui}:{self.dev_eui}:{self.dev_nonce}"

    def body(self) -> bytes:
        """The bytes under the MIC, MHDR first."""
        return self.to_bytes()[:-MIC_BYTES]

    def to_bytes(self) -> bytes:
        """The PHYPayload, 23 bytes."""
        join_eui, dev_eui = int(self.join_eui, 16), int(self.dev_eui, 16)
        return JOIN_REQUEST.pack(0x00, join_eui, dev_eui, self.dev_nonce, self.mic)

    def mic_is_valid(self, app_key: bytes) -> bool:
        """Whether the MIC fits this AppKey."""
        return join_mic(app_key, self.body()) == self.mic


@dataclass(frozen=True, slots=True)
class JoinAccept:
    """A join-accept as on the air; `encrypted` is everything after the MHDR (16 or 32 bytes)."""

    encrypted: bytes

    def to_bytes(self) -> bytes:
        """The PHYPayload, 17 or 33 bytes."""
        return b"\x20" + self.encrypted


@dataclass(frozen=True, slots=True)
class RejoinRequest:
    """A rejoin-request of LoRaWAN 1.1: can be read, is never answered.

    Types 0 and 2 (19 bytes) have a `net_id` (6 hexadecimal digits), type 1 (24) a `join_eui`.
    """

    rejoin_type: int
    net_id: str | None
    join_eui: Eui | None
    dev_eui: Eui
    rj_count: int
    mic: bytes

    def to_bytes(self) -> bytes:
        """The PHYPayload, 19 or 24 bytes."""
        dev_eui = int(self.dev_eui, 16)
        if self.join_eui is not None:
            join_eui = int(self.join_eui, 16)
            return REJOIN_1.pack(0xC0, 1, join_eui, dev_eui, self.rj_count, self.mic)
        net_id = bytes.fromhex(self.net_id or "")[::-1]
        return REJOIN_0_2.pack(0xC0, self.rejoin_type, net_id, dev_eui, self.rj_count, self.mic)


@dataclass(frozen=True, slots=True)
class Proprietary:
    """A proprietary frame; `payload` is everything after the MHDR, a MIC (if any) included."""

    payload: bytes

    def to_bytes(self) -> bytes:
        """The PHYPayload."""
        return b"\xe0" + self.payload


Frame = Data | JoinRequest | JoinAccept | RejoinRequest | Proprietary


def mic_of(frame: Data | JoinRequest) -> Mic:
    """The MIC of a frame, as captures and stores spell it."""
    return Mic(frame.mic.hex().upper())


CF_LIST_BYTES = 16
_MHDR = 0x20
_FIXED = struct.Struct("<B3s3sIBB")
_CHANNELS = 5
_FREQUENCIES = 0
_CHANNEL_MASKS = 1
_HZ_PER_STEP = 100


@dataclass(frozen=True, slots=True)
class DlSettings:
    """How the device listens: RX1 data rate offset 0..7, RX2 data rate 0..15.

    Bit 7 is RFU in 1.0.x (OptNeg in 1.1): not kept.
    """

    rx1_dr_offset: int = 0
    rx2_dr: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAcceptFields:
    """The clear content of a join-accept, without its MIC.

    `join_nonce` has 24 bits, `net_id` is 6 hexadecimal digits (upper case, most significant
    first), `rx_delay` is 0..15 seconds as on the wire, `cf_list` is empty or its 16 raw bytes.
    """

    join_nonce: int
    net_id: str
    dev_addr: DevAddr
    dl_settings: DlSettings = DlSettings()
    rx_delay: int = 1
    cf_list: bytes = b""

    @property
    def receive_delay_us(self) -> int:
        """RECEIVE_DELAY1 in microseconds; an RxDelay of 0 means one second."""
        return max(self.rx_delay, 1) * 1_000_000

    def body(self) -> bytes:
        """The bytes under the MIC: MHDR to CFList; ValueError if a field does not fit."""
        settings = self.dl_settings
        if (
            not 0 <= self.join_nonce < 1 << 24
            or len(self.net_id) != 6
            or not 0 <= settings.rx1_dr_offset <= 7
            or not 0 <= settings.rx2_dr <= 15
            or not 0 <= self.rx_delay <= 15
            or len(self.cf_list) not in (0, CF_LIST_BYTES)
        ):
            raise ValueError(f"a field does not fit a join-accept: {self}")
        return (
            _FIXED.pack(
                _MHDR,
                self.join_nonce.to_bytes(3, "little"),
                bytes.fromhex(self.net_id)[::-1],
                int(self.dev_addr, 16),
                settings.rx1_dr_offset << 4 | settings.rx2_dr,
                self.rx_delay,
            )
            + self.cf_list
        )


def join_accept_fields(body: bytes) -> JoinAcceptFields:
    """The fields of a clear join-accept without its MIC (13 or 29 bytes); RFU bits are ignored."""
    _, join_nonce, net_id, dev_addr, dl_settings, rx_delay = _FIXED.unpack_from(body)
    return JoinAcceptFields(
        join_nonce=int.from_bytes(join_nonce, "little"),
        net_id=net_id[::-1].hex().upper(),
        dev_addr=DevAddr(f"{dev_addr:08X}"),
        dl_settings=DlSettings(rx1_dr_offset=dl_settings >> 4 & 0x07, rx2_dr=dl_settings & 0x0F),
        rx_delay=rx_delay & 0x0F,
        cf_list=body[_FIXED.size :],
    )


def frequency_cf_list(freqs_hz: Sequence[int]) -> bytes:
    """A CFList of type 0: up to five more channels, in hertz (EU868).

    ValueError for more than five or for a frequency that is no multiple of 100 Hz in 24 bits.
    """
    if len(freqs_hz) > _CHANNELS:
        raise ValueError(f"a CFList has {_CHANNELS} frequencies, not {len(freqs_hz)}")
    steps = [divmod(freq_hz, _HZ_PER_STEP) for freq_hz in freqs_hz]
    if any(rest or not 0 <= step < 1 << 24 for step, rest in steps):
        raise ValueError(f"a CFList cannot spell {list(freqs_hz)} Hz")
    listed = b"".join(step.to_bytes(3, "little") for step, _ in steps)
    return listed.ljust(CF_LIST_BYTES - 1, b"\0") + bytes([_FREQUENCIES])


def cf_list_frequencies_hz(cf_list: bytes) -> tuple[int, ...]:
    """The frequencies of a CFList of type 0 in hertz, unused ones left out; else none."""
    if len(cf_list) != CF_LIST_BYTES or cf_list[-1] != _FREQUENCIES:
        return ()
    steps = (int.from_bytes(cf_list[at : at + 3], "little") for at in range(0, 15, 3))
    return tuple(step * _HZ_PER_STEP for step in steps if step)


def cf_list_channel_masks(cf_list: bytes) -> tuple[int, ...]:
    """The five channel masks of a CFList of type 1, lowest channels first; else none."""
    if len(cf_list) != CF_LIST_BYTES or cf_list[-1] != _CHANNEL_MASKS:
        return ()
    return tuple(int.from_bytes(cf_list[at : at + 2], "little") for at in range(0, 10, 2))


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


F_CNT_MAX = (1 << 32) - 1
MAX_GAP = 16384
"""How far ahead of the last counter a new one may be (LoRaWAN 1.0.3 MAX_FCNT_GAP)."""

_WIRE_SPAN = 0x10000


def candidates(last: int | None, wire: int, *, bits: int = 32) -> tuple[int, ...]:
    """The counters whose MIC is to be tried, most likely first, each once.

    `last` is the last accepted counter (None: nothing heard yet), `wire` the 16 bits of the frame.
    First the value with the upper half of `last`, then the one after the next roll-over: one of
    the two is right for every gap below 65536 (LoRaWAN 1.0.4, 4.3.1.5). Then two that cannot be
    new, but must be recognised as old rather than as forged: the value before the last roll-over
    (a late copy), and the wire value itself (a device that restarted its counter). Devices with
    `bits=16` never count further than the wire shows, so for them only `wire` itself.
    """
    if last is None or bits == 16:
        return (wire,)
    same = last & ~0xFFFF | wire
    if same == wire:
        return wire, wire + _WIRE_SPAN  # before the first roll-over the four are two
    tries = (same, same + _WIRE_SPAN, same - _WIRE_SPAN, wire)
    return tuple(dict.fromkeys(c for c in tries if 0 <= c <= F_CNT_MAX))
