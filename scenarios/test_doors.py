"""How stations find their network server and are let in, and what becomes of whoever else comes."""

import json
import re

import pytest

from bench.clock import milliseconds, seconds
from bench.virtual.visitor import (
    CLOSE,
    HALF_AT_HOME,
    TEXT,
    TLS_1_1,
    TLS_1_2,
    alert,
    client_hello,
    frame,
    in_two,
    longest_uri,
    post,
    request,
    update_info,
    upgrade,
)
from scenarios.words import COPY, FIRST, TOO_LATE

pytestmark = pytest.mark.requires("virtual time")

ASKS = "/router-info"
INFO = "/update-info"
STRANGER = "0016C001F1FFFFFF"
_TEXT_MAX = 65_536
_STATIONS_MAX = 4096
_CIPHER = 0xC02B  # ECDHE-ECDSA-AES128-GCM-SHA256
_ALERTS = {
    42: "refuses the server's certificate",
    45: "says that the server's certificate has expired",
    46: "refuses the server's certificate",
    48: "does not trust the server's certificate",
}
_NOTHING = "no WebSocket request: did not receive a valid HTTP request"
_VERSION = '{"msgtype":"version","station":"2.0.6(linux/std)","protocol":2}'


def bearer(station):
    """The token of a station."""
    return [("Authorization", f"Bearer {station.eui}")]


def data(station):
    """The path of its data connection."""
    return f"/router/{station.eui}"


def question(station):
    """What it asks at discovery."""
    return frame(json.dumps({"router": station.eui}))


async def served(rig):
    """A station and a device as there are any, whoever else comes."""
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, FIRST, first="west")
    rig.expect_reply(uplink)


async def test_stations_come_through_the_door(rig, strategy, confirmed):
    """Discovery, a WebSocket, and all that goes over it; whoever was cut off comes again."""
    rig.open_door()
    rig.east.delay_uplinks(milliseconds(200))
    before = await rig.alpha.send(confirmed=confirmed)
    rig.west.cut()
    rig.west.restore()
    await rig.wait(seconds(5))
    after = await rig.alpha.send(confirmed=confirmed)
    for uplink in (before, after):
        rig.expect(uplink, FIRST + COPY, first="west", copy="east")
        rig.expect_reply(uplink)
    rig.expect_goodbye("1000", of="west")


@pytest.mark.parametrize("shows", ["nothing", "token", "certificate", "any certificate"])
async def test_stations_come_over_tls(rig, shows):
    """What a station has to show it shows at discovery and for its data."""
    rig.open_door(shows)
    rig.east.delay_uplinks(milliseconds(200))
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, FIRST + COPY, first="west", copy="east")
    rig.expect_reply(uplink)


@pytest.mark.fault("lns", "killed")
async def test_stations_find_a_server_that_was_away(rig):
    """It listens again where it did; what it knew of its connections is gone with it."""
    rig.open_door()
    rig.only("west")
    await served(rig)
    await rig.restart_lns()
    await rig.wait(seconds(30))
    await served(rig)


# As Basics Station writes an EUI of its own (uj.c): which groups are 0 decides.
ID6 = ["::0", "::4", "::3:0", "::3:4", "0:2::", "1::", "1::4", "1:2::"]
ID6 += ["0:2:0:4", "1:0:3:4", "a:bcd:10:f00", "ffff:fffe:1:ffff"]


def way_of(router, short):
    """All that a station is told at discovery."""
    uri = f"ws://127.0.0.1:6090/router/{router}"
    return {"router": short, "muxs": "muxs-::0", "uri": uri}


async def test_discovery_names_the_way(rig):
    """Any spelling of an EUI is one; the answer repeats it, and its way is taken."""
    rig.open_door()
    rig.only("west")
    await served(rig)
    station = rig.west.eui
    dashed = "-".join(station[at : at + 2] for at in range(0, 16, 2))
    for router in (station, station.lower(), dashed, int(station, 16)):
        asked = upgrade(ASKS) + frame(json.dumps({"router": router}))
        told = await rig.knock(asked, status=101, leaves=seconds(1))
        rig.expect_said("answer", way_of(station, "16:c001:f150:1"), told.said)
        rig.expect_said("proof", True, told.is_web_socket)
    for short in ID6:
        head, _, tail = short.partition("::")
        front, back = ([one for one in part.split(":") if one] for part in (head, tail))
        groups = front + ["0"] * (4 - len(front) - len(back)) + back
        router = "".join(group.zfill(4) for group in groups).upper()
        asked = upgrade(ASKS) + frame(json.dumps({"router": int(router, 16)}))
        told = await rig.knock(asked, status=101, leaves=seconds(1))
        rig.expect_said("answer", way_of(router, short), told.said)


