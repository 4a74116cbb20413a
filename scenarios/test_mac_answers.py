"""MAC commands that devices send, wherever in a frame they stand (LoRaWAN 1.0.4, 5)."""

from itertools import product
from typing import Any

import pytest

from bench.clock import milliseconds, minutes, seconds
from bench.verdict.expectation import Table
from scenarios.telling import hear, tell
from scenarios.words import AGAIN, ELSEWHERE, EXPIRED, FIRST, REFUSED

# What a frame says does not depend on the wires that it comes through.
pytestmark = pytest.mark.requires("virtual time")

# A frame that asks for an answer, whether or not it is confirmed.
ASKS = Table("""
    strategy kind        | asks
    *        *           | NonDuplicate forwarded RX1
""")
ASKS_LATE = Table("""
    strategy kind        | asks
    *        *           | NonDuplicate forwarded RX2
""")
TOO_LATE = Table("""
    strategy kind        | asks
    *        *           | NonDuplicate forwarded TooLate
""")
# Commands only: nothing in it is for the application.
ASKS_ON_PORT_0 = Table("""
    strategy kind        | asks
    *        *           | NonDuplicate dropped RX1
""")
TELLS_ON_PORT_0 = Table("""
    strategy kind        | asks
    *        confirmed   | NonDuplicate dropped RX1
    *        unconfirmed | NonDuplicate dropped NotAsked
""")

LINK_CHECK, DEVICE_TIME = "02", "0D"
ASKING = {
    "LinkCheckReq": LINK_CHECK,
    "DeviceTimeReq": DEVICE_TIME,
    "both": LINK_CHECK + DEVICE_TIME,
    "both-the-other-way-round": DEVICE_TIME + LINK_CHECK,
    "twice": LINK_CHECK * 2,
    "after-every-answer": "0307040507070308090A03" + LINK_CHECK,
    "after-class-B": "10051103121301" + DEVICE_TIME,
    "after-a-status": "06FF0A" + LINK_CHECK,
    "before-an-unknown-one": LINK_CHECK + "80",
    "before-one-that-is-cut": LINK_CHECK + "06FF",
    "one-behind-the-other": LINK_CHECK + DEVICE_TIME + LINK_CHECK,
    "the-other-way-round": DEVICE_TIME + LINK_CHECK,
}
NOT_ASKING = {
    "behind-an-unknown-one": "80" + LINK_CHECK,
    "behind-one-that-is-cut": "06" + LINK_CHECK,
    "an-answer": "0307",
    "in-the-body-of-another": "0702050D",
}


async def say_crafted(rig: Any, device: Any, commands: str, *, port: int, **facts: Any) -> Any:
    """A station hears a frame with these commands (hex): in FOpts, or on port 0."""
    said = bytes.fromhex(commands)
    where = {"payload": said} if port == 0 else {"f_opts": said}
    frame = await rig.craft(device, port=port, **where, **facts)
    await rig.say(rig.told(frame, by="west"), by="west")
    await rig.wait(seconds(3))
    return frame


@pytest.mark.parametrize("port", [2, 0])
@pytest.mark.parametrize("commands", ASKING.values(), ids=ASKING)
async def test_what_a_device_asks_is_answered_wherever_it_stands(rig, confirmed, commands, port):
    """Commands are read up to the first one that is unknown or cut off, and each in its length."""
    asking = await say_crafted(rig, rig.alpha, commands, port=port, confirmed=confirmed)
    later = await say_crafted(rig, rig.alpha, "", port=2, confirmed=confirmed)
    rig.expect(asking, ASKS if port else ASKS_ON_PORT_0, asks="west")
    rig.expect(later, FIRST, first="west")


LENGTHS = {
    "03": 1, "04": 0, "05": 1, "07": 1, "08": 0, "09": 0, "0A": 1, "10": 1, "11": 1, "12": 0,
    "13": 1,
}  # fmt: skip
"""How many octets follow the identifier of each command that answers, or is of class B."""


async def test_every_command_has_its_length(rig):
    """What is behind it is asked for: 80 is no command, so nobody reads on who stops before it."""
    for cid, octets in LENGTHS.items():
        asking = await say_crafted(rig, rig.alpha, cid + "80" * octets + LINK_CHECK, port=2)
        rig.expect(asking, ASKS, asks="west")


