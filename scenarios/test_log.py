"""What does a network server tell the person at its console, and how often?"""

import json

import pytest

from bench.clock import milliseconds, minutes, seconds
from bench.verdict.expectation import Table
from scenarios.words import FIRST, REFUSED

pytestmark = pytest.mark.requires("virtual time")

LATE = Table("""
    strategy kind      | late
    *        confirmed | NonDuplicate forwarded TooLate
""")
UNKEPT = Table("""
    strategy kind      | unkept
    *        confirmed | NonDuplicate forwarded Suppressed
""")
UNREADABLE = json.dumps({"msgtype": "timesync", "txtime": "\u202e\x07" * 200})
LOST = Table("""
    strategy kind | lost
    *        *    | - dropped(InternalError) NotAsked
""")


def here(rig):
    """What is said of the stations of a case when they come."""
    return [f"INFO {one.eui}: station 2.0.6(linux/std)" for one in (rig.west, rig.east)]


async def served(rig):
    """A frame as there are any."""
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, FIRST, first="west")
    rig.expect_reply(uplink)


async def test_ten_mistakes_of_a_connection_are_logged(rig):
    """The capture tells of all of them; a station that comes again begins anew."""
    rig.only("west")
    await served(rig)
    told = f"WARNING {rig.west.eui}: unreadable message: timesync: Expected `int`, got `str`"
    for number in (11, 12):
        for _ in range(number):
            await rig.say(UNREADABLE, by="west")
        if number == 11:
            rig.west.cut()
            rig.west.restore()
            await rig.wait(minutes(2))
    await served(rig)
    west, _ = here(rig)
    rig.expect_logged(*here(rig), *[told] * 10, west, *[told] * 10)


async def test_sixty_complaints_a_minute_are_logged(rig):
    """Then it is said how many were left out, as soon as there is another one."""
    rig.only("west")
    await served(rig)
    began = here(rig)
    told = f"WARNING lorawan/lns-a/{rig.alpha.dev_eui}/down: not a downlink: JSON is malformed"
    for number in (61, 60, 1):
        for _ in range(number):
            await rig.post_request(rig.alpha, b"x")
        await rig.wait(minutes(1))
    await served(rig)
    left_out = "WARNING 1 more complaints were not logged"
    rig.expect_logged(*began, *[told] * 60, left_out, *[told] * 61)


@pytest.mark.fault("store", "cut")
async def test_an_outage_is_logged_once_and_so_is_its_end(rig):
    """With what it means for now."""
    rig.only("west")
    await served(rig)
    for _ in range(2):
        rig.cut_store()
        for _ in range(2):
            uplink = await rig.alpha.send(confirmed=True)
            rig.expect(uplink, UNKEPT, unkept="west")
        await rig.restore_store()
        await served(rig)
    away = "WARNING the wire to the store is cut; "
    told = [f"{away}nobody can say who owns a frame until it is back"]
    told += [f"{away}devices are not answered until it is back"]
    told += ["INFO the store of the claims is back", "INFO the store is back"]
    rig.expect_logged(*here(rig), *told * 2)


@pytest.mark.fault("store", "slow")
async def test_an_outage_that_looks_another_way_is_the_same(rig):
    """The wire is cut, then nothing comes back in time: it is told once that the store is away."""
    rig.only("west")
    await served(rig)
    for disturb in (rig.cut_store, lambda: rig.slow_store(seconds(5))):
        disturb()
        uplink = await rig.alpha.send(confirmed=True)
        rig.expect(uplink, UNKEPT, unkept="west")
        await rig.restore_store()
    await served(rig)
    away = "WARNING the wire to the store is cut; "
    told = [f"{away}nobody can say who owns a frame until it is back"]
    told += [f"{away}devices are not answered until it is back"]
    told += ["INFO the store of the claims is back", "INFO the store is back"]
    rig.expect_logged(*here(rig), *told)


