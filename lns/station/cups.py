"""What does a station have in its files, what does it ask CUPS, and what does it get?

    POST /update-info: JSON with what the station has; the answer is binary, little-endian:

    | u8 | CUPS URI | u8 | TC URI | u16 | CUPS credentials | u16 | TC credentials |
    | u32 | signature | u32 | update |

A length of 0 leaves things as they are; 14 zero bytes change nothing. No update of the station's
program is ever sent. A station has four files a category (`tc` for the network server, `cups` for
CUPS): `.uri`, `.trust`, `.crt`, `.key`. Handed out by CUPS they are DER, one behind the other; a
station reads of a DER length only the short form and 0x82, so nothing of 128..255 bytes may occur:
a PKCS#8 key of P-256 does, the SEC1 form of the same key does not. Source: Basics Station, CUPS
(cups.c, sys.c).
"""

import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
    load_pem_private_key,
)

from lns.lorawan.identifiers import Eui
from lns.station.messages import Malformed, json_object, read_eui

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
        if _PEM in data:
            certificates = x509.load_pem_x509_certificates(data)
        else:
            certificates = [x509.load_der_x509_certificate(data)]
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


PATH = "/update-info"
NO_CHANGE = bytes(14)
_URI_BYTES_MAX = 255
_CRC_MAX = 0xFFFFFFFF
_NO_UPDATE = struct.pack("<II", 0, 0)


@dataclass(frozen=True, slots=True)
class UpdateRequest:
    """What a station says it has; a URI is None where it has none."""

    router: Eui
    cups_uri: str | None
    tc_uri: str | None
    cups_crc: int
    tc_crc: int
    station: str = ""


@dataclass(frozen=True, slots=True)
class Category:
    """What a station is to have for one server: a URI (None: whatever it has), and credentials.

    `segment` is what CUPS sends of `files`. ValueError for what a station could not take.
    """

    uri: str | None = None
    files: StationFiles = field(default_factory=StationFiles)
    segment: bytes = b""

    @classmethod
    def of(cls, uri: str | None, files: StationFiles) -> "Category":
        """A category with its segment."""
        if uri is not None and len(uri.encode()) > _URI_BYTES_MAX:
            raise ValueError(".uri: longer than 255 characters")
        return cls(uri, files, files.segment())

    def uri_for(self, uri: str | None) -> bytes:
        """The URI for a station that has `uri`."""
        return b"" if self.uri is None or self.uri == uri else self.uri.encode()

    def credentials_for(self, crc: int) -> bytes:
        """The credentials for a station whose fingerprint is `crc`.

        It is right for the files as they are, when a person put them there, and for their DER
        form, when CUPS did.
        """
        if not self.segment or crc in (self.files.crc(), zlib.crc32(self.segment)):
            return b""
        return self.segment


@dataclass(frozen=True, slots=True)
class Answer:
    """The body of an answer, and which of its segments are not empty."""

    body: bytes
    changes: tuple[str, ...]


def parse_request(body: bytes) -> UpdateRequest | Malformed:
    """The question in a request's body; never raises."""
    try:
        fields = json_object(body.decode())
        if isinstance(fields, Malformed):
            return fields
        return UpdateRequest(
            router=read_eui(fields["router"]),
            cups_uri=_text(fields, "cupsUri"),
            tc_uri=_text(fields, "tcUri"),
            cups_crc=_crc(fields, "cupsCredCrc"),
            tc_crc=_crc(fields, "tcCredCrc"),
            station=str(fields.get("station", "")),
        )
    except (ValueError, KeyError) as error:
        return Malformed(f"update-info: {error}", "")


def answer(request: UpdateRequest, *, cups: Category, tc: Category) -> Answer:
    """What this station has to change."""
    parts = {
        "CUPS URI": ("<B", cups.uri_for(request.cups_uri)),
        "TC URI": ("<B", tc.uri_for(request.tc_uri)),
        "CUPS credentials": ("<H", cups.credentials_for(request.cups_crc)),
        "TC credentials": ("<H", tc.credentials_for(request.tc_crc)),
    }
    body = b"".join(struct.pack(size, len(part)) + part for size, part in parts.values())
    return Answer(body + _NO_UPDATE, tuple(name for name, (_, part) in parts.items() if part))


def _text(fields: dict[str, Any], key: str) -> str | None:
    value = fields.get(key)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{key} is no text")
    return value


def _crc(fields: dict[str, Any], key: str) -> int:
    value = fields[key]
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _CRC_MAX:
        raise ValueError(f"{key} is no CRC-32")
    return value
