"""What is an operator told who has written something wrong, and which configurations are taken?"""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    SECP384R1,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509 import CertificateBuilder, Name, load_pem_x509_certificate

from bench.host.lns_files import any_authority
from bench.virtual.visitor import longest_uri
from scenarios.words import FIRST

pytestmark = pytest.mark.requires("virtual time")

LNS = '[lns]\nid = "lns-a"\n'
TLS = '[tls]\ncert = "server.crt"\nkey = "server.key"\n'
NAMED = f'{LNS}public_uri = "wss://lns.example:443"\n{TLS}'
CA = 'client_ca = "stations-ca.crt"\n'
TOKENS = 'tokens = "tokens.toml"\n'
ANY = "any_station = true\n"
KEY = "00112233445566778899AABBCCDDEEFF"
OTAA = f"""[[device]]
name = "alpha"
dev_eui = "70B3D57ED0000001"
activation = "otaa"
join_eui = "70B3D57ED0000000"
app_key = "{KEY}"
"""
ABP = f"""[[device]]
name = "beta"
dev_eui = "70b3:d57e:d000:0002"
activation = "abp"
dev_addr = "01abcDEF"
nwk_s_key = "{KEY}"
app_s_key = "{KEY[::-1]}"
"""
STATION = "0016C001F1500001"
HTTPS = '[cups]\nlisten = "192.0.2.1:443"\ncredentials = "stations"\n'
LONG = "x" * 256
ADDRESS = 'an address is "host:port", such as "127.0.0.1:6090"'
URI = "a URI for stations has scheme, host and port, such as wss://lns.example:443"
STORES = "served are: memory://, redis://, redis+sentinel://, rediss://, rediss+sentinel://, sqlite"
KEY_WANTED = "a key is 32 hex digits, env:NAME or file:PATH"
TOKEN_WANTED = "a token is one line of text, env:NAME or file:PATH"


async def served(rig):
    """A frame as there are any."""
    rig.only("west")
    rig.expect(await rig.alpha.send(), FIRST, first="west")


def taken(devices=0, *, region="EU868", stations="any", shows="nothing"):
    """What is said of a configuration without a mistake."""
    return f"lns.toml: lns-a, {region}, {devices} devices\n  stations: {stations}; to show: {shows}"


def uri_of(length):
    """A URI that stations take with their path, and one that is so much longer."""
    return f"ws://{'a' * (length - len('ws://:443/router/') - len(STATION))}:443"


EVERY_KEY = f"""{LNS}region = "AS923-1"
net_id = "00001A"
listen = "127.0.0.1:7090"
public_uri = "ws://lns.example:7443"
stations = ["{STATION}"]
[dedup]
retention_s = 86_400
entries_max = 7
[store]
url = "sqlite://lns.store"
on_outage = "closed"
[upstream]
url = "mqtts://broker.example"
outbox = "lns.outbox"
ca = "stations-ca.crt"
messages_max = 1
client_id = "somebody"
keep_s = 0
retry_max_s = 1
[capture]
path = "a.jsonl"
run_id = "night 7"
size_max_mib = 1
"""
KEYS = [
    ("[lns]", "lns.toml:1: lns.id: is missing"),
    ('[lns]\nid = "a b"', "lns.toml:2: lns.id: String should match pattern"),
    ('[lns]\nid = ""', "lns.toml:2: lns.id: String should have at least 1 character"),
    ("[lns", "lns.toml:1: not TOML: Expected ']'"),
    (f'{LNS}a = "', "lns.toml:3: not TOML: "),
    (f"{LNS}x\nregion = 1", "lns.toml:3: not TOML: Expected '='"),
    (f"{LNS}regoin = 1", "lns.toml:3: lns.regoin: unknown key; did you mean 'region'?"),
    (f"{LNS}publ = 1", "lns.toml:3: lns.publ: unknown key; did you mean 'public_uri'?"),
    (f"{LNS}uri = 1", "lns.toml:3: lns.uri: unknown key; known here: devices, id, listen, net_id,"),
    (f"{LNS}  [dedup]\n  retention_s = 0", "lns.toml:4: dedup.retention_s: Input should be great"),
    (
        f"{LNS}zzz = 1",
        "lns.toml:3: lns.zzz: unknown key; known here: devices, id, listen, net_id, public_uri,",
    ),
    (
        f"{LNS}domain = 1",
        "lns.toml:3: lns.domain: unknown key; known here: devices, id, listen, net",
    ),
    (f"{LNS}nodes = 1", "lns.toml:3: lns.nodes: unknown key; did you mean 'devices'?"),
    (
        f'{LNS}"region" = "EU433"',
        "lns.toml:3: lns.region: unknown region 'EU433'; known: EU868, US",
    ),
    ('[ "lns" ]\nid = "lns-a"\n  net_id="1"', "lns.toml:3: lns.net_id: String should match patte"),
    (
        f'[cups]\ncredentials = "."\n{LNS}listen = "127.0.0.1:1"\n[tls]\nkey = "."',
        "lns.toml:6: tls.cert: is missing\nlns.toml:1: cups.listen: is missing",
    ),
    (
        f'{LNS}#region = 1\n[dedup]\nretention_s = "x"',
        "lns.toml:5: dedup.retention_s: Input should",
    ),
    (f"{LNS}[store]\nregion = 1", "lns.toml:4: store.region: unknown key; known here: on_outage,"),
    ("lns = 7", "lns.toml:1: lns: is one table: write [lns], in single"),
    (f"{LNS}[dedup]\nretention_s = '60'\nentries_max = 1.0", taken()),
    (f"{LNS}[[dedup]]\nretention_s = 1", "lns.toml:3: dedup: is one table: write [dedup], in sin"),
    (f"{LNS}'regoin' = 1", "lns.toml:3: lns.regoin: unknown key; did you mean 'region'?"),
    ("\n[ 'lns' ]", "lns.toml:2: lns.id: is missing"),
    ('lns.id = "a"\nlns.regoin = 1', "lns.toml:2: lns.regoin: unknown key; did you mean 'region'?"),
    ('lns.id = "a"\nlns . "net_id" = "1"', "lns.toml:2: lns.net_id: String should match pattern"),
    ('\nlns = {id = "a", x = 1}\n', "lns.toml:2: lns.x: unknown key; known here: devices, id, li"),
    (f"{LNS}[dedup]\nretention_s=1\n[store]\nregion = 1", "lns.toml:6: store.region: unknown"),
    (f"\ufeff{LNS}region = 1", "lns.toml:3: lns.region: "),
    (f"\ufeff{LNS}", taken()),
    (f"{LNS}[dedupe]", "lns.toml:3: dedupe: unknown key; did you mean 'dedup'?"),
    ("[dedup]\nretention_s = 1\n\n[store]", "lns.toml:1: lns: is missing"),
    (f'{LNS}region = "EU433"', "lns.toml:3: lns.region: unknown region 'EU433'; known: EU868, US"),
    (f'{LNS}net_id = "00013"', "lns.toml:3: lns.net_id: String should match pattern"),
    (f'{LNS}net_id = "000013A"', "lns.toml:3: lns.net_id: String should match pattern"),
    (f'{LNS}net_id = "00001a"', taken()),
    (f'{LNS}devices = "none.toml"', "lns.toml:3: lns.devices: there is no file none.toml"),
    (f"{LNS}[dedup]\nretention_s = 0", "lns.toml:4: dedup.retention_s: Input should be greater"),
    (f"{LNS}[dedup]\nretention_s = 86_401", "lns.toml:4: dedup.retention_s: Input should be less"),
    (f"{LNS}[dedup]\nentries_max = 0", "lns.toml:4: dedup.entries_max: Input should be greater"),
    (f"{LNS}[dedup]\nretention_s = 1\nentries_max = 1", taken()),
    ('[lns]\nid = "L_n.s-0"', taken().replace("lns-a", "L_n.s-0")),
    (EVERY_KEY, taken(region="AS923-1", stations="1 listed")),
    (f"{LNS}region = [\n\n\n", "lns.toml:5: not TOML: "),
    (f'{LNS}devices = "."', "lns.toml:3: lns.devices: there is no file "),
    *(
        (f'{LNS}devices = "{name}"', "lns.toml:3: lns.devices: the name of a file has no NUL in it")
        for name in (r"\u0000", r"a\u0000", r"a\u0000b", r"\u0000b")
    ),
    (
        f'{LNS}devices = "{LONG}"',
        f"lns.toml:3: lns.devices: {LONG} cannot be read: File name too long",
    ),
    (
        f'{LNS}[cups]\nlisten = "127.0.0.1:1"\ncredentials = "./{LONG}"',
        f"lns.toml:5: cups.credentials: {LONG} cannot be read: File name too long",
    ),
    (f'{LNS}[capture]\npath = "a.jsonl"', taken()),
    (f'{LNS}[capture]\npath = "jsonl"', "lns.toml:4: capture.path: the name of a capture ends in"),
    (f'{LNS}[capture]\npath = "a.json"', "lns.toml:4: capture.path: the name of a capture ends in"),
    (f'{LNS}[capture]\npath = "a.jsonl.1"', "lns.toml:4: capture.path: the name of a capture ends"),
    (f'{LNS}[capture]\npath = "a.jsonl"\nsize_max_mib = 0', "lns.toml:5: capture.size_max_mib: "),
    (f"{LNS}[capture]\nsize_max_mib = 1", "lns.toml:3: capture.path: is missing"),
    (
        f"{LNS}[capture]\n[dedup]\npath = 1",
        "lns.toml:5: dedup.path: unknown key; known\nlns.toml:3: capture.path: is missing",
    ),
    (
        f"{LNS}regoin = 1\n[dedup]\nretention_s = 0\n[capture]",
        "lns.toml:3: lns.regoin: unknown key; did you mean 'region'?\n"
        "lns.toml:5: dedup.retention_s: Input should be greater\n"
        "lns.toml:6: capture.path: is missing",
    ),
]
"""A key nobody knows, one that is missing, and what is no value of its key: all are told."""

