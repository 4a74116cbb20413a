"""What does a network server tell the person at its console, and how often?"""

import json
from ipaddress import IPv4Address
from itertools import product
from pathlib import Path

import pytest
from cryptography.x509 import IPAddress, SubjectAlternativeName

from bench.clock import milliseconds, minutes, seconds
from bench.host.lns_files import SERVER, any_authority
from bench.rig.in_memory.mistakes import stumble
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
_AWAY = "WARNING the wire to the store is cut; "
OUTAGE = [
    f"{_AWAY}nobody can say who owns a frame until it is back",
    f"{_AWAY}devices are not answered until it is back",
    "INFO the store of the claims is back",
    "INFO the store is back",
]
TLS = '[tls]\ncert = "server.crt"\nkey = "server.key"\n'
RAISED_AT = max(line for _, _, line in stumble.__code__.co_lines() if line)
UNREADABLE = json.dumps({"msgtype": "timesync", "txtime": "\u202e\x07" * 200})
IN_ORDER = "lns.toml: lns-a, EU868, 0 devices\n  stations: any; to show: nothing"
CAPTURE = "var/captures/a.events.jsonl"
SHORT_LINE = 160
"""Octets that say how many events are missing, and do not tell of what nobody can read."""
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


async def test_what_a_station_says_is_repeated_as_a_line_of_text(rig):
    """Any printable character of ASCII as it is, any other as a question mark, and 200 in all."""
    rig.only("west")
    await served(rig)
    printable = "".join(map(chr, range(0x20, 0x7F)))
    odd = ["\t", "\n", "\r", "\x00", "\x1b", "\x1f", "\x7f", "\x80", "\xa0", "\xe4", "\u202e"]
    names = {printable: printable, "".join(odd): "?" * len(odd)}
    names |= {"x" * length: "x" * min(length, 200) for length in (199, 200, 201, 60_000)}
    for name in names:
        version = {"msgtype": "version", "station": name, "protocol": 2}
        await rig.say(json.dumps(version), by="west")
        await rig.wait(seconds(6))
    for dev_eui in ("\x7f" * 300, "~" * 300):
        await rig.say(json.dumps({"msgtype": "dntxed", "diid": 1, "DevEui": dev_eui}), by="west")
    await served(rig)
    told = [f"INFO {rig.west.eui}: station {said}\n" for said in names.values()]
    unreadable = f"WARNING {rig.west.eui}: unreadable message: "
    wrong = [f"dntxed: not an EUI: '{said}" for said in ("\\x7f" * 50, "~" * 300)]
    told += [f"{unreadable}{one[:200]}\n" for one in wrong]
    rig.expect_logged(*here(rig), *told)


async def test_sixty_complaints_a_minute_are_logged(rig):
    """Then it is said how many were left out, as soon as there is another one."""
    rig.only("west")
    await served(rig)
    began = here(rig)
    told = f"WARNING lorawan/lns-a/{rig.alpha.dev_eui}/down: not a downlink: JSON is malformed"
    for number, after_us in (
        *((61, minutes(1)), (60, minutes(1)), (1, seconds(50))),
        *((59, seconds(10)), (60, seconds(50)), (1, seconds(10)), (1, 0)),
    ):
        for _ in range(number):
            await rig.post_request(rig.alpha, b"x")
        await rig.wait(after_us)
    await served(rig)
    left_out = "WARNING 1 more complaints were not logged"
    rig.expect_logged(*began, *[told] * 60, left_out, *[told] * 180, left_out, told)


async def test_a_downlink_that_is_refused_is_logged_with_the_reason(rig):
    """Whoever asked is told nothing: MQTT has no answer to a message."""
    rig.only("west")
    await served(rig)
    for number in range(17):
        await rig.queue_downlink(rig.alpha, payload=bytes([number]), port=9)
    await rig.queue_downlink(rig.alpha, payload=bytes(223), port=9)
    told = f"WARNING lorawan/lns-a/{rig.alpha.dev_eui}/down: the downlink is refused: "
    rig.expect_logged(*here(rig), f"{told}QueueFull\n", f"{told}TooLong\n")


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
    rig.expect_logged(*here(rig), *OUTAGE * 2)


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
    rig.expect_logged(*here(rig), *OUTAGE)


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


async def test_of_two_stations_that_are_late_by_turns_each_is_named_once_a_minute(rig):
    """Whatever the other one is late with meanwhile."""
    rig.only("west")
    await served(rig)
    named = []
    for number, station in enumerate((rig.west, rig.east, rig.west, rig.east)):
        rig.only(station.name)
        station.delay_uplinks(seconds(3), receptions=1)
        late = await rig.alpha.send(confirmed=True)
        rig.expect(late, LATE, late=station.name)
        uplink = await rig.alpha.send(confirmed=True)
        rig.expect(uplink, FIRST, first=station.name)
        said = f"WARNING {station.eui}: TooLate ({late.frame_id}): the frame was told too late"
        named += [said] * (number < 2)
    rig.expect_logged(*here(rig), *named)