@pytest.mark.requires("slow application")
@pytest.mark.fault("store", "cut")
async def test_what_nobody_has_granted_is_not_given_back(rig):
    """The application does not take it either: no claim of it stays, and none is named."""
    rig.only("west")
    await served(rig)
    rig.cut_store()
    rig.refuse_upstream()
    uplink = await rig.alpha.send()
    rig.expect(uplink, REFUSED, refused="west")
    await rig.restore_store()
    await served(rig)
    away = "WARNING the wire to the store is cut; nobody can say who owns a frame until it is back"
    rig.expect_logged(*here(rig), away, "INFO the store of the claims is back")


async def test_a_station_that_cannot_answer_is_named(rig):
    """Once, when it has been so five times in a row, ten times, and when it answers again."""
    rig.only("west")
    await served(rig)
    rig.west.delay_uplinks(seconds(3), receptions=11)
    frames = [await rig.alpha.send(confirmed=True) for _ in range(11)]
    for frame in frames:
        rig.expect(frame, LATE, late="west")
    await served(rig)
    cause = "the frame was told too late"
    named = f"WARNING {rig.west.eui}: TooLate ({frames[0].frame_id}): {cause}"
    row = (
        f"WARNING {rig.west.eui}: cannot answer: %d TooLate in a row, at last because {cause}; what"
    )
    again = f"WARNING {rig.west.eui}: answers again, after 11 TooLate"
    rig.expect_logged(*here(rig), named, row % 5, row % 10, again)
    rig.expect_finding("too late", owner="gateway", about="west")


async def test_a_station_that_is_late_now_and_then_is_named_once_a_minute(rig):
    """With the frame that is not answered; it answers in between, so it is no row."""
    rig.only("west")
    await served(rig)
    late = []
    for wait_us in (0, seconds(45), seconds(10)):
        await rig.wait(wait_us)
        rig.west.delay_uplinks(seconds(3), receptions=1)
        late.append(await rig.alpha.send(confirmed=True))
        await served(rig)
    for frame in late:
        rig.expect(frame, LATE, late="west")
    named = f"WARNING {rig.west.eui}: TooLate (%s): the frame was told too late"
    rig.expect_logged(*here(rig), named % late[0].frame_id, named % late[2].frame_id)


@pytest.mark.fault("program", "capture full")
async def test_what_a_full_capture_lacks_is_logged(rig):
    """Once a minute while it is full, and when it is written again."""
    rig.keep_on_disk()
    rig.only("west")
    await served(rig)
    await rig.fill_capture(0)
    for _ in range(2):
        await served(rig)
    await rig.wait(minutes(1))
    await served(rig)
    await rig.free_capture()
    await served(rig)
    full = "WARNING events.jsonl cannot be written: File too large; %d events are missing by now"
    more = "WARNING 5 more complaints were not logged"
    again = "INFO events.jsonl is written again; 9 events are missing"
    rig.expect_logged(*here(rig), full % 1, more, full % 7, again)


@pytest.mark.fault("program", "a mistake of its own")
async def test_a_mistake_is_logged_with_its_way(rig):
    """And without its words, which could be a secret."""
    rig.only("west")
    await served(rig)
    rig.stumble("application")
    lost = await rig.alpha.send(confirmed=True)
    rig.expect(lost, LOST, lost="west")
    await served(rig)
    told = f"WARNING {rig.west.eui}: internal error (reception): Stumbled at mistakes.py:"
    rig.expect_logged(*here(rig), told)


@pytest.mark.parametrize(
    ("mode", "may"),
    [
        (0o604, "read"),
        (0o620, "written"),
        (0o602, "written"),
        (0o646, "read and written"),
        (0o751, ""),
    ],
)
async def test_files_that_are_open_to_others_are_named(rig, mode, may):
    """Whoever may write them, and who is in no group of the owner and may read them."""
    rig.only("west")
    await served(rig)
    lns_toml = '[lns]\nid = "lns-a"\npublic_uri = "wss://lns.example:443"\n[tls]\n'
    lns_toml += 'cert = "server.crt"\nkey = "server.key"\ntokens = "tokens.toml"\n'
    says = "lns.toml: lns-a, EU868, 0 devices\n  stations: any; to show: one of 0 tokens, its own"
    modes = dict.fromkeys(("devices.toml", "tokens.toml"), mode)
    await rig.check_configuration(lns_toml, says, {"tokens.toml": ""}, modes=modes)
    named = f"can be {may} by others (mode {mode:o}): chmod 600"
    told = [
        f"WARNING the {what} file {what}.toml {named} {what}.toml" for what in ("devices", "tokens")
    ]
    rig.expect_logged(*here(rig), *(told if may else ()))