async def test_only_two_ways_are_there(rig):
    """Any other path is refused, as is a station that does not say who it is."""
    rig.open_door()
    rig.only("west")
    await served(rig)
    others = "/", "/router-inf", "/router-info/", "/ROUTER-INFO", f"{ASKS}%3F"
    for path in (*others, f"/x{data(rig.west)}"):
        await rig.knock(upgrade(path), status=404, because="only /router-info is here")
    for spelling in ("", "west", "0016C001F150", "0016C001F15000010"):
        why = "the path does not end with a station EUI"
        await rig.knock(upgrade(f"/router/{spelling}"), status=404, because=why)
    # A query is not part of the path, and a character may be escaped.
    for path in (f"{ASKS}?x=1", "/router-inf%6F"):
        told = await rig.knock(upgrade(path) + question(rig.west), status=101, leaves=seconds(1))
        rig.expect_said("answers", 1, len(told.texts))


async def test_what_is_no_question_is_answered_so(rig):
    """A station learns why nobody is named; who asks nothing is not waited for."""
    rig.open_door()
    rig.only("west")
    await served(rig)
    why = 'not a question for a router: {"router": <EUI>}'
    routers = (json.dumps({"router": one}) for one in ("west", -1, 1 << 64, None, True))
    octets = json.dumps({"router": rig.west.eui}).encode()  # a station asks in a text
    answer = json.dumps({"msgtype": "router", "router": rig.west.eui})
    nameless = json.dumps({"msgtype": "", "router": rig.west.eui})
    for said in ("{}", "[]", "nonsense", octets, b"\xff", answer, nameless, *routers):
        asked = upgrade(ASKS) + frame(said)
        told = await rig.knock(asked, status=101, leaves=seconds(1), because=why)
        rig.expect_said("error", why, told.said.get("error"))
    await rig.knock(upgrade(ASKS), status=101, because="asked nothing", lasts=seconds(15))
    # Whoever has his answer may stay for as long as whoever has none.
    asked = upgrade(ASKS) + question(rig.west)
    await rig.knock(asked, status=101, lasts=seconds(15))


async def test_who_makes_no_web_socket_is_told_so(rig):
    """A request that is none, or that never comes, keeps nobody else waiting."""
    rig.open_door()
    rig.only("west")
    await served(rig)
    await rig.knock(b"", lasts=seconds(10), because=_NOTHING)
    missing = "no WebSocket request: missing Connection header"
    await rig.knock(request("GET", ASKS), status=426, because=missing)
    data = request("GET", f"/router/{STRANGER}")
    await rig.knock(data, status=426, because=missing, of=STRANGER)
    await served(rig)


async def test_only_listed_stations_may_come(rig):
    """At discovery and for data: whoever is not in the list is told so, the others are served."""
    rig.open_door(only=("west", "east"))
    rig.only("west")
    await served(rig)
    refused = "not in the list of stations"
    await rig.knock(upgrade(f"/router/{STRANGER}"), status=403, because=refused, of=STRANGER)
    told = await rig.knock(
        upgrade(ASKS) + frame(json.dumps({"router": STRANGER})), status=101, leaves=seconds(1)
    )
    rig.expect_refused(refused, of=STRANGER)
    rig.expect_said("error", refused, told.said.get("error"))
    rig.expect_said("router", "16:c001:f1ff:ffff", told.said.get("router"))


@pytest.mark.fault("lns", "restarted")
@pytest.mark.parametrize("shows", ["", "token"])
async def test_no_station_may_come_where_none_is_listed(rig, shows):
    """A list without a station is one; whoever hears a device, nobody tells of it."""
    rig.open_door(shows)
    rig.only("west")
    await served(rig)
    for station in (rig.west, rig.east):
        station.cut()
    await rig.close_door(only=())
    for station in (rig.west.eui, STRANGER):
        why = "not in the list of stations"
        await rig.knock(upgrade(f"/router/{station}"), status=403, because=why, of=station)
        if shows:  # and none has a token
            asked = upgrade(ASKS, bearer(rig.west))
            await rig.knock(asked, status=401, because="wrong token")
            continue
        asked = upgrade(ASKS) + frame(json.dumps({"router": station}))
        told = await rig.knock(asked, status=101, leaves=seconds(1), because=why, of=station)
        rig.expect_said("error", why, told.said.get("error"))
    await rig.close_door()
    for station in (rig.west, rig.east):
        station.restore()
    await rig.wait(seconds(30))
    await served(rig)


