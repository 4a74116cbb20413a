import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants import edges
from tests.mutants.__main__ import LISTS
from tests.mutants.equivalent import EQUIVALENT
from tests.mutants.faults import ROOT, Fault, all_faults, draw, faults_in
from tests.mutants.generated import Judged, Noticed, coroutine_around, scenario, table
from tests.mutants.module_tests import copy_of_the_tree
from tests.mutants.module_tests import test_files as files_of_tests
from tests.mutants.mutant import Mutant
from tests.mutants.planting import plant
from tests.mutants.written import all_written, written

WINDOW = "lns/lorawan/region.py::first_window: rx1_us >= lead_us -> rx1_us > lead_us"


@pytest.fixture(scope="module")
def faults() -> list[Fault]:
    return list(all_faults(["lns"]))


def named(name: str) -> Fault:
    found = [fault for fault in faults_in(ROOT / name.partition("::")[0]) if fault.name == name]
    assert len(found) == 1
    return found[0]


def test_every_fault_has_a_name_of_its_own(faults: list[Fault]) -> None:
    assert [name for name, times in Counter(f.name for f in faults).items() if times > 1] == []


def test_a_fault_is_one_edit_of_its_file() -> None:
    fault = named(WINDOW)
    before = (ROOT / fault.file).read_text().splitlines()
    after = fault.broken().splitlines()
    assert [(old, new) for old, new in zip(before, after, strict=True) if old != new] == [
        ("    if rx1_us >= lead_us:", "    if (rx1_us > lead_us):")
    ]


def test_what_people_read_is_left_alone(faults: list[Fault]) -> None:
    assert not [fault for fault in faults if fault.old.startswith("log.")]
    assert not [f for f in faults if f.function.endswith(("__repr__", "__str__"))]


def test_a_seed_draws_from_every_function_and_the_same_again(faults: list[Fault]) -> None:
    drawn = draw(faults, 7)
    assert drawn == draw(faults, 7) != draw(faults, 8)
    assert {(f.file, f.function) for f in drawn} == {(f.file, f.function) for f in faults}


def test_what_is_called_equivalent_is_still_there(faults: list[Fault]) -> None:
    assert sorted(set(EQUIVALENT) - {fault.name for fault in faults}) == []


