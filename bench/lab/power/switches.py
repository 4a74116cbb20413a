"""Which switch does an entry of the inventory stand for?"""

from typing import Any

from bench.lab.inventory.entries import PowerEntry, PowerKind
from bench.lab.power.commands import CommandSwitch, HubSwitch
from bench.lab.power.person import PersonSwitch
from bench.lab.power.plugs import ShellyPlug, TasmotaPlug
from bench.lab.power.relay import BAUD, SerialRelay
from bench.lab.power.seam import PowerSwitch


def power_switch(entry: PowerEntry) -> PowerSwitch:
    """The switch of an entry; nothing is opened or asked before it is used."""
    settings: dict[str, Any] = dict(entry.settings)
    match entry.kind:
        case PowerKind.UHUBCTL:
            location = settings["location"]
            locations = (location,) if isinstance(location, str) else location
            return HubSwitch(entry.name, locations, settings["port"])
        case PowerKind.RELAY:
            return SerialRelay(
                entry.name,
                settings["port"],
                on=bytes.fromhex(settings["on"]),
                off=bytes.fromhex(settings["off"]),
                baud=settings.get("baud", BAUD),
            )
        case PowerKind.SHELLY:
            return ShellyPlug(entry.name, **settings)
        case PowerKind.TASMOTA:
            return TasmotaPlug(entry.name, **settings)
        case PowerKind.COMMAND:
            return CommandSwitch(entry.name, **settings)
        case PowerKind.PERSON:
            return PersonSwitch(entry.name, settings.get("what", f"the power of {entry.name}"))
