"""What would make a message of the application come twice, not at all, or be counted wrongly?"""

from tests.mutants.mutant import Mutant

HELD = "tests/lns/delivery/test_held_subscription.py"
DETECTORS = "scenarios/test_detectors.py"

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
    Mutant(
        "ids of all topics together",
        "lns/delivery/message_id_window.py",
        'name = f"{len(bus)}:{bus}:{len(channel)}:{channel}:{self._id(message)}"',
        "name = self._id(message)",
        DETECTORS,
    ),
    Mutant(
        "length of the window fixed for ever",
        "lns/delivery/detectors.py",
        "    if {**created, WINDOW_LENGTH: 0} != {**settings, WINDOW_LENGTH: 0}:",
        "    if created != settings:",
        "tests/contracts/test_inbox_store.py",
    ),
    Mutant(
        "new length of the window for the new consumer only",
        "lns/delivery/decisions.py",
        "        self._detectors = self._detectors.as_kept(tx)\n",
        "",
        "tests/lns/delivery/test_inbox.py",
    ),
    Mutant(
        "sessions that are no partitions",
        "lns/delivery/message_id_window.py",
        "return not self._sessions or ",
        "return True or ",
        DETECTORS,
    ),
    Mutant(
        "ids of an older store forgotten",
        "lns/delivery/message_id_window.py",
        "        return self.place(message), Place(Table.WINDOW, self._id(message))",
        "        return (self.place(message),)",
        "tests/contracts/test_inbox_store.py",
    ),
    Mutant(
        "number of an ignored message not noted",
        "lns/delivery/sequence_tracker.py",
        "            self.remember(entries, message, now_us, position)\n        return False",
        "        return False",
        DETECTORS,
    ),
    Mutant(
        "duplicate numbers behind the window not counted",
        "lns/delivery/decisions.py",
        "counts[NUM_DUP_MSGS_RCVD] += self._detectors.ignore(tx, message, at_us, duplicate)",
        "ignore = self._detectors.ignore(tx, message, at_us, duplicate)\n"
        '            counts[NUM_DUP_MSGS_RCVD] += ignore and duplicate.by == "sequence"',
        "tests/lns/delivery/test_inbox.py",
    ),
    Mutant(
        "duplicate numbers shown though nobody looks",
        "lns/delivery/inbox_figures.py",
        "        checks_sequence = bool(numbers.get(PERFORMS, 1))",
        "        checks_sequence = True",
        "tests/lns/delivery/test_inbox_figures.py",
    ),
)
