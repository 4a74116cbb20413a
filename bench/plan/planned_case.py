"""What does one case of a scenario do, before any real radio is asked to do it?

Found by playing the case on the simulated rig (`bench.run.dry_run`); pure values, as JSON and back.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

WHOLE_STATION = frozenset({"cut", "restart", "reconnect_without_version", "leave_half_open"})
"""What happens to a station as a whole, so that no other case can use it meanwhile."""
NOTICED = frozenset(
    {"kill_lns", "start_lns", "restart_lns", "wipe_producer"}
    | {"pause_lns", "pause_lns_in_mid_claim", "resume_lns"}
)
"""What happens to a network server, and its stations notice: no other case may use them then."""
OWN_SERVERS = frozenset({"lns", "store"})
"""The seams at which a fault needs network servers that no other case uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAct:
    """One thing that a device does: send, join or restart, with what `send` and `restart` say."""

    verb: str
    confirmed: bool = False
    retries: int = 0
    transmissions: int = 1
    memory: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDevice:
    """One device of a case, and what it does in order.

    `explicit_counter`: the scenario itself says which counter comes next; `next_f_cnt` is that
    counter, None where nobody has heard the device. `explicit_identity`: it says DevAddr or keys.
    `crafted`: frames in its name are built by the bench. `transmissions` and `airtime_us` are those
    of the device itself, repetitions included.
    """

    name: str
    activation: str
    class_c: bool = False
    known: bool = True
    dr: int | None = None
    explicit_counter: bool = False
    next_f_cnt: int | None = None
    explicit_identity: bool = False
    acts: tuple[PlannedAct, ...] = ()
    crafted: bool = False
    expects_downlink: bool = False
    transmissions: int = 0
    airtime_us: int = 0

    @property
    def is_on_air(self) -> bool:
        """Whether a board has to play it; otherwise only its name is used."""
        return bool(self.acts)

    @property
    def repetitions(self) -> frozenset[int]:
        """How often its messages are sent, each number once."""
        return frozenset(
            max(act.transmissions, act.retries + 1) for act in self.acts if act.verb == "send"
        )

    @property
    def only_retries(self) -> bool:
        """Whether what is repeated is always a confirmed message without acknowledgement."""
        return all(act.transmissions == 1 for act in self.acts)

    @property
    def nb_trans(self) -> int:
        """How often each of its messages is sent, where that is the same for all; else 1.

        This the bench can have of any board, by a LinkADRReq.
        """
        return next(iter(self.repetitions)) if len(self.repetitions) == 1 else 1

    @property
    def wants_retries(self) -> bool:
        """Whether its board has to repeat some messages, and others not."""
        return len(self.repetitions) > 1

    def wants_counter(self, first_f_cnt: int) -> bool:
        """Whether its board has to be told a counter that the scenario says.

        Any board can begin anew, with its own `first_f_cnt`.
        """
        says = self.is_on_air and self.explicit_counter and self.next_f_cnt is not None
        return says and self.next_f_cnt != first_f_cnt

    @property
    def is_in_mid_life(self) -> bool:
        """Whether any counter will do that is not that of a beginning."""
        return self.next_f_cnt is not None and not self.explicit_counter


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCase:
    """One case: how long it takes, and everything that it uses.

    `duration_us` is what radios, stations and the scenario's own waits take, with waits about the
    retention shortened as on a bench; no set-up and no settling. `stations` and `servers` are the
    names used, `verbs` what is asked of rig, stations (`west.cut`) and devices (`alpha.send`), and
    `takes` what those of rig and stations need of a bench (`bench.plan.needs`).
    `injected_airtime_us` is what a replayer has to send. `requires` and `faults` are the markers.
    """

    case: str
    duration_us: int
    region: str
    servers: tuple[str, ...] = ()
    stations: tuple[str, ...] = ()
    consumers: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    devices: tuple[PlannedDevice, ...] = ()
    injected_airtime_us: int = 0
    requires: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def on_air(self) -> tuple[PlannedDevice, ...]:
        """The devices that a board has to play."""
        return tuple(device for device in self.devices if device.is_on_air)

    @property
    def airtime_us(self) -> int:
        """What its devices and the replayer send."""
        return sum(device.airtime_us for device in self.devices) + self.injected_airtime_us

    @property
    def replays(self) -> bool:
        """Whether a second radio sends what it has heard."""
        return "replay" in self.verbs

    @property
    def takes_stations(self) -> bool:
        """Whether it does something to a whole station."""
        return not WHOLE_STATION.isdisjoint(self.station_verbs)

    @property
    def alone(self) -> bool:
        """Whether a bench plays it while no other case is played."""
        return self.takes_stations or not NOTICED.isdisjoint(self.rig_verbs)

    @property
    def weakened(self) -> int:
        """How many stations are to hear less than they do."""
        return sum(verb == f"{name}.weaken" for name in self.stations for verb in self.verbs)

    @property
    def own_servers(self) -> bool:
        """Whether it gets network servers that no other case uses."""
        faulty = not OWN_SERVERS.isdisjoint(self.faults)
        return faulty or bool(self.consumers) or len(self.servers) > 1

    @property
    def rig_verbs(self) -> frozenset[str]:
        """What is asked of the rig itself."""
        return frozenset(verb for verb in self.verbs if "." not in verb)

    @property
    def station_verbs(self) -> frozenset[str]:
        """What is asked of any station."""
        called = (verb.rpartition(".") for verb in self.verbs if "." in verb)
        return frozenset(verb for name, _, verb in called if name in self.stations)

    def as_json(self) -> dict[str, Any]:
        """As a JSON object; `from_json` reads it."""
        return asdict(self)


_TUPLES = ("servers", "stations", "consumers", "verbs", "takes", "requires", "faults")


def from_json(fields: Mapping[str, Any]) -> PlannedCase:
    """The case that `as_json` described, also after JSON has made lists of its tuples."""
    devices = tuple(_device(device) for device in fields["devices"])
    tuples = {name: tuple(fields[name]) for name in _TUPLES}
    return PlannedCase(**{**fields, **tuples, "devices": devices})


def _device(fields: Mapping[str, Any]) -> PlannedDevice:
    acts = tuple(PlannedAct(**act) for act in fields["acts"])
    return PlannedDevice(**{**fields, "acts": acts})
