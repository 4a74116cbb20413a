"""What a station or an application may get wrong, and what a frame may hold (LoRaWAN 1.0.3, 4).

What cannot be read is told, and disturbs nobody.
"""

import json

import pytest

from bench.clock import seconds
from bench.verdict.expectation import Table
from scenarios.words import FIRST

pytestmark = pytest.mark.requires("virtual time")  # no wire has a part in it

ON_PORT_0 = Table("""
    strategy kind        | first
    *        confirmed   | NonDuplicate dropped RX1
    *        unconfirmed | NonDuplicate dropped NotAsked
""")


def spoilt(text, **fields):
    """A text of a station with other fields; what is None is left out."""
    told = {**json.loads(text), **fields}
    return json.dumps({name: value for name, value in told.items() if value is not None})


# --- receptions ----------------------------------------------------------------------------------

NO_UPLINKS = {
    "no JSON": "{",
    "half a text": '{"msgtype":"updf","MHdr":64',
    "no number": '{"msgtype":"updf","MHdr":NaN}',
    "nothing": "",
    "depths without end": "[" * 60_000,
    "depths in an uplink": '{"msgtype":"updf","more":' + "[" * 60_000,
    "only its name": '{"msgtype":"updf"}',
    "only the name of a join": '{"msgtype":"jreq"}',
}
WRONG_FIELDS = {
    "a downlink": {"MHdr": 0x60},
    "a confirmed downlink": {"MHdr": 0xA0},
    "a proprietary frame": {"MHdr": 0xE0},
    "another version": {"MHdr": 0x41},
    "FOpts longer than FCtrl says": {"FOpts": "0202"},
    "FOpts shorter than FCtrl says": {"FCtrl": 0x02},
    "a payload without port": {"FPort": -1},
    "a payload without port behind FOpts": {"FPort": -1, "FCtrl": 0x01, "FOpts": "02"},
    "port 256": {"FPort": 256},
    "port -2": {"FPort": -2},
    "counter of 17 bits": {"FCnt": 1 << 16},
    "counter below 0": {"FCnt": -1},
    "address of 33 bits": {"DevAddr": 1 << 32},
    "address below 32 bits": {"DevAddr": -(1 << 31) - 1},
    "MIC of 33 bits": {"MIC": 1 << 32},
    "DR16": {"DR": 16},
    "DR below 0": {"DR": -1},
    "no frequency": {"Freq": 0},
    "frequency of 33 bits": {"Freq": 1 << 32},
    "half an octet": {"FRMPayload": "abc"},
    "no octets": {"FRMPayload": "xy"},
    "256 octets": {"FRMPayload": "00" * 243},
    "256 octets with FOpts": {"FCtrl": 15, "FOpts": "00" * 15, "FRMPayload": "00" * 228},
    "256 octets on port 0": {"FPort": 0, "FRMPayload": "00" * 243},
    "no MIC": {"MIC": None},
    "clock below 0": {"upinfo": {"xtime": -1}},
    "clock of 64 bits": {"upinfo": {"xtime": 1 << 63}},
    "antenna of 65 bits": {"upinfo": {"rctx": 1 << 63}},
}


@pytest.mark.parametrize("text", NO_UPLINKS.values(), ids=NO_UPLINKS)
async def test_a_text_that_nobody_can_read_is_an_outcome(rig, text):
    """`Malformed`, as any reception has an outcome; what comes after it is served as ever."""
    await told_between(rig, text)


@pytest.mark.parametrize("fields", WRONG_FIELDS.values(), ids=WRONG_FIELDS)
async def test_an_uplink_with_a_field_that_cannot_be_is_malformed(rig, fields):
    """A station never says so; whoever does is not believed the rest."""
    rig.only("west")
    frame = await rig.craft(rig.charlie)
    await told_between(rig, spoilt(rig.told(frame, by="west"), **fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"MHdr": 0x20},
        {"MHdr": 1},
        {"DevNonce": 1 << 16},
        {"DevEui": "1-2"},
        {"DevEui": True},
        {"JoinEui": None},
    ],
    ids=["an accept", "another version", "nonce of 17 bits", "half an EUI", "yes", "no JoinEUI"],
)
async def test_a_join_with_a_field_that_cannot_be_is_malformed(rig, fields):
    """Its DevNonce is not used up: the same request joins next."""
    rig.only("west")
    request = await rig.craft_join(rig.bravo)
    await told_between(rig, spoilt(rig.told(request, by="west"), **fields))
    await rig.say(rig.told(request, by="west"), by="west")
    rig.expect(request, FIRST, first="west")


async def told_between(rig, text):
    """A station says something between two frames of a device, which are accepted."""
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    await rig.say(text, by="west")
    after = await rig.alpha.send(confirmed=True)
    for uplink in (before, after):
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)


