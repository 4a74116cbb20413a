"""What has a station to have in its files, and what is their fingerprint?

Four files a category (`tc` for the network server, `cups` for CUPS): `.uri`, `.trust`, `.crt`,
`.key`. Handed out by CUPS they are DER, one behind the other; a station reads of a DER length only
the short form and 0x82, so nothing of 128..255 bytes may occur: a PKCS#8 key of P-256 does, the
SEC1 form of the same key does not. Source: Basics Station, CUPS (cups.c, sys.c).
"""

import zlib
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
    load_pem_private_key,
)

ABSENT = bytes(4)
SEGMENT_BYTES_MAX = 0xFFFF
_PEM = b"-----BEGIN "
_TWO_LENGTH_BYTES = 0x82
_LONG_FORM = 0x80


@dataclass(frozen=True, slots=True)
class StationFiles:
    """The files of one category as they are, b"" for a file that is not there.

    `key` without `crt` is a token: header lines such as "Authorization: Bearer …".
    """

    trust: bytes = b""
    crt: bytes = b""
    key: bytes = field(default=b"", repr=False)

    def crc(self) -> int:
        """The fingerprint a station has of these very files."""
        return zlib.crc32(b"".join(part or ABSENT for part in (self.trust, self.crt, self.key)))

    def segment(self) -> bytes:
        """These credentials as CUPS sends them, b"" for none; ValueError if a station could not
        read them."""
        if not (self.trust or self.crt or self.key):
            return b""
        if not self.trust:
            raise ValueError("credentials need a .trust file")
        if self.crt and not self.key:
            raise ValueError("a .crt file needs a .key file")
        key = self.key and (_key(self.key) if self.crt else _token(self.key))
        crt = self.crt and _certificate(self.crt, ".crt")
        segment = _certificate(self.trust, ".trust") + (crt or ABSENT) + (key or ABSENT)
        if len(segment) > SEGMENT_BYTES_MAX:
            raise ValueError("credentials of more than 65535 bytes")
        return segment


def _certificate(data: bytes, file: str) -> bytes:
    try:
        if _PEM not in data:
            return _readable(x509.load_der_x509_certificate(data).public_bytes(Encoding.DER), file)
        certificates = x509.load_pem_x509_certificates(data)
    except ValueError as error:
        raise ValueError(f"{file}: no certificate that a station can read: {error}") from None
    if len(certificates) > 1:
        raise ValueError(f"{file}: CUPS hands out one certificate, not {len(certificates)}")
    return _readable(certificates[0].public_bytes(Encoding.DER), file)


def _key(data: bytes) -> bytes:
    try:
        load = load_pem_private_key if _PEM in data else load_der_private_key
        key: PrivateKeyTypes = load(data, password=None)
        # SEC1 for EC keys, PKCS#1 for RSA keys.
        der = key.private_bytes(Encoding.DER, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    except (ValueError, TypeError):
        # What the library says could repeat something of the key.
        raise ValueError(".key: no private key that a station can read (P-256 or RSA)") from None
    return _readable(der, ".key")


def _token(data: bytes) -> bytes:
    """Header lines, each with the line end that a station pastes into its request."""
    lines = [line.strip() for line in data.splitlines() if line.strip()]
    if not lines or not all(b": " in line and line.isascii() for line in lines):
        raise ValueError('.key: without a .crt it is a token, "Authorization: …"')
    return b"".join(line + b"\r\n" for line in lines)


def _readable(der: bytes, file: str) -> bytes:
    if der[1] >= _LONG_FORM and der[1] != _TWO_LENGTH_BYTES:
        raise ValueError(f"{file}: a station cannot read {len(der)} bytes of DER; use P-256 or RSA")
    return der
