"""How does a device get its session: by joining, or written into it?"""

from collections.abc import Callable
from dataclasses import dataclass, field

from bench.device.session import DeviceSession
from bench.radio.medium import Heard
from lns.lorawan.crypto import SessionKeys, derive_session_keys
from lns.lorawan.frame import JoinAcceptFields, MalformedFrame, open_join_accept
from lns.lorawan.identifiers import DevAddr, Eui
from lns.lorawan.region import Region


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


def fixed_session(abp: Abp, region: Region, *, first_f_cnt: int) -> DeviceSession:
    """The session of an ABP device, its counters at their start."""
    return DeviceSession(
        number=0,
        dev_addr=abp.dev_addr,
        keys=abp.keys,
        f_cnt_up=first_f_cnt,
        receive_delay_us=region.receive_delay_us,
        rx2_dr=region.rx2_dr,
    )


def joined_session(
    otaa: Otaa, accept: JoinAcceptFields, *, dev_nonce: int, number: int, first_f_cnt: int
) -> DeviceSession:
    """The session that a join-accept opens."""
    keys = derive_session_keys(
        otaa.app_key,
        join_nonce=accept.join_nonce,
        net_id=accept.net_id,
        dev_nonce=dev_nonce,
    )
    return DeviceSession(
        number=number,
        dev_addr=accept.dev_addr,
        keys=keys,
        f_cnt_up=first_f_cnt,
        receive_delay_us=accept.receive_delay_us,
        rx1_dr_offset=accept.dl_settings.rx1_dr_offset,
        rx2_dr=accept.dl_settings.rx2_dr,
    )


def join_accept_for(otaa: Otaa) -> Callable[[Heard], JoinAcceptFields | None]:
    """Judges frames: the join-accept in one, None where this device cannot open it."""

    def believe(heard: Heard) -> JoinAcceptFields | None:
        try:
            return open_join_accept(otaa.app_key, heard.transmission.phy)
        except MalformedFrame:
            return None

    return believe
