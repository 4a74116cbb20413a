"""Would anybody notice? `make mutants` breaks the network server, one line at a time.

Each mutant is one edit in a copy of the tree. The scenarios run against it on the simulated rig,
and at least one case must end in FAIL; where that rig cannot force the situation (a store that
fails, a station that lies), at least one test of a test file must fail. The unbroken copy must
pass in full. Exit status 1 when a mutant survives, 2 when an edit no longer fits the code.

    python -m tests.mutants                  all of them
    python -m tests.mutants level_2 window   one list, and those with this word in their name
"""

import json
import re
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.mutants import (
    antenna,
    boards,
    claims,
    delivery,
    devices,
    exchanges,
    far_end,
    hosts,
    level_1,
    level_2,
    listeners,
    mistakes,
    museum,
    neighbours,
    nights,
    senders,
    situations,
)
from tests.mutants.module_tests import copy_of_the_tree, tested
from tests.mutants.mutant import SCENARIOS, Mutant

ROOT = Path(__file__).resolve().parents[2]
LISTS = {
    "level_1": level_1.MUTANTS,
    "level_2": level_2.MUTANTS,
    "claims": claims.MUTANTS,
    "antenna": antenna.MUTANTS,
    "exchanges": exchanges.MUTANTS,
    "delivery": delivery.MUTANTS,
    "neighbours": neighbours.MUTANTS,
    "nights": nights.MUTANTS,
    "listeners": listeners.MUTANTS,
    "devices": devices.MUTANTS,
    "museum": museum.MUTANTS,
    "situations": situations.MUTANTS,
    "boards": boards.MUTANTS,
    "senders": senders.MUTANTS,
    "far_end": far_end.MUTANTS,
    "hosts": hosts.MUTANTS,
    "mistakes": mistakes.MUTANTS,
}
SIDE_BY_SIDE = 2
RUN_TIMEOUT_S = 600
TEST_TIMEOUT_S = 100
SERVER = "LNS"
"""After this long a test has noticed a mutant: what waits for it has no end."""


@dataclass(frozen=True, slots=True)
class Finding:
    """How a tree was judged: verdicts by word, and the first case or test that failed.

    `is_right`: whether the right one was blamed for the right thing. `is_of_another`: whether the
    fault is that of somebody else than the network server.
    """

    verdicts: dict[str, int]
    first: str
    is_right: bool = True
    is_of_another: bool = False

    @property
    def caught(self) -> bool:
        """Whether at least one case is a FAIL, or of another's fault proves nothing."""
        told = ("FAIL", "INCONCLUSIVE") if self.is_of_another else ("FAIL",)
        return any(word in self.verdicts for word in told) and self.is_right


def main(argv: list[str]) -> int:
    """Run all mutants, or those of the lists and with the words given on the command line."""
    chosen = [
        mutant
        for group, mutants in LISTS.items()
        for mutant in mutants
        if not argv or group in argv or any(word in mutant.name for word in argv)
    ]
    misfits = [mutant for mutant in chosen if _text(mutant).count(mutant.old) != 1]
    for mutant in misfits:
        print(f"{mutant.name}: {mutant.file} does not contain its line exactly once any more")
    if misfits:
        return 2
    for judges in sorted({mutant.noticed_by for mutant in chosen}):
        unbroken = _judge(None, judges)
        if set(unbroken.verdicts) != {"PASS"}:
            print(f"the unbroken tree does not pass: {unbroken.verdicts} {unbroken.first}")
            return 1
        mutants = sum(mutant.noticed_by == judges for mutant in chosen)
        print(f"{mutants} mutants against {judges}, {unbroken.verdicts['PASS']} pass unbroken")
    print(f"\n{'mutant':38} {'caught':>7} {'FAIL':>5}  what failed first")
    survivors = 0
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        judged = pool.map(lambda mutant: _judge(mutant, mutant.noticed_by), chosen)
        for mutant, finding in zip(chosen, judged, strict=True):
            survivors += not finding.caught
            caught = "yes" if finding.caught else "NO"
            fails = finding.verdicts.get("FAIL", 0)
            print(f"{mutant.name:38} {caught:>7} {fails:>5}  {finding.first}", flush=True)
    print(f"\n{len(chosen) - survivors} of {len(chosen)} mutants caught")
    return 1 if survivors else 0


def _judge(mutant: Mutant | None, judges: str) -> Finding:
    with tempfile.TemporaryDirectory(prefix="lorabench-mutant-") as folder:
        tree = copy_of_the_tree(Path(folder))
        if mutant is not None:
            broken = _text(mutant).replace(mutant.old, mutant.new)
            (tree / mutant.file).write_text(broken, encoding="utf-8")
        options = [judges, "-m", "", "--timeout", str(TEST_TIMEOUT_S)]  # those of Spark too
        ran = tested(tree, options, RUN_TIMEOUT_S)
        if ran is None:
            return Finding({}, f"no end within {RUN_TIMEOUT_S} s")
        if judges.startswith(SCENARIOS):
            return _finding(tree, ran.stdout[-400:], mutant)
        return _tests_finding(ran.stdout)


def _tests_finding(output: str) -> Finding:
    """What pytest says at its end; a tree that cannot be tested has neither word."""
    said = {word: int(n) for n, word in re.findall(r"(\d+) (failed|passed|error)", output)}
    words = {"failed": "FAIL", "passed": "PASS", "error": "ERROR"}
    verdicts = {words[word]: n for word, n in said.items()}
    first = re.search(r"^FAILED \S+::(\S+)", output, re.MULTILINE)
    return Finding(verdicts, first[1] if first else output[-120:].replace("\n", " "))


def _finding(tree: Path, output: str, mutant: Mutant | None) -> Finding:
    verdicts: dict[str, int] = {}
    says = mutant.says if mutant else ""
    first, said, others = "", not says, 0
    for end in _case_ends(tree):
        others += end["verdict"] != "PASS" and mutant is not None and end["owner"] != mutant.owner
        said = said or any(re.search(says, reason) for reason in end["reasons"])
        verdicts[end["verdict"]] = verdicts.get(end["verdict"], 0) + 1
        if end["verdict"] != "PASS" and not first:
            first = end["case"]
    is_right = not says or (said and not others)
    told = first or output.strip().replace("\n", " ")[-120:]
    is_of_another = mutant is not None and mutant.owner != SERVER
    return Finding(verdicts, told, is_right, is_of_another)


def _case_ends(tree: Path) -> Iterator[dict[str, Any]]:
    for path in sorted((tree / "runs").glob("*/bench.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            if event["kind"] == "case.end":
                yield event


def _text(mutant: Mutant) -> str:
    return (ROOT / mutant.file).read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
