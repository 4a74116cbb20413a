"""How does each message have one effect while consumers crash, and brokers bring it again?"""

import pytest

from bench.clock import milliseconds, seconds
from scenarios.words import FIRST


@pytest.mark.fault("consumer", "crash")
@pytest.mark.parametrize("at", ["effect", "ack"])
async def test_a_consumer_that_crashes_lets_each_message_have_one_effect(rig, at):
    """Before the effect nothing is remembered; after the commit the repeat is recognised."""
    rig.consumer()
    rig.only("west")
    before = await rig.alpha.send()
    await rig.until_published(before)
    await rig.crash_consumer(at)
    uplink = await rig.alpha.send()
    await rig.until_published(uplink)
    await rig.start_consumer()
    after = await rig.alpha.send()
    for one in (before, uplink, after):
        rig.expect(one, FIRST, first="west")
        rig.expect_effects(one)
    rig.expect_ignored(uplink, by="window", times=1 if at == "ack" else 0)


@pytest.mark.requires("crash in a transaction")
@pytest.mark.fault("consumer", "crash")
async def test_an_effect_in_the_transaction_is_taken_back_with_it(rig):
    """Crashed between effect and commit: the effect is undone, and the message comes again."""
    rig.consumer()
    rig.only("west")
    await rig.crash_consumer("commit")
    uplink = await rig.alpha.send()
    await rig.start_consumer()
    rig.expect(uplink, FIRST, first="west")
    rig.expect_effects(uplink)
    rig.expect_ignored(uplink, by="window", times=0)


@pytest.mark.requires("crash in a transaction")
@pytest.mark.fault("consumer", "crash")
async def test_an_effect_elsewhere_may_happen_twice(rig):
    """What cannot be taken back happens again: no detector can know of it."""
    rig.consumer(elsewhere=True, keys=True)
    rig.only("west")
    await rig.crash_consumer("commit")
    uplink = await rig.alpha.send()
    await rig.start_consumer()
    rig.expect(uplink, FIRST, first="west")
    rig.expect_effects(uplink, 2)


@pytest.mark.fault("consumer", "away")
async def test_messages_wait_for_a_consumer_that_is_away(rig):
    """The broker keeps what comes meanwhile, and brings it in order."""
    rig.consumer()
    rig.only("west")
    uplinks = [await rig.alpha.send()]
    await rig.until_published(uplinks[0])
    await rig.kill_consumer()
    uplinks += [await rig.alpha.send() for _ in range(2)]
    await rig.until_published(uplinks[-1])
    await rig.start_consumer()
    uplinks.append(await rig.alpha.send())
    for uplink in uplinks:
        rig.expect(uplink, FIRST, first="west")
        rig.expect_effects(uplink)
        rig.expect_ignored(uplink, by="sequence", times=0)


@pytest.mark.fault("broker", "acknowledgement lost")
async def test_what_is_brought_again_is_recognised(rig):
    """The broker has not heard the acknowledgement: the visibility time is over."""
    rig.consumer()
    rig.only("west")
    before = await rig.alpha.send()
    await rig.until_published(before)
    await rig.lose_acks()
    uplink = await rig.alpha.send()
    await rig.until_published(uplink)
    await rig.redeliver()
    rig.expect(before, FIRST, first="west")
    rig.expect(uplink, FIRST, first="west")
    rig.expect_effects(before)
    rig.expect_effects(uplink)
    rig.expect_ignored(uplink, by="window")


@pytest.mark.requires("crash in a transaction")
async def test_an_effect_that_always_fails_is_put_aside(rig):
    """After five tries the message is parked, and what waited behind it has its effect.

    One that comes again, and fails again, was put aside last: a person finds the oldest first.
    """
    rig.consumer(refuses="x")
    before = await rig.inject(rig.alpha, number=1)
    refused = [await rig.inject(rig.alpha, message_id="x", number=2)]
    after = await rig.inject(rig.alpha, number=3)
    await rig.wait(milliseconds(100))
    refused.append(await rig.inject(rig.charlie, message_id="x too"))
    await rig.wait(seconds(2))
    await rig.inject(rig.alpha, message_id="x", number=4)
    await rig.wait(seconds(2))
    for message in refused:
        rig.expect_effects(message, 0)
    for message in (before, after):
        rig.expect_effects(message)
        rig.expect_ignored(message, by="sequence", times=0)