@pytest.mark.parametrize(("after", "times"), [(59_900, 1), (60_100, 2)])
async def test_a_minute_after_a_station_was_named_it_is_named_again(rig, after, times):
    """And not before."""
    rig.only("west")
    await served(rig)
    late = []
    for at_us in (0, milliseconds(after)):
        await rig.wait_until(seconds(20) + at_us)
        rig.west.delay_uplinks(seconds(3), receptions=1)
        late.append(await rig.alpha.send(confirmed=True))
        await served(rig)
    for frame in late:
        rig.expect(frame, LATE, late="west")
    named = f"WARNING {rig.west.eui}: TooLate (%s): the frame was told too late"
    rig.expect_logged(*here(rig), *(named % one.frame_id for one in late[:times]))


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
    full = f"WARNING {CAPTURE} cannot be written: File too large; %d events are missing by now"
    more = "WARNING 5 more complaints were not logged"
    again = f"INFO {CAPTURE} is written again; 9 events are missing"
    rig.expect_logged(*here(rig), full % 1, more, full % 7, again)


@pytest.mark.fault("program", "capture full")
@pytest.mark.parametrize("missing", [1, 2, 3])
async def test_however_little_a_capture_lacks_it_says_so(rig, missing):
    """Also of one event, and each time anew."""
    rig.keep_on_disk()
    rig.only("west")
    await served(rig)
    told, left_out = [], []
    full = f"WARNING {CAPTURE} cannot be written: File too large; 1 events are missing by now"
    unreadable = f"WARNING {rig.west.eui}: unreadable message: "
    again = f"INFO {CAPTURE} is written again; {missing} events are missing"
    for _ in range(2):
        await rig.fill_capture(0)
        for _ in range(missing):
            await rig.say(UNREADABLE, by="west")
        await rig.wait(seconds(1))
        await rig.free_capture()
        await served(rig)
        await rig.wait(minutes(1))
        told += [*left_out, full, *[unreadable] * missing, again]
        left_out = [f"WARNING {missing - 1} more complaints were not logged"] * (missing > 1)
    rig.expect_logged(*here(rig), *told)


@pytest.mark.fault("program", "capture full")
async def test_a_capture_that_has_said_what_it_lacks_lacks_what_comes_then(rig):
    """There is room for that line, and never for the event behind it."""
    rig.keep_on_disk()
    rig.only("west")
    await served(rig)
    for room, times in ((0, 3), (SHORT_LINE, 2)):
        await rig.fill_capture(room)
        for _ in range(times):
            await rig.say(UNREADABLE, by="west")
            await rig.wait(milliseconds(100))
    await rig.free_capture()
    await served(rig)
    full = f"WARNING {CAPTURE} cannot be written: File too large; 1 events are missing by now"
    unreadable = f"WARNING {rig.west.eui}: unreadable message: "
    again = [f"INFO {CAPTURE} is written again; {number} events are missing" for number in (3, 1)]
    told = [full, *[unreadable] * 3, again[0], unreadable, again[1], unreadable, again[1]]
    rig.expect_logged(*here(rig), *told)


@pytest.mark.fault("program", "a mistake of its own")
async def test_a_mistake_is_logged_with_its_way(rig):
    """And without its words, which could be a secret."""
    rig.only("west")
    await served(rig)
    rig.stumble("application")
    lost = await rig.alpha.send(confirmed=True)
    rig.expect(lost, LOST, lost="west")
    await served(rig)
    told = (
        f"WARNING {rig.west.eui}: internal error (reception): Stumbled at mistakes.py:{RAISED_AT}\n"
    )
    rig.expect_logged(*here(rig), told)


READ = {0: "", 0o004: "read"}
WRITTEN = {0: "", 0o020: "written", 0o002: "written", 0o022: "written"}
OF_NO_MATTER = (0, 0o100, 0o040, 0o010, 0o001, 0o151)