async def test_as_many_stations_as_there_may_be_and_one_more(rig):
    """The one too many is told so; whoever is here may come anew, and whoever leaves makes room.

    Nobody who has not said yet who he is takes any of it.
    """
    rig.open_door()
    rig.only("west")
    await served(rig)
    paths = [f"/router/{number:016X}" for number in range(_STATIONS_MAX - 1)]
    crowd = []
    # West and east are here; of more than 256 who have not yet said who they are some would go.
    for first in range(0, _STATIONS_MAX - 2, 200):
        crowd += [
            rig.begin_knocking(upgrade(path), status=101, leaves=seconds(60))
            for path in paths[first : min(first + 200, _STATIONS_MAX - 2)]
        ]
        await rig.wait(seconds(1))
    why = "too many stations are connected"
    await rig.knock(upgrade(paths[-1]), status=503, because=why, of=paths[-1][-16:])
    rig.expect_goodbye("replaced by a newer connection", of=paths[1][-16:])
    await rig.knock(upgrade(paths[1]), status=101, leaves=seconds(1))
    silent = rig.begin_knocking(b"", plain=True, leaves=seconds(2))
    await rig.knock(upgrade(paths[-1]), status=101, leaves=seconds(1))
    await silent
    rig.expect_refused(_NOTHING)
    for one in crowd:
        await one
    await served(rig)


async def test_a_token_is_good_for_its_station_only(rig):
    """Without one, with a wrong one, with that of another: refused, and told what is asked for."""
    rig.open_door("token")
    rig.only("west")
    await served(rig)
    for path, of in ((ASKS, None), (data(rig.west), "west")):
        for headers, why in (
            ((), "no Authorization header"),
            ([("Authorization", "Bearer")], "wrong token"),
            ([("Authorization", f"bearer {rig.west.eui}")], "wrong token"),
            ([("Authorization", f"Bearer {rig.west.eui}x")], "wrong token"),
            (bearer(rig.west) * 2, "no Authorization header"),
        ):
            await rig.knock(upgrade(path, headers), status=401, because=why, of=of)
    # Any station may ask, but for itself; blanks around a token are none of it.
    await rig.knock(
        upgrade(data(rig.west), bearer(rig.east)), status=401, because="wrong token", of="west"
    )
    for station in (rig.west, rig.east):  # nor is it good for whoever has none
        asked = upgrade(f"/router/{STRANGER}", bearer(station))
        await rig.knock(asked, status=401, because="wrong token", of=STRANGER)
    asked = upgrade(ASKS, bearer(rig.east)) + question(rig.west)
    told = await rig.knock(asked, leaves=seconds(1), because="wrong token", of="west")
    rig.expect_said("error", "wrong token", told.said.get("error"))
    asked = upgrade(ASKS, [("Authorization", f" Bearer {rig.west.eui} ")]) + question(rig.west)
    told = await rig.knock(asked, status=101, leaves=seconds(1))
    rig.expect_said("error", None, told.said.get("error"))


async def test_a_certificate_is_good_for_its_station_only(rig):
    """Without one, or with that of another: refused."""
    rig.open_door("certificate")
    rig.only("west")
    await served(rig)
    why = "no client certificate"
    await rig.knock(upgrade(ASKS), status=403, because=why)
    await rig.knock(upgrade(data(rig.west)), status=403, because=why, of="west")
    why = "the client certificate is another station's"
    await rig.knock(upgrade(data(rig.west)), shows="east", status=403, because=why, of="west")
    asked = upgrade(ASKS) + question(rig.west)
    # Any spelling of an EUI is one, and whoever may be a server as well is a client.
    for who in ("west", "with dashes", "with blanks", "for both sides"):
        told = await rig.knock(asked, shows=who, status=101, leaves=seconds(1))
        rig.expect_said("error", None, told.said.get("error"))
        rig.expect_said("answers", 1, len(told.texts))


