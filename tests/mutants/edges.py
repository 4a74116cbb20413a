"""Would anybody notice a limit that is off by one, a wrong constant, an effect that is left out?

`edges.toml` has faults that were written by hand at the edges of every module, as somebody would
who wants to get past the bench, with the scenario that noticed each and what that said, and those
that nobody can see from antenna, application and store, with the reason (`EQUIVALENT`).
"""

import tomllib
from pathlib import Path

from tests.mutants.mutant import Mutant

_FILE = Path(__file__).with_suffix(".toml")

_LISTS = tomllib.loads(_FILE.read_text("utf-8"))

MUTANTS = tuple(
    Mutant(
        edge["name"], edge["file"], edge["old"], edge["new"], edge["scenario"], edge["says"]
    )
    for edge in _LISTS["edge"]
)  # fmt: skip
EQUIVALENT = {
    Mutant(edge["name"], edge["file"], edge["old"], edge["new"]): edge["why"]
    for edge in _LISTS["equivalent"]
}
