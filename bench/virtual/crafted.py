"""Frames that no stack would send at that moment: any counter, any content, a wrong MIC.

Whoever holds a device's keys can build them, with the device's name on it or not; replays, forged
joins and the catalogue of edge cases need them.
"""

from dataclasses import dataclass, field, replace

from bench.device.interfaces import Joining, Sent
from bench.transmission import Eui
from bench.virtual.air import uplink_in
from bench.virtual.lorawan.air_interface import Kind, SessionKeyPair, data_frame
from bench.virtual.lorawan.join_frames import join_request, read_join_request

MIC_BYTES = 4


@dataclass(frozen=True, slots=True)
class Identity:
    """The keys of a device, as its maker knows them; sessions are kept by whoever saw the join."""

    dev_eui: Eui
    join_eui: Eui | None = None
    app_key: bytes | None = field(default=None, repr=False)


def data(
    dev_eui: Eui,
    dev_addr: str,
    keys: SessionKeyPair,
    f_cnt: int,
    *,
    session: int = 0,
    confirmed: bool = False,
    payload: bytes = b"",
    port: int | None = 1,
    f_opts: bytes = b"",
    adr: bool = False,
    adr_ack_req: bool = False,
    ack: bool = False,
    class_b: bool = False,
    forged: bool = False,
    octet: int = 3,
) -> Sent:
    """A data frame with this counter (32 bits); `forged` spoils this octet of its MIC."""
    phy = data_frame(
        Kind.CONFIRMED_UP if confirmed else Kind.UNCONFIRMED_UP,
        dev_addr,
        keys,
        f_cnt,
        f_port=port,
        payload=payload,
        f_opts=f_opts,
        adr=adr,
        bit_6=adr_ack_req,
        ack=ack,
        bit_4=class_b,
    )
    phy = _spoilt(phy, octet) if forged else phy
    return uplink_in(dev_eui, phy, f_cnt, session=session)


def join(
    identity: Identity,
    dev_nonce: int,
    *,
    join_eui: Eui | None = None,
    forged: bool = False,
    octet: int = 3,
) -> Joining:
    """A join request with this DevNonce; `join_eui` replaces the device's own.

    `forged` spoils this octet of its MIC.
    """
    assert identity.app_key is not None and identity.join_eui is not None
    phy = join_request(
        identity.app_key,
        join_eui=join_eui or identity.join_eui,
        dev_eui=identity.dev_eui,
        dev_nonce=dev_nonce,
    )
    phy = _spoilt(phy, octet) if forged else phy
    request = read_join_request(phy)
    assert request is not None
    return Joining(identity.dev_eui, request.frame_id, phy, dev_nonce)


def forged(sent: Sent) -> Sent:
    spoilt = uplink_in(sent.dev_eui, _spoilt(sent.phy), sent.f_cnt)
    return replace(sent, phy=spoilt.phy, frame_id=spoilt.frame_id, transmissions=[])


def _spoilt(phy: bytes, octet: int = MIC_BYTES - 1) -> bytes:
    at = len(phy) - MIC_BYTES + octet
    return phy[:at] + bytes([phy[at] ^ 0xFF]) + phy[at + 1 :]
