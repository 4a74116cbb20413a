"""Frames that no stack would send at that moment: any counter, any content, a wrong MIC.

Whoever holds a device's keys can build them, with the device's name on it or not; replays, forged
joins and the catalogue of edge cases need them.
"""

from dataclasses import dataclass, field, replace

from bench.device.seam import Joining, Sent
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.frame import (
    Data,
    JoinRequest,
    MType,
    build_data,
    build_join_request,
    parse,
)
from lns.lorawan.identifiers import DevAddr, Eui

MIC_BYTES = 4


@dataclass(frozen=True, slots=True)
class Identity:
    """The keys of a device, as its maker knows them; sessions are kept by whoever saw the join."""

    dev_eui: Eui
    join_eui: Eui | None = None
    app_key: bytes | None = field(default=None, repr=False)


def data(
    dev_eui: Eui,
    dev_addr: DevAddr,
    keys: SessionKeys,
    f_cnt: int,
    *,
    session: int = 0,
    confirmed: bool = False,
    payload: bytes = b"",
    port: int | None = 1,
    f_opts: bytes = b"",
    adr: bool = False,
    adr_ack_req: bool = False,
    forged: bool = False,
) -> Sent:
    """A data frame with this counter (32 bits); `forged` spoils its MIC."""
    phy = build_data(
        MType.CONFIRMED_UP if confirmed else MType.UNCONFIRMED_UP,
        dev_addr=dev_addr,
        f_cnt=f_cnt,
        keys=keys,
        f_port=port,
        payload=payload,
        f_opts=f_opts,
        adr=adr,
        adr_ack_req=adr_ack_req,
    )
    phy = _spoilt(phy) if forged else phy
    frame = parse(phy)
    assert isinstance(frame, Data)
    return Sent(dev_eui, frame.frame_id, phy, f_cnt, session, confirmed)


def join(
    identity: Identity, dev_nonce: int, *, join_eui: Eui | None = None, forged: bool = False
) -> Joining:
    """A join request with this DevNonce; `join_eui` replaces the device's own."""
    assert identity.app_key is not None and identity.join_eui is not None
    phy = build_join_request(
        identity.app_key,
        join_eui=join_eui or identity.join_eui,
        dev_eui=identity.dev_eui,
        dev_nonce=dev_nonce,
    )
    phy = _spoilt(phy) if forged else phy
    request = parse(phy)
    assert isinstance(request, JoinRequest)
    return Joining(identity.dev_eui, request.frame_id, phy, dev_nonce)


def found(dev_eui: Eui, phy: bytes, f_cnt: int, *, session: int = 0) -> Sent:
    """A data frame that somebody else has built; MalformedFrame if it is none."""
    frame = parse(phy)
    assert isinstance(frame, Data)
    return Sent(dev_eui, frame.frame_id, phy, f_cnt, session, frame.confirmed)


def forged(sent: Sent) -> Sent:
    """The same frame with a wrong MIC."""
    frame = parse(_spoilt(sent.phy))
    assert isinstance(frame, Data)
    return replace(sent, phy=frame.to_bytes(), frame_id=frame.frame_id, transmissions=[])


def _spoilt(phy: bytes) -> bytes:
    return phy[:-1] + bytes([phy[-1] ^ 0xFF])
