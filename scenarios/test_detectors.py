"""What each detector of a consumer can do, and what it cannot.

By id within a window (Azure Service Bus), by sequence number (AEP), by Remove Duplicates key (CMQ).
Exact times need a virtual clock. Messages that no server would send are the bench's own.
"""

import pytest

from bench.clock import minutes, seconds
from bench.rig.case_setup import Injected
from lns.delivery import ConfigurationError
from scenarios.words import FIRST

HOUR = minutes(60)
DAY = 24 * HOUR
SHORT = seconds(20)
"""The shortest window there is."""
X = Injected("x")


async def publish_at(rig, *times_s):
    """Publish the message X at these times."""
    at_s = 0
    for time_s in times_s:
        await rig.wait(seconds(time_s - at_s))
        await rig.inject(rig.alpha, message_id=X.message_id)
        at_s = time_s


# --- by id, within a window -------------------------------------------------------------------


@pytest.mark.requires("virtual time")
async def test_within_the_window_a_repeat_is_ignored(rig):
    """The window is 20 s, the repeat comes after 19.9 s.

    Catalogue: J01.
    """
    rig.consumer(window=SHORT)
    await publish_at(rig, 0, 19.9)
    rig.expect_effects(X)
    rig.expect_ignored(X, by="window")


@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("after_us", [SHORT, seconds(20.1)])
async def test_after_the_window_a_repeat_is_accepted(rig, after_us):
    """At exactly 20 s, and at 20.1 s, the window is over.

    Catalogue: J02.
    """
    rig.consumer(window=SHORT)
    await publish_at(rig, 0, after_us / 1_000_000)
    rig.expect_effects(X, 2)
    rig.expect_ignored(X, by="window", times=0)


@pytest.mark.requires("wall clock", "virtual time")
@pytest.mark.fault("clock", "step")
@pytest.mark.parametrize("stepped_us", [-HOUR, 1])
async def test_a_window_ends_by_the_clock_of_its_consumers(rig, stepped_us):
    """One that is set forward shortens it by so much, one that is set back lengthens it."""
    rig.consumer(window=SHORT, keys=True, knows_oldest=True)
    await rig.inject(rig.alpha, message_id=X.message_id)
    await rig.wait(SHORT - 1)
    rig.step_wall_clock(stepped_us, lns=None)
    await rig.inject(rig.alpha, message_id=X.message_id)
    is_over = stepped_us > 0
    rig.expect_effects(X, 1 + is_over)
    rig.expect_ignored(X, by="window", times=1 - is_over)


@pytest.mark.requires("virtual time")
async def test_the_window_does_not_slide(rig):
    """What was ignored at 15 s does not renew the window: at 30 s the id is accepted.

    Catalogue: J03.
    """
    rig.consumer(window=SHORT)
    await publish_at(rig, 0, 15, 30)
    rig.expect_effects(X, 2)
    rig.expect_ignored(X, by="window")


@pytest.mark.requires("virtual time")
async def test_traffic_within_the_window_lets_go_of_nothing(rig):
    """An id is remembered to the end of its window, however many messages come meanwhile."""
    rig.consumer(window=SHORT)
    await publish_at(rig, 0)
    for _ in range(4):
        await rig.wait(seconds(4))
        await rig.inject(rig.alpha)
    await publish_at(rig, 3)
    rig.expect_effects(X)
    rig.expect_ignored(X, by="window")


@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("after_s", [20, 30])
async def test_what_the_window_is_over_for_is_forgotten_at_once(rig, after_s):
    """The next message lets go of all ids and keys that are over, and not only of its share."""
    rig.consumer(window=SHORT, keys=True, retention=SHORT, retry=0, network=0)
    for number in range(12):
        await rig.inject(rig.alpha, key=f"k{number}")
    await publish_at(rig, after_s)
    rig.expect_effects(X)


