"""Who is a board on the air? The same every night, so that its flash is written once."""

from dataclasses import dataclass

from bench.chance import stream
from bench.device.device_config import Abp, Otaa
from bench.lab.inventory.entries import DeviceEntry
from bench.rig.provisioning import FIRST_DEV_ADDR, JOIN_EUI
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.identifiers import dev_addr


@dataclass(frozen=True, slots=True)
class Secrets:
    """The identity of a board on the air, the same every night."""

    otaa: Otaa
    abp: Abp


def secrets_of(entry: DeviceEntry, bench: str) -> Secrets:
    """What the inventory says, or what name of bench and DevEUI give."""
    chance = stream(0, "identity", bench, entry.dev_eui)
    app_key, nwk_s_key, app_s_key = (chance.randbytes(16) for _ in range(3))
    address = dev_addr(f"{FIRST_DEV_ADDR + chance.getrandbits(24):08X}")
    return Secrets(
        Otaa(entry.join_eui or JOIN_EUI, entry.app_key or app_key),
        Abp(entry.dev_addr or address, entry.keys or SessionKeys(nwk_s_key, app_s_key)),
    )
