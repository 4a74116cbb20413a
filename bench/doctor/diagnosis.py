"""What is there, what is missing, and which kinds of runs work now?"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.doctor import java, machine, packages, programs, serial_ports
from bench.doctor.check import Check, Look, Purpose, checked, obstacles, works


@dataclass(frozen=True, slots=True)
class Places:
    """Where to look: folders of the user, and the root of the file system."""

    runs: Path
    lake: str
    captures: Sequence[Path] = ()
    lns_capture: Path | None = None
    root: Path = Path("/")


def diagnosis(places: Places) -> list[Check]:
    """Every check, by what it is needed for. Never raises, starts no Java, and takes no second."""
    root = places.root
    lock = packages.project_folder() / packages.LOCK
    night, emulated, hardware = Purpose.NIGHTLY, Purpose.EMULATED, Purpose.HARDWARE
    looks: list[tuple[str, Purpose, Look]] = [
        ("Python", night, packages.look_at_python),
        ("packages", night, partial(packages.look_at_packages, lock)),
        ("Spark", night, java.look_at_spark),
        ("Java", night, java.look_at_java),
        ("Java's archive", night, java.look_at_archive),
        ("folders", night, partial(machine.look_at_folders, (places.runs, places.lake))),
        ("disk", night, partial(machine.look_at_disk, places.runs)),
        ("cores, memory", night, partial(machine.look_at_memory, root)),
        ("captures", night, partial(machine.look_at_captures, places.captures)),
        ("rig", emulated, partial(packages.look_at_rig, "emulated")),
        ("Mosquitto", emulated, partial(programs.look_at_broker, root)),
        ("Redis or Valkey", emulated, partial(programs.look_at_store, root)),
        ("TCP ports", emulated, partial(machine.look_at_ports, root)),
        ("ptys", emulated, partial(machine.look_at_ptys, root)),
        ("open files", emulated, machine.look_at_open_files),
        ("monotonic clock", emulated, machine.look_at_monotonic_clock),
        ("rig", hardware, partial(packages.look_at_rig, "hardware")),
        ("serial ports", hardware, partial(serial_ports.look_at_ports, root)),
        ("permission", hardware, partial(serial_ports.look_at_permission, root)),
        ("other programs", hardware, partial(serial_ports.look_at_intruders, root)),
        ("answers", hardware, partial(machine.look_at_answers, places.runs, places.lns_capture)),
        ("wall clock", hardware, partial(machine.look_at_wall_clock, root)),
    ]
    return [checked(name, purpose, look) for name, purpose, look in looks]


def conclusion(checks: Sequence[Check]) -> str:
    """Which kinds of runs work now, and what the others lack, in one sentence."""
    ready = [f"the {purpose}" for purpose in Purpose if works(checks, purpose)]
    said = [f"{_listed(ready)} can run"] if ready else []
    for purpose in Purpose:
        lacking = [check for check in obstacles(checks, purpose) if check.purpose is purpose]
        if lacking:
            said.append(f"the {purpose} lacks {_listed([_named(check) for check in lacking])}")
        elif not works(checks, purpose):
            said.append(f"the {purpose} waits for that")
    return _sentence("; ".join(said))


def _named(check: Check) -> str:
    return "its driver in this version" if check.name == "rig" else check.name


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