@pytest.mark.requires("crash in a transaction")
async def test_what_is_put_aside_stays_so_while_it_fails_again(rig):
    """A person still finds it, until it has had its effect."""
    rig.consumer(refuses="x")
    refused = await rig.inject(rig.alpha, message_id="x")
    await rig.wait(seconds(30))
    await rig.inject(rig.alpha, message_id="x")
    await rig.wait(milliseconds(50))
    await rig.kill_consumer()
    rig.expect_effects(refused, 0)


@pytest.mark.requires("crash in a transaction")
async def test_what_a_consumer_puts_aside_as_it_ends_was_tried_five_times(rig):
    """The fifth try is due at the very moment at which it is killed: it is counted with the others.

    The broker has not heard of it, and brings the message again.
    """
    rig.consumer(refuses="x")
    refused = await rig.inject(rig.alpha, message_id="x")
    await rig.wait(milliseconds(100 + 200 + 400 + 800))
    await rig.kill_consumer()
    await rig.start_consumer()
    await rig.wait(seconds(2))
    rig.expect_effects(refused, 0)


@pytest.mark.requires("crash in a transaction")
async def test_what_is_put_aside_keeps_all_that_names_it(rig):
    """A person may want to have its effect after all: with number, key, partition and body."""
    rig.consumer(refuses="x", keys=True, partitioned=True)
    facts = {"number": 7, "key": "k", "partition": "p", "body": "put aside"}
    refused = await rig.inject(rig.alpha, message_id="x", **facts)
    await rig.wait(seconds(10))
    rig.expect_effects(refused, 0)


async def test_what_cannot_be_read_has_no_effect_and_holds_nothing_up(rig):
    """An id of 257 characters, the number 0, a body above 256 KiB: none is a message of anybody."""
    rig.consumer()
    before = await rig.inject(rig.alpha, number=1)
    unreadable = [
        await rig.inject(rig.alpha, message_id="x" * 257),
        await rig.inject(rig.alpha, message_id="number", number=0),
        await rig.inject(rig.alpha, message_id="large", body="2" * 262_144),
    ]
    after = await rig.inject(rig.alpha, number=2)
    for message in unreadable:
        rig.expect_effects(message, 0)
    for message in (before, after):
        rig.expect_effects(message)
        rig.expect_ignored(message, by="sequence", times=0)


async def test_two_consumers_with_stores_of_their_own_have_two_effects(rig):
    """Neither knows what the other one has consumed.

    Catalogue: J20. With a shared store one of them has the effect: the next scenario.
    """
    rig.consumer("first", keys=True)
    rig.consumer("second", keys=True)
    rig.only("west")
    uplink = await rig.alpha.send()
    rig.expect(uplink, FIRST, first="west")
    rig.expect_effects(uplink, 2)
    rig.expect_ignored(uplink, by="window", times=0)


@pytest.mark.requires("own store")
async def test_two_consumers_with_one_store_have_one_effect(rig):
    """Whichever comes first has it; the other one recognises the message."""
    rig.consumer("first", store="shared", keys=True, sequence=False)
    rig.consumer("second", store="shared", keys=True, sequence=False)
    rig.only("west")
    uplinks = [await rig.alpha.send() for _ in range(3)]
    for uplink in uplinks:
        rig.expect(uplink, FIRST, first="west")
        rig.expect_effects(uplink)
        rig.expect_ignored(uplink, by="window")