async def test_an_odd_certificate_is_good_for_nobody(rig):
    """Each kind is told by its own sentence, in the handshake or after it."""
    rig.open_door("certificate")
    rig.only("west")
    await served(rig)
    asked = upgrade(data(rig.west))
    nameless = "the client certificate names no station: it needs an EUI as its CN"
    for who, why in (
        ("nobody", nameless),
        ("two names", nameless),
        ("with a tab", nameless),
        ("in groups", nameless),
        ("a server", "the client certificate is not made for clients"),
    ):
        await rig.knock(asked, shows=who, status=403, because=why, of="west")
    handshake = "TLS handshake: the client certificate"
    for who in ("a foreigner", "one of his own"):
        await rig.knock(asked, shows=who, because=f"{handshake} is of another authority")
    await rig.knock(asked, shows="an expired one", because=f"{handshake} has expired")
    await rig.knock(asked, shows="one of tomorrow", because=f"{handshake} is not valid yet")
    await rig.knock(asked, shows="a server only", because=f"{handshake} is not made for clients")
    await served(rig)


async def test_any_certificate_may_be_good_for_every_station(rig):
    """Where the operator wants it so; there has to be one yet."""
    rig.open_door("any certificate")
    rig.only("west")
    await served(rig)
    asked = upgrade(ASKS) + question(rig.west)
    for who in ("east", "nobody", "two names", "a server"):
        told = await rig.knock(asked, shows=who, status=101, leaves=seconds(1))
        rig.expect_said("error", None, told.said.get("error"))
        hello = upgrade(f"/router/{STRANGER}") + frame(_VERSION)
        await rig.knock(hello, shows=who, status=101, leaves=seconds(1))
    await rig.knock(upgrade(ASKS), status=403, because="no client certificate")
    foreign = "TLS handshake: the client certificate is of another authority"
    await rig.knock(asked, shows="a foreigner", because=foreign)


async def test_a_handshake_is_not_waited_for(rig):
    """Who speaks no TLS, says nothing, or leaves in the middle of it."""
    rig.open_door("nothing")
    rig.only("west")
    await served(rig)
    await rig.knock(upgrade(ASKS), plain=True, because="TLS handshake: speaks no TLS")
    await rig.knock(b"", plain=True, because="TLS handshake: takes too long", lasts=seconds(5))
    left = "TLS handshake: left in the middle of it"
    await rig.knock(b"\x16\x03", plain=True, leaves=seconds(1), because=left)
    for said, why in (
        ([bytes(9)], "speaks no TLS"),
        ([client_hello(TLS_1_1, _CIPHER)], "speaks no TLS of version 1.2 or later"),
        ([client_hello(TLS_1_2, 0)], "no cipher is known to both sides"),
        *(
            ([client_hello(TLS_1_2, _CIPHER), alert(number)], f"the station {why}")
            for number, why in _ALERTS.items()
        ),
    ):
        await rig.knock(*said, plain=True, because=f"TLS handshake: {why}")
    await served(rig)


async def test_a_newer_connection_of_a_station_ends_the_older_one(rig):
    """And the end of that one does not take the newer one with it."""
    rig.open_door()
    rig.only("west")
    await served(rig)
    hello = upgrade(f"/router/{STRANGER}") + frame(_VERSION)
    first = rig.begin_knocking(hello, frame(_VERSION), status=101, lasts=seconds(1))
    await rig.wait(seconds(1))
    second = rig.begin_knocking(hello, status=101, lasts=seconds(2))
    await rig.wait(seconds(2))
    await rig.knock(hello, status=101, leaves=seconds(1))
    rig.expect_said(
        "closed with", (None, None), ((await first).closed_with, (await second).closed_with)
    )
    rig.expect_goodbye("replaced by a newer connection", of=STRANGER)
    rig.expect_brought(STRANGER, (2, 0), (1, 0), (1, 0))


async def test_a_station_that_is_gone_is_noticed(rig):
    """It is asked every 30 s whether it is there, and has a minute to say so."""
    rig.open_door()
    rig.only("west")
    await served(rig)
    hello = upgrade(f"/router/{STRANGER}") + frame(_VERSION)
    told = await rig.knock(hello, status=101, closed_with=1011, lasts=seconds(90))
    rig.expect_said("pings", 1, sum(opcode == 0x9 for opcode, _ in told.frames()))
    rig.expect_goodbye("keepalive ping timeout", of=STRANGER)


