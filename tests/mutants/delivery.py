"""What would make a message of the application come twice, not at all, or be counted wrongly?"""

from tests.mutants.mutant import Mutant

HELD = "tests/lns/delivery/test_held_subscription.py"

MUTANTS = (
    Mutant(
        "acknowledgements lost by a close",
        "lns/delivery/subscription.py",
        "                    await wire.leave()",
        "                    wire.close()",
        HELD,
    ),
    Mutant(
        "left before it was watched",
        "lns/delivery/subscription.py",
        "                await self._wire.leave()  # the task had no time to begin",
        "                pass",
        HELD,
    ),
)