@pytest.mark.requires("full application")
@pytest.mark.fault("consumer", "no room")
@pytest.mark.parametrize("room", [0, 2])
async def test_what_an_application_has_no_room_for_waits(rig, room):
    """What it has had stays had; the rest is asked for again, in order, until there is room."""
    rig.consumer(keys=True)
    before = await rig.inject(rig.charlie, number=1)
    await rig.fill_application(room)
    messages = [await rig.inject(rig.alpha, number=number) for number in (1, 2, 3)]
    messages += [await rig.inject(rig.charlie, number=2)]
    await rig.wait(seconds(30))
    await rig.make_room()
    await rig.wait(seconds(1))
    messages += [await rig.inject(rig.alpha, number=4)]
    for message in (before, *messages):
        rig.expect_effects(message)
        rig.expect_ignored(message, by="sequence", times=0)


@pytest.mark.requires("full application", "virtual time")
@pytest.mark.fault("consumer", "no room")
async def test_what_waits_behind_five_hundred_stays_behind_them(rig):
    """So many are decided on together; who finds no room for them puts them back in front."""
    rig.consumer()
    await rig.fill_application()
    for number in range(1, 503):
        await rig.inject(rig.alpha, number=number)
    await rig.wait(seconds(1))
    await rig.make_room()
    await rig.wait(seconds(1))
    last = await rig.inject(rig.alpha, number=503)
    rig.expect_effects(last)
    rig.expect_ignored(last, by="sequence", times=0)


@pytest.mark.requires("crash in a transaction")
async def test_a_topic_waits_for_its_own_failures_and_for_no_others(rig):
    """What came behind a failure waits for it, in order; other topics go on."""
    rig.consumer(refuses="x")
    failing = await rig.inject(rig.alpha, message_id="x", number=1)
    others = [await rig.inject(rig.charlie, number=1)]
    behind = [await rig.inject(rig.alpha, number=number) for number in (2, 3, 4)]
    others += [await rig.inject(rig.charlie, number=number) for number in (2, 3)]
    await rig.wait(milliseconds(50))
    others += [await rig.inject(rig.charlie, message_id="x", number=4)]
    others += [await rig.inject(rig.charlie, number=number) for number in (5, 6)]
    await rig.wait(seconds(30))
    rig.expect_effects(failing, 0)
    for message in (*others[:3], *others[4:], *behind):
        rig.expect_effects(message)
        rig.expect_ignored(message, by="sequence", times=0)


@pytest.mark.requires("crash in a transaction", "QoS 0")
async def test_a_failure_holds_up_no_other_quality_of_service(rig):
    """Each is a stream of its own, also where the topic is the same."""
    rig.consumer(refuses="x")
    failing = await rig.inject(rig.alpha, message_id="x")
    others = [await rig.inject(rig.alpha, qos=0) for _ in range(2)]
    behind = await rig.inject(rig.alpha)
    await rig.wait(milliseconds(50))
    await rig.kill_consumer()
    await rig.start_consumer()
    await rig.wait(seconds(30))
    rig.expect_effects(failing, 0)
    for message in (*others, behind):
        rig.expect_effects(message)


@pytest.mark.requires("crash in a transaction")
async def test_what_no_session_fits_waits_behind_a_failure(rig):
    """It has no effect, and still is decided on when all that came before it is."""
    rig.consumer(refuses="x", refusals=2, partitioned=True, sessions=True)
    failing = await rig.inject(rig.alpha, message_id="x", partition="p", session="p")
    unfit = await rig.inject(rig.alpha, partition="p", session="q")
    await rig.wait(seconds(30))
    rig.expect_effects(failing)
    rig.expect_effects(unfit, 0)


@pytest.mark.requires("crash in a transaction")
@pytest.mark.fault("broker", "acknowledgement lost")
async def test_what_fails_is_not_decided_on_before_it_is_put_aside(rig):
    """The broker does not hear that it is done, and brings it again: its effect is tried anew."""
    rig.consumer(refuses="x", refusals=5)
    before = await rig.inject(rig.alpha)
    await rig.lose_acks()
    failing = await rig.inject(rig.alpha, message_id="x")
    await rig.redeliver()
    await rig.wait(seconds(1))
    for message in (before, failing):
        rig.expect_effects(message)