DOORS = [
    *(
        (f'{LNS}listen = "{one}"', f"lns.toml:3: lns.listen: {ADDRESS}")
        for one in (
            *("127.0.0.1", "127.0.0.1:65536", "::1:6090", "1:2:3:4:5:6:7:8:6090", "[::1:6090"),
            *(":6090", "a:+1", "a:", "a:²"),
        )
    ),
    *(
        (f'{LNS}listen = "{one}:6090"', "lns.toml:3: lns.listen: between the dots of a host name")
        for one in ("lns..example", f"{'a' * 64}.example")
    ),
    *(
        (f"{LNS}stations = {one}", 'lns.toml:3: lns.stations: either "any" or a list of station E')
        for one in ('"all"', '""', "1", '{any = "any"}')
    ),
    (f'{LNS}stations = "any"', taken()),
    (f"{LNS}stations = []", taken(stations="0 listed")),
    (f'{LNS}listen = "127.0.0.1:65535"', taken()),
    (f'{LNS}listen = "127.0.0.1:0"', taken()),
    (f'{LNS}listen = "[::1]:6090"', taken()),
    (f'{LNS}listen = "0.0.0.0:1"', "lns.toml:1: lns.public_uri: is needed: stations cannot conn"),
    (f'{LNS}listen = "[::]:1"', "lns.toml:1: lns.public_uri: is needed: stations cannot connect"),
    (f'{LNS}listen = "0.0.0.0:1"\npublic_uri = "ws://a:1"', taken()),
    *(
        (f'{LNS}public_uri = "{one}"', f"lns.toml:3: lns.public_uri: {URI}")
        for one in (
            "ws://a",
            "ws://geheim@a:1",
            "ws://@a:1",
            "http://a:1",
            "ws://a b:1",
            "ws://:1",
            "ws://ä:1",
            "ws://a:65536",
        )
    ),
    *(
        (
            f'{LNS}public_uri = "ws://a:1/{one}"',
            "lns.toml:3: lns.public_uri: a URI for stations has no query",
        )
        for one in ("?geheim=1", "#x")
    ),
    (f'{LNS}public_uri = "{uri_of(127)}"', taken()),
    (f'{LNS}public_uri = "{uri_of(127)}/"', taken()),
    (
        f'{LNS}public_uri = "{uri_of(128)}"',
        "lns.toml:3: lns.public_uri: too long: a station takes 127 characters, not 128",
    ),
    (f'{LNS}stations = "some"', 'lns.toml:3: lns.stations: either "any" or a list of station EUIs'),
    (f'{LNS}stations = ["geheim"]', "lns.toml:3: lns.stations: an EUI is text: 16 hex digits"),
    (f"{LNS}stations = [7]", "lns.toml:3: lns.stations: an EUI is text: 16 hex digits"),
    (f'{LNS}stations = ["{STATION}", "0016c001f1500002"]', taken(stations="2 listed")),
    (f"{LNS}stations = []", taken(stations="0 listed")),
    (f"{LNS}{TLS}{CA}{TOKENS}", "lns.toml:7: tls.tokens: a station shows a certificate or a token"),
    (f"{LNS}{TLS}{ANY}", "lns.toml:6: tls.any_station: is about certificates of stations; add"),
    (f"{LNS}{TLS}{TOKENS}{ANY}", "lns.toml:7: tls.any_station: is about certificates of stations"),
    (f'{LNS}[tls]\ncert = "server.crt"', "lns.toml:3: tls.key: is missing"),
    (
        f'{LNS}[tls]\ncert = "none.crt"\nkey = "server.key"',
        "lns.toml:4: tls.cert: there is no file none.crt",
    ),
    (
        f'{LNS}[tls]\ncert = "none.crt"\nkey = "server.key"\n{CA}',
        "lns.toml:4: tls.cert: there is no file none.crt",
    ),
    (
        f'{LNS}[tls]\ncert = "lns.toml"\nkey = "server.key"',
        "lns.toml:4: tls.cert: lns.toml and server.key are no PEM pair of certificate and key",
    ),
    (f'{LNS}{TLS}client_ca = "none.crt"', "lns.toml:6: tls.client_ca: there is no file none.crt"),
    (f'{LNS}{TLS}client_ca = "lns.toml"', "lns.toml:6: tls.client_ca: lns.toml is no PEM file of"),
    (
        f'{LNS}public_uri = "ws://a:1"\n{TLS}',
        "lns.toml:3: lns.public_uri: with [tls] it has to beg",
    ),
    (
        f'\ufeff{LNS}public_uri = "ws://a:1"\n{TLS}',
        "lns.toml:3: lns.public_uri: with [tls] it has to begin with wss://",
    ),
    (NAMED, taken()),
    (NAMED + CA, taken(shows="a certificate with its EUI of client_ca")),
    (NAMED + CA + ANY, taken(shows="any certificate of client_ca")),
]
"""Where stations come, and what they show."""

