"""The hardware rig: real boards at serial ports, real gateways, all else as programs."""

from typing import Any

from bench.plan.planned_case import PlannedCase
from bench.rig.boards import LabDevices
from bench.rig.case_setup import CaseSetup
from bench.rig.hardware_bench import HardwareBench
from bench.rig.lab_air import LabAir, LabStations
from bench.rig.process_application import ProcessApplication
from bench.rig.processes import ProcessServers, ProcessStore
from bench.rig.rig import Parts, Rig, capabilities_of
from lns.clock import utc_of_this_host

LIMIT_S = 900
"""Real air may keep a case waiting for its duty cycle."""
CAPABILITIES = capabilities_of(ProcessServers, ProcessStore, ProcessApplication)
"""What a rig in a lab can do, besides what its inventory says."""


def hardware_rig(
    bench: HardwareBench,
    planned: PlannedCase,
    *,
    alone: bool,
    wants_store: bool = False,
    **facts: Any,
) -> Rig:
    """One case on the boards and gateways of a lab, as its dry run has planned it.

    `facts` are those of `CaseSetup`.
    """
    setup = CaseSetup(wall_clock_start=utc_of_this_host(), **facts)
    application = ProcessApplication(setup, bench)
    servers = ProcessServers(
        setup, bench, application, own=True, take=lambda event: setup.case.collect(event)
    )
    air = LabAir(setup, bench, planned, alone=alone)
    parts = Parts(
        LabDevices(setup, air),
        LabStations(setup, air),
        servers,
        ProcessStore(setup, bench, servers, wants=wants_store),
        application,
    )
    return Rig(setup, parts, limit_s=LIMIT_S)
