"""Which octets do the keys of a LoRaWAN 1.0.x device make?

Source: LoRaWAN 1.0.3, 4.3.3 (encryption), 4.4 (MIC), 6.2.4 and 6.2.5 (join). Cipher contexts are
kept per key, for a bounded number of keys.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from cryptography.hazmat.primitives.cmac import CMAC

UP, DOWN = 0, 1
"""The direction octet of the blocks B0 and A_i."""
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
    told = bytearray(_BLOCK)
    told[1:4] = join_nonce.to_bytes(3, "little")
    told[4:7] = reversed(bytes.fromhex(net_id))
    told[7:9] = dev_nonce.to_bytes(2, "little")
    made = []
    for kind in (0x01, 0x02):
        told[0] = kind
        made.append(_aes(app_key).update(bytes(told)))
    return Keys(*made)


def _block(first: int, direction: int, dev_addr: str, f_cnt: int, last: int) -> bytes:
    """| 49 or 01 | 0 0 0 0 | direction | DevAddr 4 | FCnt 4 | 0 | length or i |"""
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
