"""What does the program of a network server do from its start to its end?"""

import asyncio
from signal import SIGINT, SIGTERM
from urllib.parse import quote

import pytest

from bench.clock import milliseconds, seconds
from bench.host.lns_files import Authority, any_authority, device_tables, toml_text
from bench.inspection.store import DATABASE, PASSWORD, USER
from bench.virtual.visitor import frame, post, upgrade
from scenarios.words import FIRST

pytestmark = pytest.mark.requires("virtual time")

LNS = '[lns]\nid = "lns-x"\n'
HERE = f'{LNS}listen = "127.0.0.1:7090"\n'
TLS = '[tls]\ncert = "server.crt"\nkey = "server.key"\n'
STATION = "0016C001F1FFFFFF"
VERSION = '{"msgtype":"version","station":"2.0.6(linux/std)","protocol":2}'


async def served(rig):
    """A frame as there are any, at the server of the case."""
    rig.only("west")
    rig.expect(await rig.alpha.send(), FIRST, first="west")


@pytest.mark.parametrize("number", [SIGTERM, SIGINT])
async def test_a_server_serves_until_it_is_told_to_end(rig, number):
    """At both its doors; and what has happened is in its capture."""
    await served(rig)
    cups = '[cups]\nlisten = "127.0.0.1:7190"\ncredentials = "stations"\n'
    asks = {7090: upgrade("/"), 7190: post("/update", b"")}
    said = "ws://127.0.0.1:7090/router-info"
    files = {f"stations/{STATION}/tc.uri": "ws://a:1"}
    refused = {"kind": "lns.connection", "stage": "refused", "lns": "lns-x"}
    refused = [
        {**refused, "cause": "only /router-info is here"},
        {**refused, "cause": "CUPS: only /update-info is here"},
    ]
    for section, run_id in (("", "lns-x"), ('run_id = "night 7"\n', "night 7")):
        lns_toml = f'{HERE}{cups}[capture]\npath = "a.jsonl"\n{section}'
        writes = [{**one, "run_id": run_id} for one in refused]
        await rig.run_server(lns_toml, said, files, asks=asks, ends_by=number, writes=writes)


WRITTEN = {
    "nothing": ("", "", 0),
    "no numbers": ("x\ny\n", "", 2),
    "a whole line": ('{"seq":7}\n', "", 8),
    "a torn line": ('{"seq":7}\n{"seq', "", 9),
    "two torn lines": ('{"seq":7}\n{"seq\n{', "", 10),
    "a line without its end": ('{"seq":7}', "", 8),
    "a long torn line": ("x" * 70_000, "", 1),
    "much, and a line": ("x\n" * 40_000 + '{"seq":7}\n', "", 8),
    "the one before": ("", '{"seq":6}\n{"seq":7}\n', 8),
    "the one before, torn": ("", '{"seq":7}\n{"seq', 9),
    "both": ('{"seq":7}\n', '{"seq":5}\n', 8),
}


@pytest.mark.parametrize(("there", "older", "seq"), WRITTEN.values(), ids=WRITTEN)
async def test_a_capture_goes_on_behind_what_is_there(rig, there, older, seq):
    """Whoever wrote it, and however it has ended."""
    await served(rig)
    files = {"a.jsonl": there} | ({"a.jsonl.1": older} if older else {})
    await rig.run_server(
        f'{HERE}[capture]\npath = "a.jsonl"\n',
        "ws://127.0.0.1:7090/router-info",
        files,
        asks={7090: upgrade("/")},
        writes=[{"kind": "lns.connection", "stage": "refused"}],
        begins_at=seq,
    )


@pytest.mark.parametrize(("octets", "turns_at"), [(1 << 20, 1), (1 << 19, 1), ((1 << 19) - 1, 2)])
async def test_a_capture_that_is_full_goes_on_in_a_new_file(rig, octets, turns_at):
    """As soon as it has half of what there may be, whoever wrote that."""
    await served(rig)
    await rig.run_server(
        f'{HERE}[capture]\npath = "a.jsonl"\nsize_max_mib = 1\n',
        "ws://127.0.0.1:7090/router-info",
        {"a.jsonl": "x" * (octets - 1) + "\n"},
        asks={7090: upgrade("/")},
        writes=[{"kind": "lns.connection", "stage": "refused"}],
        begins_at=1,
        turns_at=turns_at,
    )


