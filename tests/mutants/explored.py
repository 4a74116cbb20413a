"""Does `lorabench explore` alone find what is broken on purpose?

Each mutant that concerns levels 1 and 2, joins and answers is put into a copy of the tree, and
random histories are played against it until one breaks a law or becomes another word than the
model's, which the same history must not do on the unbroken tree. `BEYOND` says of the others why
none can. Exit status 1 when a mutant is not found, or its history not short enough.

    python -m tests.mutants.explored                  all of them (`make explored`)
    python -m tests.mutants.explored level_2 window   one list, and those with this word in the name
    python -m tests.mutants.explored level_2 30:60    of those the 31st to the 60th

So many histories are what a minute on two processors is enough for; the seconds are of processor
time, those of shrinking among them.
"""

import json
import logging
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.explore.explore import play_and_judge
from bench.explore.history import KEPT, read_history
from tests.mutants import claims, exchanges, level_1, level_2, museum, situations
from tests.mutants.mutant import Mutant

ROOT = Path(__file__).resolve().parents[2]
SITUATIONS = {
    "gap one too small", "a device never heard may begin anywhere", "restart gives new answers",
    "new life pays for the old one", "drawn nonces have to grow", "counted nonces may go back",
    "join key without DevEUI", "forged join takes room", "downlinks begin at one in a session",
    "refused repeat is spent", "repeat during an outage is spent",
    "repeat that nobody can own is spent", "copy goes up without naming its counter",
    "owner of what the store forgot is whoever asks",
}  # fmt: skip
"""Of those about situations what concerns levels 1 and 2, joins and answers."""
LISTS = {
    "level_1": level_1.MUTANTS,
    "level_2": level_2.MUTANTS,
    "claims": claims.MUTANTS,
    "exchanges": exchanges.MUTANTS,
    "museum": museum.MUTANTS,
    "situations": tuple(m for m in situations.MUTANTS if m.name in SITUATIONS),
}
HISTORIES = int(os.environ.get("EXPLORE_HISTORIES", "60000"))
WORKERS = os.environ.get("EXPLORE_WORKERS", "1")
TIMEOUT_S = 1800
RECEPTIONS_MAX = 8
_REDIS = "stores of histories are in memory; what Redis decides is held to that by a contract"
_SIZE = "no history is as long or as large as this takes"
_GIVEN_BACK = "given back, gone up elsewhere, and begun again: of 50 000 histories two or none"
_RIGHT_BEHIND = "it takes what waits for a device right behind a frame that was given back"
_ALONE = "a server is alone with a life that another began: one of 18 700 histories showed it"
_NEVER_SEEN = "of 60 000 histories none showed it; the contract of the stores does"
BEYOND = {
    "more lives take a life back": "what follows of a life that one server saw alone is unknowable",
    "key without DevEUI": "no two devices of a history have frames with one MIC",
    "policy lets the loser answer": "whoever does not own a frame is kept from answering twice",
    "all that is due leaves at once": "it is slower, and nothing else",
    "an expired entry counts as evicted": "it is about what is told of a full cache",
    "copies of an older frame numbered anew": _SIZE,
    "claim never expires": "a state is remembered for a day",
    "emptied store not told the names": _REDIS,
    "claim waited for beyond RX1": "no store answers a claim later than its wire waits, 250 ms",
    "another server's claim given back": "it takes a release that is said twice",
    "FCntDown left out with each refused frame": "a device refuses it after five far apart",
    "downlinks begin at one in a session": "no word or law says with which counter they begin",
    "FCntDown for the loser": "whoever does not own a frame is kept from answering twice",
    "one station asks for all that a store can answer": "no history has so many strangers",
    "session of a join that was not kept": "nobody has the accept that would open that session",
    "JoinNonce below the least one": _REDIS,
    "downlink counter of a store not checked": "no store of a history holds foreign values",
    "class C through another station": "devices of histories are of class A",
    "report of any station believed": "stations of histories report what they were given",
    "an error in a downlink drops the station": "no history makes a server raise in a downlink",
    "an error in a reception drops the station": "no history makes a server raise",
    "a copy that failed unexpectedly shadows": "no history makes an application raise",
    "name of what was given back is free for who forgot it": _GIVEN_BACK,
    "of what is nobody's nobody takes a downlink counter": _RIGHT_BEHIND,
    "former life continued by a frame it had come past": _ALONE,
    "refused claim keeps the state alive": "a state is remembered for a day",
    "DevEui plain": "stations of histories do not read whose downlink it is",
    "a full queue is no refusal": "nobody asks for sixteen downlinks in a history",
    "only more repetitions": "the record of a device does not change in a history",
    "who began a life alone takes those before it back": _NEVER_SEEN,
    "FCntDown without a claim for anybody": _NEVER_SEEN,
    "what was given back under no name keeps one": _NEVER_SEEN,
    "claimed and never sent taken for a retry": "no server of a history is killed in mid claim",
}


