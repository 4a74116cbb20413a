"""What does a join-accept say, and how do its clear bytes spell it?

    | MHDR 20 | JoinNonce 3 | NetID 3 | DevAddr 4 | DLSettings 1 | RxDelay 1 | CFList 0/16 | MIC 4 |

Everything after the MHDR is encrypted on the air (`lns.lorawan.crypto.encrypt_join_accept`).
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from lns.lorawan.identifiers import DevAddr

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


def channel_mask_cf_list(masks: Sequence[int]) -> bytes:
    """A CFList of type 1: up to five masks of 16 channels each, lowest channels first (US915).

    ValueError for more than five masks or for one that has more than 16 bits.
    """
    if len(masks) > _CHANNELS or not all(0 <= mask <= 0xFFFF for mask in masks):
        raise ValueError(f"a CFList has {_CHANNELS} masks of 16 bits, not {list(masks)}")
    listed = b"".join(mask.to_bytes(2, "little") for mask in masks)
    return listed.ljust(CF_LIST_BYTES - 1, b"\0") + bytes([_CHANNEL_MASKS])


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