async def test_a_server_says_where_it_listens(rig):
    """By the address that it has, whatever stations are told."""
    await served(rig)
    pair = any_authority().server("127.0.0.1")
    tls = {"server.crt": pair.certificate, "server.key": pair.key}
    for lns_toml, files, said in (
        (HERE, {}, "ws://127.0.0.1:7090"),
        (f'{LNS}listen = "[::1]:7090"\n', {}, "ws://[::1]:7090"),
        (f'{HERE}public_uri = "ws://lns.example:443/"\n', {}, "ws://127.0.0.1:7090"),
        (HERE + TLS, tls, "wss://127.0.0.1:7090"),
    ):
        for has_room in (True, False):
            await rig.run_server(lns_toml, f"{said}/router-info", files, has_room=has_room)


async def test_a_server_keeps_what_is_nobody_elses(rig):
    """Its sessions and what is not acknowledged; where, if nobody says it, its name tells."""
    await served(rig)
    said = "ws://127.0.0.1:7090/router-info"
    store, mqtt = '[store]\nurl = "sqlite://lns.store"\n', '[upstream]\nurl = "mqtt://BROKER"\n'
    down = ["lorawan/lns-x/+/down"]
    await rig.run_server(HERE + store, said, keeps=["lns.store"])
    await rig.run_server(f'{HERE}[upstream]\nurl = "mqtt://127.0.0.1:9"\n', said)
    request = {"kind": "lns.request", "stage": "refused", "lns": "lns-x"}
    for name, lns_toml, outbox in (
        ("lns-x", "", "var/lns-x.outbox"),
        ("day 7", 'client_id = "day 7"\n', "var/lns-x.outbox"),
        ("night 7", 'client_id = "night 7"\noutbox = "out/box"\n', "out/box"),
    ):
        await rig.run_server(
            f'{HERE}[capture]\npath = "a.jsonl"\n{mqtt}{lns_toml}',
            said,
            writes=[request],
            keeps=[outbox],
            at_broker={name: [], f"{name}-down": down},
        )


@pytest.mark.parametrize("ca", ["broker-ca.crt", "stations-ca.crt", ""])
async def test_a_broker_over_tls_is_whom_its_certificate_names(rig, ca):
    """Messages and requests go to it if the `ca` vouches for it, and to nobody else."""
    await served(rig)
    down = ["lorawan/lns-x/+/down"]
    request = {"kind": "lns.request", "stage": "refused", "lns": "lns-x"}
    is_known = ca == "broker-ca.crt"
    lns_toml = f'{HERE}[capture]\npath = "a.jsonl"\n[upstream]\nurl = "mqtts://BROKER"\n'
    await rig.run_server(
        lns_toml + (f'ca = "{ca}"\n' if ca else ""),
        "ws://127.0.0.1:7090/router-info",
        {"stations-ca.crt": Authority("others").certificate},
        writes=[request] if is_known else [],
        at_broker={"lns-x": [], "lns-x-down": down} if is_known else {},
    )


async def test_a_server_that_is_alone_asks_its_file_for_no_others(rig):
    """Whose store nobody shares knows by itself all that it can know of a frame."""
    await served(rig)
    frames = [rig.told(await rig.craft(one), by="west") for one in (rig.alpha, rig.charlie)]
    says = upgrade(f"/router/{STATION}") + b"".join(map(frame, (VERSION, *frames)))
    of_station = {"lns": "lns-x", "station": STATION}
    unknown = {"kind": "lns.outcome", "reason": "UnknownDevice", **of_station}
    writes = [
        {"kind": "lns.connection", "stage": "connected", **of_station},
        *[unknown] * len(frames),
        {"kind": "lns.connection", "stage": "disconnected", "texts": 1 + len(frames), **of_station},
    ]
    for url in ("memory://", "sqlite://lns.store"):
        lns_toml = f'{HERE}[capture]\npath = "a.jsonl"\n[store]\nurl = "{url}"\n'
        said = "ws://127.0.0.1:7090/router-info"
        await rig.run_server(lns_toml, said, asks={7090: says}, writes=writes)


@pytest.mark.requires("redis")
async def test_a_server_that_shares_a_redis_claims_there_what_it_hears(rig):
    """By its file: whose a frame is it asks for before it tells."""
    rig.keep_in_redis()
    stranger = rig.stranger()
    await served(rig)
    keys = stranger.provisioned.record.session_keys
    device = f"""[[device]]
name = "stranger"
dev_eui = "{stranger.dev_eui}"
activation = "abp"
dev_addr = "{stranger.provisioned.record.dev_addr}"
nwk_s_key = "{keys.nwk_s_key.hex()}"
app_s_key = "{keys.app_s_key.hex()}"
"""
    text = rig.told(await rig.craft(stranger), by="west")
    says = upgrade(f"/router/{STATION}") + b"".join(map(frame, (VERSION, text)))
    of_station = {"lns": "lns-x", "station": STATION}
    url = f"redis://{quote(USER)}:{quote(PASSWORD, safe='')}@127.0.0.1:6379/{DATABASE}"
    await rig.run_server(
        f'{HERE}[capture]\npath = "a.jsonl"\n[store]\nurl = "{url}"\n',
        "ws://127.0.0.1:7090/router-info",
        {"devices.toml": device},
        asks={7090: says},
        writes=[
            {"kind": "lns.connection", "stage": "connected", **of_station},
            {"kind": "lns.claim", "decision": "Owner"},
            {"kind": "lns.outcome", "upstream": "forwarded", "level2": "Owner", **of_station},
            {"kind": "lns.connection", "stage": "disconnected", **of_station},
        ],
    )


