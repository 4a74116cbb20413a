"""What is on the air of LoRaWAN 1.0.x: which octets, on which channels, for how long?

Octets by LoRaWAN 1.0.3, 4: what is no frame is None, never an error. Channels, data rates and
windows as Regional Parameters RP002-1.0.3 have them; the regions are in `channel_plan`.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import Protocol

from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from cryptography.hazmat.primitives.cmac import CMAC

from bench.virtual.lorawan.commands import Cid, Command, from_network

# LoRa by the SX1272/73 data sheet, 4.1.1.7; FSK by its octets.
_LONG_SYMBOL_US = 16_000
_HEADER_SYMBOLS = 8
_FSK_FRAME = 5 + 3 + 1 + 2  # preamble, sync word, length, CRC
RX2_AFTER_RX1_S = 1
OVERHEAD = 8  # FHDR without FOpts, and FPort
SUB_BAND_2 = (*range(8, 16), 65)
"""The numbers of the channels in US915 that the devices of this bench are set to."""


@dataclass(frozen=True, slots=True)
class Lora:
    sf: int
    bw_hz: int


@dataclass(frozen=True, slots=True)
class Fsk:
    """The FSK of LoRaWAN."""

    bit_rate_bps: int = 50_000


Modulated = Lora | Fsk


@dataclass(frozen=True, slots=True)
class UpChannel:
    """A channel of a device, and the data rates it may send with there."""

    freq_hz: int
    drs: range


@dataclass(frozen=True, slots=True)
class Band:
    """Frequencies from and to (Hz) that share one duty cycle, in thousandths."""

    ranges_hz: tuple[tuple[int, int], ...]
    per_mille: int

    def __contains__(self, freq_hz: int) -> bool:
        return any(low <= freq_hz <= high for low, high in self.ranges_hz)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelPlan:
    """One region; lists by DR have None, or 0, where a DR is not defined.

    `payload_max`: octets of an application in a frame without FOpts, no repeater. `offsets`: how
    many RX1DROffset there are. `downlinks_hz`: empty where RX1 is on the channel of the uplink.
    `tx_params`: what TxParamSetupReq says; None where no device obeys or answers it.
    `repeater_max`: `payload_max` with room for a repeater's own header. `rui3_band` and `e5_plan`
    are what boards call it; `station_names` what stations do, which send with `station_dbm`. The
    stations of this bench hear 125 kHz on `heard_hz`, one data rate only on `heard_single`, and FSK
    on `heard_fsk_hz`.
    """

    name: str
    data_rates: tuple[Modulated | None, ...]
    up_drs: range
    default_channels: tuple[UpChannel, ...]
    downlinks_hz: tuple[int, ...]
    offsets: int
    rx2_dr: int
    rx2_freq_hz: int
    payload_max: tuple[int, ...]
    repeater_max: tuple[int, ...]
    limits_hz: tuple[int, int]
    bands: tuple[Band, ...]
    eirp_max_dbm: int
    power_index_max: int
    channels_max: int
    rui3_band: int
    e5_plan: str
    station_names: tuple[str, ...]
    station_dbm: int
    heard_hz: tuple[int, ...]
    heard_single: tuple[int, Lora]
    heard_fsk_hz: int | None = None
    tx_params: int | None = None

    @property
    def own_channels(self) -> tuple[UpChannel, ...]:
        """Those that a device of this bench begins with: one sub-band where there are 72."""
        if not self.downlinks_hz:
            return self.default_channels
        return tuple(self.default_channels[number] for number in SUB_BAND_2)

    @property
    def own_mask(self) -> int:
        """The ChMask that leaves a device of this bench on its first sixteen channels."""
        numbers = SUB_BAND_2 if self.downlinks_hz else range(len(self.default_channels))
        return sum(1 << number for number in numbers if number < 16)

    def rx1_dr(self, up_dr: int, offset: int) -> int:
        if self.offsets == 8 and offset > 5:  # AS923: these two make RX1 faster
            return min(7, up_dr + offset - 5)
        if not self.downlinks_hz:
            return up_dr - offset if up_dr > offset else 0
        # 10 with SF10/125, one more for each faster DR; never beyond 13, never below 8.
        return min(13, max(8, 10 + up_dr - offset))

    def rx1_freq_hz(self, up_freq_hz: int) -> int:
        if not self.downlinks_hz:
            return up_freq_hz
        channels = [channel.freq_hz for channel in self.default_channels]
        return self.downlinks_hz[channels.index(up_freq_hz) % len(self.downlinks_hz)]

    def up_dr(self, modulated: Modulated) -> int | None:
        for dr in self.up_drs:
            if self.data_rates[dr] == modulated:
                return dr
        return None

    def power_dbm(self, index: int) -> int:
        """EIRP of a TXPower: the most, and 2 dB less with each step."""
        return self.eirp_max_dbm - 2 * index

    def band(self, freq_hz: int) -> Band | None:
        """The duty cycle that holds for a frequency; None for none."""
        for band in self.bands:
            if freq_hz in band:
                return band
        return None


def time_on_air_us(
    modulated: Modulated,
    octets: int,
    *,
    crc: bool,
    coding_rate: int = 1,
    preamble: int = 8,
    optimised: bool | None = None,
) -> int:
    """Microseconds, rounded to the nearest, of a PHYPayload of so many octets.

    `crc`: uplinks have one, LoRa downlinks none. `coding_rate` 1 to 4 is 4/5 to 4/8. `optimised`:
    low data rate optimisation; None where LoRaWAN has it, with symbols longer than 16 ms.
    """
    if not isinstance(modulated, Lora):
        return round(8_000_000 * (_FSK_FRAME + octets) / modulated.bit_rate_bps)
    chips = 2**modulated.sf
    if optimised is None:
        optimised = chips * 1_000_000 / modulated.bw_hz > _LONG_SYMBOL_US
    bits_left = 8 * octets - 4 * modulated.sf + 28
    bits_left += 16 if crc else 0
    bits_of_a_code_word = 4 * (modulated.sf - (2 if optimised else 0))
    code_words = 0
    while code_words * bits_of_a_code_word < bits_left:
        code_words += 1
    payload = _HEADER_SYMBOLS + code_words * (4 + coding_rate)
    # 4.25 symbols of sync word and start; a symbol lasts 2**SF / BW.
    return int((preamble + 4.25 + payload) * chips * 1_000_000 / modulated.bw_hz + 0.5)


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
    count = (len(payload) + BLOCK - 1) // BLOCK
    blocks = [_block(0x01, direction, dev_addr, f_cnt, i + 1) for i in range(count)]
    stream = aes(key).update(b"".join(blocks))
    return bytes(a ^ s for a, s in zip(payload, stream, strict=False))


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
