"""How are EUIs, device addresses and MICs written, inside the program and on each wire?

Inside, everywhere, also in JSON: upper-case hexadecimal text, most significant byte first for EUI
(16 digits) and DevAddr (8 digits), wire order for the MIC (8 digits).
"""

import re
from typing import NewType

Eui = NewType("Eui", str)
DevAddr = NewType("DevAddr", str)
Mic = NewType("Mic", str)

_PLAIN = re.compile(r"[0-9A-Fa-f]{16}")
_BYTES = re.compile(r"[0-9A-Fa-f]{2}(?:-[0-9A-Fa-f]{2}){7}|[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){7}")
_ID6_GROUP = re.compile(r"[0-9A-Fa-f]{1,4}")
_DEV_ADDR = re.compile(r"[0-9A-Fa-f]{8}")

_ID6_GROUPS = 4


def eui(value: str | int) -> Eui:
    """The EUI in any spelling that a person, a station or a network server uses.

    Text: 16 hexadecimal digits, eight bytes joined by dashes or by colons, or Semtech's ID6 (up to
    four 16-bit groups, `::` for zeros: "16:c001:f150:1", "::1"). Integer: 0 .. 2**64 - 1.
    ValueError, with the text, for anything else.
    """
    if isinstance(value, int):
        if not 0 <= value < 1 << 64:
            raise ValueError(f"not an EUI: {value} is outside 0..2**64-1")
        return Eui(f"{value:016X}")
    if _PLAIN.fullmatch(value):
        return Eui(value.upper())
    if _BYTES.fullmatch(value):
        return Eui(value.replace("-", "").replace(":", "").upper())
    groups = _id6_groups(value)
    if groups is None:
        raise ValueError(f"not an EUI: {value!r}")
    return Eui("".join(group.zfill(4) for group in groups).upper())


def _id6_groups(text: str) -> list[str] | None:
    left, gap, right = text.partition("::")
    head = left.split(":") if left else []
    tail = right.split(":") if right else []
    zeros = _ID6_GROUPS - len(head) - len(tail)
    # The gap stands for at least one group; Basics Station itself writes "::0" for a zero EUI.
    if (zeros < 1) if gap else (zeros != 0):
        return None
    if not all(_ID6_GROUP.fullmatch(group) for group in head + tail):
        return None
    return [*head, *["0"] * zeros, *tail]


def eui_dashed(eui: Eui) -> str:
    """Eight bytes joined by dashes, upper case, as Basics Station writes JoinEui and DevEui."""
    return "-".join(eui[at : at + 2] for at in range(0, 16, 2))


def eui_id6(eui: Eui) -> str:
    """Semtech's ID6 as Basics Station writes its own EUI: lower case, no leading zeros.

    `::` appears only in the forms ::x, ::x:y, x::, x:y:: and x::y (Basics Station, uj.c).
    """
    groups = [f"{int(eui[at : at + 4], 16):x}" for at in range(0, 16, 4)]
    match [group != "0" for group in groups]:
        case [False, False, False, _]:
            return f"::{groups[3]}"
        case [False, False, True, _]:
            return f"::{groups[2]}:{groups[3]}"
        case [True, False, False, False]:
            return f"{groups[0]}::"
        case [_, True, False, False]:
            return f"{groups[0]}:{groups[1]}::"
        case [True, False, False, True]:
            return f"{groups[0]}::{groups[3]}"
        case _:
            return ":".join(groups)


def dev_addr(value: str | int) -> DevAddr:
    """The DevAddr from 8 hexadecimal digits or from a 32-bit integer, signed or unsigned.

    ValueError, with the value, for anything else.
    """
    if isinstance(value, int):
        if not -(1 << 31) <= value < 1 << 32:
            raise ValueError(f"not a DevAddr: {value} does not fit 32 bits")
        return DevAddr(f"{value & 0xFFFFFFFF:08X}")
    if not _DEV_ADDR.fullmatch(value):
        raise ValueError(f"not a DevAddr: {value!r}")
    return DevAddr(value.upper())