@pytest.mark.requires("crash in a transaction")
@pytest.mark.fault("consumer", "killed")
async def test_a_consumer_refuses_effects_that_are_not_what_it_left(rig):
    """Cut short, or in use by somebody else: nobody could say which of them there are."""
    rig.consumer()
    before = await rig.inject(rig.alpha, number=1)
    await rig.wait(seconds(1))
    await rig.kill_consumer()
    await rig.tamper_with_effects()
    await rig.start_consumer()
    after = await rig.inject(rig.alpha, number=2)
    for message in (before, after):
        rig.expect_effects(message)


@pytest.mark.requires("crash in a transaction")
async def test_failures_of_several_topics_are_counted_each(rig):
    """They come together, and each is tried five times; so is one that waits behind another."""
    rig.consumer(refuses="x")
    before = await rig.inject(rig.alpha, number=1)
    await rig.kill_consumer()
    devices = {"x": rig.alpha, "x behind x": rig.alpha, "x elsewhere": rig.charlie}
    failing = [await rig.inject(device, message_id=name) for name, device in devices.items()]
    await rig.start_consumer()
    await rig.wait(seconds(30))
    rig.expect_effects(before)
    for message in failing:
        rig.expect_effects(message, 0)


@pytest.mark.requires("user properties")
async def test_user_properties_may_name_number_and_partition(rig):
    """Where the body names none."""
    rig.consumer(partitioned=True)
    first = await rig.inject(rig.alpha, message_id="a", properties={"sequenceNumber": "7"})
    old = await rig.inject(rig.alpha, message_id="b", number=7)
    for partition in ("p", "q"):
        named = {"partitionKey": partition}
        both = await rig.inject(rig.charlie, message_id="c", properties=named)
    rig.expect_effects(first)
    rig.expect_effects(old, 0)
    rig.expect_ignored(old, by="sequence")
    rig.expect_effects(both, 2)


@pytest.mark.requires("user properties")
async def test_a_user_property_says_with_0_that_there_is_no_number(rig):
    """Properties are texts, and know no null: 0 begins no new space, and the last number is one."""
    rig.consumer()
    newest = await rig.inject(rig.alpha, number=5)
    none = await rig.inject(rig.alpha, properties={"sequenceNumber": "0"})
    old = await rig.inject(rig.alpha, number=4)
    last = await rig.inject(rig.alpha, properties={"sequenceNumber": str(2**63 - 1)})
    for message in (newest, none, last):
        rig.expect_effects(message)
    rig.expect_ignored(old, by="sequence")


@pytest.mark.parametrize(("number", "effects"), [(2**63 - 1, 1), (2**63, 0)])
async def test_a_number_has_at_most_63_bits(rig, number, effects):
    """One more cannot be read, and neither can the message."""
    rig.consumer()
    message = await rig.inject(rig.alpha, message_id="x", number=number)
    rig.expect_effects(message, effects)


async def test_of_several_detectors_the_first_one_decides(rig):
    """By its id, then by its number, then by its key."""
    rig.consumer(keys=True)
    first = await rig.inject(rig.alpha, message_id="a", number=2, key="k")
    by_number = await rig.inject(rig.alpha, message_id="b", number=2, key="k")
    rig.expect_effects(first)
    rig.expect_ignored(by_number, by="sequence")


@pytest.mark.requires("user properties")
async def test_a_message_may_be_named_by_its_user_properties(rig):
    """What the body does not say they say; where both do, they must agree."""
    rig.consumer(keys=True)
    told = {"messageId": "x", "sequenceNumber": "1"}
    by_properties = await rig.inject(rig.alpha, properties=told | {"removeDuplicatesKey": "k"})
    await rig.inject(rig.alpha, message_id="x", number=2, key="other")
    by_key = await rig.inject(rig.alpha, message_id="y", number=3, key="k")
    by_number = await rig.inject(rig.alpha, message_id="z", number=3)
    against = [
        await rig.inject(rig.charlie, message_id="a", properties={"messageId": "b"}),
        await rig.inject(rig.charlie, message_id="c", number=1, properties={"sequenceNumber": "2"}),
        await rig.inject(
            rig.charlie, message_id="d", key="d", properties={"removeDuplicatesKey": "e"}
        ),
    ]
    agrees = await rig.inject(rig.charlie, message_id="f", properties={"messageId": "f"})
    for message in (by_properties, agrees):
        rig.expect_effects(message)
    rig.expect_ignored(by_properties, by="window")
    rig.expect_ignored(by_key, by="key")
    rig.expect_ignored(by_number, by="sequence")
    for message in against:
        rig.expect_effects(message, 0)


