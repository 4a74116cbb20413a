"""Which verbs does a scenario call, with what, and on whom?

A `Watched` stands before a rig, a station or a device and hands everything on; the scenario does
not notice. What it hands on is written into `Notes`.
"""

import inspect
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bench.device.interfaces import Joining, Sent
from bench.plan.planned_case import PlannedAct

ACTS = frozenset({"send", "join", "restart"})
_ACT_FACTS = ("confirmed", "retries", "transmissions", "memory")
_COUNTERS = ("f_cnt", "f_cnt_up", "f_cnt_down")
_IDENTITY = ("dev_addr_text", "keys")
_DOWNLINK = frozenset({"queue_downlink", "expect_downlink"})


@dataclass(slots=True)
class DeviceNotes:
    """What a scenario does with one device; `target` is the device of the rig."""

    target: Any
    acts: list[PlannedAct] = field(default_factory=list)
    explicit_counter: bool = False
    explicit_identity: bool = False
    expects_downlink: bool = False


@dataclass(slots=True)
class Notes:
    """Everything that a scenario has asked of its rig, in the order of the first time."""

    verbs: dict[str, None] = field(default_factory=dict)
    stations: dict[str, None] = field(default_factory=dict)
    servers: dict[str, None] = field(default_factory=dict)
    consumers: dict[str, None] = field(default_factory=dict)
    devices: dict[str, DeviceNotes] = field(default_factory=dict)
    replayed: list[Sent | Joining] = field(default_factory=list)

    def watched(self, value: Any) -> Any:
        """The same, or what stands before it if it is a device or a station."""
        if hasattr(value, "provisioned"):
            name = value.provisioned.record.name
            self.devices.setdefault(name, DeviceNotes(value))
            return Watched(value, self, name)
        if hasattr(value, "suppress_downlinks"):
            self.stations[value.name] = None
            return Watched(value, self, value.name)
        return value

    def called(self, name: str, verb: str, given: list[Any], facts: dict[str, Any]) -> None:
        """Note one call; `name` is empty for the rig itself."""
        self.verbs[f"{name}.{verb}" if name else verb] = None
        if name in self.devices and verb in ACTS:
            told = {fact: facts[fact] for fact in _ACT_FACTS if fact in facts}
            self.devices[name].acts.append(PlannedAct(verb=verb, **told))
        if verb == "replay":
            self.replayed += [one for one in given if isinstance(one, Sent | Joining)]
        if verb in _DOWNLINK:
            for one in given:
                if hasattr(one, "provisioned"):
                    self.devices[one.provisioned.record.name].expects_downlink = True
        if verb == "consumer":
            names = [one for one in [*given[:1], facts.get("name")] if isinstance(one, str)]
            self.consumers[names[0] if names else "application"] = None
        if "lns" in facts and isinstance(facts["lns"], str) and facts["lns"]:
            self.servers[facts["lns"]] = None
        if verb == "put_on":
            self.servers[given[0]] = None

    def provisioned(self, name: str, facts: dict[str, Any]) -> None:
        """Note what a scenario itself says of a device."""
        device = self.devices[name]
        device.explicit_counter = any(facts.get(fact) is not None for fact in _COUNTERS)
        device.explicit_identity = any(facts.get(fact) is not None for fact in _IDENTITY)


class Watched:
    """Stands before a rig (without a name), a station or a device."""

    def __init__(self, target: Any, notes: Notes, name: str = "") -> None:
        self._target = target
        self._notes = notes
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(self._target, attribute)
        if inspect.ismethod(value):
            return partial(self._call, attribute, value)
        return self._notes.watched(value)

    def _call(self, verb: str, method: Any, *arguments: Any, **facts: Any) -> Any:
        given = [_itself(argument) for argument in arguments]
        named = {fact: _itself(value) for fact, value in facts.items()}
        self._notes.called(self._name, verb, given, named)
        result = self._notes.watched(method(*given, **named))
        if not self._name:
            self._note_stations([*given, *named.values()])
            if verb == "provision":
                self._notes.provisioned(given[0] if given else named["name"], named)
        return result

    def _note_stations(self, values: Any) -> None:
        """Whatever a scenario names that is the name of a station, is used."""
        for value in values:
            if isinstance(value, str) and self._target.has_station(value):
                self._notes.stations[value] = None
            elif isinstance(value, list | tuple):
                self._note_stations(value)


def _itself(value: Any) -> Any:
    """What stands behind a `Watched`, also inside a list, a tuple or a mapping."""
    if isinstance(value, Watched):
        return value._target
    if isinstance(value, list):
        return [_itself(one) for one in value]
    if type(value) is tuple:
        return tuple(_itself(one) for one in value)
    if isinstance(value, dict):
        return {name: _itself(one) for name, one in value.items()}
    return value
