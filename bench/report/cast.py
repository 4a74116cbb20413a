"""Who takes part in a case, and what is each of them called on the page?"""

from collections.abc import Iterable
from dataclasses import dataclass
from string import ascii_uppercase

from bench.capture.reading import Event
from bench.report.foreign_text import visible

NAME_MAX = 24  # characters


@dataclass(frozen=True, slots=True)
class Cast:
    """The parties of one case: devices and stations by EUI, servers by id, each with its name.

    A station that nobody named is lettered in the order of EUIs: station A, station B, … A device
    that is only provisioned, and neither speaks nor sends, takes no part.
    """

    devices: dict[str, str]
    stations: dict[str, str]
    servers: tuple[str, ...]

    def name(self, eui: str) -> str:
        """The name of a device or a station; the EUI itself if it takes no part."""
        if eui in self.stations:
            return self.stations[eui]
        return self.devices.get(eui) or visible(eui, NAME_MAX)


def cast_of(events: Iterable[Event]) -> Cast:
    """The parties that the events of a case name."""
    devices: dict[str, str] = {}
    stations: set[str] = set()
    deaf: set[str] = set()
    servers: dict[str, None] = {}
    names: dict[str, str] = {}
    provisioned: dict[str, str] = {}
    for event in events:
        kind, dev_eui = event.get("kind"), event.get("dev_eui")
        if isinstance(dev_eui, str) and kind == "case.device":
            provisioned[dev_eui] = _device_name(event, dev_eui)
        if isinstance(dev_eui, str) and kind in ("device.line", "device.command"):
            devices.setdefault(dev_eui, _device_name(event, dev_eui))
        if kind == "case.station" and isinstance(event.get("eui"), str):
            names[event["eui"]] = visible(str(event.get("name", "")), NAME_MAX)
        sender = event.get("sender")
        if isinstance(sender, str) and kind == "radio.transmit" and event.get("direction") == "up":
            devices.setdefault(sender, provisioned.get(sender) or visible(sender, NAME_MAX))
        receiver = event.get("receiver")
        if isinstance(receiver, str) and kind == "radio.lost":
            deaf.add(receiver)
        station = event.get("station")
        if isinstance(station, str) and station:
            stations.add(station)
        lns = event.get("lns")
        if isinstance(lns, str) and lns:
            servers.setdefault(lns)
    # Who misses a frame is a device or a station, and devices have introduced themselves.
    stations |= deaf - devices.keys() - provisioned.keys()
    called = {
        eui: names.get(eui) or f"station {_letter(n)}" for n, eui in enumerate(sorted(stations))
    }
    return Cast(devices, called, tuple(servers))


def _device_name(event: Event, dev_eui: str) -> str:
    name = event.get("name")
    source = str(event.get("source", ""))
    if not isinstance(name, str):
        name = source.removeprefix("device-") if source.startswith("device-") else dev_eui
    return visible(name, NAME_MAX)


def _letter(n: int) -> str:
    cycle, place = divmod(n, len(ascii_uppercase))
    return ascii_uppercase[place] + (str(cycle + 1) if cycle else "")
