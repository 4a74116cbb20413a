"""Would anybody notice a bench that leaves something behind on its host, or blames it wrongly?"""

from tests.mutants.mutant import Mutant

FORKS = "bench/host/fork_server.py"
FORKING = "tests/bench/host/test_fork_server.py"
PLAY = "bench/run/attempts.py"
TURNS = "tests/bench/run/test_turn.py"
SIDE_BY_SIDE = "bench/run/wall_clock.py"
ROUNDS = "tests/bench/run/test_side_by_side.py"
LATENCY = "tests/bench/host/test_program.py"

MUTANTS = (
    Mutant(
        "two processes make one archive of classes",
        "bench/spark/session.py",
        "fcntl.LOCK_EX | fcntl.LOCK_NB",
        "fcntl.LOCK_SH | fcntl.LOCK_NB",
        "tests/bench/spark/test_java.py",
    ),
    Mutant(
        "an archive of classes that is being built belongs to nobody",
        "bench/spark/session.py",
        "        os.set_inheritable(taken, True)",
        "        os.set_inheritable(taken, False)",
        "tests/bench/spark/test_java.py",
    ),
    Mutant(
        "a fork is nobody's child",
        FORKS,
        "            adopt_orphans()\n",
        "",
        FORKING,
    ),
    Mutant(
        "a fork outlives the bench",
        FORKS,
        "    _prctl(_SET_PDEATHSIG, signal.SIGKILL)\n",
        "",
        FORKING,
    ),
    Mutant(
        "a start that is given up goes on",
        FORKS,
        "                Adopted(await asked, None).kill()\n",
        "                await asked\n",
        FORKING,
    ),
    Mutant(
        "a fork runs in the environment of the server",
        FORKS,
        '    os.environ.update(wanted["env"])\n',
        "",
        FORKING,
    ),
    Mutant(
        "a plug whose cycle is cancelled stays off",
        "bench/lab/power.py",
        "        await asyncio.wait([off])\n        if off.exception() is None:\n",
        "        if off.done() and off.exception() is None:\n",
        "tests/bench/lab/power/test_power.py",
    ),
    Mutant(
        "a board is to blame for a late host",
        PLAY,
        "is_of_host(cause) or (stalled and isinstance(cause, LATE_ERRORS))",
        "is_of_host(cause)",
        TURNS,
    ),
    Mutant(
        "a late host excuses a misspelt scenario",
        PLAY,
        "(stalled and isinstance(cause, LATE_ERRORS))",
        "stalled",
        TURNS,
    ),
    Mutant(
        "what took too long is played as often as anything",
        PLAY,
        "isinstance(cause, CaseTooLong) and self.number >= TOO_LONG_MAX",
        "False",
        TURNS,
    ),
    Mutant(
        "a board that gave up on a late host has failed",
        PLAY,
        "return self.is_played and is_late",
        "return False",
        TURNS,
    ),
    Mutant(
        "a fault of a board is excused on any host",
        PLAY,
        "if stall_us and error is not None",
        "if error is not None",
        TURNS,
    ),
    Mutant(
        "a case is played again in the same busy moment",
        SIDE_BY_SIDE,
        "if self._playing == 0 and self._waiting:",
        "if self._waiting:",
        ROUNDS,
    ),
    Mutant(
        "what is played again is played all at once",
        SIDE_BY_SIDE,
        "asyncio.Semaphore(self._at_once[min(self._round, len(self._at_once)) - 1])",
        "asyncio.Semaphore(80)",
        ROUNDS,
    ),
    Mutant(
        "a case that is ended while it waits counts twice",
        SIDE_BY_SIDE,
        "                self._playing += 1  # until it says itself that it is over\n",
        "",
        ROUNDS,
    ),
    Mutant(
        "the disk is waited for since the machine was booted",
        "bench/host/program.py",
        "now - old for now, old in zip(now_away_us, before_us, strict=True)",
        "now for now in now_away_us",
        LATENCY,
    ),
    Mutant(
        "a run tells of the newest folder, whoever made it",
        "bench/cli/run.py",
        "    folder = lines.folder\n",
        "    folder = max(selection.capture_dir.iterdir(), default=None)\n",
        "tests/bench/cli/test_run.py",
    ),
    Mutant(
        "a case that another process played counts its lines by itself",
        "bench/run/simulated.py",
        '{**one, "last_seq": last_seq[one["source"]]}',
        "one",
        "tests/bench/run/test_simulated.py",
    ),
    Mutant(
        "a case is taken from another process whenever it began there",
        "bench/run/simulated.py",
        "played if passed and played.begun_us == begins_us else None",
        "played if passed else None",
        "tests/bench/run/test_simulated.py",
    ),
    Mutant(
        "a case that failed elsewhere is not played here",
        "bench/run/simulated.py",
        "passed = played.verdict.result is Result.PASS",
        "passed = True",
        "tests/bench/run/test_simulated.py",
    ),
    Mutant(
        "what another process plays is not waited for",
        "bench/run/simulated.py",
        "if one.reached <= number]",
        "if one.reached < number]",
        "tests/bench/run/test_simulated.py",
    ),
    Mutant(
        "another process waits until each of its cases is taken",
        "bench/run/simulated.py",
        "                sent = sending.submit(",
        "                sent.result()\n                sent = sending.submit(",
        "tests/bench/run/test_simulated.py",
    ),
    Mutant(
        "a callback of the server breaks, and the bench is blamed",
        "bench/run/simulated.py",
        "            elif _is_of_server(failure):\n",
        "            elif False:\n",
        "tests/bench/score/test_honesty.py",
    ),
    Mutant(
        "who lets no time pass is the clock itself",
        "bench/clock.py",
        "= code.co_filename",
        "= __file__",
        "tests/bench/test_clock.py",
    ),
    Mutant(
        "the end of a link is told as often as somebody ends it",
        "bench/station/tap.py",
        "        if not is_over:\n            self._over()\n",
        "        self._over()\n",
        "tests/bench/station/test_tap.py",
    ),
    Mutant(
        "what arrived before somebody took a link is lost",
        "bench/station/tap.py",
        "        while self._arrived:\n            take(",
        "        while self._arrived:\n            (",
        "tests/bench/station/test_tap.py",
    ),
    Mutant(
        "a pause passes over what happens meanwhile",
        "bench/clock.py",
        "if self._ready or self._sockets.are_waited_for or not nothing_due:",
        "if self._ready or self._sockets.are_waited_for:",
        "tests/bench/test_clock.py",
    ),
    Mutant(
        "a pause takes turns in which nothing happens",
        "bench/clock.py",
        " or not loop.skip_to(now_us() + us):",
        " or us:",
        "tests/bench/test_clock.py",
    ),
    Mutant(
        "a device that did not join breaks its scenario",
        "bench/rig/stations.py",
        "    if device.session is None:\n",
        "    if False:\n",
        "tests/bench/rig/test_simulated.py",
    ),
    Mutant(
        "a message may be published twice in one connection",
        "bench/virtual/mqtt_broker.py",
        "        if what in self._taken:",
        "        if False:",
        "tests/bench/virtual/test_mqtt_broker.py",
    ),
)
