"""Which keys does each kind of power switch need, and what may they be?"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from bench.lab.inventory.entries import PowerKind


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one kind."""

    needed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


KEYS = {
    PowerKind.UHUBCTL: Keys(("location", "port")),
    PowerKind.RELAY: Keys(("port", "on", "off"), ("baud",)),
    PowerKind.SHELLY: Keys(("url", "generation"), ("channel",)),
    PowerKind.TASMOTA: Keys(("url",), ("channel",)),
    PowerKind.COMMAND: Keys((), ("on", "off", "cycle")),
    PowerKind.PERSON: Keys((), ("what",)),
}
_LOCATION = re.compile(r"[0-9]+(?:-[0-9]+(?:\.[0-9]+)*)?")
_HEX = re.compile(r"(?:[0-9A-Fa-f]{2}\s*)+")


def mistake_in_switch(kind: PowerKind, settings: Mapping[str, object]) -> str:
    """What is wrong with these keys for this kind, "" if nothing is."""
    keys = KEYS[kind]
    missing = [key for key in keys.needed if key not in settings]
    if missing:
        return f"a switch of kind {kind} needs {' and '.join(missing)}"
    strange = [key for key in settings if key not in (*keys.needed, *keys.optional)]
    if strange:
        known = ", ".join((*keys.needed, *keys.optional))
        return f"a switch of kind {kind} takes no {' and no '.join(strange)}; known here: {known}"
    match kind:
        case PowerKind.UHUBCTL:
            return _mistake_in_hub(settings)
        case PowerKind.RELAY:
            return _mistake_in_relay(settings)
        case PowerKind.COMMAND:
            return _mistake_in_commands(settings)
        case PowerKind.SHELLY | PowerKind.TASMOTA:
            if "@" in str(settings["url"]):
                return "no login in url: this bench speaks to switches without a password"
    return ""


def _mistake_in_hub(settings: Mapping[str, object]) -> str:
    location = settings["location"]
    locations = (location,) if isinstance(location, str) else location
    assert isinstance(locations, tuple)
    if not locations or not all(_LOCATION.fullmatch(text) for text in locations):
        return 'location is one of the hubs that `uhubctl` lists, such as "1-1.2", or a list'
    if not isinstance(settings["port"], int) or settings["port"] < 1:
        return "port is the number of a port of the hub, from 1"
    return ""


def _mistake_in_relay(settings: Mapping[str, object]) -> str:
    if not isinstance(settings["port"], str):
        return 'port is the serial port of the relay, such as "/dev/lora/relay"'
    wrong = [k for k in ("on", "off") if not _HEX.fullmatch(str(settings[k]))]
    if wrong or not all(isinstance(settings[k], str) for k in ("on", "off")):
        return 'on and off are the bytes to send, in hex, such as "A0 01 01 A2"'
    return ""


def _mistake_in_commands(settings: Mapping[str, object]) -> str:
    if any(isinstance(settings.get(key), str) for key in ("on", "off")):
        return 'a command is a list of words, such as on = ["switch", "on"]'
    if ("on" in settings) is not ("off" in settings):
        return "on and off go together: give both or none"
    if not settings:
        return "a switch of kind command needs on and off, or cycle"
    return ""