def test_a_fault_is_planted_in_functions_that_are_loaded() -> None:
    code = (
        "from lns.lorawan.region import first_window as known\n"
        "from tests.mutants.planting import plant\n"
        "from tests.mutants.test_generated import WINDOW, named\n"
        "before = known(0, 0, 1_000_000, lead_us=1_000_000).answer\n"
        "assert plant(named(WINDOW))\n"
        "print(before, known(0, 0, 1_000_000, lead_us=1_000_000).answer)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == ["RX1", "RX2"]


def test_one_process_plays_all_that_comes_past_a_fault(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "import pytest\n"
        "from tests.mutants.generated import _pytest\n"
        "folder = Path(sys.argv[1])\n"
        "class Look:\n"
        "    def pytest_sessionstart(self, session):\n"
        "        (folder / 'processors').write_text(str(len(os.sched_getaffinity(0))))\n"
        "        pytest.exit('seen')\n"
        "_pytest(folder, 'scenarios/test_replay.py', Look())\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=False)
    assert (tmp_path / "processors").read_text() == "1"


def test_a_constant_cannot_be_planted_in_what_is_loaded() -> None:
    faults = faults_in(ROOT / "lns/lorawan/region.py")
    assert not plant(next(fault for fault in faults if not fault.in_body))


def test_a_verdict_is_right_only_where_it_names_the_network_server() -> None:
    fault = named(WINDOW)
    told = {
        "right": [Noticed("a", "ERROR", "device", ""), Noticed("b", "FAIL", "LNS", "late")],
        "wrong": [Noticed("a", "FAIL", "device", ""), Noticed("b", "INCONCLUSIVE", "air", "")],
        "survived": [],
    }
    judged = [Judged(fault, noticed) for noticed in told.values()]
    assert [one.word for one in judged] == list(told)
    assert table(judged).splitlines()[-1].split() == ["together", "3", "0", "1", "1", "0", "1"]


def test_rows_of_a_scenario_are_known_by_its_name() -> None:
    case = "scenarios/test_joins.py::test_it[{}1.0.2-west]"
    assert scenario(case.format("Drop-")) == scenario(case.format("None-")) != scenario("other")


def test_a_module_is_tested_by_its_own_tests_first() -> None:
    assert next(files_of_tests("lns/dedup/strategy.py")) == "tests/lns/dedup/test_strategy.py"


@pytest.mark.programs
def test_a_module_that_no_test_knows_is_tested_through_its_users() -> None:
    assert next(files_of_tests("lns/toml_file.py")) == "tests/lns/test_config.py"


def test_a_copy_of_the_tree_has_all_that_a_test_reads(tmp_path: Path) -> None:
    """Or its tests fail whatever the fault is, and each fault would seem noticed."""
    command = [sys.executable, "-m", "pytest", "tests/test_pages.py", "--collect-only", "-q"]
    tree = copy_of_the_tree(tmp_path)
    ran = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout


def test_a_scenario_notices_a_fault_and_names_its_owner() -> None:
    command = [sys.executable, "-m", "tests.mutants.generated", "--no-tests"]
    command += ["--scenarios", "scenarios/test_missed_confirm_window.py", "--only"]
    wrong = (
        "lns/lorawan/region.py::first_window: Answer.RX2 -> Answer.RX1",
        "Connection._want_clock: self.soon(self._ask_for_clock) -> pass",  # no station is told
        "Connections.clock: clock = self._clocks",  # the server ends
    )
    ran = subprocess.run([*command, *wrong], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.findall(r"^(\w+) +\d+ lns", ran.stdout, re.MULTILINE) == ["right"] * 3


def test_what_was_written_by_hand_fits_its_module_and_has_a_name_of_its_own() -> None:
    written = list(all_written())
    assert len({fault.name for fault in written}) == len(written)
    for fault in written:
        compile(fault.broken(), fault.file, "exec")
        assert fault.broken() != (ROOT / fault.file).read_text("utf-8")
        assert (ROOT / next(m.noticed_by for m in edges.MUTANTS if m.name == fault.called)).exists()


def test_an_edit_of_an_else_is_come_past_by_who_comes_past_what_stands_behind_it() -> None:
    old = "            else:\n                del self._by_dev_addr[old.dev_addr]\n"
    fault = written(Mutant("", "lns/uplink/registry.py", old, old.replace("else", "elif device")))
    [first, last] = fault.statement
    lines = (ROOT / fault.file).read_text("utf-8").splitlines()[first - 1 : last]
    assert [line.strip() for line in lines] == ["else:", "del self._by_dev_addr[old.dev_addr]"]


@pytest.mark.parametrize(
    ("file", "old", "put_in", "function", "lines"),
    [
        (
            "lns/downlink/downlink.py",
            "                len(pdu),\n            )\n",
            "                *(),\n",
            "Downlinks.answer",
            ["len(pdu),", ")"],
        ),
        (
            "lns/uplink/registry.py",
            "                self._by_dev_addr[old.dev_addr] = others\n            else:\n",
            "                break\n",
            "Registry._set_sessions",
            ["self._by_dev_addr[old.dev_addr] = others", "else:", "del self._by_dev_addr["],
        ),
        (
            "lns/uplink/mac_layer.py",
            "            wanted.askings += 1\n",
            "            return\n",
            "StatusRequests.asked",
            ["wanted.askings += 1", ""],
        ),
    ],
)
def test_what_is_put_in_last_is_come_past_by_who_comes_past_what_stands_before_it(
    file: str, old: str, put_in: str, function: str, lines: list[str]
) -> None:
    before, end, after = old.partition("\n")
    fault = written(Mutant("", file, old, before + end + put_in + after))
    first, last = fault.statement
    found = (ROOT / file).read_text("utf-8").splitlines()[first - 1 : last]
    assert (fault.function, fault.in_body) == (function, True)
    for line, begin in zip(found, lines, strict=True):
        assert line.strip().startswith(begin)


def test_what_was_broken_once_can_be_broken_again() -> None:
    mutants = [mutant for mutants in LISTS.values() for mutant in mutants]
    assert [m.name for m in mutants if (ROOT / m.file).read_text("utf-8").count(m.old) != 1] == []


def test_what_nobody_can_see_still_fits_its_module() -> None:
    for mutant, why in edges.EQUIVALENT.items():
        fault = written(mutant)
        compile(fault.broken(), fault.file, "exec")
        assert why.endswith(".") and len(why.split()) >= 8, f"{mutant.name}: say why"


def test_an_edit_is_listed_once() -> None:
    faults = [*all_written(), *map(written, edges.EQUIVALENT)]
    listed = Counter((fault.file, fault.broken()) for fault in faults)
    assert [fault.name for fault in faults if listed[fault.file, fault.broken()] > 1] == []


def test_whoever_comes_into_a_coroutine_may_come_past_any_line_of_it() -> None:
    file = "lns/server/station_server.py"
    lines = (ROOT / file).read_text("utf-8").splitlines()
    awaits, ended, plain = (
        next(number for number, line in enumerate(lines, 1) if word in line)
        for word in (
            "await self._network_server.serve(",
            "del self._links[",
            "self._public_uri = public_uri",
        )
    )
    around = coroutine_around(file, awaits)
    assert around is not None and around == coroutine_around(file, ended)
    assert around[0] < awaits < ended <= around[1]
    assert coroutine_around(file, plain) is None


def test_a_constant_is_changed_wherever_it_is_known() -> None:
    code = (
        "from lns.dedup import concentrator\n"
        "from lns import network_server\n"
        "from tests.mutants.planting import plant_constant\n"
        "from tests.mutants.mutant import Mutant\n"
        "from tests.mutants.written import written\n"
        "old = 'RETENTION_US = 60_000_000'\n"
        "edit = Mutant('', 'lns/dedup/concentrator.py', old, old.replace('60', '59'))\n"
        "assert plant_constant(written(edit))\n"
        "serve = network_server.NetworkServer.__init__\n"
        "print(concentrator.RETENTION_US, network_server.RETENTION_US)\n"
        "print(serve.__kwdefaults__['retention_us'])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == ["59000000"] * 3