SPELLINGS = {
    "unsigned": lambda told: {name: told[name] % (1 << 32) for name in ("DevAddr", "MIC")},
    "lower case": lambda told: {name: told[name].lower() for name in ("FOpts", "FRMPayload")},
    "more fields": lambda told: {"more": {"than": "one"}},
    "more of how it was heard": lambda told: {"upinfo": told["upinfo"] | {"foff": 120}},
    "an antenna below 0": lambda told: {"upinfo": told["upinfo"] | {"rctx": -1}},
    "fainter than any": lambda told: {"upinfo": told["upinfo"] | {"rssi": -191.5, "snr": -32.25}},
    "before 1980": lambda told: {"upinfo": told["upinfo"] | {"gpstime": -1}},
    "to the hertz": lambda told: {"Freq": told["Freq"] + 1},
    "as high as any": lambda told: {"Freq": (1 << 32) - 1},
    "as fast as any": lambda told: {"DR": 15},
}


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
async def test_an_uplink_may_be_spelled_in_more_than_one_way(rig, spelling):
    """A word of 32 bits is signed or not, and octets are of either case."""
    rig.only("west")
    devices = [rig.provision(f"device-{n}", f_cnt=10) for n in range(6)]
    for device in devices:  # of six MICs one is negative in all likelihood
        frame = await rig.craft(device, f_opts=b"\x03\x07", payload=b"\xab\xcd")
        text = rig.told(frame, by="west")
        await rig.say(spoilt(text, **spelling(json.loads(text))), by="west")
        rig.expect(frame, FIRST, first="west")


@pytest.mark.parametrize("dev_addr", ["FE00A711", "80000000"])
async def test_an_address_may_be_negative(rig, dev_addr):
    """32 bits of it are a signed number to a station."""
    rig.only("west")
    device = rig.provision("high", f_cnt=10, dev_addr_text=dev_addr)
    frame = await rig.craft(device, confirmed=True)
    text = rig.told(frame, by="west")
    assert json.loads(text)["DevAddr"] < 0
    await rig.say(text, by="west")
    rig.expect(frame, FIRST, first="west")


EUIS = {
    "dashes": lambda eui: "-".join(eui[at : at + 2] for at in range(0, 16, 2)),
    "colons": lambda eui: ":".join(eui[at : at + 2] for at in range(0, 16, 2)),
    "plain": lambda eui: eui.lower(),
    "a number": lambda eui: int(eui, 16),
    "groups": lambda eui: ":".join(f"{int(eui[at : at + 4], 16):x}" for at in range(0, 16, 4)),
}


@pytest.mark.parametrize("spelled", EUIS.values(), ids=EUIS)
async def test_an_eui_may_be_spelled_in_more_than_one_way(rig, spelled):
    """Each is the same device, under either name of the field."""
    rig.only("west")
    request = await rig.craft_join(rig.bravo)
    told = json.loads(rig.told(request, by="west"))
    plain = {name: told[name].replace("-", "") for name in ("JoinEui", "DevEui")}
    euis = {name.replace("Eui", "EUI"): spelled(eui) for name, eui in plain.items()}
    text = spoilt(json.dumps(told), JoinEui=None, DevEui=None, **euis)
    await rig.say(text, by="west")
    rig.expect(request, FIRST, first="west")


# --- other messages -------------------------------------------------------------------------------