async def test_a_window_has_limits(rig):
    """19 s and a second more than 7 days are refused; the limits themselves are not.

    Catalogue: J04.
    """
    for window_us in (seconds(19), SHORT - 1, 7 * DAY + seconds(1)):
        with pytest.raises(ConfigurationError):
            rig.consumer(window=window_us)
    rig.consumer("shortest", window=SHORT)
    rig.consumer("longest", window=7 * DAY)
    rig.only("west")
    uplink = await rig.alpha.send()
    rig.expect(uplink, FIRST, first="west")
    rig.expect_effects(uplink, consumer="shortest")
    rig.expect_effects(uplink, consumer="longest")


async def test_without_detection_every_repeat_has_its_effect(rig):
    """A queue that was created without detection.

    Catalogue: J09.
    """
    rig.consumer(window=None)
    message = await rig.inject(rig.alpha, message_id="x")
    await rig.inject(rig.alpha, message_id="x")
    await rig.inject(rig.alpha, message_id="x")
    rig.expect_effects(message, 3)


async def test_detection_cannot_be_switched_on_later(rig):
    """It is chosen when the store is created; what was accepted before is not remembered."""
    rig.consumer(window=None)
    message = await rig.inject(rig.alpha, message_id="x")
    await rig.until_published(message)
    await rig.redeliver()
    await rig.kill_consumer()
    with pytest.raises(ConfigurationError):
        await rig.start_consumer(window=SHORT)
    rig.expect_effects(message)


@pytest.mark.parametrize("before", [False, True])
async def test_partitions_cannot_be_switched_on_or_off_later(rig, before):
    """What an id is remembered with is chosen when the store is created."""
    rig.consumer(partitioned=before)
    message = await rig.inject(rig.alpha, message_id="x")
    await rig.until_published(message)
    await rig.redeliver()
    await rig.kill_consumer()
    with pytest.raises(ConfigurationError) as refused:
        await rig.start_consumer(partitioned=not before)
    words = ["a window of 10 min", "a window of 10 min, partitioned"]
    was, wanted = words[::-1] if before else words
    said = f" was created with {was}, which cannot become {wanted}; name another store, or"
    rig.expect_said("what cannot become what", True, said in str(refused.value))
    rig.expect_effects(message)


@pytest.mark.parametrize("before", [False, True])
async def test_sessions_cannot_be_switched_on_or_off_later(rig, before):
    """Whether a session is a partition is chosen when the store is created."""
    rig.consumer(partitioned=True, sessions=before)
    message = await rig.inject(rig.alpha, partition="p", session="p")
    await rig.until_published(message)
    await rig.redeliver()
    await rig.kill_consumer()
    with pytest.raises(ConfigurationError):
        await rig.start_consumer(sessions=not before)
    rig.expect_effects(message)


async def test_topics_have_ids_of_their_own(rig):
    """An id is remembered for its topic: two devices may use the same one."""
    rig.consumer(sequence=False)
    message = await rig.inject(rig.alpha, message_id="x")
    await rig.inject(rig.charlie, message_id="x")
    await rig.inject(rig.charlie, message_id="x")
    rig.expect_effects(message, 2)
    rig.expect_ignored(message, by="window")


async def test_partitions_have_ids_of_their_own(rig):
    """Where an id counts together with its partition key, two partitions may use the same one."""
    rig.consumer("by id")
    rig.consumer("partitioned", partitioned=True)
    message = await rig.inject(rig.alpha, message_id="x", partition="p")
    await rig.inject(rig.alpha, message_id="x", partition="q")
    await rig.inject(rig.alpha, message_id="x", partition="q")
    rig.expect_effects(message, consumer="by id")
    rig.expect_effects(message, 2, consumer="partitioned")
    rig.expect_ignored(message, by="window", consumer="partitioned")


async def test_a_partition_ends_where_the_id_begins(rig):
    """Whatever either of them is made of: no two pairs are taken for one."""
    rig.consumer(partitioned=True)
    for partition, message_id in (
        ("p", "q:x"),
        ("p:q", "x"),
        ("1:p", "q:x"),
        ("pq", ":x"),
        (":", ":"),
        ("p:Q", "x"),
        ("q:q", "x"),
    ):
        message = await rig.inject(rig.alpha, message_id=message_id, partition=partition)
        rig.expect_effects(message, {"q:x": 2, "x": 3}.get(message_id, 1))


