"""What do the bytes of an uplink say, to somebody who listens and has no keys?"""

from dataclasses import dataclass

from lns.lorawan.frame import Data, JoinRequest, MalformedFrame, parse
from lns.lorawan.identifiers import DevAddr, Eui

NOBODY = DevAddr("00000000")
_LINK_CHECK_REQ = 0x02
# Octets that follow each command of a device (LoRaWAN 1.0.x, 5); any other ends the list.
_COMMAND_BYTES = {0x02: 0, 0x03: 1, 0x04: 0, 0x05: 1, 0x06: 2, 0x07: 1, 0x08: 0, 0x09: 0}
_COMMAND_BYTES |= {0x0A: 0, 0x0B: 1, 0x0D: 0}


@dataclass(frozen=True, slots=True)
class Observed:
    """A data uplink (`dev_addr`, `f_cnt` as on the wire) or a join request (`dev_eui`)."""

    frame_id: str
    dev_addr: DevAddr = NOBODY
    f_cnt: int | None = None
    f_port: int | None = None
    confirmed: bool = False
    wants_answer: bool = True
    dev_eui: Eui | None = None
    join_eui: Eui | None = None


def observed(phy: bytes, *, plain: bytes = b"") -> Observed:
    """What an uplink says; ValueError for bytes that no station passes on.

    `plain` is FRMPayload in clear, needed for the commands of a frame on FPort 0.
    """
    try:
        frame = parse(phy)
    except MalformedFrame as error:
        raise ValueError(f"this is no LoRaWAN frame: {error}") from error
    if isinstance(frame, JoinRequest):
        return Observed(frame.frame_id, dev_eui=frame.dev_eui, join_eui=frame.join_eui)
    if not isinstance(frame, Data) or not frame.is_uplink:
        raise ValueError("this frame is neither a data uplink nor a join request")
    commands = plain if frame.f_port == 0 else frame.f_opts
    return Observed(
        frame_id=frame.frame_id,
        dev_addr=frame.dev_addr,
        f_cnt=frame.f_cnt,
        f_port=frame.f_port,
        confirmed=frame.confirmed,
        wants_answer=frame.confirmed or frame.adr_ack_req or _checks_link(commands),
    )


def _checks_link(commands: bytes) -> bool:
    at = 0
    while at < len(commands) and commands[at] in _COMMAND_BYTES:
        if commands[at] == _LINK_CHECK_REQ:
            return True
        at += 1 + _COMMAND_BYTES[commands[at]]
    return False
