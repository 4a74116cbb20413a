"""What is on the air of LoRaWAN 1.0.x: which octets, in frames and in their MAC commands?

LoRaWAN 1.0.3, 4, and 1.0.4, 5. What is no frame is None, never an error; a device reads up to the
first command that it does not know.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import Protocol

from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from cryptography.hazmat.primitives.cmac import CMAC

from bench.virtual.lorawan.channel_plan import UpChannel

CHANNELS_OF_A_BANK = 16
_FIRST_WIDE = 64


class Cid(IntEnum):
    """What a command is; the same number for the request and for its answer."""

    LINK_CHECK = 0x02
    LINK_ADR = 0x03
    DUTY_CYCLE = 0x04
    RX_PARAM_SETUP = 0x05
    DEV_STATUS = 0x06
    NEW_CHANNEL = 0x07
    RX_TIMING_SETUP = 0x08
    TX_PARAM_SETUP = 0x09
    DL_CHANNEL = 0x0A
    DEVICE_TIME = 0x0D


_DOWN, _UP = 0, 1
_OCTETS = {
    Cid.LINK_CHECK: (2, 0),
    Cid.LINK_ADR: (4, 1),
    Cid.DUTY_CYCLE: (1, 0),
    Cid.RX_PARAM_SETUP: (4, 1),
    Cid.DEV_STATUS: (0, 2),
    Cid.NEW_CHANNEL: (5, 1),
    Cid.RX_TIMING_SETUP: (1, 0),
    Cid.TX_PARAM_SETUP: (1, 0),
    Cid.DL_CHANNEL: (4, 1),
    Cid.DEVICE_TIME: (5, 0),
}
"""What follows the identifier, down and up."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command: what it is, and the octets after that."""

    cid: Cid
    told: bytes = b""

    @property
    def octets(self) -> bytes:
        return bytes([self.cid]) + self.told


@dataclass(frozen=True, slots=True)
class LinkAdr:
    """What a LinkADRReq wants; 15 keeps a data rate or a power."""

    dr: int
    power: int
    mask: int
    mask_control: int
    nb_trans: int


def from_network(octets: bytes) -> tuple[Command, ...]:
    """The commands of a downlink, to the first that is unknown or not whole."""
    return tuple(_each(octets, _DOWN))


def from_device(octets: bytes) -> tuple[Command, ...]:
    """The commands of an uplink, to the first that is unknown or not whole."""
    return tuple(_each(octets, _UP))


def link_adr(command: Command) -> LinkAdr:
    """The fields of a LinkADRReq: DataRate_TXPower, ChMask, Redundancy."""
    first, low, high, redundancy = command.told
    return LinkAdr(
        dr=first >> 4,
        power=first % 16,
        mask=low + 256 * high,
        mask_control=redundancy >> 4 & 0b111,
        nb_trans=redundancy % 16,
    )


def hertz(octets: bytes) -> int:
    """A frequency: three octets, in steps of 100 Hz."""
    return 100 * int.from_bytes(octets, "little")


def link_adr_ans(*, power: bool, dr: bool, mask: bool) -> Command:
    """LinkADRAns: 07 if all is granted."""
    return Command(Cid.LINK_ADR, bytes([4 * power + 2 * dr + mask]))


def dev_status_ans(battery: int, margin_db: int) -> Command:
    """DevStatusAns: battery, and the margin in six bits of two's complement."""
    margin_db = max(-32, min(31, margin_db))
    return Command(Cid.DEV_STATUS, bytes([battery, margin_db % 64]))


def _each(octets: bytes, way: int) -> Iterator[Command]:
    while octets and octets[0] in _OCTETS:
        cid = Cid(octets[0])
        end = 1 + _OCTETS[cid][way]
        if len(octets) < end:
            return
        yield Command(cid, octets[1:end])
        octets = octets[end:]