FAR = [
    *((f'{LNS}[store]\nurl = "{one}"', f"lns.toml:4: store.url: {said}") for one, said in (
        ("etcd://geheim@a", f"etcd:// is not served; {STORES}"),
        ("geheim", f"is no URL; {STORES}"),
        ("memory", f"is no URL; {STORES}"),
        ("sqlite://", "names no file; it is sqlite://PATH"),
        ("redis://:geheim@a/first", "the URL of a Redis server ends with a database, a number"),
        ("redis://a,b", "a redis:// URL names one host; which of several is the master"),
        ("redis://a:0", "not the URL of a Redis server"),
        ("redis+sentinel://a", "a URL of Sentinels names the service they watch, as in /mymaster"),
        ("redis+sentinel://a,a/x", "the URL of a Redis server names one of its hosts twice"),
    )),
    (f'{LNS}[store]\non_outage = "ajar"', "lns.toml:4: store.on_outage: Input should be 'open' or"),
    (f'{LNS}[store]\nurl = "rediss://u:geheim@a:7/3"\non_outage = "closed"', taken()),
    (f'{LNS}[store]\nurl = "redis+sentinel://a,b:7/x/3"', taken()),
    *((f'{LNS}[upstream]\nurl = "{one}"', f"lns.toml:4: upstream.url: {said}") for one, said in (
        ("amqp://geheim@a", "amqp:// is not served; served are: memory://, mqtt://, mqtts://"),
        ("mqtt://geheim@", "the URL of the broker names no host"),
        ("mqtt://a b", "the URL of the broker names no host"),
        ("mqtt://a..b", "the URL of the broker names no host"),
        (f"mqtt://{'a' * 64}", "the URL of the broker names no host"),
        (f"mqtt://{'a.' * 126}aa", "the URL of the broker names no host"),
        ("mqtt://a:0", "the port of a broker is 1 to 65535"),
        ("mqtt://a:65536", "not the URL of a broker; it is mqtt://"),
        ("mqtt://a/geheim", "the URL of a broker ends after its port"),
        ("mqtt://a?geheim", "the URL of a broker ends after its port"),
        ("mqtt://a#geheim", "the URL of a broker ends after its port"),
        ("mqtt://:geheim@a", "MQTT takes a password only with a user"),
    )),
    (
        f'{LNS}[upstream]\nurl = "mqtt://a"\nca = "server.crt"',
        "lns.toml:5: upstream.ca: a ca is for mqtts:// only",
    ),
    (
        f'{LNS}[upstream]\nurl = "mqtts://a"\nca = "lns.toml"',
        "lns.toml:5: upstream.ca: lns.toml holds no certificate (PEM)",
    ),
    (f'{LNS}[upstream]\nurl = "mqtts://u:geheim@a:1"\nca = "stations-ca.crt"', taken()),
    *((f"{LNS}[upstream]\n{one}", f"lns.toml:4: upstream.{one.partition(' ')[0]}: ") for one in (
        "messages_max = 0", 'client_id = ""', f'client_id = "{"x" * 65}"', "keep_s = 3601",
        "keep_s = -1", "retry_max_s = 0", "retry_max_s = 1_296_001",
    )),
    (f'{LNS}[upstream]\nclient_id = "{"x" * 64}"\nkeep_s = 3600\nretry_max_s = 1_296_000', taken()),
]  # fmt: skip
"""Stores and brokers; what stands before an `@` is repeated to nobody."""


@pytest.mark.parametrize("rows", [KEYS, DOORS, FAR], ids=["keys", "doors", "stores and brokers"])
async def test_a_mistake_in_a_configuration_is_told_with_its_line(rig, rows):
    """File, line and key of each, and what would be right; nobody is served by half of it."""
    await served(rig)
    for lns_toml, says in rows:
        await rig.check_configuration(lns_toml, says)


