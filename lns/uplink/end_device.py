"""What does the server know about a device?"""

from dataclasses import dataclass, field
from enum import StrEnum

from lns.dedup.session import AS_REGION_SAYS, Listening
from lns.dedup.strategy import Strategy
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.identifiers import DevAddr, Eui


class Activation(StrEnum):
    """How a device gets its session: over the air, or by personalisation."""

    OTAA = "otaa"
    ABP = "abp"


class LoRaWanVersion(StrEnum):
    """The LoRaWAN version of a device; 1.0.4 made the DevNonce a counter."""

    V1_0_2 = "1.0.2"
    V1_0_3 = "1.0.3"
    V1_0_4 = "1.0.4"


class DeviceClass(StrEnum):
    """When a device listens: after its own uplinks (A), or always (C)."""

    A = "A"
    C = "C"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndDevice:
    """The record of one device, as provisioned; keys never show in its repr.

    OTAA devices have `join_eui` and `app_key`, ABP devices `dev_addr` and `session_keys`.
    `server` pins the device to one LNS; `relaxed_f_cnt` lets an ABP device restart its counter.
    No join accept of it has a JoinNonce below `join_nonce_min`. It is asked for its status every
    `dev_status_s` seconds, None: only when an application wants it. `listening` is what its join
    accepts say of its receive windows, `more_channels_hz` on which it may send besides the channels
    of its region.
    """

    name: str
    dev_eui: Eui
    activation: Activation
    join_eui: Eui | None = None
    app_key: bytes | None = field(default=None, repr=False)
    dev_addr: DevAddr | None = None
    session_keys: SessionKeys | None = field(default=None, repr=False)
    lorawan: LoRaWanVersion = LoRaWanVersion.V1_0_4
    strategy: Strategy = Strategy.NONE
    server: str | None = None
    relaxed_f_cnt: bool = True
    f_cnt_bits: int = 32
    nb_trans: int = 1
    device_class: DeviceClass = DeviceClass.A
    join_nonce_min: int = 1
    dev_status_s: int | None = None
    listening: Listening = AS_REGION_SAYS
    more_channels_hz: tuple[int, ...] = ()

    @property
    def may_restart_counter(self) -> bool:
        """Only a relaxed ABP device restarts its counter without a new session."""
        return self.activation is Activation.ABP and self.relaxed_f_cnt