async def test_commands_on_port_0_are_read_beyond_the_roll_over(rig, confirmed):
    """They are encrypted with 32 bits of the counter, of which a frame shows 16."""
    veteran = rig.provision("veteran", f_cnt=0x2FFFF)
    frames = [
        await say_crafted(rig, veteran, LINK_CHECK, port=0, confirmed=confirmed) for _ in range(2)
    ]
    for frame in frames:
        rig.expect(frame, ASKS_ON_PORT_0, asks="west")


@pytest.mark.parametrize("port", [2, 0])
@pytest.mark.parametrize("commands", NOT_ASKING.values(), ids=NOT_ASKING)
async def test_what_cannot_be_read_is_not_answered(rig, confirmed, commands, port):
    """Nobody knows how long an unknown command is, so nothing behind it is one."""
    telling = await say_crafted(rig, rig.alpha, commands, port=port, confirmed=confirmed)
    rig.expect(telling, FIRST if port else TELLS_ON_PORT_0, **{"first" if port else "asks": "west"})


@pytest.mark.parametrize("octets", [1, 15, 16, 17, 32, 33, 160, 222, 242])
async def test_a_question_at_the_end_of_many_commands_is_answered(rig, confirmed, octets):
    """A payload on port 0 is as long as any other, in whole blocks of sixteen or not."""
    many = "08" * (octets - 1) + LINK_CHECK
    asking = await say_crafted(rig, rig.alpha, many, port=0, confirmed=confirmed)
    rig.expect(asking, ASKS_ON_PORT_0, asks="west")


async def test_a_status_on_port_0_is_told_and_not_asked_for_again(rig):
    """It has come, though the frame has nothing else for the application."""
    await rig.queue_status(rig.alpha)
    asked = await say_crafted(rig, rig.alpha, "", port=2)
    telling = await say_crafted(rig, rig.alpha, "06FF01", port=0)
    later = await say_crafted(rig, rig.alpha, "", port=2)
    rig.expect(asked, ASKS, asks="west")
    rig.expect(telling, TELLS_ON_PORT_0, asks="west")
    rig.expect(later, FIRST, first="west")
    rig.expect_status(rig.alpha)


async def test_commands_in_a_payload_are_none(rig, confirmed):
    """A payload of the application may look like a MAC command."""
    frame = await rig.craft(rig.alpha, payload=b"\x02\x0d", port=13, confirmed=confirmed)
    await rig.say(rig.told(frame, by="west"), by="west")
    rig.expect(frame, FIRST, first="west")


async def test_a_copy_and_a_repetition_are_not_asked_again(rig, strategy, confirmed):
    """The first copy is answered for all of them; a confirmed frame that comes again, once more."""
    frame = await rig.craft(rig.alpha, f_opts=b"\x02", confirmed=confirmed)
    for station in ("west", "east", "west"):
        await rig.say(rig.told(frame, by=station), by=station)
        await rig.wait(milliseconds(100))
    copies = COPY_OF_ASKING + AGAIN if confirmed else COPY_OF_ASKING + AGAIN_UNCONFIRMED
    rig.expect(frame, ASKS + copies, asks="west", copy="east", again="west")


# It wants an answer as a confirmed one does, and gets none.
COPY_OF_ASKING = Table("""
    strategy kind        | copy
    Drop     *           | Duplicate dropped(Duplicate) Suppressed
    Mark     *           | SoftDuplicate marked Suppressed
    None     *           | SoftDuplicate forwarded Suppressed
""")
OLD_ASKING = Table("""
    strategy kind        | old
    *        *           | NonDuplicate dropped(InvalidFrameCounter) Suppressed
""")
AGAIN_UNCONFIRMED = Table("""
    strategy kind        | again
    *        unconfirmed | DuplicateDueToResubmission dropped(InvalidFrameCounter) Suppressed
""")


async def test_a_request_without_data_is_answered(rig, confirmed):
    """FOpts ask alone as they do beside data: there is no FPort then."""
    said = {"payload": b"", "port": None, "f_opts": b"\x02\x0d"}
    frame = await hear(rig, rig.alpha, "west", confirmed=confirmed, **said)
    rig.expect(frame, ASKS, asks="west")
    rig.expect_answer(frame, f_opts_bytes=9)


async def test_a_request_that_came_late_is_answered_in_rx2(rig, strategy, confirmed):
    """The windows of an answer do not depend on what it says."""
    frame = await rig.craft(rig.alpha, f_opts=b"\x02\x0d", confirmed=confirmed)
    text = rig.told(frame, by="west")
    await rig.wait(milliseconds(800))
    await rig.say(text, by="west")
    await rig.wait(seconds(3))
    rig.expect(frame, ASKS_LATE, asks="west")