UNREADABLE = {
    "a list": "[]",
    "a number": "7",
    "a report without a number": '{"msgtype":"dntxed","DevEui":"1-2-3-4-5-6-7-8"}',
    "a question without its time": '{"msgtype":"timesync"}',
    "clocks without clocks": '{"msgtype":"getxtime"}',
    "clocks below 0": '{"msgtype":"getxtime","xtimes":[-1,0,0,0]}',
    "a clock of 64 bits": '{"msgtype":"getxtime","xtimes":[9223372036854775808]}',
    "a report of before all time": '{"msgtype":"dntxed","diid":1,"DevEui":"::1","DR":5,"Freq":1,'
    '"xtime":-1}',
    "proprietary, without a frame": '{"msgtype":"propdf"}',
    "proprietary, of DR16": '{"msgtype":"propdf","FRMPayload":"E0","DR":16,"Freq":868100000}',
    "proprietary, half an octet": '{"msgtype":"propdf","FRMPayload":"E","DR":5,"Freq":868100000}',
    "proprietary, and a number": '{"msgtype":"propdf","FRMPayload":7,"DR":5,"Freq":868100000}',
}
USELESS = {
    "a name nobody knows": '{"msgtype":"runcmd"}',
    "a name that is none": '{"msgtype":7}',
    "a name of nothing": '{"msgtype":null}',
    "a list of names": '{"msgtype":["updf"]}',
    "a name in another letter": '{"msgtype":"UPDF","msgType":"updf"}',
    "an empty name": '{"msgtype":""}',
    "a question for a router": '{"router":"0016C001F1500001"}',
    "no name": "{}",
    "proprietary": '{"msgtype":"propdf","FRMPayload":"E0112233","DR":5,"Freq":868100000}',
    "a report of nothing": '{"msgtype":"dntxed","diid":1,"DevEui":"1:2:3:4","DR":5,"Freq":1}',
    "a report of less than nothing": '{"msgtype":"dntxed","diid":-1,"DevEui":"1:2:3:4","DR":5,'
    '"Freq":1}',
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
async def test_a_message_that_cannot_be_read_is_told(rig, text):
    """It is no reception: there is no outcome, and the capture names what it was to be."""
    await told_between(rig, text)


@pytest.mark.parametrize("text", USELESS.values(), ids=USELESS)
async def test_a_message_of_no_use_is_passed_over(rig, text):
    """Newer stations may say more than this server knows."""
    await told_between(rig, text)


VERSIONS = {
    "a name": {"station": "2.0.6"},
    "nothing": {},
    "no name": {"station": None},
    "a name that is a number": {"station": 2},
    "a list of features": {"station": "2.0.6", "features": ["rmtsh", "gps"]},
    "no features": {"station": "2.0.6", "features": None},
    "a protocol as text": {"station": "2.0.6", "protocol": "2"},
    "a protocol of the future": {"station": "2.0.6", "protocol": 3},
}


@pytest.mark.parametrize("said", VERSIONS.values(), ids=VERSIONS)
async def test_a_version_is_answered_whatever_it_says(rig, said):
    """What a station can do is its own business: without router_config its radio never runs."""
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    await rig.say(json.dumps({"msgtype": "version", **said}), by="west")
    await rig.wait(seconds(6))
    after = await rig.alpha.send(confirmed=True)
    for uplink in (before, after):
        rig.expect(uplink, FIRST, first="west")


async def test_a_station_that_asks_for_the_time_is_told_it(rig):
    """Its own clock comes back with the answer to each question (Basics Station, timesync)."""
    rig.only("west")
    for txtime in (1_000_000, 2_000_000, -1):
        await told_between(rig, f'{{"msgtype":"timesync","txtime":{txtime}}}')
    await rig.wait(seconds(6))  # a question that nobody answers is one after five
    later = await rig.alpha.send()
    rig.expect(later, FIRST, first="west")


# --- what applications ask for --------------------------------------------------------------------

NO_UTF_8 = "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"
REQUESTS = {
    "no JSON": (b"{", "Input data was truncated"),
    "no UTF-8": (b'{"fPort": 2, "payload": "\xff"}', NO_UTF_8),
    "nothing": (b"", "Input data was truncated"),
    "no port": (b'{"payload": "00"}', "Object missing required field `fPort`"),
    "port 0": (b'{"fPort": 0, "payload": "00"}', "Expected `int` >= 1 - at `$.fPort`"),
    "port 224": (b'{"fPort": 224, "payload": "00"}', "Expected `int` <= 223 - at `$.fPort`"),
    "port as text": (
        b'{"fPort": "2", "payload": "00"}',
        "Expected `int`, got `str` - at `$.fPort`",
    ),
    "half an octet": (b'{"fPort": 2, "payload": "000"}', "Odd-length string"),
    "a word": (b'{"fPort": 2, "payload": "devStatus?"}', "Non-hexadecimal digit found"),
    "octets with a blank": (b'{"fPort": 2, "payload": "00 00"}', "Odd-length string"),
    "octets behind a blank": (b'{"fPort": 2, "payload": " 00"}', "Odd-length string"),
    "no payload": (b'{"fPort": 2}', "Object missing required field `payload`"),
    "a misspelt key": (
        b'{"fPort": 2, "payload": "00", "confirm": true}',
        "Object contains unknown field `confirm`",
    ),
    "no status": (b'{"devStatus": false}', "Invalid enum value False - at `$.devStatus`"),
    "a status and more": (
        b'{"devStatus": true, "fPort": 2}',
        "Object contains unknown field `fPort`",
    ),
    "too much": (b'{"fPort": 2, "payload": "00"}'.ljust(2049), "more than 2048 bytes"),
    "too much, of few characters": (
        f'{{"fPort": 2, "payload": "{"é" * 1_100}"}}'.encode(),
        "more than 2048 bytes",
    ),
}


@pytest.mark.parametrize(("body", "why"), REQUESTS.values(), ids=REQUESTS)
async def test_a_request_that_cannot_be_read_is_refused(rig, body, why):
    """And told, with what is wrong with it; what the application wants next goes down."""
    rig.only("west")
    is_long = why.startswith("more than")
    await rig.post_request(rig.alpha, body, why if is_long else f"not a downlink: {why}")
    await rig.queue_downlink(rig.alpha, payload=b"on", port=223)
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, FIRST, first="west")
    rig.expect_answer(uplink, f_port=223, f_pending=False)
    rig.expect_downlink(rig.alpha, b"on", port=223)