async def test_with_sessions_a_session_is_a_partition(rig):
    """Session id and partition key must be the same; what has another one, or none, is refused."""
    rig.consumer("no sessions", partitioned=True)
    rig.consumer("sessions", partitioned=True, sessions=True)
    fits = await rig.inject(rig.alpha, partition="p", session="p")
    other = await rig.inject(rig.alpha, partition="p", session="q")
    none = await rig.inject(rig.alpha, partition="p")
    again = await rig.inject(rig.alpha, message_id=fits.message_id, partition="p", session="p")
    rig.expect_effects(again, consumer="sessions")
    rig.expect_ignored(again, by="window", consumer="sessions")
    for message in (other, none):
        rig.expect_effects(message, consumer="no sessions")
        rig.expect_effects(message, 0, consumer="sessions")


@pytest.mark.requires("user properties")
async def test_a_session_may_be_named_by_user_properties(rig):
    """Where the body names none; the other one is no partition."""
    rig.consumer(partitioned=True, sessions=True)
    fits = await rig.inject(rig.alpha, partition="p", properties={"sessionId": "p"})
    other = await rig.inject(rig.alpha, partition="p", properties={"sessionId": "q"})
    neither = [await rig.inject(rig.alpha, properties={"partitionKey": p}) for p in ("p", "")]
    rig.expect_effects(fits)
    for message in (other, *neither):
        rig.expect_effects(message, 0)


async def test_an_empty_name_is_a_mistake(rig):
    """Nobody can say what it was to be: there is none where it is left out."""
    rig.consumer(keys=True)
    for message in (
        await rig.inject(rig.alpha, message_id="a", key=""),
        await rig.inject(rig.alpha, message_id="b", session=""),
    ):
        rig.expect_effects(message, 0)


@pytest.mark.parametrize(("length", "effects"), [(1, 1), (256, 1), (257, 0)])
async def test_a_name_has_at_most_256_characters(rig, length, effects):
    """Whatever it names: with one more the message cannot be told from others."""
    rig.consumer(keys=True, partitioned=True)
    name = "x" * length
    messages = [
        await rig.inject(rig.alpha, message_id=name),
        await rig.inject(rig.alpha, message_id="a", key=name),
        await rig.inject(rig.alpha, message_id="b", partition=name),
        await rig.inject(rig.alpha, message_id="c", session=name),
    ]
    for message in messages:
        rig.expect_effects(message, effects)


@pytest.mark.requires("virtual time")
@pytest.mark.parametrize(("later", "effects"), [(minutes(10), 1), (SHORT, 2)])
async def test_the_window_may_have_another_length_later(rig, later, effects):
    """It was a minute long; what was accepted before is judged by the new length."""
    rig.consumer(window=minutes(1))
    message = await rig.inject(rig.alpha, message_id="x")
    await rig.wait(seconds(30) if later == SHORT else seconds(50))
    await rig.kill_consumer()
    await rig.start_consumer(window=later)
    await rig.wait(seconds(15))
    await rig.inject(rig.alpha, message_id="x")
    rig.expect_effects(message, effects)
    rig.expect_ignored(message, by="window", times=2 - effects)


@pytest.mark.fault("broker", "late resend")
async def test_a_resend_after_the_window_needs_another_detector(rig):
    """A window shorter than a producer's retries lets the late one through.

    The sequence number or the key recognises it, if there is one.
    """
    rig.consumer("window alone", window=SHORT, sequence=False)
    rig.consumer("window and sequence", window=SHORT)
    rig.consumer("window and key", window=SHORT, sequence=False, keys=True)
    rig.consumer("long window", window=minutes(10), sequence=False)
    rig.only("west")
    first = await rig.alpha.send()  # number 1, which is never recognised by itself
    uplink = await rig.alpha.send()
    await rig.republish(uplink, after=seconds(25))
    rig.expect(first, FIRST, first="west")
    rig.expect(uplink, FIRST, first="west")
    rig.expect_effects(uplink, 2, consumer="window alone")
    for name, by in {
        "window and sequence": "sequence",
        "window and key": "key",
        "long window": "window",
    }.items():
        rig.expect_effects(uplink, consumer=name)
        rig.expect_ignored(uplink, by=by, consumer=name)