@pytest.mark.parametrize("rest", OF_NO_MATTER, ids=oct)
async def test_files_that_are_open_to_others_are_named(rig, rest):
    """Whoever may write them, and who is in no group of the owner and may read them."""
    rig.only("west")
    await served(rig)
    lns_toml = '[lns]\nid = "lns-a"\npublic_uri = "wss://lns.example:443"\n[tls]\n'
    lns_toml += 'cert = "server.crt"\nkey = "private.key"\ntokens = "tokens.toml"\n'
    lns_toml += '[store]\nurl = "sqlite://lns.store"\n[upstream]\noutbox = "lns.outbox"\n'
    says = "lns.toml: lns-a, EU868, 0 devices\n  stations: any; to show: one of 0 tokens, its own"
    pair = any_authority().server("lns.example")
    files = {"tokens.toml": "", "lns.store": "", "lns.outbox": ""}
    files |= {"server.crt": pair.certificate.decode(), "private.key": pair.key.decode()}
    named = {"devices": "devices.toml", "store": "lns.store", "outbox": "lns.outbox"}
    named |= {"tokens": "tokens.toml", "key": "private.key"}
    told = []
    for (of_read, read), (of_written, written) in product(READ.items(), WRITTEN.items()):
        mode = 0o600 | rest | of_read | of_written
        modes = dict.fromkeys(("server.crt", *named.values()), mode)
        await rig.check_configuration(lns_toml, says, files, modes=modes)
        may = " and ".join(filter(None, (read, written)))
        told += [
            f"WARNING the {what} file {file} can be {may} by others (mode {mode:o}): chmod 600"
            for what, file in named.items()
            if may
        ]
    rig.expect_logged(*here(rig), *told)


async def test_the_outbox_that_nobody_has_named_is_looked_at(rig):
    """It has a place of its own, by the name of the server."""
    rig.only("west")
    await served(rig)
    file = "var/lns-a.outbox"
    await rig.check_configuration('[lns]\nid = "lns-a"', IN_ORDER, {f"{file}/x": ""})  # a folder
    await rig.check_configuration('[lns]\nid = "lns-a"', IN_ORDER, {file: ""}, modes={file: 0o644})
    told = f"WARNING the outbox file {file} can be read by others (mode 644): chmod 600 {file}"
    rig.expect_logged(*here(rig), told)


async def test_what_a_link_leads_to_is_looked_at(rig):
    """Not the link, which everybody may read and write."""
    rig.only("west")
    await served(rig)
    files = {"kept.toml": "device = []\n", "devices.toml": Path("kept.toml")}
    for mode in (0o600, 0o644):
        modes = {"kept.toml": mode}
        await rig.check_configuration('[lns]\nid = "lns-a"', IN_ORDER, files, modes=modes)
    told = "WARNING the devices file devices.toml can be read by others (mode 644): chmod 600"
    rig.expect_logged(*here(rig), told)


NAMES = {
    "one": (("lns.example",), "lns.example", ("elsewhere.example", "example", "a.lns.example")),
    "any": (("*.example",), "lns.example", ("example", "a.lns.example", "lns.elsewhere")),
    "several": (("a.example", "b.example"), "b.example", ("c.example",)),
    "in capitals": (("*.Example.org", "LNS.Example"), "lns.example", ("elsewhere.example",)),
    "any in capitals": (("*.LNS.Example",), "a.lns.example", ("lns.example",)),
    "an address": (("192.0.2.1",), "192.0.2.1", ("192.0.2.2",)),
    "no name": ((), "", ("192.0.2.1",)),
}
NO_NAME = SubjectAlternativeName([IPAddress(IPv4Address("192.0.2.1"))])


@pytest.mark.parametrize("kind", [*NAMES, "common"])
async def test_a_certificate_that_no_station_takes_is_named(rig, kind):
    """As soon as it is read: stations compare the name of their URI with those that it has."""
    rig.only("west")
    await served(rig)
    names, right, wrong = NAMES["one" if kind == "common" else kind]
    authority = any_authority()
    # Where there is no other name stations take the common one.
    match kind:
        case "common":
            pair = authority.issue(names, usages=[SERVER])
        case "no name":
            pair = authority.issue(["192.0.2.1"], usages=[SERVER], alternatives=NO_NAME)
        case _:
            pair = authority.server(*names)
    for name in filter(None, (right, right.upper(), *wrong)):
        lns_toml = f'[lns]\nid = "lns-a"\npublic_uri = "wss://{name}:443"\n{TLS}'
        await rig.check_configuration(lns_toml, IN_ORDER, certificate=pair)
    it_has = ", ".join(names) or "none"
    rig.expect_logged(*here(rig), *(
        f"WARNING server.crt has no DNS name {name} (it has: {it_has}): stations will refuse it"
        for name in wrong
    ))  # fmt: skip


async def test_the_name_of_a_certificate_is_where_the_server_listens(rig):
    """If nobody has said how stations find it."""
    rig.only("west")
    await served(rig)
    for host in ("127.0.0.1", "lns.example"):
        lns_toml = f'[lns]\nid = "lns-a"\nlisten = "{host}:443"\n{TLS}'
        await rig.check_configuration(lns_toml, IN_ORDER)
    told = "WARNING server.crt has no DNS name 127.0.0.1 (it has: lns.example): stations"
    rig.expect_logged(*here(rig), told)


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