async def test_how_long_a_message_may_be(rig):
    """64 KiB are read, one octet more ends the connection; what is no text is not read."""
    rig.open_door()
    rig.only("west")
    await served(rig)
    hello = upgrade(f"/router/{STRANGER}") + frame(_VERSION)
    longest, too_long = (frame(_VERSION.ljust(_TEXT_MAX + more)) for more in (0, 1))
    told = await rig.knock(hello, longest, status=101, leaves=seconds(2))
    rig.expect_said("closed with", None, told.closed_with)
    await rig.knock(hello, too_long, status=101, closed_with=1009)
    await rig.knock(hello, frame(b"shell"), frame(b""), status=101, leaves=seconds(2))
    await rig.knock(hello, frame(b"\xff", TEXT), status=101, closed_with=1007)
    head, tail = in_two(_VERSION)
    await rig.knock(hello + head + tail, status=101, leaves=seconds(2))
    await rig.knock(hello, head, tail, frame(_VERSION), status=101, leaves=seconds(2))
    rig.expect_brought(STRANGER, (2, 0), (1, 0), (1, 2), (1, 0), (2, 0), (3, 0))


async def test_who_says_goodbye_is_told_nothing_more(rig):
    """Whatever the words are; what came before them was read, and has no answer any more."""
    rig.open_door()
    rig.only("west")
    await served(rig)
    hello = upgrade(f"/router/{STRANGER}") + frame(_VERSION)
    asks = frame('{"msgtype":"timesync","txtime":1}')
    for words in ("bye", "\u202e\x1b[2J\xe4\n", "~" * 123):
        goodbye = frame((1000).to_bytes(2, "big") + words.encode(), CLOSE)
        told = await rig.knock(hello, goodbye, status=101, closed_with=1000)
        rig.expect_said("texts", 2, len(told.texts))
        rig.expect_goodbye(re.sub("[^ -~]", "?", words), of=STRANGER)
    # What comes with it has no answer any more.
    told = await rig.knock(hello, asks + goodbye, status=101, closed_with=1000)
    rig.expect_said("texts", 2, len(told.texts))
    rig.expect_goodbye("the connection is over", of=STRANGER)
    rig.expect_brought(STRANGER, *[(1, 0)] * 3, (2, 0))


async def test_why_a_station_has_left_is_told_though_its_frame_is_under_way(rig):
    """An answer to it finds the connection over; that is no reason why it is."""
    rig.open_door()
    rig.only("west")
    await served(rig)
    rig.delay_upstream(milliseconds(400))
    frame = await rig.craft(rig.alpha, confirmed=True)
    await rig.say(rig.told(frame, by="west"), by="west")
    await rig.wait(milliseconds(100))
    rig.west.cut()
    await rig.wait(seconds(2))
    rig.west.restore()
    await rig.wait(seconds(30))
    rig.expect(frame, TOO_LATE, first="west")
    rig.expect_goodbye("received 1000 (OK); then sent 1000", of="west")
    await served(rig)


async def test_who_has_asked_and_does_not_wait_is_not_refused(rig):
    """He says goodbye with his question: nobody can answer him, and he has asked."""
    rig.open_door()
    rig.only("west")
    await served(rig)
    goodbye = frame((1000).to_bytes(2, "big"), CLOSE)
    told = await rig.knock(upgrade(ASKS), question(rig.west) + goodbye, status=101)
    rig.expect_said("texts", 0, len(told.texts))


async def test_who_reads_too_slowly_is_dropped(rig):
    """Nobody waits for a reader: what is not read in time is of no use any more."""
    rig.open_door()
    rig.only("west")
    await served(rig)
    asks = frame('{"msgtype":"timesync","txtime":1}') * 1500
    hello = upgrade(f"/router/{STRANGER}") + frame(_VERSION)
    await rig.knock(hello + asks, reads=False, leaves=seconds(20), lasts=0)
    rig.expect_goodbye("reads too slowly", of=STRANGER)
    await served(rig)


@pytest.mark.parametrize("shows", ["", "nothing"])
async def test_of_many_who_say_nothing_the_oldest_go(rig, shows):
    """Of the address that has most; whoever else comes is not disturbed.

    A station is none of them any more, nor is one that has asked for its server.
    """
    rig.open_door(shows)
    rig.only("west")
    await served(rig)
    left, waited = _NOTHING, _NOTHING
    if shows:
        left, waited = (
            f"TLS handshake: {why}" for why in ("left in the middle of it", "takes too long")
        )
    lasts = seconds(5 if shows else 10)
    other = rig.begin_knocking(b"", plain=True, host="203.0.113.9", because=waited, lasts=lasts)
    crowd = [rig.begin_knocking(b"", plain=True, leaves=seconds(3)) for _ in range(255)]
    await rig.wait(seconds(1))
    crowd += [rig.begin_knocking(b"", plain=True, leaves=seconds(3)) for _ in range(3)]
    await rig.wait(seconds(4))
    rig.expect_refused("too many connections that say nothing", times=3)
    rig.expect_refused(left, times=255)
    for number, one in enumerate(crowd):
        goes_in_time = seconds(1) <= (await one).lasted_us < seconds(2)
        rig.expect_said("the oldest go when too many come", number < 3, goes_in_time)
    await other
    await served(rig)


