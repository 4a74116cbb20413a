"""How is one field of a station's JSON read, in each spelling that occurs?"""

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from lns.lorawan.identifiers import Eui, eui

U8 = Annotated[int, Meta(ge=0, le=0xFF)]
U16 = Annotated[int, Meta(ge=0, le=0xFFFF)]
Word32 = Annotated[int, Meta(ge=-(1 << 31), lt=1 << 32)]
Int64 = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Xtime = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Dr = Annotated[int, Meta(ge=0, le=15)]
FreqHz = Annotated[int, Meta(ge=1, lt=1 << 32)]

RECEPTIONS = ("updf", "jreq")
"""The message types of a station that count as receptions."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """A text that cannot be read: no JSON (`msgtype` None), no object, or a field is wrong."""

    why: str
    msgtype: str | None

    @property
    def is_reception(self) -> bool:
        """Whether it stands for a frame that was heard: then it has an outcome of its own."""
        return self.msgtype is None or self.msgtype in RECEPTIONS


def json_object(text: str) -> dict[str, Any] | Malformed:
    """The JSON object in a text; never raises."""
    try:
        fields = msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        return Malformed(f"no JSON: {error}", None)
    if not isinstance(fields, dict):
        return Malformed("no JSON object", "")
    return fields


def is_reception(text: str) -> bool:
    """Whether a text from a station counts as a reception, readable or not.

    It does if it is no JSON at all, or an object whose msgtype is `updf` or `jreq`.
    """
    fields = json_object(text)
    if isinstance(fields, Malformed):
        return fields.is_reception
    return fields.get("msgtype") in RECEPTIONS


def read_eui(value: object) -> Eui:
    """An EUI as text in any spelling or as a number; ValueError for anything else."""
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise ValueError(f"not an EUI: {value!r}")
    return eui(value)


def either(fields: dict[str, Any], key: str, other: str) -> Any:
    """The value under `key`, or under its other spelling; KeyError if there is neither."""
    return fields[key] if key in fields else fields[other]
