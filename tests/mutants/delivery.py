"""What would make a message of the application come twice, not at all, or be counted wrongly?"""

from tests.mutants.mutant import Mutant

HELD = "tests/lns/delivery/test_held_subscription.py"
PRODUCER = "tests/lns/delivery/test_producer.py"
DETECTORS = "scenarios/test_detectors.py"

MUTANTS = (
    Mutant(
        "parked while it is sent",
        "lns/delivery/mqtt_sender.py",
        "items() if at not in busy}",
        "items() if at}",
        PRODUCER,
    ),
    Mutant(
        "acknowledgements lost by a close",
        "lns/delivery/subscription.py",
        "            self._wire = None\n            await wire.leave()",
        "            self._wire = None\n            wire.close()",
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
        "lns/delivery/detectors.py",
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
        "lns/delivery/inbox.py",
        "        self._detectors = self._detectors.as_kept(tx)\n",
        "",
        "tests/lns/delivery/test_inbox.py",
    ),
    Mutant(
        "sessions that are no partitions",
        "lns/delivery/detectors.py",
        "return not self._sessions or ",
        "return True or ",
        DETECTORS,
    ),
    Mutant(
        "ids of an older store forgotten",
        "lns/delivery/detectors.py",
        "        return self.place(message), Place(Table.WINDOW, self._id(message))",
        "        return (self.place(message),)",
        "tests/contracts/test_inbox_store.py",
    ),
    Mutant(
        "number of an ignored message not noted",
        "lns/delivery/detectors.py",
        "            self.remember(entries, message, now_us, position)\n        return False",
        "        return False",
        DETECTORS,
    ),
    Mutant(
        "duplicate numbers behind the window not counted",
        "lns/delivery/inbox.py",
        "counts[NUM_DUP_MSGS_RCVD] += self._detectors.ignore(tx, message, at_us, duplicate)",
        "ignore = self._detectors.ignore(tx, message, at_us, duplicate)\n"
        '            counts[NUM_DUP_MSGS_RCVD] += ignore and duplicate.by == "sequence"',
        "tests/lns/delivery/test_inbox.py",
    ),
    Mutant(
        "duplicate numbers shown though nobody looks",
        "lns/delivery/inbox.py",
        "        checks_sequence = bool(numbers.get(PERFORMS, 1))",
        "        checks_sequence = True",
        "tests/lns/delivery/test_inbox_figures.py",
    ),
    Mutant(
        "min_msg_time forgotten over a restart",
        "lns/delivery/detectors.py",
        "            entries.add(MIN_MSG_TIME, by)",
        "            pass",
        "tests/lns/delivery/test_min_msg_time.py",
    ),
    Mutant(
        "min_msg_time before what the broker still has",
        "lns/delivery/subscription.py",
        "return held.pass_by(message.mid, lambda: self._on_retained(topic, payload))",
        "return self._on_retained(topic, payload) or held.pass_by(message.mid, lambda: None)",
        HELD,
    ),
    Mutant(
        "retained statements kept for who is away",
        "lns/delivery/subscription.py",
        "        wire.client.unsubscribe(self._retained)",
        "        pass",
        HELD,
    ),
    Mutant(
        "sent again for ever",
        "lns/delivery/mqtt_sender.py",
        "producer.utc_us() - since_us > producer.retry_us",
        "False",
        PRODUCER,
    ),
    Mutant(
        "what is parked is lost",
        "lns/delivery/outbox.py",
        '"INSERT INTO parked SELECT * FROM message WHERE position = ?"',
        '"DELETE FROM message WHERE position = ?"',
        PRODUCER,
    ),
    Mutant(
        "parked while the broker has it",
        "lns/delivery/mqtt_sender.py",
        "(old | self._overdue).items() if at not in busy}",
        "(old | self._overdue).items()}",
        PRODUCER,
    ),
    Mutant(
        "released under its old number",
        "lns/delivery/outbox.py",
        '                text = _encode(_decode(body) | {"sequenceNumber": number})',
        "                text = body",
        PRODUCER,
    ),
    Mutant(
        "oldest message is always now",
        "lns/delivery/mqtt_sender.py",
        "            return min(first, key=lambda entry: entry.position).waits_since_us",
        "            return producer.utc_us()",
        PRODUCER,
    ),
    Mutant(
        "keys by retention though the oldest is known",
        "bench/cli/consumer.py",
        "            min_msg_time_us=None if self.oldest is None else oldest_us,",
        "            min_msg_time_us=None,",
        "tests/bench/cli/test_inbox.py",
    ),
    Mutant(
        "acknowledged messages not kept",
        "lns/config.py",
        "    keep_s: Annotated[int, Field(ge=0, le=3600)] = 3",
        "    keep_s: Annotated[int, Field(ge=0, le=3600)] = 0",
        "tests/lns/test_config.py",
    ),
    Mutant(
        "written to when it is opened",
        "lns/store/sqlite.py",
        "    if is_new:",
        "    if is_new or path:",
        "tests/lns/delivery/test_outbox_disk_full.py",
    ),
)