READ = {
    "broker": {
        "mqtt://a": ("mqtt://a:1883", None, None),
        "mqtts://A.example/": ("mqtts://a.example:8883", None, None),
        "mqtt://u@[2001:db8::1]:65535": ("mqtt://[2001:db8::1]:65535", "u", None),
        "mqtt://u%40:p%2F@a": ("mqtt://a:1883", "u@", "p/"),
        f"mqtt://{'a.' * 126}a:1": (f"mqtt://{'a.' * 126}a:1", None, None),
    },
    "Redis": {
        "redis://a": ("redis://a:6379/0", None, None),
        "rediss://u:p:%40@A.example:65535/15/": ("rediss://a.example:65535/15", "u", "p:@"),
        "redis://:p,q@[2001:db8::1]": ("redis://[2001:db8::1]:6379/0", None, "p,q"),
        "redis+sentinel://a/x": ("redis+sentinel://a:26379/x/0", None, None),
        "rediss+sentinel://u@a,b:7/x.y-z/3": ("rediss+sentinel://a:26379,b:7/x.y-z/3", "u", None),
    }
    | dict.fromkeys(("redis://", "redis://a:65536", "redis://a/-1", "redis://a?b", "a"), "refused")
    | dict.fromkeys(("redis+sentinel://u:p@a,u:p@b/x", "redis+sentinel://a/b c"), "refused"),
    "topic filter": dict.fromkeys(("a", "#", "+", "/", "a/#", "+/b/+", "a" * 65_535))
    | dict.fromkeys(("", "a#", "a/b+", "#/a", "a/#/b", "a/#/b/c", "##", "a\0"), "refused")
    | dict.fromkeys(("a" * 65_536, "\N{DEGREE SIGN}" * 32_768), "refused"),
    "EUI": dict.fromkeys(
        (
            "0016c001f1500001", "00-16-C0-01-F1-50-00-01", "00:16:c0:01:f1:50:00:01",
            "16:c001:f150:1", "0016:C001:F150:0001",
        ),
        "0016C001F1500001",
    )
    | {"::": "0" * 16, "::0": "0" * 16, "::1": f"{1:016}", "1::": f"{1:04}{0:012}"}
    | {"1:2::": f"00010002{0:08}", "::1:2": f"{0:08}00010002", "1::2": f"0001{0:08}0002"}
    | {"1:2::3": "0001000200000003", "1::2:3": "0001000000020003"}
    | dict.fromkeys(
        (
            "", ":", "1", "0016c001f150001", "0016c001f15000010", "0016c001f150000g",
            "00-16:C0-01:F1-50:00-01", "00-16-C0-01-F1-50-00", "0-16-C0-01-F1-50-00-01",
            "1:2:3", "1:2:3:4:5", "1:2:3:4::", "::1:2:3:4", "1:2::3:4", "1:::2", "1::2::3",
            "::g", "::12345", " ::1", "::1 ", "0x16c001f1500001", "+016c001f1500001",
        ),
        "refused",
    ),
    "time": {
        "7": 7_000_000, "7.": 7_000_000, "1.5": 1_500_000, " 1.05 ": 1_050_000,
        "1.000001": 1_000_001, "2.1234567": 2_123_456, "1970-01-01T00:00:03.25Z": 3_250_000,
        "1970-01-01T02:00:04+02:00": 4_000_000, "1970-01-02": 86_400_000_000, " ": None,
        "1.2.3": "refused", "-1": "refused", "now": "refused",
    },
    "device": {
        "name = 7\nz = 1": "name: Input should be a valid string",
        'name = "a"\ndev_eui = 7\nz = 1': "dev_eui: Value error, an EUI is text: 16 hex digits",
        f'name="a"\ndev_eui="{STATION}"\nactivation="otaa"':
            "Value error, an otaa device needs join_eui and app_key",
        OTAA.removeprefix("[[device]]"): "alpha",
    },
    "text for people": {
        "redis://u:p@a/0": "redis://a/0", "a mqtts://u@a b://:p@c": "a mqtts://a b://c",
        "a://b/c@d": "a://b/c@d", "//u:p@a": "//u:p@a", "a:// u@b": "a:// u@b",
    },
}  # fmt: skip
"""What a consumer or a server is told as a text, and what it has to make of that."""


@pytest.mark.parametrize("what", READ)
async def test_what_stands_in_a_text_is_read_as_it_is_meant(rig, what):
    """Who names no port has that of the scheme; what nobody can read is refused."""
    await served(rig)
    for text, due in READ[what].items():
        await rig.check_read(what, text, due)


