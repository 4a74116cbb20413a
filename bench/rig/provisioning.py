"""One device, as its maker, the network server and the score each know it."""

from dataclasses import dataclass, fields
from inspect import signature
from typing import Any

from bench.chance import stream
from bench.inspection.downlink import KnownDevice
from bench.inspection.downlink import Session as SessionKnown
from bench.verdict.owner import ScenarioMistake, not_there
from bench.virtual.crafted import Identity
from bench.virtual.lorawan.channel_plan import ChannelPlan, Lora
from bench.virtual.lorawan.frames import Keys
from bench.virtual.session import LORAMAC_NODE, Stack
from lns.dedup.session import Listening, Session
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.identifiers import DevAddr, Eui, dev_addr, eui
from lns.uplink.registry import Activation, DeviceClass, EndDevice, LoRaWanVersion

PAYLOAD = b"21.5 C"
FASTEST = Lora(7, 125_000)
JOIN_EUI = eui("70B3D57ED0000000")
FIRST_DEV_EUI = 0x70B3D57ED0000000
NET_ID = "000013"
FIRST_DEV_ADDR = 0x26000000  # NwkID 0x13, as the network's NetID has it


_OF_DEVICE = frozenset(field.name for field in fields(EndDevice))


@dataclass(frozen=True, slots=True)
class Provisioned:
    """A device and the counter the server has of it; `known` is False for a stranger."""

    record: EndDevice
    dev_addr: DevAddr
    keys: SessionKeys
    app_key: bytes
    f_cnt_up: int | None
    preset_session: bool
    known: bool
    stack: Stack
    f_cnt_down: int = 0
    dr: int | None = None
    adr: bool = False

    @property
    def dev_eui(self) -> Eui:
        """The DevEUI."""
        return self.record.dev_eui

    @property
    def join_eui(self) -> Eui:
        """The JoinEUI of its join requests."""
        return self.record.join_eui or JOIN_EUI

    @property
    def identity(self) -> Identity:
        """What it takes to build join requests in its name."""
        return Identity(self.dev_eui, self.join_eui, self.app_key)

    def session(self) -> Session | None:
        """The session the server begins with; None for an OTAA device that has not joined."""
        if self.record.activation is Activation.OTAA and not self.preset_session:
            return None
        return Session(
            dev_eui=self.dev_eui,
            dev_addr=self.dev_addr,
            keys=self.keys,
            f_cnt_up=self.f_cnt_up,
            f_cnt_down=self.f_cnt_down,
        )


def provision(
    name: str,
    number: int,
    seed: int,
    *,
    activation: str = "abp",
    device_class: str = "A",
    f_cnt: int | None = None,
    f_cnt_up: int | None = None,
    f_cnt_down: int = 0,
    dr: int | None = None,
    adr: bool | None = None,
    dev_addr_text: str | None = None,
    keys: SessionKeys | None = None,
    preset_session: bool = False,
    known: bool = True,
    stack: Stack = LORAMAC_NODE,
    lorawan: str = LoRaWanVersion.V1_0_4,
    rx1_dr_offset: int = 0,
    rx_delay_s: int = 1,
    rx2_dr: int | None = None,
    dev_eui: str | None = None,
    join_eui: str | None = None,
    app_key: str | None = None,
    **facts: Any,
) -> Provisioned:
    """A device with keys of its own, drawn from the seed.

    `f_cnt` is the counter of its next frame, `f_cnt_up` the newest one the server knows (one less
    by default); with neither nobody has ever heard it. `f_cnt_down` is the counter of its next
    downlink, `dr` its data rate (SF7 by default), `adr` whether it obeys LinkADRReq (if it is to be
    told to repeat, by default). `rx1_dr_offset`, `rx_delay_s` and `rx2_dr` are what its join
    accepts are to say. `dev_eui`, `join_eui` and `app_key` (hex) are those of a device that exists,
    in place of drawn ones. Other facts are those of `EndDevice`. ScenarioMistake for what is none
    of them, and for what cannot be.
    """
    for fact in facts.keys() - _OF_DEVICE:
        own = {
            name
            for name, one in signature(provision).parameters.items()
            if one.kind is one.KEYWORD_ONLY
        }
        raise not_there("fact of a device", fact, sorted(_OF_DEVICE | own))
    chance = stream(seed, "keys", name)
    drawn = [chance.randbytes(16) for _ in range(3)]
    keys = keys or SessionKeys(drawn[0], drawn[1])
    address = dev_addr(dev_addr_text or f"{FIRST_DEV_ADDR + number:08X}")
    try:
        own_eui = eui(dev_eui or f"{FIRST_DEV_EUI + number:016X}")
        own_join_eui = JOIN_EUI if join_eui is None else eui(join_eui)
        own_key = drawn[2] if app_key is None else bytes.fromhex(app_key)
    except ValueError as error:
        raise ScenarioMistake(f"device {name!r}: {error}") from None
    if len(own_key) != len(drawn[2]):
        raise ScenarioMistake(f"device {name!r}: an app_key has 32 hex digits")
    otaa = activation == Activation.OTAA
    record = EndDevice(
        name=name,
        dev_eui=own_eui,
        activation=Activation(activation),
        join_eui=own_join_eui if otaa else None,
        app_key=own_key if otaa else None,
        dev_addr=None if otaa else address,
        session_keys=None if otaa else keys,
        device_class=DeviceClass(device_class),
        lorawan=LoRaWanVersion(lorawan),
        listening=Listening(rx1_dr_offset, rx_delay_s, rx2_dr),
        **facts,
    )
    heard = f_cnt - 1 if f_cnt_up is None and f_cnt is not None else f_cnt_up
    return Provisioned(
        record=record,
        dev_addr=address,
        keys=keys,
        app_key=own_key,
        f_cnt_up=heard,
        f_cnt_down=f_cnt_down,
        dr=dr,
        adr=record.nb_trans > 1 if adr is None else adr,
        preset_session=preset_session,
        known=known,
        stack=stack,
    )


def known_to_inspector(provisioned: Provisioned, plan: ChannelPlan) -> KnownDevice:
    """A device as far as whoever reads what servers handed over has to know it."""
    record, session = provisioned.record, provisioned.session()
    sessions = []
    if session is not None:
        keys = Keys(session.keys.nwk_s_key, session.keys.app_s_key)
        last = session.f_cnt_down - 1 if session.f_cnt_down else None
        sessions.append(SessionKnown(session.dev_addr, keys, plan.rx2_dr, f_cnt_down=last))
    return KnownDevice(
        record.dev_eui,
        provisioned.app_key,
        sessions,
        server=record.server,
        join_nonce_min=record.join_nonce_min,
        is_class_c=record.device_class is DeviceClass.C,
        nb_trans=record.nb_trans,
        counts_join_nonces=record.lorawan is LoRaWanVersion.V1_0_4,
        rx1_dr_offset=record.listening.rx1_dr_offset,
        rx_delay_s=record.listening.rx_delay_s,
        rx2_dr=record.listening.rx2_dr,
        status_wanted=record.dev_status_s is not None,
    )