# --- by sequence number -----------------------------------------------------------------------


async def test_a_late_number_is_lost(rig):
    """1, 2, 5, 3: the 3 is late and no duplicate, and is ignored all the same.

    Catalogue: J11.
    """
    rig.consumer()
    *early, late = [await rig.inject(rig.alpha, number=number) for number in (1, 2, 5, 3)]
    for message in early:
        rig.expect_effects(message)
    rig.expect_effects(late, 0)
    rig.expect_ignored(late, by="sequence")


async def test_topics_have_numbers_of_their_own(rig):
    """A number of one device says nothing of another one's."""
    rig.consumer()
    messages = [await rig.inject(rig.alpha, number=number) for number in (4, 5)]
    messages += [await rig.inject(rig.charlie, number=number) for number in (2, 3)]
    for message in messages:
        rig.expect_effects(message)
        rig.expect_ignored(message, by="sequence", times=0)


@pytest.mark.requires("QoS 0")
async def test_each_quality_of_service_has_numbers_of_its_own(rig):
    """A stream is bus, channel and QoS: what overtakes on one of them says nothing of another."""
    rig.consumer()
    messages = [await rig.inject(rig.alpha, number=number) for number in (4, 5)]
    messages += [await rig.inject(rig.alpha, number=number, qos=0) for number in (2, 3)]
    late = [await rig.inject(rig.alpha, number=3, qos=qos) for qos in (0, 1)]
    for message in messages:
        rig.expect_effects(message)
    for message in late:
        rig.expect_effects(message, 0)
        rig.expect_ignored(message, by="sequence")


async def test_what_another_detector_ignores_was_received(rig):
    """Its number is noted all the same: what comes behind it with a lower one is a duplicate."""
    rig.consumer()
    first = await rig.inject(rig.alpha, number=1)
    await rig.inject(rig.alpha, message_id=first.message_id, number=3)
    late = await rig.inject(rig.alpha, number=2)
    rig.expect_effects(first)
    rig.expect_ignored(first, by="window")
    rig.expect_effects(late, 0)
    rig.expect_ignored(late, by="sequence")


async def test_a_topic_whose_first_number_is_that_of_a_repeat_begins_there(rig):
    """What came before had none; its newest effect is that of the repeat, the first one."""
    rig.consumer()
    first = await rig.inject(rig.alpha, message_id="x")
    await rig.inject(rig.alpha, message_id="x", number=5)
    late = await rig.inject(rig.alpha, message_id="y", number=4)
    rig.expect_effects(first)
    rig.expect_ignored(first, by="window")
    rig.expect_effects(late, 0)
    rig.expect_ignored(late, by="sequence")


async def test_number_one_begins_anew(rig):
    """1, 2, 1, 2: a redelivery of 1 is not recognised, and disarms the detection of 2.

    Catalogue: J12.
    """
    rig.consumer(window=None)
    one, two = [await rig.inject(rig.alpha, number=number) for number in (1, 2)]
    for message, number in ((one, 1), (two, 2)):
        await rig.inject(rig.alpha, message_id=message.message_id, number=number)
    for message in (one, two):
        rig.expect_effects(message, 2)
        rig.expect_ignored(message, by="sequence", times=0)


async def test_a_producer_may_begin_at_one_again(rig):
    """1 to 9, then 1 to 3 of a producer that was restarted: all of them are new.

    Catalogue: J15.
    """
    rig.consumer()
    numbers = [*range(1, 10), *range(1, 4)]
    messages = [await rig.inject(rig.alpha, number=number) for number in numbers]
    for message in messages:
        rig.expect_effects(message)


async def test_with_checking_off_every_number_passes(rig):
    """The same numbers come again, and nothing is counted as a duplicate.

    Catalogue: J16.
    """
    rig.consumer(window=None, sequence=False)
    messages = [await rig.inject(rig.alpha, number=number) for number in (1, 2, 2, 5, 3)]
    for message in messages:
        rig.expect_effects(message)
        rig.expect_ignored(message, by="sequence", times=0)