SHAPES = [
    (f"{OTAA}nb_trans = 0", "devices.toml:7: device[0].nb_trans: Input should be greater than or"),
    (f"{OTAA}nb_trans = 16", "devices.toml:7: device[0].nb_trans: Input should be less than or eq"),
    (f"{OTAA}f_cnt_bits = 24", "devices.toml:7: device[0].f_cnt_bits: Input should be 16 or 32"),
    (
        f"{OTAA}join_nonce_min = 0",
        "devices.toml:7: device[0].join_nonce_min: Input should be great",
    ),
    (
        f"{OTAA}join_nonce_min = 16_711_681",
        "devices.toml:7: device[0].join_nonce_min: Input should",
    ),
    (f"{OTAA}dev_status_s = 59", "devices.toml:7: device[0].dev_status_s: Input should be greater"),
    (f"{OTAA}rx1_dr_offset = 8", "devices.toml:7: device[0].rx1_dr_offset: Input should be less"),
    (f"{OTAA}rx1_dr_offset = 6", "devices.toml:7: device[0].rx1_dr_offset: EU868 has 0 to 5"),
    (f"{OTAA}rx_delay_s = 0", "devices.toml:7: device[0].rx_delay_s: Input should be greater"),
    (f"{OTAA}rx_delay_s = 16", "devices.toml:7: device[0].rx_delay_s: Input should be less"),
    (f"{OTAA}rx2_dr = 8", "devices.toml:7: device[0].rx2_dr: EU868 has 0 to 7 for downlinks"),
    (
        f"{OTAA}more_channels_hz = {[867_100_000] * 6}",
        "devices.toml:7: device[0].more_channels_hz: List should have at most 5 items",
    ),
    (
        f"{OTAA}more_channels_hz = [867_100_000, 868_850_000, 865_000_000]",
        "devices.toml:7: device[0].more_channels_hz: no station listens at 865000000 Hz",
    ),
    (
        f"{OTAA}more_channels_hz = [868_700_000]",
        "devices.toml:7: device[0].more_channels_hz: no station listens at 868700000 Hz",
    ),
    (f'{OTAA}class = "B"', "devices.toml:7: device[0].class: Input should be 'A' or 'C'"),
    (
        f'{OTAA}device_class = "C"',
        "devices.toml:7: device[0].device_class: unknown key; did you mean 'class'?",
    ),
    (
        f'{OTAA}lorawan = "1.1"',
        "devices.toml:7: device[0].lorawan: Input should be '1.0.2', '1.0.3'",
    ),
    (f'{OTAA}strategy = "drop"', "devices.toml:7: device[0].strategy: Input should be 'Drop', 'Ma"),
    (OTAA.replace("alpha", "a b"), "devices.toml:2: device[0].name: String should match pattern"),
    (OTAA.replace(KEY, KEY[1:]), f"devices.toml:6: device[0].app_key: {KEY_WANTED}"),
    (OTAA.replace(KEY, f"{KEY}0"), f"devices.toml:6: device[0].app_key: {KEY_WANTED}"),
    (OTAA.replace(KEY, KEY.lower()), f"{taken(1)}\n  alpha  70B3D57ED0000001  otaa  None"),
    (
        f"{OTAA}more_channels_hz = {[867_100_000] * 4 + [865_000_000]}",
        "devices.toml:7: device[0].more_channels_hz: no station listens at 865000000 Hz",
    ),
    (
        OTAA.replace("alpha", "70B3D57ED0000001"),
        f"{taken(1)}\n  70B3D57ED0000001  70B3D57ED0000001  otaa  None",
    ),
    (OTAA.replace(KEY, "geheim"), f"devices.toml:6: device[0].app_key: {KEY_WANTED}"),
    (OTAA.replace(f'"{KEY}"', "7"), "devices.toml:6: device[0].app_key: a key is text: 32 hex dig"),
    (
        OTAA.replace(KEY, "env:NO_SUCH_KEY"),
        "devices.toml:6: device[0].app_key: the environment has no variable NO_SUCH_KEY",
    ),
    (
        OTAA.replace(KEY, "file:none.key"),
        "devices.toml:6: device[0].app_key: cannot read the key file none.key",
    ),
    (OTAA.replace(KEY, "file:app.key"), f"{taken(1)}\n  alpha  70B3D57ED0000001  otaa  None"),
    (OTAA.replace('"70B3D57ED0000001"', "7"), "devices.toml:3: device[0].dev_eui: an EUI is text"),
    (ABP.replace('"01abcDEF"', "7"), "devices.toml:5: device[0].dev_addr: a DevAddr is text: 8 "),
    (OTAA.replace(KEY, "file:odd.key"), "devices.toml:6: device[0].app_key: cannot read the key f"),
    (
        'device = [{name = "alpha"}]',
        "devices.toml:1: device[0].dev_eui: is missing\n"
        "devices.toml:1: device[0].activation: is missing",
    ),
    (OTAA.replace("D0000000", "geheim"), "devices.toml:5: device[0].join_eui: an EUI is text: 16"),
    (
        ABP.replace("01a", "1a"),
        "devices.toml:5: device[0].dev_addr: a DevAddr is text: 8 hex digits",
    ),
    (
        OTAA.partition("join_eui")[0],
        "devices.toml:1: device[0]: an otaa device needs join_eui and app_key",
    ),
    (OTAA.partition("app_key")[0], "devices.toml:1: device[0]: an otaa device needs app_key"),
    (
        ABP.partition("dev_addr")[0],
        "devices.toml:1: device[0]: an abp device needs dev_addr and nwk_s_key and app_s_key",
    ),
    *(
        (
            f"{ABP}{key} = {value}",
            "devices.toml:1: device[0]: only a join accept tells a device how to listen and where"
            f" to send; leave out {key}",
        )
        for key, value in (("rx1_dr_offset", 0), ("rx_delay_s", 1), ("more_channels_hz", []))
    ),
    (
        f"{ABP}rx_delay_s = 5\nrx2_dr = 0\nrx1_dr_offset = 0\nmore_channels_hz = []",
        "devices.toml:1: device[0]: only a join accept tells a device how to listen and where to"
        " send; leave out rx1_dr_offset and rx_delay_s and rx2_dr and more_channels_hz",
    ),
    (
        OTAA + OTAA,
        "devices.toml:8: device[1].name: belongs to another device already; give each its own\n"
        "devices.toml:9: device[1].dev_eui: belongs to another device already; give each its own",
    ),
    (
        OTAA + ABP + OTAA.replace("01", "03"),
        "devices.toml:15: device[2].name: belongs to another device already; give each its own",
    ),
    (
        OTAA + ABP + OTAA,
        "devices.toml:15: device[2].name: belongs to another device already; give each its own\n"
        "devices.toml:16: device[2].dev_eui: belongs to another device already; give each its own",
    ),
    (
        f"{OTAA}rx2_dr = 8\n{OTAA}rx1_dr_offset = 6\nmore_channels_hz = [1]",
        "devices.toml:9: device[1].name: belongs to another device already; give each its own\n"
        "devices.toml:10: device[1].dev_eui: belongs to another device already; give each its own\n"
        "devices.toml:7: device[0].rx2_dr: EU868 has 0 to 7 for downlinks\n"
        "devices.toml:14: device[1].rx1_dr_offset: EU868 has 0 to 5\n"
        "devices.toml:15: device[1].more_channels_hz: no station listens at 1 Hz",
    ),
    (
        f"{OTAA}nb_trans = 0\n{ABP.replace('beta', 'b b')}f_cnt_bits = 7\nmore_channels_hz = ['']",
        "devices.toml:7: device[0].nb_trans: Input should be greater than or equal to 1\n"
        "devices.toml:9: device[1].name: String should match pattern\n"
        "devices.toml:15: device[1].f_cnt_bits: Input should be 16 or 32\n"
        "devices.toml:8: device[1].more_channels_hz[0]: Input should be a valid integer",
    ),
    (
        OTAA.replace('name = "alpha"\n', "") + ABP,
        "devices.toml:1: device[0].name: is missing",
    ),
    ("device = 7", "devices.toml:1: device: is a list of tables: write [[device]], in two br"),
    ("", "devices.toml:1: device: is missing"),
    ("x", "devices.toml:1: not TOML: "),
    (b"\xff", "devices.toml: cannot be read: it is not UTF-8"),
    (OTAA.encode("utf-16"), "devices.toml: cannot be read: it is not UTF-8"),
    # What only looks like the end of a line is none.
    (f"#\u2028 \u0085 \u00e4\n{OTAA}class = 'B'", "devices.toml:8: device[0].class: Input shou"),
    (f'#\u2028\r\n{OTAA}class = """', "devices.toml:8: not TOML: "),
    (
        f'{OTAA}nb_trans = 15\nclass = "C"\nrx_delay_s = 15\nrx1_dr_offset = 5\nrx2_dr = 7\n'
        f"more_channels_hz = {[867_100_000 + 200_000 * n for n in range(4, -1, -1)]}\n"
        'dev_status_s = 60\nlorawan = "1.0.3"\njoin_nonce_min = 16_711_680\nserver = "lns-b"\n'
        f'{ABP}strategy = "Mark"\nrelaxed_f_cnt = false\nf_cnt_bits = 16',
        f"{taken(2)}\n  alpha  70B3D57ED0000001  otaa  None\n  beta  70B3D57ED0000002  abp  Mark",
    ),
    (
        OTAA.replace(KEY, KEY.lower()).replace("alpha", "A_l.p-0") + "rx2_dr = 0",
        f"{taken(1)}\n  A_l.p-0  70B3D57ED0000001  otaa  None",
    ),
]
US_SHAPES = [
    (f"{OTAA}rx1_dr_offset = 4", "devices.toml:7: device[0].rx1_dr_offset: US915 has 0 to 3"),
    *(
        (
            f"{OTAA}rx2_dr = {dr}",
            "devices.toml:7: device[0].rx2_dr: US915 has 8 to 13 for downlinks",
        )
        for dr in (0, 7)
    ),
    (f"{OTAA}rx2_dr = 14", "devices.toml:7: device[0].rx2_dr: US915 has 8 to 13 for downlinks"),
    (
        f"{OTAA}more_channels_hz = [902_300_000]",
        "devices.toml:7: device[0].more_channels_hz: the channels of US915 are fixed",
    ),
    (
        f"{OTAA}rx1_dr_offset = 3\nrx2_dr = 8\nmore_channels_hz = []",
        f"{taken(1, region='US915')}\n  alpha  70B3D57ED0000001  otaa  None",
    ),
    (
        f"{OTAA}rx1_dr_offset = 3\nrx2_dr = 13",
        f"{taken(1, region='US915')}\n  alpha  70B3D57ED0000001  otaa  None",
    ),
]
AS_SHAPES = [
    (
        f"{OTAA}more_channels_hz = [923_600_000, 868_100_000]",
        "devices.toml:7: device[0].more_channels_hz: no station listens at 868100000 Hz",
    ),
    (
        f"{OTAA}more_channels_hz = [923_600_000]\nrx1_dr_offset = 7",
        f"{taken(1, region='AS923-1')}\n  alpha  70B3D57ED0000001  otaa  None",
    ),
]
REGIONS = {"EU868": SHAPES, "US915": US_SHAPES, "AS923-1": AS_SHAPES}


