"""Would anybody notice a bench that leaves something behind on its host, or blames it wrongly?"""

from tests.mutants.mutant import Mutant

FORKS = "bench/host/fork_server.py"
FORKING = "tests/bench/host/test_fork_server.py"
PLAY = "bench/run/attempts.py"
TURNS = "tests/bench/run/test_turn.py"

MUTANTS = (
    Mutant(
        "a fork is nobody's child",
        FORKS,
        "            _prctl(_SET_CHILD_SUBREAPER, 1)\n",
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
        "                _Adopted(await asked, None).kill()\n",
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
        "tests/bench/lab/power/test_plugs.py",
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
)
