"""Does `lorabench explore` alone find what is broken on purpose?

Each mutant that concerns levels 1 and 2, joins and answers is put into a copy of the tree, and
random histories are played against it until one breaks a law. `BEYOND` says of the others why none
can. Exit status 1 when a mutant is not found, or its history not short enough.

    python -m tests.mutants.explored                  all of them
    python -m tests.mutants.explored level_2 window   one list, and those with this word in the name
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.mutants import claims, exchanges, level_1, level_2
from tests.mutants.mutant import Mutant

ROOT = Path(__file__).resolve().parents[2]
LISTS = {
    "level_1": level_1.MUTANTS,
    "level_2": level_2.MUTANTS,
    "claims": claims.MUTANTS,
    "exchanges": exchanges.MUTANTS,
}
MINUTES = float(os.environ.get("EXPLORE_MINUTES", "1"))
WORKERS = os.environ.get("EXPLORE_WORKERS", "2")
RECEPTIONS_MAX = 8
_REDIS = "stores of histories are in memory; what Redis decides is held to that by a contract"
_SIZE = "no history is as long or as large as this takes"
BEYOND = {
    "key without DevEUI": "no two devices of a history have frames with one MIC",
    "all that is due leaves at once": "it is slower, and nothing else",
    "an expired entry counts as evicted": "it is about what is told of a full cache",
    "copies of a former life numbered anew": "the numbers of copies go on in other ways too",
    "copies of an older frame numbered anew": _SIZE,
    "claim never expires": "a state is remembered for a day",
    "refused claim keeps the state alive": "a state is remembered for a day",
    "forgotten claims are all there is": "a state is remembered for a day",
    "emptied store not told the names": _REDIS,
    "claim waited for beyond RX1": "no store of a history answers later than 80 ms",
    "unverified not told": "histories do not look at what is told beside a message",
    "JoinNonce below the least one": _REDIS,
    "downlink counter of a store not checked": "no store of a history holds foreign values",
    "class C through another station": "devices of histories are of class A",
    "report of any station believed": "stations of histories report what they were given",
    "an error in a downlink drops the station": "no history makes a server raise in a downlink",
    "an error in a reception drops the station": "no history makes a server raise",
    "a copy that failed unexpectedly shadows": "no history makes an application raise",
    "claimed and never sent taken for a retry": "no server of a history is killed in mid claim",
}


@dataclass(frozen=True, slots=True)
class Found:
    """What exploring a mutant came to."""

    mutant: str
    word: str
    seconds: float = 0
    histories: int = 0
    receptions: int = 0
    law: str = ""

    @property
    def is_good(self) -> bool:
        """Whether it was found, and cut down far enough."""
        return self.word != "NO" and self.receptions <= RECEPTIONS_MAX


def main(argv: list[str]) -> int:
    """Explore the mutants of the lists and with the words given on the command line."""
    chosen = [
        mutant
        for group, mutants in LISTS.items()
        for mutant in mutants
        if not argv or group in argv or any(word in mutant.name for word in argv)
    ]
    print(f"{'mutant':58} {'found':>6} {'s':>6} {'histories':>9} {'receptions':>10}  law")
    bad = 0
    for mutant in chosen:
        found = explored(mutant)
        bad += not found.is_good
        print(
            f"{found.mutant:58} {found.word:>6} {found.seconds:6.1f} {found.histories:9}"
            f" {found.receptions:10}  {found.law}",
            flush=True,
        )
    print(f"\n{len(chosen) - bad} of {len(chosen)} mutants found or beyond histories")
    return 1 if bad else 0


def explored(mutant: Mutant) -> Found:
    """Explore one mutant; those that no history shows are not tried."""
    if "(Redis)" in mutant.name or "redis" in mutant.file:
        return Found(mutant.name, "beyond", law=_REDIS)
    if mutant.name in BEYOND:
        return Found(mutant.name, "beyond", law=BEYOND[mutant.name])
    with tempfile.TemporaryDirectory(prefix="lorabench-explored-") as folder:
        tree = Path(folder)
        for name in ("lns", "bench"):
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, tree / name, ignore=ignored)
        text = (tree / mutant.file).read_text(encoding="utf-8")
        assert text.count(mutant.old) == 1, f"{mutant.name}: its line is there no more"
        (tree / mutant.file).write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        command = [sys.executable, "-m", "bench", "explore", "--minutes", str(MINUTES)]
        command += ["--workers", WORKERS, "--until-first", "--json"]
        environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
        ran = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, check=False,
            timeout=MINUTES * 60 + 240,
        )  # fmt: skip
    if not ran.stdout:
        return Found(mutant.name, "broken", law=ran.stderr.strip()[-100:].replace("\n", " "))
    told = json.loads(ran.stdout)
    if not told["findings"]:
        return Found(mutant.name, "NO", told["seconds"], told["histories"])
    first = told["findings"][0]
    law = f"{first['law']}: {first['words']}"
    return Found(
        mutant.name, "yes", told["seconds"], told["histories"], first["receptions"], law[:110]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