@pytest.mark.parametrize("commands", ["", "0307"], ids=["alone", "beside-an-answer"])
async def test_adr_ack_req_wants_any_downlink(rig, strategy, confirmed, commands):
    """A device that has heard nothing for long asks for a sign of life (LoRaWAN 1.0.4, 4.3.1.1).

    Whoever does so without ADR listens as well.
    """
    facts = {"confirmed": confirmed, "adr_ack_req": True}
    for adr in (True, False):
        asking = await say_crafted(rig, rig.alpha, commands, port=2, adr=adr, **facts)
        rig.expect(asking, ASKS, asks="west")
    content = await say_crafted(rig, rig.alpha, "", port=2, confirmed=confirmed, adr=True)
    rig.expect(content, FIRST, first="west")


SAID = (b"", b"\x03\x05\x06\xff\x01\x0d", b"\x0d\x02", b"\x06\xff\x01\x03\x05")


@pytest.mark.parametrize("region", ["EU868", "US915", "AS923-1"])
async def test_each_bit_and_each_command_of_a_frame_is_seen_beside_all_others(rig, region):
    """Who is to send twice is asked so wherever ADR is set, and silence takes no downlink counter.

    AS923 tells about dwell times until the device has heard it: both fit into one answer.
    """
    rig.in_region(region)
    rig.put_on("lns-b", "east")
    device = rig.provision("delta", f_cnt=10, nb_trans=2, relaxed_f_cnt=False)
    tells_dwell_times, answers = region == "AS923-1", 0
    for said, *bits in product(SAID, *[(False, True)] * 3):
        facts = dict(zip(("adr", "adr_ack_req", "confirmed"), bits, strict=True))
        frame = await hear(rig, device, "west", f_opts=said, **facts)
        asks = any(bits) or b"\x0d" in said or tells_dwell_times
        rig.expect(frame, ASKS if asks else FIRST, **{"asks" if asks else "first": "west"})
        if asks:
            rig.expect_answer(frame, f_cnt=answers)
            answers += 1
    rig.expect_status(device, times=16)
    granting = await hear(rig, device, "west", f_opts=b"\x03\x07\x09", adr=True)
    silent = await hear(rig, device, "west", adr=True)
    for frame in (granting, silent):
        rig.expect(frame, FIRST, first="west")


async def test_a_status_is_asked_for_beside_what_a_frame_asks(rig):
    """DevStatusReq goes with the next answer, whatever else that says."""
    await rig.queue_status(rig.alpha)
    frame = await hear(rig, rig.alpha, "west", f_opts=b"\x02")
    rig.expect(frame, ASKS, asks="west")
    rig.expect_answer(frame, f_opts_bytes=4)


@pytest.mark.parametrize("refused", ["0306", "0305", "0303", "0300"])
async def test_a_refused_link_adr_req_is_asked_again(rig, strategy, refused):
    """All three bits of LinkADRAns grant it; with any of them missing nothing was done."""
    delta = rig.provision("delta", nb_trans=3, strategy=strategy)
    open_yet = [await say_crafted(rig, delta, said, port=2, adr=True) for said in ("", refused)]
    granted = [await say_crafted(rig, delta, said, port=2, adr=True) for said in ("0307", "")]
    for frame in open_yet:
        rig.expect(frame, ASKS, asks="west")
    for frame in granted:
        rig.expect(frame, FIRST, first="west")


async def test_a_link_adr_ans_that_nobody_asked_for_grants_nothing(rig, strategy, confirmed):
    """It may answer a request of before a restart of the server."""
    delta = rig.provision("delta", nb_trans=2, strategy=strategy)
    unasked = await say_crafted(rig, delta, "0307", port=2, confirmed=confirmed)
    asked = await say_crafted(rig, delta, "", port=2, confirmed=confirmed, adr=True)
    granted = await say_crafted(rig, delta, "0307", port=2, confirmed=confirmed, adr=True)
    rig.expect(unasked, FIRST, first="west")
    rig.expect(asked, ASKS, asks="west")
    rig.expect(granted, FIRST, first="west")


@pytest.mark.parametrize("status", ["06FF20", "060000", "06011F", "06FE3F", "0680D5"])
async def test_a_status_goes_to_the_application(rig, strategy, status):
    """Battery and margin, whoever asked for them; the upper two bits of the margin are nothing."""
    frame = await say_crafted(rig, rig.alpha, status, port=2)
    again = await say_crafted(rig, rig.charlie, status, port=0)
    rig.expect(frame, FIRST, first="west")
    rig.expect(again, TELLS_ON_PORT_0, asks="west")
    rig.expect_status(rig.alpha)
    rig.expect_status(rig.charlie)


