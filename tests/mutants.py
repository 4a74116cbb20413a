"""Would anybody notice? `make mutants` breaks the network server, one line at a time.

Each mutant is one edit in a copy of the tree. The whole scenario set runs against it on the
simulated rig, and at least one case must end in FAIL; where that rig cannot force the situation (a
store that fails, a station that lies), at least one test of a test file must fail. The unbroken
copy must pass in full. Exit status 1 when a mutant survives, 2 when an edit no longer fits the
code.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("lns", "bench", "scenarios", "tests", "pyproject.toml")
SCENARIOS = "scenarios"
STORE_OUTAGE = "tests/lns/test_store_outage.py"
DOWNLINK = "tests/lns/test_downlink.py"
SIDE_BY_SIDE = 2
RUN_TIMEOUT_S = 600


@dataclass(frozen=True, slots=True)
class Mutant:
    """One deliberate bug: `old` stands exactly once in `file` and becomes `new`.

    `noticed_by`: what must notice it, the scenarios or one test file.
    """

    name: str
    file: str
    old: str
    new: str
    noticed_by: str = SCENARIOS


@dataclass(frozen=True, slots=True)
class Finding:
    """How a tree was judged: verdicts by word, and the first case or test that failed."""

    verdicts: dict[str, int]
    first: str

    @property
    def caught(self) -> bool:
        """Whether at least one case is a FAIL."""
        return self.verdicts.get("FAIL", 0) > 0


MUTANTS = (
    Mutant(
        "no slide on a hit",
        "lns/dedup/concentrator.py",
        "        self._entries[key] = Sighting(first, now_us)",
        "        self._entries.setdefault(key, Sighting(first, now_us))",
    ),
    Mutant(
        "station replaced on a hit",
        "lns/dedup/concentrator.py",
        "self._entries[key] = Sighting(first, now_us)",
        "self._entries[key] = Sighting(station, now_us)",
    ),
    Mutant(
        "> for >= at 60 s",
        "lns/dedup/concentrator.py",
        "        over_us = now_us - self._retention_us\n",
        "        over_us = now_us - self._retention_us - 1\n",
    ),
    Mutant(
        "retention half as long",
        "lns/dedup/concentrator.py",
        "        self._retention_us = retention_us\n",
        "        self._retention_us = retention_us // 2\n",
    ),
    Mutant(
        "key without MIC",
        "lns/uplink.py",
        "DataKey(match.device.dev_eui, mic_of(frame), frame.f_cnt)",
        'DataKey(match.device.dev_eui, type(mic_of(frame))(""), frame.f_cnt)',
    ),
    Mutant(
        "key without DevEUI",
        "lns/uplink.py",
        "DataKey(match.device.dev_eui, mic_of(frame), frame.f_cnt)",
        'DataKey(type(match.device.dev_eui)(""), mic_of(frame), frame.f_cnt)',
    ),
    Mutant(
        "join key without DevNonce",
        "lns/join.py",
        "JoinKey(request.join_eui, request.dev_eui, request.dev_nonce)",
        "JoinKey(request.join_eui, request.dev_eui, 0)",
    ),
    Mutant(
        "soft duplicate answered",
        "lns/dedup/strategy.py",
        "Disposition(_COPY_OF[s])",
        "Disposition(_COPY_OF[s], answers=True)",
    ),
    Mutant(
        "Duplicate forwarded",
        "lns/dedup/strategy.py",
        "_COPY_DROPPED = Disposition(Upstream.DROPPED, Reason.DUPLICATE)",
        "_COPY_DROPPED = Disposition(Upstream.FORWARDED)",
    ),
    Mutant(
        "None marks copies",
        "lns/dedup/strategy.py",
        "Strategy.NONE: Upstream.FORWARDED,",
        "Strategy.NONE: Upstream.MARKED,",
    ),
    Mutant(
        "unconfirmed resubmission forwarded",
        "lns/dedup/strategy.py",
        "repeats = may_have_restarted or (standing is Standing.EQUAL and confirmed)",
        "repeats = may_have_restarted or standing is Standing.EQUAL",
    ),
    Mutant(
        "resubmission sends data under Drop",
        "lns/dedup/strategy.py",
        "        Upstream.DROPPED, Reason.RESUBMISSION_SUPPRESSED, answers=True",
        "        Upstream.FORWARDED, answers=True",
    ),
    Mutant(
        "no resubmission limit",
        "lns/dedup/strategy.py",
        "RESUBMISSIONS_MAX = 3",
        "RESUBMISSIONS_MAX = 1_000",
    ),
    Mutant(
        "late copy of an older frame passes",
        "lns/dedup/strategy.py",
        "return done if standing is Standing.EQUAL or may_have_restarted else _INVALID",
        "return done",
    ),
    Mutant(
        "every device may have restarted",
        "lns/end_device.py",
        "return self.activation is Activation.ABP and self.relaxed_f_cnt",
        "return True",
    ),
    Mutant(
        "no gap check",
        "lns/end_device.py",
        "return Standing.NEWER if gap <= MAX_GAP else Standing.TOO_FAR",
        "return Standing.NEWER",
    ),
    Mutant(
        "counter rollover at 65 535",
        "lns/lorawan/frame_counter.py",
        "return wire, wire + _WIRE_SPAN",
        "return (wire,)",
    ),
    Mutant(
        "answer from the wrong station",
        "lns/connections.py",
        "            return False\n        connection.protocol.send_downlink(downlink)",
        "            return False\n"
        "        connection = max(self._current.items(), key=lambda one: one[0])[1]\n"
        "        connection.protocol.send_downlink(downlink)",
    ),
    Mutant(
        "FCntDown used again",
        "lns/end_device.py",
        "        self.f_cnt_down += 1\n",
        "",
    ),
    Mutant(
        "answer always in RX1",
        "lns/receive_window.py",
        "    if rx1_us >= lead_us:",
        "    if True:",
    ),
    Mutant(
        "join level 1 before its MIC",
        "lns/join.py",
        "        if not request.mic_is_valid(device.app_key):",
        "        self._note(reception, request)\n"
        "        if not request.mic_is_valid(device.app_key):",
    ),
    Mutant(
        "DevNonce forgotten",
        "lns/join.py",
        "        if request.dev_nonce in used:\n            return Reason.DEV_NONCE_USED",
        "        used = frozenset()",
    ),
    Mutant(
        "answered before the counter is kept",
        "lns/downlink_frame.py",
        "await self._registry.keep(session.dev_eui)",
        "pass",
    ),
    Mutant(
        "application downlink never done",
        "lns/downlink.py",
        "            self._queues.prove(scheduled.dev_eui, scheduled.carries)",
        "            pass",
    ),
    Mutant(
        "class C through another station",
        "lns/class_c.py",
        "        self._last_heard[dev_eui] = station",
        "        self._last_heard.setdefault(dev_eui, station)",
    ),
    Mutant(
        "session of a join that was not kept",
        "lns/registry.py",
        "        kept = False\n        try:",
        "        kept = True\n        try:",
        STORE_OUTAGE,
    ),
    Mutant(
        "join that was not kept shadows copies",
        "lns/join.py",
        "self._sightings.forget(self._key(request))",
        "pass",
        STORE_OUTAGE,
    ),
    Mutant(
        "outage spends resubmissions",
        "lns/uplink.py",
        "            self._give_back(facts)\n            return facts.withheld",
        "            return facts.withheld",
        STORE_OUTAGE,
    ),
    Mutant(
        "report of any station believed",
        "lns/unreported.py",
        "        scheduled = self._scheduled.get((station, report.diid))\n"
        "        if scheduled is None or scheduled.dev_eui != report.dev_eui:\n"
        "            return None\n"
        "        del self._scheduled[station, report.diid]\n",
        "        keys = [key for key in self._scheduled if key[1] == report.diid]\n"
        "        scheduled = self._scheduled[keys[0]] if keys else None\n"
        "        if scheduled is None or scheduled.dev_eui != report.dev_eui:\n"
        "            return None\n"
        "        del self._scheduled[keys[0]]\n",
        DOWNLINK,
    ),
)


def main(argv: list[str]) -> int:
    """Run all mutants, or those whose name contains a word given on the command line."""
    chosen = [m for m in MUTANTS if not argv or any(word in m.name for word in argv)]
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
        tree = Path(folder)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, tree / name)
        if mutant is not None:
            broken = _text(mutant).replace(mutant.old, mutant.new)
            (tree / mutant.file).write_text(broken, encoding="utf-8")
        command = [sys.executable, "-m", "pytest", judges, "-q", "-p", "no:cacheprovider"]
        # Python looks into the tree before it looks for an installed project.
        environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
        ran = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True,
            timeout=RUN_TIMEOUT_S, check=False,
        )  # fmt: skip
        if judges == SCENARIOS:
            return _finding(tree, ran.stdout[-400:])
        return _tests_finding(ran.stdout)


def _tests_finding(output: str) -> Finding:
    """What pytest says at its end; a tree that cannot be tested has neither word."""
    said = {word: int(n) for n, word in re.findall(r"(\d+) (failed|passed|error)", output)}
    words = {"failed": "FAIL", "passed": "PASS", "error": "ERROR"}
    verdicts = {words[word]: n for word, n in said.items()}
    first = re.search(r"^FAILED \S+::(\S+)", output, re.MULTILINE)
    return Finding(verdicts, first[1] if first else output[-120:].replace("\n", " "))


def _finding(tree: Path, output: str) -> Finding:
    verdicts: dict[str, int] = {}
    first = ""
    for end in _case_ends(tree):
        verdicts[end["verdict"]] = verdicts.get(end["verdict"], 0) + 1
        if end["verdict"] == "FAIL" and not first:
            first = end["case"]
    return Finding(verdicts, first or output.strip().replace("\n", " ")[-120:])


def _case_ends(tree: Path) -> Iterator[dict[str, str]]:
    for path in sorted((tree / "runs").glob("*/bench.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            if event["kind"] == "case.end":
                yield event


def _text(mutant: Mutant) -> str:
    return (ROOT / mutant.file).read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