@pytest.mark.parametrize("region", REGIONS)
async def test_a_mistake_about_a_device_is_told_with_its_line(rig, region):
    """Which one it is, and all of them at once; what a device may be told depends on the region."""
    await served(rig)
    lns_toml = f'{LNS}region = "{region}"\n'
    for devices, says in REGIONS[region]:
        files = {"devices.toml": devices, "app.key": f"{KEY}\n", "odd.key": "\xe4"}
        await rig.check_configuration(lns_toml, says, files)


async def test_a_file_that_nobody_has_written_is_not_read_to_its_end(rig):
    """Whatever is in it: one octet more than 64 MiB is too much, and not one less."""
    await served(rig)
    said = "devices.toml: cannot be read: it has more than 64 MiB"
    await rig.check_configuration(LNS, said, {"devices.toml": bytes((64 << 20) + 1)})
    said = "devices.toml:1: not TOML: Invalid statement (at line 1, column 1)"
    await rig.check_configuration(LNS, said, {"devices.toml": bytes(64 << 20)})


async def test_what_is_right_and_cannot_be_said_is_no_success(rig):
    """Nobody who has asked would know."""
    await served(rig)
    await rig.check_configuration(LNS, "stdout: No space left on device", has_room=False)
    await rig.check_configuration(LNS, taken())


async def test_a_wrong_call_ends_as_a_wrong_configuration_does(rig):
    """And says what would be right, as it does when it is asked."""
    await served(rig)
    for arguments, says in (
        ((), "the following arguments are required: config"),
        (("--check",), "the following arguments are required: config"),
        (("a.toml", "b.toml"), "unrecognized arguments: b.toml"),
        (("--chek", "a.toml"), "unrecognized arguments: --chek"),
        (("none.toml",), "none.toml: cannot be read: No such file or directory"),
        (("--check", "a\x1b[2Jb.toml"), "a\\x1b[2Jb.toml: cannot be read: No such file"),
    ):
        await rig.check_command(*arguments, status=4, says=says)
    # What a terminal would obey is spelled out, and nothing else is.
    odd = [*range(1, 9), *range(0x0B, 0x20), *range(0x7F, 0xA0), 0x200E, 0x200F]
    odd += [*range(0x2028, 0x202F), *range(0x2066, 0x206A), *range(0xDCFE, 0xDD00)]
    names = {chr(one): ascii(chr(one))[1:-1] for one in odd}
    names |= {
        name: name for name in "\t ~\xa0\xad\xe4\u2027\u202f\u2065\u206a\uffff\U0001f4e1'\"\\"
    }
    for name, spelled in names.items():
        says = f"a{spelled}b.toml: cannot be read: No such file"
        await rig.check_command(f"a{name}b.toml", status=4, says=says)
    for argument in ("-h", "--help"):
        await rig.check_command(argument, status=0, says="example: python -m lns lns.toml")