# --- by Remove Duplicates key -----------------------------------------------------------------


async def test_what_is_ignored_moves_its_topic_on_and_not_back(rig):
    """A repeat by id with a higher number: the topic has come as far, and had its newest effect."""
    rig.consumer()
    first = await rig.inject(rig.alpha, message_id="x", number=1)
    second = await rig.inject(rig.alpha, message_id="y", number=2)
    await rig.inject(rig.alpha, message_id="x", number=3)
    await rig.inject(rig.alpha, message_id="y", number=2)
    late = await rig.inject(rig.alpha, message_id="z", number=3)
    after = await rig.inject(rig.alpha, message_id="v", number=4)
    for message in (first, second, after):
        rig.expect_effects(message)
    for message in (first, second):
        rig.expect_ignored(message, by="window")
    rig.expect_ignored(late, by="sequence")


@pytest.mark.requires("virtual time")
@pytest.mark.fault("consumer", "away")
async def test_checking_may_be_switched_off_and_on(rig):
    """Off, nothing counts and numbers are still noted; on again, it knows where its topics are."""
    rig.consumer()
    await rig.inject(rig.alpha, message_id="a", number=5)
    ignored = await rig.inject(rig.alpha, message_id="b", number=5)
    await rig.kill_consumer()
    await rig.start_consumer(sequence=False)
    anew = [await rig.inject(rig.alpha, number=number) for number in (1, 2)]
    await rig.wait(seconds(1))
    await rig.kill_consumer()
    await rig.start_consumer(sequence=True)
    after = await rig.inject(rig.alpha, message_id="c", number=3)
    late = await rig.inject(rig.alpha, message_id="d", number=2)
    await rig.wait(seconds(1))
    await rig.kill_consumer()
    await rig.start_consumer(sequence=False)
    for message in (*anew, after):
        rig.expect_effects(message)
    for message in (ignored, late):
        rig.expect_ignored(message, by="sequence")


async def test_a_producer_that_forgot_its_key_cannot_be_recognised(rig):
    """It crashed before the key was on its disk, and says the same under another one.

    Catalogue: J18. Our servers cannot: their keys follow from the frame.
    """
    rig.consumer(keys=True)
    first = await rig.inject(rig.alpha, key="made before the crash")
    again = await rig.inject(rig.alpha, key="made after the crash")
    known = await rig.inject(rig.alpha, key="made after the crash")
    rig.expect_effects(first)
    rig.expect_effects(again)
    rig.expect_effects(known, 0)
    rig.expect_ignored(known, by="key")


async def test_keys_have_limits(rig):
    """A queue keeps a message for a while, 15 days at most; a producer need not try again."""
    for wrong in ({"retention": 0}, {"retention": 15 * DAY + 1}, {"retry": -1}, {"network": -1}):
        with pytest.raises(ConfigurationError):
            rig.consumer(keys=True, **wrong)
    rig.consumer("shortest", keys=True, retention=1, retry=0, network=0)
    rig.consumer("longest", keys=True, retention=15 * DAY)
    message = await rig.inject(rig.alpha, key="k")
    rig.expect_effects(message, 2)


async def test_a_topic_has_come_as_far_as_what_it_repeats_of_another(rig):
    """Ignored by its key, and received: what is behind it repeats the effect that the other had."""
    rig.consumer(keys=True)
    first = await rig.inject(rig.alpha, number=1)
    other = await rig.inject(rig.charlie, number=1, key="k")
    again = await rig.inject(rig.alpha, number=2, key="k")
    late = await rig.inject(rig.alpha, number=2)
    for message in (first, other):
        rig.expect_effects(message)
    rig.expect_ignored(again, by="key")
    rig.expect_ignored(late, by="sequence")


