"""Which bytes do the LoRaWAN 1.0.x ciphers, message codes and key derivations give?

Keyed objects are built once per key and copied per message, which makes a MIC cost a microsecond
or two. The caches are bounded; evicting a key only costs the time to build it again.
"""

import struct
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import Annotated

from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from cryptography.hazmat.primitives.cmac import CMAC
from msgspec import Meta

from lns.lorawan.identifiers import DevAddr

KEY_BYTES = 16
_BLOCK_BYTES = 16
_KEYS_MAX = 4096
_JOIN_ACCEPT_BYTES = (17, 33)

# LoRaWAN 1.0.4, 4.4: B0 = 49 | 0*4 | direction | DevAddr | FCnt (32 bits) | 0 | length
_B0 = struct.Struct("<B4xBIIxB")
# LoRaWAN 1.0.4, 4.3.3: A_i = 01 | 0*4 | direction | DevAddr | FCnt (32 bits) | 0 | i
_A = struct.Struct("<B4xBIIxB")


class Direction(IntEnum):
    """Who sent the frame, as the blocks A_i and B0 spell it."""

    UP = 0
    DOWN = 1


Key = Annotated[bytes, Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]


@dataclass(frozen=True, slots=True)
class SessionKeys:
    """The two keys of a LoRaWAN 1.0.x session, 16 bytes each; never shown in its repr."""

    nwk_s_key: Key = field(repr=False)
    app_s_key: Key = field(repr=False)


def cmac(key: bytes, message: bytes) -> bytes:
    """AES-CMAC, all 16 bytes (RFC 4493)."""
    keyed = _keyed_cmac(key).copy()
    keyed.update(message)
    return keyed.finalize()


def encrypt_blocks(key: bytes, blocks: bytes) -> bytes:
    """AES-128 in ECB mode over whole blocks of 16 bytes (FIPS-197)."""
    assert len(blocks) % _BLOCK_BYTES == 0, "a partial block would stay in the cached cipher"
    return _encryptor(key).update(blocks)


def decrypt_blocks(key: bytes, blocks: bytes) -> bytes:
    """The inverse of `encrypt_blocks`."""
    assert len(blocks) % _BLOCK_BYTES == 0, "a partial block would stay in the cached cipher"
    return _decryptor(key).update(blocks)


def data_mic(
    key: bytes, direction: Direction, dev_addr: DevAddr, f_cnt: int, message: bytes
) -> bytes:
    """The 4 MIC bytes of a data frame, in wire order (LoRaWAN 1.0.4, 4.4).

    `f_cnt` is the full 32-bit counter, `message` everything from MHDR to FRMPayload (at most 255
    bytes), `key` the NwkSKey.
    """
    block = _B0.pack(0x49, direction, int(dev_addr, 16), f_cnt, len(message))
    return cmac(key, block + message)[:4]


def crypt_payload(
    key: bytes, direction: Direction, dev_addr: DevAddr, f_cnt: int, payload: bytes
) -> bytes:
    """FRMPayload encrypted or decrypted, which is the same operation (LoRaWAN 1.0.4, 4.3.3).

    `key` is the AppSKey, or the NwkSKey for FPort 0; `f_cnt` the full 32-bit counter.
    """
    length = len(payload)
    if not length:
        return b""
    blocks = _A.pack(0x01, direction, int(dev_addr, 16), f_cnt, 1)
    if length > _BLOCK_BYTES:
        numbers = range(1, 1 - -length // _BLOCK_BYTES)
        blocks = b"".join([blocks[:-1] + bytes([number]) for number in numbers])
    key_stream = int.from_bytes(encrypt_blocks(key, blocks)[:length], "little")
    return (int.from_bytes(payload, "little") ^ key_stream).to_bytes(length, "little")


def join_mic(app_key: bytes, message: bytes) -> bytes:
    """The 4 MIC bytes over a join-request or a clear join-accept without its MIC.

    LoRaWAN 1.0.3, 6.2.4 and 6.2.5; `message` begins with the MHDR.
    """
    return cmac(app_key, message)[:4]


def derive_session_keys(
    app_key: bytes, *, join_nonce: int, net_id: str, dev_nonce: int
) -> SessionKeys:
    """The session keys of a 1.0.x join (LoRaWAN 1.0.3, 6.2.5).

    `join_nonce` has 24 bits (AppNonce in older texts), `net_id` 6 hexadecimal digits, most
    significant first, `dev_nonce` 16 bits.
    """
    tail = (
        join_nonce.to_bytes(3, "little")
        + bytes.fromhex(net_id)[::-1]
        + dev_nonce.to_bytes(2, "little")
        + bytes(7)
    )
    return SessionKeys(
        nwk_s_key=encrypt_blocks(app_key, b"\x01" + tail),
        app_s_key=encrypt_blocks(app_key, b"\x02" + tail),
    )


def encrypt_join_accept(app_key: bytes, clear: bytes) -> bytes:
    """The PHYPayload to send, from the clear one with its MIC (17 or 33 bytes, MHDR first).

    The server applies AES *decrypt*, so that a device needs AES encrypt only (LoRaWAN 1.0.3,
    6.2.5). ValueError for another length.
    """
    _require_join_accept_length(clear)
    return clear[:1] + decrypt_blocks(app_key, clear[1:])


def decrypt_join_accept(app_key: bytes, phy: bytes) -> bytes:
    """The clear PHYPayload with its MIC, from the one on the air; the MIC is not checked.

    ValueError for a length other than 17 or 33 bytes.
    """
    _require_join_accept_length(phy)
    return phy[:1] + encrypt_blocks(app_key, phy[1:])


def _require_join_accept_length(phy: bytes) -> None:
    if len(phy) not in _JOIN_ACCEPT_BYTES:
        raise ValueError(f"a join-accept has 17 or 33 bytes, not {len(phy)}")


@lru_cache(maxsize=_KEYS_MAX)
def _keyed_cmac(key: bytes) -> CMAC:
    return CMAC(_aes(key))


@lru_cache(maxsize=_KEYS_MAX)
def _encryptor(key: bytes) -> CipherContext:
    return Cipher(_aes(key), ECB()).encryptor()


@lru_cache(maxsize=_KEYS_MAX)
def _decryptor(key: bytes) -> CipherContext:
    return Cipher(_aes(key), ECB()).decryptor()


def _aes(key: bytes) -> AES:
    if len(key) != KEY_BYTES:
        raise ValueError(f"a LoRaWAN key has {KEY_BYTES} bytes, not {len(key)}")
    return AES(key)