async def test_whose_handshake_has_failed_is_none_of_those_who_say_nothing(rig):
    """He has gone: for whoever comes then nobody has to go, whatever addresses they come from."""
    rig.open_door("nothing")
    rig.only("west")
    await served(rig)
    waited, why = (f"TLS handshake: {why}" for why in ("takes too long", "speaks no TLS"))
    lasts = seconds(5)
    silent = rig.begin_knocking(b"", plain=True, host="203.0.113.9", because=waited, lasts=lasts)
    await rig.wait(milliseconds(100))
    asked = request("GET", "/")
    for group in range(3):
        hosts = [f"198.18.{group}.{number}" for number in range(100)]
        gone = [rig.begin_knocking(asked, plain=True, host=host, because=why) for host in hosts]
        for one in gone:
            await one
    await silent
    await served(rig)


@pytest.mark.parametrize("shows", ["nothing", "token", "certificate"])
async def test_credentials_are_handed_out(rig, shows):
    """A station that has other ones gets its own; one that has them gets nothing.

    A URI may be that of another port, one digit shorter, or in capitals, which no station can use.
    """
    rig.open_door(shows, cups=True)
    rig.only("west")
    await served(rig)
    has, due = rig.credentials(of="west")
    here = {"cups": "https://127.0.0.1:6190", "tc": "wss://127.0.0.1:6090"}
    headers = bearer(rig.west) if shows == "token" else []
    odd = {"cups": here["cups"].upper(), "tc": here["tc"][:-1]}
    for other, cups_has, tc_has in (("cups", b"", has), ("tc", has, b""), ("", due, due)):
        uris = tuple(odd[one] if one == other else here[one] for one in here)
        router = int(rig.west.eui, 16) if other == "tc" else rig.west.eui
        body = update_info(router, uris=uris, cups_keys=cups_has, keys=tc_has)
        told = await rig.knock(
            post(INFO, body, headers), at_cups=True, shows="west", status=200, of="west"
        )
        cups_uri, tc_uri, cups, tc = told.handed_out
        given = tuple(here[one] if one == other else "" for one in here)
        rig.expect_said("URIs", given, (cups_uri, tc_uri))
        for of, had, got in (("CUPS", cups_has, cups), ("the LNS", tc_has, tc)):
            whose = "its own" if got == due else "others" if got else "none"
            rig.expect_said(f"credentials for {of}", "none" if had else "its own", whose)
    rig.expect_said("nothing changes", bytes(14), told.body)


async def test_a_station_whose_files_say_half_is_told_the_rest(rig):
    """Where its network server is, from whom it has the files; a URI may have 255 characters."""
    rig.open_door(cups=True)
    rig.only("west")
    await served(rig)
    _, due = rig.credentials(of=HALF_AT_HOME)
    told = await rig.knock(post(INFO, update_info(HALF_AT_HOME)), at_cups=True, status=200)
    cups_uri, tc_uri, cups, tc = told.handed_out
    rig.expect_said("URI of CUPS", longest_uri("http"), cups_uri)
    rig.expect_said("URI of the LNS", "ws://127.0.0.1:6090", tc_uri)
    rig.expect_said("credentials", ("", due.hex()), (cups.hex(), tc.hex()))


@pytest.mark.parametrize("shows", ["token", "certificate"])
async def test_credentials_are_for_their_station_only(rig, shows):
    """What opens a station's own door opens no other's."""
    rig.open_door(shows, cups=True)
    rig.only("west")
    await served(rig)
    body = update_info(rig.west.eui)
    if shows == "certificate":
        why = "CUPS: the client certificate is another station's"
        asked = post(INFO, body)
        await rig.knock(asked, at_cups=True, shows="east", status=403, because=why, of="west")
    else:
        for headers, why in ((), "no Authorization header"), (bearer(rig.east), "wrong token"):
            asked = post(INFO, body, headers)
            why = f"CUPS: {why}"
            await rig.knock(asked, at_cups=True, status=401, because=why, of="west")
    silent = "CUPS: TLS handshake: takes too long"
    await rig.knock(b"", at_cups=True, plain=True, because=silent, lasts=seconds(5))