@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("retention_us", [HOUR, 15 * DAY], ids=["an hour", "15 days"])
@pytest.mark.parametrize(("late_us", "effects"), [(-seconds(1), 1), (0, 1), (seconds(1), 2)])
async def test_a_key_lives_until_its_cut_off(rig, retention_us, late_us, effects):
    """Retention, retry and network time: up to their sum the key is known, and not longer.

    Catalogue: J21.
    """
    times = {"retention": retention_us, "retry": seconds(90), "network": seconds(7)}
    rig.consumer(window=None, keys=True, **times)
    message = await rig.inject(rig.alpha, message_id="x", key="k")
    await rig.wait(sum(times.values()) + late_us)
    await rig.inject(rig.alpha, message_id="x", key="k")
    rig.expect_effects(message, effects)
    rig.expect_ignored(message, by="key", times=2 - effects)


@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("knows_oldest", [True, False])
async def test_keys_are_kept_while_a_queue_is_stuck(rig, knows_oldest):
    """The oldest message that nobody has consumed says how long a repeat may still come.

    Catalogue: J22. The queue is blocked for two days, its messages live one.
    """
    times = {"retention": DAY, "retry": minutes(1)}
    rig.consumer(window=None, keys=True, knows_oldest=knows_oldest, **times)
    message = await rig.inject(rig.alpha, message_id="x", key="k")
    await rig.kill_consumer()
    await rig.inject(rig.alpha, message_id="x", key="k")
    await rig.wait(2 * DAY)
    await rig.start_consumer()
    rig.expect_effects(message, 1 if knows_oldest else 2)


@pytest.mark.requires("virtual time")
@pytest.mark.parametrize(("after", "effects"), [(3, 1), (3.1, 2)])
async def test_keys_go_with_the_oldest_message_of_a_queue(rig, after, effects):
    """Whatever its retention is: what was sent before that one comes no more."""
    times = {"retry": seconds(2), "network": seconds(1)}
    rig.consumer(window=None, sequence=False, keys=True, knows_oldest=True, **times)
    message = await rig.inject(rig.alpha, message_id="x", key="k")
    await rig.wait(seconds(after))
    await rig.inject(rig.alpha, message_id="x", key="k")
    rig.expect_effects(message, effects)
    rig.expect_ignored(message, by="key", times=2 - effects)


@pytest.mark.requires("QoS 0", "virtual time")
async def test_an_empty_queue_says_nothing_of_its_oldest_message(rig):
    """With QoS 0 nothing is left in it: keys go by their retention, as if nobody had been asked."""
    times = {"retention": seconds(10), "retry": seconds(2), "network": seconds(1)}
    rig.consumer(window=None, sequence=False, keys=True, knows_oldest=True, **times)
    kept = [await rig.inject(rig.alpha, key=key) for key in ("k", "l")]
    for after, key, effects in ((5, "k", 0), (10, "l", 1)):
        await rig.wait(seconds(after))
        message = await rig.inject(rig.alpha, key=key, qos=0)
        rig.expect_effects(message, effects)
    for message in kept:
        rig.expect_effects(message)


@pytest.mark.fault("consumer", "away")
@pytest.mark.parametrize(("knows_oldest", "effects"), [(True, 1), (False, 2)])
async def test_keys_outlive_a_consumer_that_is_away(rig, knows_oldest, effects):
    """What waits at the broker is older than all that the formula with retention remembers.

    The servers retain of what time their oldest message is; the consumer goes by what it has heard
    of that before it was killed.
    """
    times = {"retention": seconds(1), "retry": seconds(2), "network": seconds(1)}
    rig.consumer(window=None, sequence=False, keys=True, knows_oldest=knows_oldest, **times)
    rig.only("west")
    before = await rig.alpha.send()
    await rig.until_published(before)
    await rig.wait(seconds(6))
    uplink = await rig.alpha.send()
    await rig.until_published(uplink)
    await rig.redeliver()
    await rig.kill_consumer()
    await rig.republish(uplink, after=seconds(1))
    await rig.wait(seconds(8))
    await rig.start_consumer()
    for one in (before, uplink):
        rig.expect(one, FIRST, first="west")
    rig.expect_effects(uplink, effects)
    rig.expect_ignored(uplink, by="key", times=2 - effects)