def masked_by(
    wanted: LinkAdr, before: frozenset[int], known: frozenset[int], *, has_sub_bands: bool
) -> frozenset[int] | None:
    """The channels after a ChMask; None where it names one that is not there, or is RFU.

    `known`: the channels that are there. ChMaskCntl 6 is all channels in EU868. In US915, which
    has sub-bands: 5 is sub-bands, 6 and 7 all or none of the narrow channels beside the wide ones
    of the mask.
    """
    control = wanted.mask_control
    bits = [bit for bit in range(CHANNELS_OF_A_BANK) if wanted.mask >> bit & 1]
    if has_sub_bands and control in (5, 6, 7):
        wide = [_FIRST_WIDE + bit for bit in bits if bit < 8]
        in_sub_bands = [8 * bit + number for bit in bits if bit < 8 for number in range(8)]
        narrow = {5: in_sub_bands, 6: range(_FIRST_WIDE), 7: ()}[control]
        return frozenset((*narrow, *wide))
    if not has_sub_bands and control == 6:
        return known
    if control > (4 if has_sub_bands else 0):
        return None
    bank = range(control * CHANNELS_OF_A_BANK, (control + 1) * CHANNELS_OF_A_BANK)
    named = frozenset(bank[bit] for bit in bits)
    return before - frozenset(bank) | named if named <= known else None


UP, DOWN = 0, 1
"""The direction octet of the blocks B0 and A_i."""
# Source: LoRaWAN 1.0.3, 4.3.3 (encryption), 4.4 (MIC), 6.2.4 and 6.2.5 (join). Cipher contexts are
# kept per key, for a bounded number of keys.
BLOCK = 16
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
    return cmac(nwk_s_key, b0 + message)[:4]


