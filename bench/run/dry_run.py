"""A dry run: every case on the simulated rig, to find out what it needs of a real bench.

Waits about the retention are shortened as on a bench, so that the time a case takes is the time it
takes there. Nothing is judged, and no capture stays behind.
"""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import clock
from bench.plan.planned_case import PlannedCase, PlannedDevice
from bench.rig.injection import DATA_RATE
from bench.rig.retiming import Retiming
from bench.rig.simulated import LNS, SimulatedRig
from bench.run.planning import PLAN
from bench.run.play import Play, first_cause, told_of
from bench.run.record import RunRecord
from bench.run.settings import RETENTION_S, RunSettings
from bench.run.watched import DeviceNotes, Notes, Watched
from bench.verdict.case import Case
from bench.verdict.expectation import Result, Verdict
from lns.capture import Capture
from lns.clock import now_us
from lns.lorawan.airtime import frame_airtime_us
from lns.uplink.end_device import DeviceClass

BOTH = ("west", "east")
"""Who hears everything where a scenario names no station."""


class DryRig(SimulatedRig):
    """The simulated rig at the pace of a bench; what needs real wires takes place without them.

    Remembers when it had been switched on (µs).
    """

    capabilities = SimulatedRig.capabilities | {"wires"}

    def __init__(self, **facts: Any) -> None:
        super().__init__(**facts)
        self._retiming = Retiming(self._retention_us)
        self.began_us: int | None = None

    def retimed(self, us: int) -> int:
        return self._retiming(us)

    def has_station(self, name: str) -> bool:
        """Whether there is a station of this name."""
        return name in self._stations

    async def start(self) -> None:
        await super().start()
        if self.began_us is None:
            self.began_us = now_us()

    async def pause_lns_in_mid_claim(self, lns: str = LNS) -> None:
        await self.start()

    def pause_lns(self, lns: str = LNS) -> None: ...

    def resume_lns(self, lns: str = LNS) -> None: ...

    def cut_upstream(self) -> None: ...

    async def restore_upstream(self) -> None: ...

    def pause_store(self) -> None: ...

    def resume_store(self) -> None: ...

    def park_after(self, us: int) -> None: ...

    async def release_parked(self, lns: str = LNS) -> None:
        await self.restart_lns(lns=lns)

    async def spoil_store(self, device: Any) -> None:
        await self.start()

    async def mend_store(self, device: Any) -> None: ...

    def share_client_id(self, *lns: str) -> None: ...


@dataclass(slots=True)
class _Watch:
    """One case while it is played: who asked for what, and when the scenario was over (µs)."""

    rig: DryRig
    notes: Notes
    ended_us: int = 0


class DryRun:
    """Plays cases as they are asked for; remembers what each needs, by its name, in `planned`.

    The verdict of a case is PASS when that is known, ERROR when the scenario could not be played
    to its end. `close` writes all of it into the folder `into`, if there is one.
    """

    capabilities = DryRig.capabilities
    limits_itself = False

    def __init__(
        self, *, seed: int = 1, retention_s: int = RETENTION_S, into: Path | None = None
    ) -> None:
        self._seed = seed
        self._retention_us = retention_s * 1_000_000
        self._into = into
        self.planned: dict[str, PlannedCase] = {}
        self.failed: dict[str, str] = {}

    def missing(self, play: Play) -> Sequence[str]:
        """Nothing is: what a bench lacks is to be found out."""
        return ()

    def announce(self, plays: list[Play]) -> None:
        """Take note of what will be asked for; here nothing is done ahead of time."""

    def play(self, play: Play) -> Verdict:
        """Play one case, and remember what it needs."""
        with tempfile.TemporaryDirectory(prefix="lorabench-plan-") as folder:
            capture = Capture(Path(folder), "plan", now_us, buffered=True)
            try:
                planned = clock.run(self._perform(play, capture))
            except (Exception, BaseExceptionGroup) as failure:
                told = self.failed[play.title.case] = told_of(first_cause(failure), play)
                return Verdict(Result.ERROR, "bench", (told,))
            finally:
                capture.close()
        self.planned[planned.case] = planned
        return Verdict(Result.PASS)

    async def _perform(self, play: Play, capture: Capture) -> PlannedCase:
        case = Case(play.title, capture, rig="plan")
        rig = DryRig(
            wants_store="store" in play.faults,
            seed=self._seed,
            case=play.title.case,
            strategy=play.strategy,
            retention_us=self._retention_us,
        )
        watch = _Watch(rig, Notes())
        async with rig.running(case):
            await play.scenario(Watched(rig, watch.notes))  # type: ignore[arg-type]
            watch.ended_us = now_us()
            await rig.settle()
        return _planned(play, case, watch)

    def close(self) -> None:
        """Write the plan down, for whoever asked for it from another process or place."""
        if self._into is None or not (self.planned or self.failed):
            return
        self._into.mkdir(parents=True, exist_ok=True)
        plan = {"cases": [one.as_json() for one in self.planned.values()], "failed": self.failed}
        (self._into / PLAN).write_text(json.dumps(plan), encoding="utf-8")


def _planned(play: Play, case: Case, watch: _Watch) -> PlannedCase:
    rig, notes = watch.rig, watch.notes
    began_us = watch.ended_us if rig.began_us is None else rig.began_us
    devices = [_device(name, one, case) for name, one in notes.devices.items()]
    replayed_us = [
        frame_airtime_us(DATA_RATE, len(frame.phy), crc=True) for frame in notes.replayed
    ]
    return PlannedCase(
        case=play.title.case,
        duration_us=watch.ended_us - began_us,
        region=rig.region.name,
        servers=tuple(server.lns for server in rig.servers),
        stations=tuple(notes.stations) or BOTH,
        consumers=tuple(notes.consumers),
        verbs=tuple(sorted(notes.verbs)),
        devices=tuple(devices),
        injected_airtime_us=sum(replayed_us),
        faults=tuple(sorted(play.faults)),
    )


def _device(name: str, notes: DeviceNotes, case: Case) -> PlannedDevice:
    provisioned = notes.target.provisioned
    sent = [
        event
        for event in case.events
        if event["kind"] == "radio.transmit" and event.get("dev_eui") == provisioned.dev_eui
    ]
    on_air = [event for event in sent if event["origin"] == "device"]
    heard = provisioned.f_cnt_up
    return PlannedDevice(
        name=name,
        activation=provisioned.record.activation,
        class_c=provisioned.record.device_class is DeviceClass.C,
        known=provisioned.known,
        dr=provisioned.dr,
        explicit_counter=notes.explicit_counter,
        next_f_cnt=None if heard is None else heard + 1,
        explicit_identity=notes.explicit_identity,
        acts=tuple(notes.acts),
        crafted=any(e["origin"] == "injected" and e.get("genuine", True) for e in sent),
        expects_downlink=notes.expects_downlink,
        transmissions=len(on_air),
        airtime_us=sum(event["airtime_us"] for event in on_air),
    )


def open_run(record: RunRecord, settings: RunSettings) -> DryRun:
    """A dry run whose plan goes where another run would leave its captures."""
    return DryRun(
        seed=record.seed, retention_s=settings.retention_s or RETENTION_S, into=record.runs_dir
    )