async def test_a_certificate_that_no_station_takes_is_named(rig):
    """As soon as it is read: stations compare the name of their URI with those that it has."""
    rig.only("west")
    await served(rig)
    says = "lns.toml: lns-a, EU868, 0 devices\n  stations: any; to show: nothing"
    tls = '[tls]\ncert = "server.crt"\nkey = "server.key"\n'
    for name in ("lns.example", "elsewhere.example", "example"):
        lns_toml = f'[lns]\nid = "lns-a"\npublic_uri = "wss://{name}:443"\n{tls}'
        await rig.check_configuration(lns_toml, says)
    told = "WARNING server.crt has no DNS name %s (it has: lns.example): stations will refuse it"
    rig.expect_logged(*here(rig), told % "elsewhere.example", told % "example")


@pytest.mark.requires("redis")
@pytest.mark.fault("store", "cut")
async def test_an_outage_of_a_store_is_logged_by_its_consumer_and_so_is_its_end(rig):
    """Once each, with what waits meanwhile."""
    rig.keep_in_redis()
    rig.consumer()
    rig.only("west")
    await served(rig)
    for number in (1, 2):
        await rig.wait(seconds(1))
        rig.cut_store("application")
        await rig.inject(rig.alpha, number=2 * number - 1)
        await rig.inject(rig.alpha, number=2 * number)
        await rig.wait(seconds(5))
        await rig.restore_store("application")
        await rig.wait(seconds(1))
    of_redis = "redis://127.0.0.1:6379/3"
    told = [f"WARNING {of_redis} is not available: Connection closed by server"]
    told.append(f"INFO {of_redis} (application) is back; 2 messages wait")
    rig.expect_logged(*here(rig), *told * 2)


@pytest.mark.fault("broker", "away")
async def test_why_a_broker_takes_nothing_is_logged_and_that_it_does_again(rig):
    """It has stopped, is away, refuses a login, acknowledges nothing, or refuses a message."""
    rig.only("west")
    await served(rig)
    await rig.stop_broker()
    await rig.wait(seconds(2))
    await served(rig)
    await rig.refuse_logins(1)
    await rig.start_broker()
    await rig.wait(seconds(20))
    await rig.hold_messages()
    await served(rig)
    await rig.wait(milliseconds(20_500))
    await rig.find_broker()
    await rig.wait(seconds(20))
    await rig.refuse_messages(2, of=rig.alpha)
    await served(rig)
    await rig.wait(seconds(5))
    of_alpha = f"lorawan/lns-a/{rig.alpha.dev_eui}/up"
    rig.expect_logged(
        "INFO mqtt+unix:broker is connected; 0 messages wait",
        *here(rig),
        "WARNING mqtt+unix:broker ended the connection: Server shutting down; 0 messages wait",
        "WARNING mqtt+unix:broker cannot be reached: No such file or directory; 0 messages wait",
        "WARNING mqtt+unix:broker refuses the login: Not authorized; 1 messages wait",
        "INFO mqtt+unix:broker is connected; 1 messages wait",
        "WARNING mqtt+unix:broker acknowledges nothing within 20000000 us; 1 messages wait",
        "INFO mqtt+unix:broker is connected; 1 messages wait",
        f"WARNING mqtt+unix:broker refuses messages on {of_alpha}: Not authorized",
        f"INFO mqtt+unix:broker takes messages on {of_alpha} again",
    )
