"""What do the cases of a run need? A dry run in a process of its own says so, before it begins."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import bench
from bench.host.program import HostError
from bench.plan.needs import PlannedCase, from_json

PLAN = "plan.json"
"""What a dry run leaves in a folder: the planned cases, and `failed`: those it could not play."""
PLAN_S = 900
_TAIL_LINES = 10


class NoPlan(HostError):
    """The dry run failed; the text has the end of what it said."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The cases of a run by name, and why some could not be played even without a bench."""

    cases: Mapping[str, PlannedCase]
    failed: Mapping[str, str]


def plan_of(arguments: Sequence[str], *, retention_s: int) -> Plan:
    """The cases that pytest would run with these arguments; NoPlan.

    In a process of its own: nothing in software that plays a device or a station comes into the
    process that speaks with real ones.
    """
    source = str(Path(bench.__path__[0]).resolve().parent)
    path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    with tempfile.TemporaryDirectory(prefix="lorabench-plan-") as folder:
        last = ["--rig", "plan", "--retention", str(retention_s), "--capture-dir", folder]
        if any(argument.startswith(("-n", "--numprocesses")) for argument in arguments):
            last.append("-n0")  # one dry run is enough
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "lorabench",
            *arguments,
            *last,
            "-q",
            "--no-header",
        ]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=PLAN_S,
                env={**os.environ, "PYTHONPATH": path},
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise NoPlan(f"the dry run of the scenarios is not over after {PLAN_S} s") from None
        try:
            plan = json.loads((Path(folder) / PLAN).read_text("utf-8"))
        except (OSError, ValueError):
            said = "\n".join((done.stdout + done.stderr).splitlines()[-_TAIL_LINES:])
            raise NoPlan(f"the dry run of the scenarios failed:\n{said}") from None
    cases = {case.case: case for case in map(from_json, plan["cases"])}
    return Plan(cases, plan["failed"])
