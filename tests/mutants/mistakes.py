"""Would anybody notice a bench that answers the mistake of a person late, wrongly or not at all?"""

from tests.mutants.mutant import Mutant

PROGRAM = "tests/bench/cli/test_program.py"
CATALOGUES = "tests/scenarios/test_catalogue_file.py"
MASTERS = "tests/bench/spark/test_java.py"
PAGE = "tests/bench/report/test_page.py"

MUTANTS = (
    Mutant(
        "a line of an example is in no help",
        "bench/cli/program.py",
        "        own.setdefault(last, []).append(example)\n",
        "        own.setdefault(word, []).append(example)\n",
        PROGRAM,
    ),
    Mutant(
        "an example is broken by the terminal",
        "bench/cli/program.py",
        '    return " \\\\\\n    ".join(lines)\n',
        '    return " ".join(lines)\n',
        PROGRAM,
    ),
    Mutant(
        "whatever a command ends with means what it means of a run",
        "bench/cli/program.py",
        "codes.get(name, _MEANINGS)",
        "_MEANINGS",
        PROGRAM,
    ),
    Mutant(
        "a catalogue of which nothing can be played is one",
        "scenarios/conftest.py",
        "    if not found.cases:\n",
        "    if not found.cases and not found.unplayed:\n",
        CATALOGUES,
    ),
    Mutant(
        "a letter that is none is a field that is missing",
        "scenarios/catalogue.py",
        "if not isinstance(case[key], str) or not re.fullmatch(form, case[key], re.ASCII):",
        "if not isinstance(case[key], str):",
        CATALOGUES,
    ),
    Mutant(
        "what no rig can play is what this one lacks",
        "bench/cli/run.py",
        "if why not in told}",
        "}",
        "tests/bench/cli/test_run.py",
    ),
    Mutant(
        "traffic of another region is played",
        "bench/traffic/recording.py",
        "    if not low_hz <= freq_hz <= high_hz:\n",
        "    if freq_hz <= 0:\n",
        "tests/bench/traffic/test_campus_iot.py",
    ),
    Mutant(
        "anything is a master of Spark",
        "bench/spark/session.py",
        "    found = _MASTERS.fullmatch(master)\n",
        '    found = _MASTERS.fullmatch(master) or _MASTERS.fullmatch("yarn")\n',
        MASTERS,
    ),
    Mutant(
        "a master is looked for at its first place only",
        "bench/spark/session.py",
        '(found["places"] or "").split(",")',
        '(found["places"] or "").split(",")[:1]',
        MASTERS,
    ),
    Mutant(
        "a lake is looked into when everything is worked out",
        "bench/lake/lake.py",
        "            self._folders.exists(self.uri)\n        except",
        "            pass\n        except",
        "tests/bench/score/test_lake.py",
    ),
    Mutant(
        "a run that was killed is all green",
        "bench/report/page.py",
        "    not_judged = len(missing - index_of.keys())\n",
        "    not_judged = 0 * len(missing)\n",
        PAGE,
    ),
    Mutant(
        "a night is compared with itself",
        "bench/cli/against.py",
        "    found = compared(other.runs, [new])\n",
        "    found = compared(runs_named(other.name, folder.parent), [new])\n",
        "tests/bench/cli/test_against.py",
    ),
    Mutant(
        "an emulated station does not say that its channels have come",
        "bench/virtual/lab/air_process.py",
        '            print(f"INFO: Configuring for region: {where}", flush=True)\n',
        "            assert where\n",
        "tests/bench/virtual/lab/test_emulated_lab.py",
    ),
    Mutant(
        "a night of a few scenarios calls gone what it has not played",
        "bench/night/morning.py",
        '    return any(one.strip[-1:] not in ("", NOT_RUN, LEFT_OUT) for one in series)\n',
        "    return bool(LEFT_OUT)\n",
        "tests/bench/night/test_morning.py",
    ),
    Mutant(
        "a run without a score has nothing on the air",
        "bench/report/templates/report.html.j2",
        '{% if score.is_scored %}\n<ul class="tiles" aria-label="Totals">',
        '{% if true %}\n<ul class="tiles" aria-label="Totals">',
        PAGE,
    ),
)