def crypt(key: bytes, direction: int, dev_addr: str, f_cnt: int, payload: bytes) -> bytes:
    """FRMPayload from clear to cipher text, or back: XOR with the blocks S_i."""
    octets = len(payload)
    first = _block(0x01, direction, dev_addr, f_cnt, 0)[:-1]
    blocks = [first + bytes((number,)) for number in range(1, -(-octets // BLOCK) + 1)]
    stream = aes(key).update(b"".join(blocks))[:octets]
    return (int.from_bytes(payload) ^ int.from_bytes(stream)).to_bytes(octets)


def _block(first: int, direction: int, dev_addr: str, f_cnt: int, last: int) -> bytes:
    head = bytes((first, 0, 0, 0, 0, direction))
    return head + bytes.fromhex(dev_addr)[::-1] + f_cnt.to_bytes(4, "little") + bytes((0, last))


def cmac(key: bytes, message: bytes) -> bytes:
    code = _keyed(key).copy()
    code.update(message)
    return code.finalize()


@lru_cache(maxsize=_KEYS_MAX)
def _keyed(key: bytes) -> CMAC:
    return CMAC(AES(key))


@lru_cache(maxsize=_KEYS_MAX)
def aes(key: bytes) -> CipherContext:
    return Cipher(AES(key), ECB()).encryptor()


F_OPTS_MAX = 15
F_CNT_WIRE = 1 << 16
MIC_OCTETS = 4
_HEAD = 8  # MHDR, DevAddr, FCtrl, FCnt
_FRAMES_MAX = 1024
_SIZE_MAX = 255


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


def kind_of(phy: bytes) -> Kind | None:
    """What these octets say they are; None for RFU bits, another major version, or too many."""
    if not 1 <= len(phy) <= _SIZE_MAX or phy[0] % 32:
        return None
    return Kind(phy[0] >> 5)


@lru_cache(maxsize=_FRAMES_MAX)
def read_data(phy: bytes) -> DataFrame | None:
    """The data frame in these octets; None if there is none.

    Many look at each: who sends it, who hears it, and whoever inspects what was made of it.
    """
    kind = kind_of(phy)
    if kind is None or kind not in (*_DATA_UP, *_DATA_DOWN):
        return None
    end = len(phy) - MIC_OCTETS
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


def counter_of(frame: DataFrame, nwk_s_key: bytes, last: int | None) -> int | None:
    """The 32-bit counter that proves a frame to be newer than `last` (None: nothing came yet).

    It is the next one above `last` with these 16 bits (LoRaWAN 1.0.3, 4.3.1.5).
    """
    newest = -1 if last is None else last
    f_cnt = newest - newest % F_CNT_WIRE + frame.f_cnt
    if f_cnt <= newest:
        f_cnt += F_CNT_WIRE
    return f_cnt if frame.is_signed_by(nwk_s_key, f_cnt) else None


ADR_ACK_LIMIT = 64
ADR_ACK_DELAY = 32
_STICKY = (Cid.RX_PARAM_SETUP, Cid.RX_TIMING_SETUP, Cid.DL_CHANNEL)
"""Answers that are repeated until a downlink shows that they have come (LoRaWAN 1.0.4, 5.4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Downlink:
    """A downlink that the device believed; `payload` in clear, empty without application data."""

    ack: bool
    confirmed: bool
    f_pending: bool
    f_cnt: int
    f_port: int | None
    payload: bytes
    commands: tuple[Command, ...]


@dataclass(slots=True, kw_only=True)
class Session:
    """One session of one device, until the next join or a reset without memory.

    Remembers both counters (`f_cnt_up` is the next to be used, `f_cnt_down` the last accepted),
    what it owes the server (answers and an acknowledgement), what it asks with the message under
    way, how many uplinks went `unheard` since the last downlink, and the channels beside those of
    the region, with their own downlink frequencies.
    """

    dev_addr: str
    keys: SessionKeyPair = field(repr=False)
    number: int = 0
    f_cnt_up: int = 1
    f_cnt_down: int | None = None
    net_id: str = "000000"
    join_nonce: int = 0
    answers: list[Command] = field(default_factory=list)
    asked: list[Command] = field(default_factory=list)
    ack_due: bool = False
    unheard: int = 0
    more_channels: tuple[UpChannel | None, ...] = ()
    downlinks_hz: dict[int, int] = field(default_factory=dict)

    @property
    def wants_sign_of_life(self) -> bool:
        """Whether the next uplink has ADRACKReq, if ADR is on."""
        return self.unheard >= ADR_ACK_LIMIT

    def uplink(self, payload: bytes, port: int | None, *, confirmed: bool, adr: bool) -> bytes:
        """The frame of the next message; uses up a counter and what is owed to the server."""
        f_cnt, self.f_cnt_up = self.f_cnt_up, self.f_cnt_up + 1
        ack, self.ack_due = self.ack_due, False
        f_opts, self.asked = self._commands_that_fit(), []
        self.answers = [answer for answer in self.answers if answer.cid in _STICKY]
        asks, self.unheard = adr and self.wants_sign_of_life, self.unheard + 1
        return data_frame(
            Kind.CONFIRMED_UP if confirmed else Kind.UNCONFIRMED_UP,
            self.dev_addr,
            self.keys,
            f_cnt,
            f_port=port,
            payload=payload,
            f_opts=f_opts,
            adr=adr,
            bit_6=asks,
            ack=ack,
        )

    def believe(self, phy: bytes) -> Downlink | None:
        """The downlink in these bytes; None for another device's, a forged or a repeated one."""
        frame = read_data(phy)
        if frame is None or frame.direction != DOWN or frame.dev_addr != self.dev_addr:
            return None
        f_cnt = counter_of(frame, self.keys.nwk_s_key, self.f_cnt_down)
        if f_cnt is None or (frame.f_port == 0 and frame.f_opts):
            return None
        self.f_cnt_down = f_cnt
        self.ack_due = self.ack_due or frame.confirmed
        self.answers = [answer for answer in self.answers if answer.cid not in _STICKY]
        self.unheard = 0
        payload = frame.clear(self.keys, f_cnt)
        is_for_mac = frame.f_port == 0
        octets = payload if is_for_mac else frame.f_opts
        return Downlink(
            ack=frame.ack,
            confirmed=frame.confirmed,
            f_pending=frame.bit_4,
            f_cnt=f_cnt,
            f_port=frame.f_port,
            payload=b"" if is_for_mac else payload,
            commands=from_network(octets) if octets else (),
        )

    def counters(self) -> dict[str, int]:
        return {"up": self.f_cnt_up, "down": -1 if self.f_cnt_down is None else self.f_cnt_down}

    def owed(self) -> int:
        """How many octets of MAC commands go with the next uplink."""
        return len(self._commands_that_fit())

    def _commands_that_fit(self) -> bytes:
        asked = b"".join(command.octets for command in self.asked)
        octets = b""
        for answer in self.answers:
            if len(octets) + len(answer.octets) + len(asked) > F_OPTS_MAX:
                break
            octets += answer.octets
        return octets + asked


def last_down(counters: dict[str, int]) -> int | None:
    """The counter of the last downlink, as `Session.counters` writes it; None: none came yet."""
    return None if counters["down"] < 0 else counters["down"]