@pytest.mark.parametrize("around", ["{}", " {}", "{} ", "\t{}\n", "{}\r\n"], ids=ascii)
async def test_blanks_around_a_secret_are_none_of_it(rig, around):
    """Wherever it is kept: written out, in a file or in the environment."""
    await served(rig)
    alpha = f"{taken(1)}\n  alpha  70B3D57ED0000001  otaa  None"
    token = taken(shows="one of 1 tokens, its own")
    for secret, says, wanted in (
        (KEY, alpha, f"devices.toml:6: device[0].app_key: {KEY_WANTED}"),
        ("Bearer geheim", token, f"tokens.toml:1: {STATION}: {TOKEN_WANTED}"),
        ("Authorization: Bearer geheim", token, f"tokens.toml:1: {STATION}: {TOKEN_WANTED}"),
    ):
        kept = around.format(secret)
        lns_toml = LNS if secret == KEY else NAMED + TOKENS
        for written in (json.dumps(kept), '"file:kept.key"', '"env:LNS_SECRET"'):
            for one, due in ((kept, says), (f"{kept}\x01", wanted), (around.format(""), wanted)):
                if written == json.dumps(kept) and one != kept:
                    continue
                devices = OTAA.replace(f'"{KEY}"', written) if secret == KEY else "device = []"
                files = {"devices.toml": devices, "kept.key": one}
                files["tokens.toml"] = f"{STATION} = {written}"
                environment = {"LNS_SECRET": one}
                await rig.check_configuration(lns_toml, due, files, environment=environment)


SHOWN = [
    (f'{STATION} = "geheim"\n0016c001f1500001 = "x"', "tokens.toml:2: 0016c001f1500001: this sta"),
    ("\n'16:c001:f150:1' = \"\"", f"tokens.toml:2: 16:c001:f150:1: {TOKEN_WANTED}"),
    (
        f'west = "geheim"\n{STATION} = 7',
        "tokens.toml:1: west: an EUI is text: 16 hex digits\n"
        f"tokens.toml:2: {STATION}: {TOKEN_WANTED}",
    ),
    *((f"{STATION} = {one}", f"tokens.toml:1: {STATION}: {TOKEN_WANTED}")
      for one in ('""', "7", '"geheim\\n1"', '"file:empty.key"')),
    (f'{STATION} = "env:NO_SUCH"', f"tokens.toml:1: {STATION}: the environment has no variable NO"),
    (f'{STATION} = "file:none.key"', f"tokens.toml:1: {STATION}: cannot read the key file none"),
    *((f'{STATION} = "{name}:geheim"', taken(shows="one of 1 tokens, its own"))
      for name in ("Authorization", "authorization", "AUTHORIZATION")),
    (
        f'{STATION} = "file:tc.key"\n0016c001f1500002 = "Bearer geheim"',
        taken(shows="one of 2 tokens, its own"),
    ),
]  # fmt: skip


async def test_a_mistake_about_a_token_is_told_with_its_line(rig):
    """Each station has one; what it is nobody is told."""
    await served(rig)
    files = {"tc.key": "Authorization: Bearer geheim\r\n", "empty.key": "\n"}
    for tokens, says in SHOWN:
        await rig.check_configuration(NAMED + TOKENS, says, {**files, "tokens.toml": tokens})
    stations = f'stations = ["{STATION}", "{7:016X}"]'
    listed = NAMED.replace("[tls]", f"{stations}\n[tls]")
    says = taken(stations="2 listed", shows="one of 1 tokens, its own")
    await rig.check_configuration(listed + TOKENS, says, {"tokens.toml": f'{STATION} = "x"'})


CLEAR = "lns.toml:4: cups.listen: keys would leave this host in clear; add [tls] or listen on 127.0"
ASKED = "lns.toml:8: cups.listen: whoever asks would get keys; add tls.tokens or tls.client_ca, or"
ALL = "lns.toml:10: cups.listen: with any_station every station would get the keys of all; leave"
GUARDED = [
    (LNS + HTTPS, CLEAR),
    (NAMED + HTTPS, ASKED),
    (NAMED + CA + ANY + HTTPS, ALL),
    (NAMED + CA + HTTPS, taken(shows="a certificate with its EUI of client_ca")),
    (NAMED + TOKENS + HTTPS, taken(shows="one of 1 tokens, its own")),
    *((LNS + HTTPS.replace("192.0.2.1", host), taken())
      for host in ("127.0.0.1", "[::1]", "localhost")),
    (LNS + HTTPS.replace("192.0.2.1", "localhost.example"), CLEAR),
]  # fmt: skip
UNREADABLE = Path("/proc/self/mem")
"""Whoever opens it has a file, and gets nothing of it."""
SCHEMES = {"tc": ("ws", "wss"), "cups": ("http", "https")}
ODD = [
    ({}, "lns.toml:5: cups.credentials: there is no folder stations"),
    *(
        (
            {f"stations/{name}/tc.uri": ""},
            f"lns.toml:5: cups.credentials: stations/{name}: not an EUI",
        )
        for name in ("west", "west.old")
    ),
    *(
        (
            {f"stations/{STATION}/tc.uri": f"ws://a:1{one}"},
            f"lns.toml:5: cups.credentials: stations/{STATION}: tc: a station takes no path here,",
        )
        for one in ("/", "?geheim", "#x")
    ),
    (
        {f"stations/{STATION}/cups.key": "geheim"},
        f"lns.toml:5: cups.credentials: stations/{STATION}: cups: credentials need a .trust file",
    ),
    ({f"stations/{STATION}/tc.uri": "wss://a:1\n", "stations/README": "geheim"}, taken()),
    ({"stations/0016-c001-f150-0001/tc.uri": "wss://a:1"}, "lns.toml:5: cups.credentials: stati"),
    ({"stations/00-16-c0-01-f1-50-00-01/tc.uri": "wss://a:1"}, taken()),
    (
        {f"stations/{one}/tc.uri": "wss://a:1" for one in (STATION, STATION.lower())},
        f"lns.toml:5: cups.credentials: stations/{STATION.lower()}: {STATION} has a folder already",
    ),
    (
        {f"stations/{STATION}/tc.uri": UNREADABLE},
        f"lns.toml:5: cups.credentials: stations/{STATION}/tc.uri cannot be read: Input/output er",
    ),
    ({f"stations/{STATION}/tc.uri": "wss://ä:1"}, "lns.toml:5: cups.credentials: stations/"),
    *(
        ({f"stations/{STATION}/{name}.uri": longest_uri(one)}, taken())
        for name, schemes in SCHEMES.items()
        for one in schemes
    ),
    *(
        (
            {f"stations/{STATION}/{name}.uri": f"{longest_uri(schemes[0])}0"},
            f"lns.toml:5: cups.credentials: stations/{STATION}: {name}: .uri: longer than 255",
        )
        for name, schemes in SCHEMES.items()
    ),
    *(
        (
            {f"stations/{STATION}/{name}.uri": f"{one}://a:1"},
            f"lns.toml:5: cups.credentials: stations/{STATION}: {name}: a URI for stations has",
        )
        for name, other in (("tc", "cups"), ("cups", "tc"))
        for one in SCHEMES[other]
    ),
]  # fmt: skip