async def test_of_many_who_ask_for_no_credentials_the_oldest_go(rig):
    """As at the other door."""
    rig.open_door(cups=True)
    rig.only("west")
    await served(rig)
    # Who was answered is none of them any more.
    asked = post(INFO, update_info(STRANGER))
    await rig.knock(asked, host="203.0.113.9", at_cups=True, status=200)
    crowd = [rig.begin_knocking(b"", at_cups=True, leaves=seconds(3)) for _ in range(256)]
    await rig.wait(seconds(1))
    crowd += [rig.begin_knocking(b"", at_cups=True, leaves=seconds(3)) for _ in range(3)]
    await rig.wait(seconds(4))
    rig.expect_refused("CUPS: too many connections that say nothing", times=3)
    rig.expect_refused("CUPS: no whole request", times=256)
    for one in crowd:
        await one
    # Who has his answer and stays is one of them yet.
    silent = rig.begin_knocking(b"", at_cups=True, leaves=seconds(3), lasts=milliseconds(200))
    crowd = []
    for _ in range(2):
        await rig.wait(milliseconds(100))
        crowd += [
            rig.begin_knocking(asked, at_cups=True, reads=False, leaves=seconds(3))
            for _ in range(128)
        ]
    rig.expect_refused("CUPS: too many connections that say nothing")
    for one in (silent, *crowd):
        await one


async def test_who_does_not_ask_for_credentials_is_told_so(rig):
    """Each wrong request has its status, and none is waited for."""
    rig.open_door(cups=True)
    rig.only("west")
    await served(rig)
    body = update_info(rig.west.eui)
    for asked, status, why in (
        (b"nonsense\r\n\r\n", 400, "no HTTP request"),
        (post("/update", body), 404, "only /update-info is here"),
        (post(f"{INFO}/", body), 404, "only /update-info is here"),
        (request("GET", "/"), 404, "only /update-info is here"),
        (request("GET", INFO), 405, "only POST is served"),
        (request("PUT", INFO), 405, "only POST is served"),
        (request("Post", INFO), 400, "no HTTP request"),
        (request("POST", INFO), 411, "no Content-Length"),
        (post(INFO, b"", [("Content-Length", "16385")]), 413, "the body is too large"),
        (post(INFO, b"{}"), 400, "no update-info request"),
        (post(INFO, b"x" * 16_384), 400, "no update-info request"),
        (post(INFO, update_info(STRANGER, tcCredCrc=1 << 32)), 400, "no update-info request"),
        (post(INFO, update_info(STRANGER, cupsCredCrc=-1)), 400, "no update-info request"),
        (post(INFO, update_info(STRANGER, cupsCredCrc=True)), 400, "no update-info request"),
        (post(INFO, update_info(STRANGER, tcUri=1)), 400, "no update-info request"),
        (post(INFO, update_info(STRANGER, cupsUri=[])), 400, "no update-info request"),
        (post(INFO, body.replace(b"linux", b"lin\xfcx")), 400, "no update-info request"),
        (post(INFO, body.replace(b"cupsCredCrc", b"cupsCredCRC")), 400, "no update-info request"),
    ):
        await rig.knock(asked, at_cups=True, status=status, because=f"CUPS: {why}")
    why = "CUPS: no whole request"
    await rig.knock(b"POST", at_cups=True, because=why, lasts=seconds(10))
    await rig.knock(post(INFO, body)[:-1], at_cups=True, because=why, lasts=seconds(10))
    # Whoever has his answer, or does not read it, may stay for as long, whatever else he says.
    asked, stays = (post(INFO, body), b"more", b"yet more"), seconds(12)
    await rig.knock(*asked, at_cups=True, reads=False, leaves=stays, lasts=stays)
    # A station whose files are not here is told where its server is.
    body = update_info(STRANGER, tcCredCrc=(1 << 32) - 1)
    length = [("content-length", f"   {len(body)}")]
    short = json.dumps({"router": STRANGER, "cupsCredCrc": 0, "tcCredCrc": (1 << 32) - 1}).encode()
    whole = post(INFO, body)
    for asked in (
        whole,
        whole.replace(b"HTTP/1.1", b"HTTP/1.0"),
        request("POST", f"{INFO}?x=1", length, body),
        post(INFO, short),
        post(INFO, update_info(STRANGER, cupsUri=None, tcUri=None)),
        post(INFO, update_info(STRANGER, model=None, more={"deep": [[]]})),
    ):
        told = await rig.knock(asked, at_cups=True, status=200)
        rig.expect_said("URI of the LNS", "ws://127.0.0.1:6090", told.handed_out[1])