async def test_what_cannot_be_sent_is_refused(rig):
    """More than any data rate takes, for nobody, or for a device of another server."""
    rig.only("west")
    theirs, stranger = rig.provision("theirs", f_cnt=10, server="lns-b"), rig.stranger()
    await rig.queue_downlink(rig.alpha, payload=b"." * 222, port=1)
    await rig.queue_downlink(rig.alpha, payload=b"." * 223, port=1)
    await rig.queue_downlink(theirs, payload=b"on", port=1)
    await rig.queue_status(theirs)
    await rig.queue_downlink(stranger, payload=b"on", port=1)
    await rig.queue_status(stranger)
    uplink = await rig.alpha.send(confirmed=True)
    await rig.wait(seconds(2))
    after = await rig.alpha.send(confirmed=True)
    for one, port in ((uplink, 1), (after, None)):
        rig.expect(one, FIRST, first="west")
        rig.expect_answer(one, f_port=port, f_pending=False)
    rig.expect_downlink(rig.alpha, b"." * 222, port=1)


async def test_a_device_of_this_server_alone_is_sent_what_waits_for_it(rig):
    """It belongs to one of several, and that is this one."""
    own = rig.provision("own", f_cnt=10, server="lns-a")
    rig.only("west")
    await rig.queue_downlink(own, payload=b"on", port=1)
    uplink = await own.send(confirmed=True)
    rig.expect(uplink, FIRST, first="west")
    rig.expect_answer(uplink, f_port=1, f_pending=False)
    rig.expect_downlink(own, b"on", port=1)


# --- frames ---------------------------------------------------------------------------------------

FRAMES = {
    "no port": {"port": None, "payload": b""},
    "no port, with commands": {"port": None, "payload": b"", "f_opts": b"\x03\x07"},
    "an empty payload": {"port": 5, "payload": b""},
    "one octet": {"port": 1, "payload": b"\x00"},
    "a whole block": {"port": 223, "payload": bytes(range(16))},
    "a block and an octet": {"port": 224, "payload": bytes(range(17))},
    "as long as a frame can be": {"port": 255, "payload": bytes(242)},
    "as long, with commands": {
        "port": 1,
        "payload": bytes(227),
        "f_opts": b"\x03\x07" * 7 + b"\x08",
    },
    "a device of class B": {"class_b": True},
    "an ADR bit": {"adr": True},
}


@pytest.mark.parametrize("facts", FRAMES.values(), ids=FRAMES)
async def test_a_frame_goes_up_whatever_it_holds(rig, confirmed, facts):
    """A frame without FPort is a sign of life; an FPort without payload is one too."""
    rig.only("west")
    frame = await rig.craft(rig.alpha, confirmed=confirmed, **facts)
    await rig.say(rig.told(frame, by="west"), by="west")
    await rig.wait(seconds(3))
    after = await rig.alpha.send(confirmed=confirmed)
    rig.expect(frame, FIRST, first="west")
    rig.expect_upstream(frame, through="west", fPort=facts.get("port", 2))
    rig.expect(after, FIRST, first="west")


async def test_an_empty_frame_of_port_0_goes_nowhere(rig, confirmed):
    """It is for the network, and says nothing."""
    frame = await rig.craft(rig.alpha, confirmed=confirmed, port=0, payload=b"")
    await rig.say(rig.told(frame, by="west"), by="west")
    rig.expect(frame, ON_PORT_0, first="west")


@pytest.mark.parametrize("payload", [b"\x02", b""], ids=["commands", "nothing"])
async def test_commands_in_two_places_are_ignored_with_their_frame(rig, confirmed, payload):
    """LoRaWAN 1.0.3, 4.3.1.6: commands in FOpts and on port 0 at once; it never happened.

    So the counter is where it was: a frame of before is no old one.
    """
    facts = {"confirmed": confirmed, "port": 0, "payload": payload, "f_opts": b"\x0d"}
    rig.only("west")
    twice = await rig.craft(rig.alpha, f_cnt=11, **facts)
    await rig.say(rig.told(twice, by="west"), by="west")
    await rig.wait(seconds(3))
    before = await rig.craft(rig.alpha, confirmed=confirmed)
    await rig.say(rig.told(before, by="west"), by="west")
    rig.expect(before, FIRST, first="west")
