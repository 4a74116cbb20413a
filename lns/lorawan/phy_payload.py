"""Which frames does LoRaWAN 1.0.x have, what do they hold, and which bytes spell them?

All multi-byte fields are little endian. `lns.lorawan.frame` reads these values from bytes and
builds new ones with keys.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum

from msgspec import Struct

from lns.lorawan.crypto import Direction, SessionKeys, crypt_payload, data_mic, join_mic
from lns.lorawan.identifiers import DevAddr, Eui

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
_CONFIRMED = (MType.CONFIRMED_UP, MType.CONFIRMED_DOWN)
DATA_FRAMES = (*UPLINKS, MType.UNCONFIRMED_DOWN, MType.CONFIRMED_DOWN)


class Data(Struct, frozen=True):
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
        return self.m_type in _CONFIRMED

    @property
    def is_uplink(self) -> bool:
        """Whether a device sent it."""
        return self.m_type in UPLINKS

    @property
    def direction(self) -> Direction:
        """The direction as the ciphers spell it."""
        return Direction.UP if self.m_type in UPLINKS else Direction.DOWN

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
        mic = data_mic(nwk_s_key, self.direction, self.dev_addr, f_cnt, self.body())
        return mic == self.mic

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