async def test_of_two_statuses_in_a_frame_the_newest_is_told(rig, strategy):
    """One frame, one message."""
    frame = await say_crafted(rig, rig.alpha, "060101060202", port=2)
    rig.expect(frame, FIRST, first="west")
    rig.expect_status(rig.alpha)


async def test_a_device_that_never_tells_its_status_is_left_alone(rig, strategy):
    """It is asked three times; what the application wanted is given up then."""
    await rig.queue_status(rig.alpha)
    for turn in range(5):
        frame = await say_crafted(rig, rig.alpha, "", port=2)
        is_asked = turn < 3
        rig.expect(frame, ASKS if is_asked else FIRST, **{"asks" if is_asked else "first": "west"})


async def test_a_repeat_does_not_give_up_a_status(rig):
    """The third asking may be answered by the next frame, however often the third one comes."""
    await rig.queue_status(rig.alpha)
    asked = [await say_crafted(rig, rig.alpha, "", port=2) for _ in range(2)]
    repeated = await say_crafted(rig, rig.alpha, "", port=2, confirmed=True)
    await rig.say(rig.told(repeated, by="west"), by="west")
    await rig.wait(seconds(3))
    telling = await say_crafted(rig, rig.alpha, "06FF01", port=2)
    for frame in asked:
        rig.expect(frame, ASKS, asks="west")
    rig.expect(repeated, FIRST + AGAIN, first="west", again="west")
    rig.expect(telling, FIRST, first="west")
    rig.expect_status(rig.alpha)


async def test_whoever_wants_a_status_once_more_is_heard_anew(rig):
    """Asked for twice in vain, and then three times more; nobody tells what nobody wanted."""
    delta = rig.provision("delta", dev_status_s=3_600)
    for turns, wanted in ((2, False), (2, True), (4, True)):
        if wanted:
            await rig.queue_status(delta)
        for turn in range(turns):
            frame = await say_crafted(rig, delta, "", port=2)
            words = ASKS if turn < 3 else FIRST
            rig.expect(frame, words, **{"asks" if turn < 3 else "first": "west"})
    await rig.wait(minutes(61))
    asked = await say_crafted(rig, delta, "", port=2)
    telling = await say_crafted(rig, delta, "06FF01", port=2)
    rig.expect(asked, ASKS, asks="west")
    rig.expect(telling, FIRST, first="west")
    rig.expect_status(delta)


async def test_only_an_answer_that_left_has_asked_for_the_status(rig):
    """Three times, in whichever window; an answer that came too late does not count."""
    await rig.queue_status(rig.alpha)
    clock = await say_crafted(rig, rig.charlie, "", port=2)
    rig.expect(clock, FIRST, first="west")
    for late_ms, words in ((2_000, TOO_LATE), *((900, ASKS_LATE),) * 3, (0, FIRST)):
        frame = await rig.craft(rig.alpha, adr_ack_req=words is TOO_LATE)
        text = rig.told(frame, by="west")
        await rig.wait(milliseconds(late_ms))
        await rig.say(text, by="west")
        await rig.wait(seconds(3))
        rig.expect(frame, words, **{"first" if words is FIRST else "asks": "west"})


async def test_a_status_that_was_told_unasked_is_not_asked_for(rig, strategy):
    """`dev_status_s`: it comes round so long after the last one, whoever wanted that."""
    delta = rig.provision("delta", dev_status_s=3_600, strategy=strategy)
    for commands, asked in (("06FF01", False), ("", False), ("", True)):
        frame = await say_crafted(rig, delta, commands, port=2)
        rig.expect(frame, ASKS if asked else FIRST, **{"asks" if asked else "first": "west"})
        await rig.wait(minutes(31))
    rig.expect_status(delta)


@pytest.mark.requires("slow application")
async def test_who_has_answered_nothing_is_asked_for_all_of_it_again(rig):
    """NbTrans and, in AS923, the dwell times: seven octets each time."""
    rig.in_region("AS923-1")
    delta = rig.provision("delta", nb_trans=3)
    for _ in range(3):
        frame = await say_crafted(rig, delta, "", port=2, adr=True)
        rig.expect(frame, ASKS, asks="west")
        rig.expect_answer(frame, f_opts_bytes=7)


