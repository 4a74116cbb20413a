"""How does a device get its session: by joining, or written into it?"""

from dataclasses import dataclass, field

from lns.lorawan.crypto import SessionKeys
from lns.lorawan.identifiers import DevAddr, Eui

__all__ = ["Abp", "DevAddr", "Eui", "Otaa"]


@dataclass(frozen=True, slots=True)
class Otaa:
    """A device that joins."""

    join_eui: Eui
    app_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Abp:
    """A device whose one session was written into it."""

    dev_addr: DevAddr
    keys: SessionKeys = field(repr=False)
