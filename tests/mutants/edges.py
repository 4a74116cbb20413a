"""Would anybody notice a limit that is off by one, a wrong constant, an effect that is left out?

`edges.toml` has faults that were written by hand at the edges of every module, as somebody would
who wants to get past the bench, with the scenario that noticed each and what that said, and those
that nobody can see from antenna, application and store, with the reason (`EQUIVALENT`).
"""

import tomllib
from pathlib import Path

from tests.mutants.mutant import Mutant

FILE = Path(__file__).with_suffix(".toml")


def listed(file: Path) -> tuple[Mutant, ...]:
    """The edges of such a file; whoever has just written one may leave out who notices it."""
    return tuple(
        Mutant(
            edge["name"], edge["file"], edge["old"], edge["new"],
            edge.get("scenario", ""), edge.get("says", ""),
        )
        for edge in tomllib.loads(file.read_text("utf-8"))["edge"]
    )  # fmt: skip


MUTANTS = listed(FILE)
EQUIVALENT = {
    Mutant(edge["name"], edge["file"], edge["old"], edge["new"]): edge["why"]
    for edge in tomllib.loads(FILE.read_text("utf-8"))["equivalent"]
}