async def test_what_was_asked_in_a_life_is_granted_in_no_other_one(rig):
    """Who began again sends once again: its LinkADRAns answers nobody, and it is asked anew."""
    delta = rig.provision("delta", nb_trans=3)
    frames = [
        await say_crafted(rig, delta, commands, port=2, adr=True, f_cnt=f_cnt)
        for f_cnt, commands in ((10, ""), (0, "0307"))
    ]
    for frame in frames:
        rig.expect(frame, ASKS, asks="west")


async def test_whoever_joins_again_is_asked_for_the_status_that_was_wanted(rig):
    """The application wants it of the device, whatever its session."""
    rig.only("west")
    joins, uplinks = [], []
    for _ in range(2):
        joins.append(await rig.bravo.join())
        if uplinks:
            await rig.queue_status(rig.bravo)
        uplinks += [await rig.bravo.send(), await rig.bravo.send()]
    for frame in (*joins, *uplinks[:2], uplinks[3]):
        rig.expect(frame, FIRST, first="west")
    rig.expect(uplinks[2], ASKS, asks="west")
    rig.expect_status(rig.bravo)


async def test_what_a_device_was_asked_counts_when_a_life_is_taken_back(rig):
    """A first message that is lost begins none; how often to send it has heard before."""
    device = rig.provision("repeating", f_cnt=500, nb_trans=3)
    asked = await hear(rig, device, "west", adr=True, confirmed=True)
    rig.refuse_upstream()
    begun = await hear(rig, device, "west", f_cnt=0)
    granted = await hear(rig, device, "west", adr=True, f_opts=bytes.fromhex("0307"))
    after = await hear(rig, device, "west", adr=True)
    rig.expect(asked, FIRST, first="west")
    rig.expect(begun, REFUSED, refused="west")
    for frame in (granted, after):
        rig.expect(frame, FIRST, first="west")


async def test_who_has_not_granted_is_asked_again_when_its_frame_is_forgotten(rig):
    """Told once more after a minute it is answered like a new one, and a moment later it is not."""
    device = rig.provision("repeating", f_cnt=10, nb_trans=3, relaxed_f_cnt=False)
    frame = await hear(rig, device, "west", adr=True, confirmed=True)
    rig.expect_answer(frame, f_opts_bytes=5)
    for after_us, octets in ((seconds(61), 5), (seconds(3), 0)):
        await rig.wait(after_us)
        await tell(rig, frame, "west")
        rig.expect_answer(frame, f_opts_bytes=octets)
    await rig.wait(seconds(3))
    rig.expect(frame, FIRST + EXPIRED + AGAIN, first="west", again="west")


async def test_commands_on_port_0_that_are_refused_are_refused_for_a_reason(rig, confirmed):
    """Nothing of them goes to the application in any case; what is a copy, or old, is told so."""
    device = rig.provision("asking", f_cnt=10, strategy="Drop", relaxed_f_cnt=False)
    old, frame = [
        await rig.craft(device, port=0, payload=b"\x02", confirmed=confirmed) for _ in "ab"
    ]
    await tell(rig, frame, "west", "east")
    await rig.wait(seconds(3))
    await tell(rig, old, "west")
    rig.expect(frame, ASKS_ON_PORT_0 + COPY_OF_ASKING, asks="west", copy="east")
    rig.expect(old, OLD_ASKING, old="west")


async def test_a_status_that_is_told_through_another_server_is_not_asked_for_again(rig):
    """The one that was to ask hears it too, and has it."""
    rig.put_on("lns-b", "north")
    device = rig.provision("delta", f_cnt=10)
    await rig.queue_status(device)
    told = await hear(rig, device, "north", "west", f_opts=b"\x06\xff\x01")
    after = await hear(rig, device, "west", confirmed=True)
    rig.expect(told, FIRST + ELSEWHERE, first="north", elsewhere="west")
    rig.expect(after, FIRST, first="west")
    rig.expect_answer(after, f_opts_bytes=0)


async def test_a_status_that_nobody_has_asked_for_yet_is_the_one_that_was_wanted(rig):
    """The device tells it by itself first: whoever wants it has it, and it is not asked for."""
    await rig.queue_status(rig.alpha)
    told = await hear(rig, rig.alpha, "west", f_opts=b"\x06\xff\x01", confirmed=True)
    rig.expect(told, FIRST, first="west")
    rig.expect_answer(told, f_opts_bytes=0)
    rig.expect_status(rig.alpha)