@dataclass(frozen=True, slots=True)
class Found:
    """What exploring a mutant came to: "yes", "NO", "false" or "beyond"."""

    mutant: str
    word: str
    seconds: float = 0
    histories: int = 0
    receptions: int = 0
    law: str = ""

    @property
    def is_good(self) -> bool:
        """Whether it was found, and cut down far enough."""
        return self.word in ("yes", "beyond") and self.receptions <= RECEPTIONS_MAX

    def __str__(self) -> str:
        figures = f"{self.seconds:6.1f} {self.histories:9} {self.receptions:10}"
        return f"{self.mutant:58} {self.word:>6} {figures}  {self.law}"


def main(argv: list[str]) -> int:
    """Explore the mutants of the lists and with the words given on the command line."""
    logging.disable(logging.CRITICAL)  # of what servers of histories say
    part = next((word for word in argv if re.fullmatch(r"\d*:\d*", word)), ":")
    words = [word for word in argv if word != part]
    chosen = [
        mutant
        for group, mutants in LISTS.items()
        for mutant in mutants
        if not words or group in words or any(word in mutant.name for word in words)
    ]
    first, last = (int(number) if number else None for number in part.split(":"))
    chosen = chosen[first:last]
    print(f"{'mutant':58} {'found':>6} {'cpu s':>6} {'histories':>9} {'receptions':>10}  law")
    bad = 0
    for mutant in chosen:
        found = explored(mutant)
        bad += not found.is_good
        print(found, flush=True)
    print(f"\n{len(chosen) - bad} of {len(chosen)} mutants found or beyond histories")
    return 1 if bad else 0


def explored(mutant: Mutant) -> Found:
    """Explore one mutant; those that no history shows are not tried."""
    if "(Redis)" in mutant.name or "redis" in mutant.file:
        return Found(mutant.name, "beyond", law=_REDIS)
    if mutant.name in BEYOND:
        return Found(mutant.name, "beyond", law=BEYOND[mutant.name])
    before_s = _children_s()
    with tempfile.TemporaryDirectory(prefix="lorabench-explored-") as folder:
        ran = _explore(Path(folder), mutant)
    seconds = _children_s() - before_s
    if not ran.stdout:
        why = ran.stderr.strip()[-100:].replace("\n", " ")
        return Found(mutant.name, "broken", seconds, law=why)
    told = json.loads(ran.stdout)
    if not told["findings"]:
        return Found(mutant.name, "NO", seconds, told["histories"])
    first = told["findings"][0]
    as_it_is = play_and_judge(read_history(first["history"]))
    word = "false" if as_it_is.causes else "yes"
    law = f"{first['law']}: {first['words']}"[:110]
    law = first["history"] if word == "false" else law
    return Found(mutant.name, word, seconds, told["histories"], first["receptions"], law)


def _explore(tree: Path, mutant: Mutant) -> subprocess.CompletedProcess[str]:
    for name in ("lns", "bench", "firmware_scripts"):
        shutil.copytree(ROOT / name, tree / name)
    (tree / KEPT.relative_to(ROOT)).parent.mkdir()
    shutil.copy(KEPT, tree / KEPT.relative_to(ROOT))
    text = (tree / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1, f"{mutant.name}: its line is there no more"
    (tree / mutant.file).write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    command = [sys.executable, "-m", "bench", "explore", "--histories", str(HISTORIES)]
    command += ["--workers", WORKERS, "--until-first", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    return subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, check=False,
        timeout=TIMEOUT_S,
    )  # fmt: skip


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
