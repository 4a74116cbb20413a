"""Would anybody notice a limit that is off by one, a wrong constant, an effect that is left out?

`edges.toml` has faults that were written by hand at the edges of every module, as somebody would
who wants to get past the bench, with the scenario that noticed each and what that said.
"""

import tomllib
from pathlib import Path

from tests.mutants.mutant import Mutant

_FILE = Path(__file__).with_suffix(".toml")

MUTANTS = tuple(
    Mutant(
        edge["name"], edge["file"], edge["old"], edge["new"], edge["scenario"], edge["says"]
    )
    for edge in tomllib.loads(_FILE.read_text("utf-8"))["edge"]
)  # fmt: skip