NO_TOKEN = f"lns.toml:10: cups.credentials: stations/{STATION}: tc: .key: without a .crt it is a to"
_SEGMENT_MAX = 65_535
TOKENS_OF_A_STATION = [
    ("\nAuthorization: geheim\r\n\n", taken(shows="one of 1 tokens, its own")),
    ("Authorization: geheim\nX-Other: geheim", taken(shows="one of 1 tokens, its own")),
    *(
        (lines, NO_TOKEN)
        for lines in (
            "\n",
            "geheim",
            "Authorization:geheim",
            "Authorization: geheim\ngeheim",
            "ä: b",
        )
    ),
]


async def test_keys_leave_a_host_for_whom_they_are_only(rig):
    """Who would hand them to anybody does not begin, nor who has what no station takes."""
    await served(rig)
    token = {"tokens.toml": f'{STATION} = "x"'}
    for lns_toml, says in GUARDED:
        await rig.check_configuration(lns_toml, says, token, key_of=STATION)
    trust = load_pem_x509_certificate(any_authority().certificate).public_bytes(Encoding.DER)
    line = "X: ".ljust(_SEGMENT_MAX - len(trust) - len(bytes(4) + b"\r\nY: y\r\n"), "x")
    long = [(f"{line}\nY: y", taken(shows="one of 1 tokens, its own"))]
    long.append(
        (f"{line}x\nY: y", f"{NO_TOKEN.partition('.key')[0]}credentials of more than 65535")
    )
    for lines, says in (*TOKENS_OF_A_STATION, *long):
        files = {**token, f"stations/{STATION}/tc.key": lines}
        await rig.check_configuration(NAMED + TOKENS + HTTPS, says, files, key_of=STATION)
    for files, says in ODD:
        await rig.check_configuration(LNS + HTTPS, says, files)


def written(key, kind, form=PrivateFormat.PKCS8, sealed=None):
    """A private key in a file."""
    return key.private_bytes(kind, form, sealed or NoEncryption())


def short_certificate():
    """One of less than 256 octets: DER has two for the length of those."""
    key, nobody, year = Ed25519PrivateKey.generate(), Name([]), datetime(2026, 1, 1, tzinfo=UTC)
    made = CertificateBuilder(nobody, nobody, key.public_key(), 1, year, year + timedelta(days=1))
    return made.sign(key, None).public_bytes(Encoding.DER)


async def test_what_a_station_cannot_read_is_not_handed_out(rig):
    """One certificate a file, and a key of its own, which is P-256 or RSA; PEM or DER."""
    await served(rig)
    pair, other = any_authority().client(STATION), any_authority().certificate
    p256, sealed = generate_private_key(SECP256R1()), BestAvailableEncryption(b"geheim")
    cert, key = pair.certificate, pair.key
    der = load_pem_x509_certificate(cert).public_bytes(Encoding.DER)
    files = {"trust": other, "crt": cert, "key": key}
    pem = Encoding.PEM
    is_taken, alone = None, "without a .crt it is a token"
    for changed, says in (
        ({}, is_taken),
        ({"crt": der}, is_taken),
        ({"trust": der, "key": written(p256, Encoding.DER)}, is_taken),
        ({"key": written(p256, pem)}, is_taken),
        ({"key": written(p256, Encoding.DER, PrivateFormat.TraditionalOpenSSL)}, is_taken),
        ({"crt": b"", "key": b""}, is_taken),
        ({"trust": b""}, "credentials need a .trust file"),
        ({"trust": b"", "key": b""}, "credentials need a .trust file"),
        ({"key": b""}, "a .crt file needs a .key file"),
        ({"trust": other + cert}, ".trust: CUPS hands out one certificate, not 2"),
        ({"crt": cert + other + cert}, ".crt: CUPS hands out one certificate, not 3"),
        ({"trust": b"geheim"}, ".trust: no certificate that a station can read: "),
        ({"trust": short_certificate()}, ".trust: a station cannot read 1"),
        ({"crt": short_certificate()}, ".crt: a station cannot read 1"),
        ({"crt": der[:-1]}, ".crt: no certificate that a station can read: "),
        ({"crt": key}, ".crt: no certificate that a station can read: "),
        ({"key": cert}, ".key: no private key that a station can read (P-256 or RSA)"),
        ({"key": b"geheim"}, ".key: no private key that a station can read (P-256 or RSA)"),
        ({"key": written(p256, pem, sealed=sealed)}, ".key: no private key that a station can"),
        ({"key": written(Ed25519PrivateKey.generate(), pem)}, ".key: no private key that a sta"),
        ({"key": written(generate_private_key(SECP384R1()), pem)}, ".key: a station cannot read 1"),
        ({"crt": b""}, f".key: {alone}"),
    ):
        for name in ("tc", "cups"):
            home = {f"stations/{STATION}/{name}.{kind}": one
                    for kind, one in {**files, **changed}.items() if one}  # fmt: skip
            due = f"lns.toml:5: cups.credentials: stations/{STATION}: {name}: {says}"
            lns_toml = LNS + HTTPS.replace("192.0.2.1", "127.0.0.1")
            await rig.check_configuration(lns_toml, due if says else taken(), home)
    for name in ("tc", "cups"):
        home = {f"stations/{STATION}/{name}.{kind}": one for kind, one in files.items()}
        await rig.check_configuration(LNS + HTTPS, CLEAR, home)