@pytest.mark.requires("user properties")
async def test_a_message_without_a_right_name_is_nobodys(rig):
    """None, or one that nobody can read: what comes behind it is taken as ever."""
    rig.consumer()
    unnamed = await rig.inject(rig.alpha, number=1, properties={"messageId": ""})
    after = await rig.inject(rig.alpha, number=1)
    for message in (
        unnamed,
        await rig.inject(rig.alpha, properties={"sequenceNumber": "first"}),
        await rig.inject(rig.alpha, properties={"sequenceNumber": 20 * "9"}),
        await rig.inject(rig.alpha, message_id="y", properties={"messageId": "y" * 257}),
    ):
        rig.expect_effects(message, 0)
    rig.expect_effects(after)


@pytest.mark.requires("user properties")
async def test_body_and_user_properties_contradict_each_other_either_way(rig):
    """Whichever names the greater one, or if they look alike: nobody knows which of them it is."""
    rig.consumer(keys=True, partitioned=True)
    for one, other in (
        ("1", "2"),
        ("2", "1"),
        ("1", "1 "),
        ("1", "\N{SUPERSCRIPT ONE}"),
    ):
        for facts, name in (
            ({"message_id": one}, "messageId"),
            ({"number": int(one)}, "sequenceNumber"),
            ({"key": one}, "removeDuplicatesKey"),
            ({"partition": one}, "partitionKey"),
            ({"session": one}, "sessionId"),
        ):
            message = await rig.inject(rig.alpha, **facts, properties={name: other})
            rig.expect_effects(message, 0)


@pytest.mark.requires("user properties")
async def test_a_message_that_is_no_utf_8_is_nobodys(rig):
    """Wherever in it: what comes behind it is taken as ever."""
    rig.consumer()
    broken = await rig.inject(rig.alpha, message_id="x", body="\udcff")
    after = await rig.inject(rig.alpha, message_id="y", body="\N{DEGREE SIGN}C")
    rig.expect_effects(broken, 0)
    rig.expect_effects(after)


@pytest.mark.parametrize(("octets", "effects"), [(262_144, 1), (262_145, 0)])
async def test_a_message_has_at_most_256_kib(rig, octets, effects):
    """That much is read, one octet more is not."""
    rig.consumer()
    message = await rig.inject(rig.alpha, message_id="long", octets=octets)
    rig.expect_effects(message, effects)


@pytest.mark.requires("crash in a transaction")
async def test_all_consumers_of_a_store_compare_ids_for_as_long_as_the_newest(rig):
    """The window belongs to the store: whoever opens it with another length changes it for all."""
    rig.consumer("first", store="shared", sequence=False, window=seconds(600))
    rig.consumer("second", store="shared", sequence=False, window=seconds(20))
    message = await rig.inject(rig.alpha, message_id="x")
    await rig.wait(seconds(19))
    await rig.inject(rig.alpha, message_id="x")
    await rig.wait(seconds(1))
    await rig.kill_consumer("second")
    await rig.inject(rig.alpha, message_id="x")
    await rig.wait(seconds(10))
    await rig.start_consumer("second")
    rig.expect_effects(message, 2)
    rig.expect_ignored(message, by="window", times=4)


@pytest.mark.requires("crash in a transaction")
async def test_another_length_of_the_window_leaves_partitions_as_they_are(rig):
    """What an id is remembered with belongs to the store as well, and never changes."""
    for name, window in (("first", seconds(600)), ("second", seconds(20))):
        rig.consumer(name, store="shared", sequence=False, partitioned=True, window=window)
    one = await rig.inject(rig.alpha, message_id="x", partition="p")
    await rig.inject(rig.alpha, message_id="x", partition="q")
    rig.expect_effects(one, 2)
    rig.expect_ignored(one, by="window", times=2)
