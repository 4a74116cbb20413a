"""Which 32-bit counters can a 16-bit counter on the wire stand for?"""

F_CNT_MAX = (1 << 32) - 1
MAX_GAP = 16384
"""How far ahead of the last counter a new one may be (LoRaWAN 1.0.3 MAX_FCNT_GAP)."""

_WIRE_SPAN = 0x10000


def candidates(last: int | None, wire: int, *, bits: int = 32) -> tuple[int, ...]:
    """The counters whose MIC is to be tried, most likely first, each once.

    `last` is the last accepted counter (None: nothing heard yet), `wire` the 16 bits of the frame.
    First the value with the upper half of `last`, then the one after the next roll-over: one of
    the two is right for every gap below 65536 (LoRaWAN 1.0.4, 4.3.1.5). Then two that cannot be
    new, but must be recognised as old rather than as forged: the value before the last roll-over
    (a late copy), and the wire value itself (a device that restarted its counter). Devices with
    `bits=16` never count further than the wire shows, so for them only `wire` itself.
    """
    if last is None or bits == 16:
        return (wire,)
    same = last & ~0xFFFF | wire
    if same == wire:
        return wire, wire + _WIRE_SPAN  # before the first roll-over the four are two
    tries = (same, same + _WIRE_SPAN, same - _WIRE_SPAN, wire)
    return tuple(dict.fromkeys(c for c in tries if 0 <= c <= F_CNT_MAX))