@pytest.mark.requires("redis")
@pytest.mark.fault("store", "restart")
async def test_a_server_that_shares_a_redis_learns_there_what_has_begun_meanwhile(rig):
    """It began when nobody had told that Redis of a session, and is told of a frame in it."""
    rig.keep_in_redis()
    rig.only("west")
    device = rig.provision("joining", activation="otaa")
    joined = await device.join()
    first, *others = [await rig.craft(device) for _ in range(3)]
    await rig.restart_store(empty=True)
    asks = {}

    async def tell_it_once_the_other_has_begun():
        await rig.wait(milliseconds(500))
        await rig.say(rig.told(first, by="west"), by="west")
        for other in others:
            texts = VERSION, rig.told(other, by="west")
            asks[7090] = upgrade(f"/router/{STATION}") + b"".join(map(frame, texts))
            await rig.wait(seconds(1))

    url = f"redis://{quote(USER)}:{quote(PASSWORD, safe='')}@127.0.0.1:6379/{DATABASE}"
    of_station = {"lns": "lns-x", "station": STATION}
    telling = asyncio.create_task(tell_it_once_the_other_has_begun())
    await rig.run_server(
        f'{HERE}[capture]\npath = "a.jsonl"\n[store]\nurl = "{url}"\n',
        "ws://127.0.0.1:7090/router-info",
        {"devices.toml": toml_text({"device": device_tables([device.provisioned.record])})},
        asks=asks,
        writes=[
            {"kind": "lns.connection", "stage": "connected", **of_station},
            {"kind": "lns.claim", "decision": "Owner"},
            {"kind": "lns.outcome", "upstream": "forwarded", "level2": "Owner", **of_station},
            {"kind": "lns.connection", "stage": "disconnected", **of_station},
        ],
    )
    await telling
    for uplink in (joined, first):
        rig.expect(uplink, FIRST, first="west")


def taken(port):
    """What is said of an address that somebody has already."""
    return f"cannot listen on 127.0.0.1:{port}: somebody listens on port {port}"


NO_STORE = "the store lns.toml holds something else than the sessions of a network server"
NO_OUTBOX = "the outbox lns.toml holds something else than the outbox of a network server"


def unwritten(file, why):
    """What is said of a capture that cannot be written."""
    return f"5: capture.path: {file}.jsonl cannot be written: {why}"


async def test_a_server_that_cannot_begin_says_which_key_is_wrong(rig):
    """Somebody else has its place, or it can write nowhere."""
    rig.open_door(cups=True)
    await served(rig)
    cups = '[cups]\nlisten = "127.0.0.1:%d"\ncredentials = "homes"\n'
    files = {"folder.jsonl/x": "", f"homes/{STATION}/tc.uri": ""}
    for lns_toml, said in (
        (f'{LNS}listen = "127.0.0.1:6090"', f"3: lns.listen: {taken(6090)}"),
        (HERE + cups % 6190, f"5: cups.listen: {taken(6190)}"),
        (HERE + cups % 7090, f"5: cups.listen: {taken(7090)}"),
        (f'{HERE}[capture]\npath = "lns.toml/a.jsonl"', unwritten("lns.toml/a", "File exists")),
        (f'{HERE}[capture]\npath = "folder.jsonl"', unwritten("folder", "Is a directory")),
        (
            f'{HERE}[upstream]\nurl = "mqtt://BROKER"\noutbox = "lns.toml"',
            f"6: upstream.outbox: {NO_OUTBOX}",
        ),
        (  # what is kept comes before what is sent
            f'{HERE}[upstream]\nurl = "mqtt://BROKER"\noutbox = "lns.toml"\n'
            '[store]\nurl = "sqlite://lns.toml"',
            f"8: store.url: {NO_STORE}",
        ),
    ):
        await rig.run_server(lns_toml, f"lns.toml:{said}", files)
        await rig.run_server(HERE, "ws://127.0.0.1:7090/router-info")