@pytest.mark.fault("consumer", "connection cut")
async def test_a_consumer_says_what_it_hears_and_that_it_hears_nothing(rig):
    """When its connection ends, and when it is there again."""
    rig.keep_on_disk()
    rig.consumer(keys=True, knows_oldest=True)
    rig.only("west")
    await served(rig)
    await rig.redeliver()
    await rig.wait(seconds(2))
    heard = "INFO mqtt+unix:broker brings lorawan/#"
    gone = "WARNING mqtt+unix:broker is gone: the connection was closed without a word"
    rig.expect_logged(heard, *here(rig), f"{gone}; lorawan/# is not heard", heard)


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
    await rig.wait(seconds(27))
    await rig.find_broker()
    await rig.wait(seconds(20))
    rig.cut_upstream()
    await rig.restore_upstream()
    await rig.wait(seconds(20))
    for times in (2, 1):
        await rig.refuse_messages(times, of=rig.alpha)
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
        "WARNING mqtt+unix:broker is silent: no CONNACK within 5000000 us; 1 messages wait",
        "INFO mqtt+unix:broker is connected; 1 messages wait",
        "WARNING mqtt+unix:broker is gone: the connection was closed without a word; 0 messages",
        "INFO mqtt+unix:broker is connected; 0 messages wait",
        f"WARNING mqtt+unix:broker refuses messages on {of_alpha}: Unspecified error",
        f"INFO mqtt+unix:broker takes messages on {of_alpha} again",
        f"WARNING mqtt+unix:broker refuses messages on {of_alpha}: Not authorized",
        f"INFO mqtt+unix:broker takes messages on {of_alpha} again",
    )


@pytest.mark.parametrize("number", [59, 60])
async def test_stations_that_are_late_have_no_lines_of_their_own(rig, number):
    """Sixty a minute are for all complaints together, whoever they are about."""
    rig.only("west")
    await served(rig)
    await rig.wait(minutes(1))
    for _ in range(number):
        await rig.post_request(rig.alpha, b"x")
    rig.west.delay_uplinks(seconds(3), receptions=1)
    late = await rig.alpha.send(confirmed=True)
    rig.expect(late, LATE, late="west")
    await served(rig)
    told = f"WARNING lorawan/lns-a/{rig.alpha.dev_eui}/down: not a downlink: JSON is malformed"
    named = f"WARNING {rig.west.eui}: TooLate ({late.frame_id}): the frame was told too late"
    rig.expect_logged(*here(rig), *[told] * number, *[named][number - 59 :])


@pytest.mark.parametrize("name", ["my devices.toml", "it's.toml", "$HOME.toml", "\u00e4.toml"])
async def test_what_a_person_is_told_to_do_he_may_do(rig, name):
    """A shell takes the name of the file for what it is. A mistake that ends it all comes first."""
    rig.only("west")
    await served(rig)
    lns_toml = f'[lns]\nid = "lns-a"\ndevices = "{name}"'
    await rig.check_configuration(lns_toml, IN_ORDER, {name: "device = []\n"}, modes={name: 0o604})
    hidden = f'{lns_toml}\nlisten = "0.0.0.0:1"'
    needed = "lns.toml:1: lns.public_uri: is needed: stations cannot connect to 0.0.0.0"
    await rig.check_configuration(hidden, needed, {name: "device = []\n"}, modes={name: 0o604})
    told = f"WARNING the devices file {name} can be read by others (mode 604): chmod 600 "
    rig.expect_logged(*here(rig), told)


async def test_a_file_has_no_name_that_a_terminal_obeys(rig):
    """In a line of the log it is spelled out."""
    rig.only("west")
    await served(rig)
    lns_toml = '[lns]\nid = "lns-a"\ndevices = "a\\u001b[2J\\u202eb.toml"'
    name = "a\x1b[2J\u202eb.toml"
    await rig.check_configuration(lns_toml, IN_ORDER, {name: "device = []\n"}, modes={name: 0o604})
    rig.expect_logged(*here(rig), "WARNING the devices file a\\x1b[2J\\u202eb.toml can be read by")


async def test_a_topic_is_repeated_as_a_line_of_text(rig):
    """Whoever asks may call a device what he wants; nobody is served by that."""
    rig.only("west")
    await served(rig)
    name, why = "\u202e\x1b\n\xe4" + "x" * 300, "the topic does not name a DevEUI"
    await rig.post_request(rig.alpha, b"{}", why, on=name)
    said = f"lorawan/lns-a/????{'x' * 300}/down"[:200]
    rig.expect_logged(*here(rig), f"WARNING {said}: {why}\n")