async def test_how_long_a_question_for_credentials_may_be(rig):
    """Its head and its body at their limits, and in which ways the length of one is told."""
    rig.open_door(cups=True)
    rig.only("west")
    await served(rig)
    body = update_info(STRANGER)
    asked = [post(INFO, body.ljust(16_384)), post(INFO, update_info(STRANGER, package="x" * 9_999))]
    bare = len(post(INFO, body, [("X", "")]).partition(b"\r\n\r\n")[0])
    longest, too_long = (post(INFO, body, [("X", "x" * (8_192 + n - bare))]) for n in (0, 1))
    asked.append(longest)
    lengths = [[("CONTENT-LENGTH", f"{len(body):09}")], [("Content-Length", f" \t{len(body)}  ")]]
    lengths.append([("Content-Length", "1"), ("Content-Length", str(len(body)))])
    asked += [request("POST", INFO, length, body) for length in lengths]
    for one in asked:
        told = await rig.knock(one, at_cups=True, status=200)
        rig.expect_said("URI of the LNS", "ws://127.0.0.1:6090", told.handed_out[1])
    await rig.knock(too_long, at_cups=True, because="CUPS: no whole request")
    for length in ("", "-1", "+5", "0x5", "1_0", "5 5", "5,5", f"{len(body):010}"):
        why = "CUPS: no Content-Length"
        odd = request("POST", INFO, [("Content-Length", length)], body)
        await rig.knock(odd, at_cups=True, status=411, because=why)


async def test_stations_are_told_where_to_go(rig):
    """Not to where the server listens, but to where it can be reached."""
    rig.open_door(cups=True, public_host="lns.example")
    rig.only("west")
    await served(rig)
    told = await rig.knock(upgrade(ASKS), question(rig.west), status=101, leaves=seconds(1))
    due = f"ws://lns.example:6090/router/{rig.west.eui}"
    rig.expect_said("uri", due, told.said.get("uri"))
    # A station with files here is told what stands in them.
    for station, uri in (STRANGER, "ws://lns.example:6090"), (rig.west.eui, "ws://127.0.0.1:6090"):
        told = await rig.knock(post(INFO, update_info(station)), at_cups=True, status=200)
        rig.expect_said("URI of the LNS", uri, told.handed_out[1])


async def test_stations_come_over_ipv6(rig):
    """Where a URI has brackets around the address."""
    rig.open_door(cups=True, ipv6=True)
    rig.only("west")
    await served(rig)
    asked = upgrade(ASKS) + question(rig.west)
    told = await rig.knock(asked, host="2001:db8::7", status=101, leaves=seconds(1))
    rig.expect_said("uri", f"ws://[::1]:6090/router/{rig.west.eui}", told.said.get("uri"))
    told = await rig.knock(post(INFO, update_info(STRANGER)), at_cups=True, status=200)
    rig.expect_said("URI of the LNS", "ws://[::1]:6090", told.handed_out[1])


@pytest.mark.fault("lns", "restarted")
@pytest.mark.parametrize("shows", ["", "nothing"])
async def test_who_goes_away_says_so(rig, shows):
    """Open connections are closed in order, and nobody is refused for that; then all come again."""
    rig.open_door(shows, cups=True)
    rig.only("west")
    await served(rig)
    hello = upgrade(f"/router/{STRANGER}")  # and no goodbye, which is waited for
    here = rig.begin_knocking(hello, closed_with=1001, lasts=seconds(6))
    asks = rig.begin_knocking(upgrade(ASKS))
    silent = [rig.begin_knocking(b"", plain=True, at_cups=cups) for cups in (False, True)]
    await rig.wait(seconds(1))
    await rig.close_door()
    for one in (here, asks, *silent):
        await one
    rig.expect_said("the silent are dropped at once", True, (await silent[0]).lasted_us < 2_000_000)
    await rig.wait(seconds(30))
    await served(rig)


@pytest.mark.fault("lns", "restarted")
async def test_what_is_under_way_is_finished_before_a_server_goes(rig):
    """The application takes its time over a frame, which has its outcome all the same."""
    rig.open_door()
    rig.only("west")
    await served(rig)
    rig.delay_upstream(seconds(8))
    frame = await rig.craft(rig.alpha)
    await rig.say(rig.told(frame, by="west"), by="west")
    await rig.wait(milliseconds(100))
    await rig.close_door()
    await rig.wait(seconds(30))
    rig.expect(frame, FIRST, first="west")
    await served(rig)
