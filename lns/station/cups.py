"""What does a station ask CUPS, and what does it get?

    POST /update-info: JSON with what the station has; the answer is binary, little-endian:

    | u8 | CUPS URI | u8 | TC URI | u16 | CUPS credentials | u16 | TC credentials |
    | u32 | signature | u32 | update |

A length of 0 leaves things as they are; 14 zero bytes change nothing. No update of the station's
program is ever sent. Source: Basics Station, CUPS protocol (cups.c).
"""

import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

from lns.lorawan.identifiers import Eui
from lns.station.credentials import StationFiles
from lns.station.json_fields import Malformed, json_object, read_eui

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
