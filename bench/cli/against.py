"""Is the network server of this tree worse than another one?

Played in turn, A B B A, so that air and time of day are the same for both. After each pair of runs
it is looked whether enough was seen.
"""

import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import count
from pathlib import Path

import msgspec

from bench.capture.run_folder import Origin
from bench.cli.nights import label_of, runs_named
from bench.cli.output import BenchBroken, ProgressDisplay, Refused, refusing
from bench.cli.run import Selection, run_scenarios
from bench.host.lns_process import COMMAND
from bench.night.comparison import Comparison, Outcome, Stop, compared, table
from bench.night.record import Recorded, record_of
from bench.report import score_of

PAIRS_MAX = 8


@dataclass(frozen=True, slots=True)
class Other:
    """What a night is compared with: older runs, or a server by the command that starts it."""

    name: str
    runs: tuple[Recorded, ...] = ()

    @property
    def is_server(self) -> bool:
        return not self.runs


def other_of(against: str, rig: str, runs: Path) -> Other:
    """Whom a person means, before tonight has a run: then `latest` would be tonight itself.

    Refused for what is neither a run, a night, a line, a build nor a command.
    """
    if is_command(against, runs):
        if rig == "simulated":
            raise Refused(
                "--against: on the simulated rig the network server is part of this process. Run"
                " the other build in its own tree with the same seed, then: lorabench compare OLD"
                " NEW."
            )
        return Other(against)
    return Other(against, tuple(runs_named(against, runs)))


def is_command(against: str, runs: Path) -> bool:
    """Whether this is a command that starts a network server, and not the name of a run."""
    with refusing(ValueError, said="--against: {}."):
        words = shlex.split(against)
    return bool(words) and not (runs / against).exists() and shutil.which(words[0]) is not None


def against_run(other: Other, folder: Path) -> tuple[Comparison, list[str]]:
    """A run of tonight beside older ones, and what a person reads of it."""
    new = record_of(folder)
    assert new is not None
    found = compared(other.runs, [new])
    return found, table(found, label_of(other.name, other.runs), label_of("tonight", [new]))


def against_server(
    command: str,
    selection: Selection,
    display: ProgressDisplay,
    *,
    pairs_max: int = PAIRS_MAX,
) -> tuple[Comparison, list[str]]:
    """Play both in turn until it is clear whether ours is worse, or all is played.

    KeyboardInterrupt when a run was interrupted.
    """
    number = int.from_bytes(blake2b(command.encode(), digest_size=4).digest(), "big")
    theirs = replace(selection, origin=Origin(line=command, dut=f"lns@against+{number:08x}"))
    ours = replace(selection, origin=Origin(line=selection.origin.line, dut=selection.origin.dut))
    sides: dict[bool, list[Recorded]] = {True: [], False: []}
    stop = None
    for pair in count():
        for is_ours in (False, True) if pair % 2 == 0 else (True, False):
            who = "ours" if is_ours else "the other"
            display.line(f"    pair {pair + 1} of {pairs_max} at most: {who}")
            with _server(None if is_ours else command):
                ran = run_scenarios(ours if is_ours else theirs, display)
            if ran.interrupted:
                raise KeyboardInterrupt
            sides[is_ours].append(_recorded(ran.folder))
        found = compared(sides[False], sides[True])
        stop = found.stop or (Stop.SPENT if pair + 1 >= pairs_max else None)
        if stop is not None or found.outcome is Outcome.NOTHING_IN_COMMON:
            break
    lines = table(found, label_of(command, sides[False]), label_of("ours", sides[True]))
    return found, [*lines, f"Stopped after {pair + 1} pairs: {stop or 'nothing in common'}."]


@contextmanager
def _server(command: str | None) -> Iterator[None]:
    before = os.environ.pop(COMMAND, None)
    if command is not None:
        os.environ[COMMAND] = command
    try:
        yield
    finally:
        os.environ.pop(COMMAND, None)
        if before is not None:
            os.environ[COMMAND] = before


def _recorded(folder: Path) -> Recorded:
    found = record_of(folder, msgspec.json.encode(score_of(folder)))
    if found is None or not found.scored:
        raise BenchBroken(f"{folder}: its verdicts cannot be read.")
    return found
