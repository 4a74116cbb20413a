"""Every mistake an operator may make, with file, line and key."""

from pathlib import Path

import pytest

from lns.config import Config, ConfigError, load, load_devices
from lns.dedup.session import Listening
from lns.dedup.strategy import Strategy
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.identifiers import DevAddr, Eui
from lns.toml_file import read_table
from lns.uplink.registry import Activation, DeviceClass, EndDevice, LoRaWanVersion

APP_KEY = "00112233445566778899AABBCCDDEEFF"
NWK_S_KEY = "44024241ED4CE9A68C6A8BC055233FD3"
APP_S_KEY = "EC925802AE430CA77FD3DD73CB2CC588"

OTAA = f"""[[device]]
name = "alpha"
dev_eui = "70B3D57ED0000001"
activation = "otaa"
join_eui = "70B3D57ED0000000"
app_key = "{APP_KEY}"
"""
ABP = f"""[[device]]
name = "beta"
dev_eui = "70B3D57ED0000002"
activation = "abp"
dev_addr = "01ABCDEF"
nwk_s_key = "{NWK_S_KEY}"
app_s_key = "{APP_S_KEY}"
"""
LNS = '[lns]\nid = "lns-a"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "devices.toml").write_text(OTAA + ABP)
    (tmp_path / "lns.toml").write_text(LNS)
    return tmp_path


def mistakes(folder: Path, text: str) -> list[str]:
    """The sentences about this `devices.toml`, without the folder."""
    file = folder / "devices.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_devices(file)
    return str(caught.value).replace(f"{folder}/", "").splitlines()


def server_mistakes(folder: Path, text: str) -> list[str]:
    """The sentences about this `lns.toml`, without the folder."""
    (folder / "lns.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(folder / "lns.toml")
    return str(caught.value).replace(f"{folder}/", "").splitlines()


def test_the_smallest_configuration_has_the_defaults_of_the_interface(folder: Path) -> None:
    config = load(folder / "lns.toml")
    assert isinstance(config, Config)
    settings = config.settings
    assert (settings.lns.region, settings.lns.net_id) == ("EU868", "000013")
    assert (settings.lns.listen, settings.lns.stations) == ("127.0.0.1:6090", "any")
    assert (settings.dedup.retention_s, settings.dedup.entries_max) == (60, 1_000_000)
    assert (settings.store.url, settings.store.on_outage) == ("memory://", "open")
    assert (settings.upstream.url, settings.capture, settings.tls) == ("memory://", None, None)
    assert [device.name for device in config.devices] == ["alpha", "beta"]


def test_a_message_is_kept_and_tried_for_as_long_as_is_safe(folder: Path) -> None:
    """Mosquitto writes what it has acknowledged within a second, when it is told to."""
    upstream = load(folder / "lns.toml").settings.upstream
    assert (upstream.keep_s, upstream.retry_max_s) == (3, 86_400)


def test_a_whole_configuration(folder: Path) -> None:
    (folder / "lns.toml").write_text(
        """[lns]
id = "lns-a"
listen = "127.0.0.1:0"
public_uri = "wss://lns.example:6090"
region = "US915"
net_id = "00001a"
devices = "devices.toml"
stations = ["b827:ebff:fe12:3456", "B8-27-EB-FF-FE-12-34-57"]

[tls]
cert = "server.crt"
key = "server.key"
client_ca = "stations-ca.crt"
any_station = true

[dedup]
retention_s = 30
entries_max = 10

[store]
url = "redis://127.0.0.1:6379/0"
on_outage = "closed"

[upstream]
url = "mqtt://127.0.0.1:1883"
outbox = "var/lns-a.outbox"

[capture]
path = "var/lns-a.jsonl"
"""
    )
    settings = load(folder / "lns.toml").settings
    assert settings.lns.stations == ["B827EBFFFE123456", "B827EBFFFE123457"]
    assert (settings.lns.region, settings.dedup.retention_s) == ("US915", 30)
    assert settings.tls is not None
    assert (settings.tls.client_ca, settings.tls.any_station) == ("stations-ca.crt", True)
    assert settings.capture is not None
    assert settings.capture.path == "var/lns-a.jsonl"


def test_a_device_as_it_is_written(folder: Path) -> None:
    extra = """lorawan = "1.0.2"
strategy = "Mark"
server = "lns-a"
relaxed_f_cnt = false
f_cnt_bits = 16
nb_trans = 3
class = "C"
join_nonce_min = 7
dev_status_s = 3_600
"""
    (folder / "devices.toml").write_text(ABP + extra)
    assert load_devices(folder / "devices.toml") == (
        EndDevice(
            name="beta",
            dev_eui=Eui("70B3D57ED0000002"),
            activation=Activation.ABP,
            dev_addr=DevAddr("01ABCDEF"),
            session_keys=SessionKeys(bytes.fromhex(NWK_S_KEY), bytes.fromhex(APP_S_KEY)),
            lorawan=LoRaWanVersion.V1_0_2,
            strategy=Strategy.MARK,
            server="lns-a",
            relaxed_f_cnt=False,
            f_cnt_bits=16,
            nb_trans=3,
            device_class=DeviceClass.C,
            join_nonce_min=7,
            dev_status_s=3_600,
        ),
    )


def test_a_device_without_wishes_has_the_defaults(folder: Path) -> None:
    alpha, _ = load_devices(folder / "devices.toml")
    assert alpha == EndDevice(
        name="alpha",
        dev_eui=Eui("70B3D57ED0000001"),
        activation=Activation.OTAA,
        join_eui=Eui("70B3D57ED0000000"),
        app_key=bytes.fromhex(APP_KEY),
        lorawan=LoRaWanVersion.V1_0_4,
        strategy=Strategy.NONE,
        server=None,
        relaxed_f_cnt=True,
        f_cnt_bits=32,
        nb_trans=1,
        device_class=DeviceClass.A,
    )


@pytest.mark.parametrize(
    ("line", "written", "sentence"),
    [
        (2, 'name = ""', "device[0].name: String should have at least 1 character"),
        (3, 'dev_eui = "70B3"', "device[0].dev_eui: an EUI is text: 16 hex digits"),
        (3, "dev_eui = 1.5", "device[0].dev_eui: an EUI is text: 16 hex digits"),
        (3, "dev_eui = true", "device[0].dev_eui: an EUI is text: 16 hex digits"),
        (4, 'activation = "OTAA"', "device[0].activation: Input should be 'otaa' or 'abp'"),
        (5, "join_eui = []", "device[0].join_eui: an EUI is text: 16 hex digits"),
        (
            6,
            'app_key = "0011"',
            "device[0].app_key: a key is 32 hex digits, env:NAME or file:PATH",
        ),
        (
            6,
            "app_key = 11",
            "device[0].app_key: a key is text: 32 hex digits, env:NAME or file:PATH",
        ),
    ],
)
def test_a_wrong_value_is_named_with_its_line(
    folder: Path, line: int, written: str, sentence: str
) -> None:
    lines = OTAA.splitlines()
    lines[line - 1] = written
    assert mistakes(folder, "\n".join(lines)) == [f"devices.toml:{line}: {sentence}"]


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ('lorawan = "1.1"', "lorawan: Input should be '1.0.2', '1.0.3' or '1.0.4'"),
        ('strategy = "drop"', "strategy: Input should be 'Drop', 'Mark' or 'None'"),
        ("f_cnt_bits = 24", "f_cnt_bits: Input should be 16 or 32"),
        ("nb_trans = 0", "nb_trans: Input should be greater than or equal to 1"),
        ("nb_trans = 16", "nb_trans: Input should be less than or equal to 15"),
        ('class = "B"', "class: Input should be 'A' or 'C'"),
        ('device_class = "C"', "device_class: unknown key; did you mean 'class'?"),
        ("server = 5", "server: Input should be a valid string"),
        ('dev_addr = "01ABCDEF0"', "dev_addr: a DevAddr is text: 8 hex digits"),
        ("dev_addr = 1", "dev_addr: a DevAddr is text: 8 hex digits"),
    ],
)
def test_a_wrong_wish_is_named_with_its_line(folder: Path, written: str, sentence: str) -> None:
    assert mistakes(folder, OTAA + ABP.replace("beta", "gamma") + OTAA + written) == [
        f"devices.toml:20: device[2].{sentence}"
    ]


def test_every_mistake_is_told_at_once(folder: Path) -> None:
    text = OTAA.replace('name = "alpha"\n', "") + ABP.replace("nwk_s_key", "nwk_skey")
    assert mistakes(folder, text) == [
        "devices.toml:1: device[0].name: is missing",
        "devices.toml:11: device[1].nwk_skey: unknown key; did you mean 'nwk_s_key'?",
    ]


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        (OTAA.replace("otaa", "abp"), "an abp device needs dev_addr and nwk_s_key and app_s_key"),
        (ABP.replace("abp", "otaa"), "an otaa device needs join_eui and app_key"),
    ],
)
def test_a_device_needs_what_its_activation_needs(folder: Path, text: str, needs: str) -> None:
    assert mistakes(folder, text) == [f"devices.toml:1: device[0]: {needs}"]


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("app_kee", "did you mean 'app_key'?"),
        ("stratgy", "did you mean 'strategy'?"),
        ('"a(b"', "known here: activation, app_key, app_s_key"),
    ],
)
def test_an_unknown_key_has_the_nearest_known_name(folder: Path, key: str, hint: str) -> None:
    (sentence,) = mistakes(folder, OTAA + f"{key} = 1")
    name = key.strip('"')
    assert sentence.startswith(f"devices.toml:7: device[0].{name}: unknown key; {hint}")


def test_two_devices_do_not_share_name_or_eui(folder: Path) -> None:
    assert mistakes(folder, OTAA + ABP + OTAA) == [
        "devices.toml:15: device[2].name: belongs to another device already; give each its own",
        "devices.toml:16: device[2].dev_eui: belongs to another device already; give each its own",
    ]


def test_two_devices_may_share_a_dev_addr(folder: Path) -> None:
    other = ABP.replace("beta", "gamma").replace("0000002", "0000003")
    (folder / "devices.toml").write_text(ABP + other)
    assert len(load_devices(folder / "devices.toml")) == 2


def test_the_same_eui_in_two_spellings_is_the_same(folder: Path) -> None:
    other = OTAA.replace("alpha", "beta").replace('"70B3D57ED0000001"', '"70-b3-d5-7e-d0-00-00-01"')
    assert mistakes(folder, OTAA + other) == [
        "devices.toml:9: device[1].dev_eui: belongs to another device already; give each its own"
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "devices.toml:1: device: is missing"),
        (
            "[device]\n",
            "devices.toml:1: device: is a list of tables: write [[device]], in two brackets,"
            " at the head of each",
        ),
        ("name =\n", "devices.toml:1: not TOML: Invalid value (at line 1, column 7)"),
        ('\nname = "', "devices.toml:2: not TOML: Unterminated string (at end of document)"),
        ("a = " + "[" * 9_999, "devices.toml: cannot be read: it is nested too deeply"),
    ],
)
def test_a_file_that_is_none(folder: Path, text: str, sentence: str) -> None:
    assert mistakes(folder, text) == [sentence]


def test_a_file_without_an_end_is_not_read_for_ever() -> None:
    with pytest.raises(ConfigError, match="/dev/zero: cannot be read: it has more than 64 MiB"):
        read_table(Path("/dev/zero"))


def test_a_misspelled_section_is_told_where_it_stands(folder: Path) -> None:
    assert mistakes(folder, "# devices\n" + OTAA.replace("[[device]]", "[[devise]]")) == [
        "devices.toml:1: device: is missing",
        "devices.toml:2: devise: unknown key; did you mean 'device'?",
    ]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", ["lns.toml:1: lns: is missing"]),
        ("[lns]\n", ["lns.toml:1: lns.id: is missing"]),
        ('\n[lns]\nid = "a b"\n', ["lns.toml:3: lns.id: String should match pattern"]),
        (
            LNS + 'region = "EU433"\n',
            ["lns.toml:3: lns.region: unknown region 'EU433'; known: EU868"],
        ),
        (LNS + 'net_id = "13"\n', ["lns.toml:3: lns.net_id: String should match pattern"]),
        (LNS + "listen = 6090\n", ["lns.toml:3: lns.listen: Input should be a valid string"]),
        (
            LNS + 'stations = "none"\n',
            ['lns.toml:3: lns.stations: either "any" or a list of station EUIs'],
        ),
        (
            LNS + 'stations = ["B827EBFFFE123456", 7]\n',
            ["lns.toml:3: lns.stations: an EUI is text: 16 hex digits"],
        ),
        (
            LNS + "[dedup]\nretention_s = 0\nentries_max = 0\n",
            [
                "lns.toml:4: dedup.retention_s: Input should be greater than or equal to 1",
                "lns.toml:5: dedup.entries_max: Input should be greater than or equal to 1",
            ],
        ),
        (LNS + "[dedup]\nretention_s = 86401\n", ["lns.toml:4: dedup.retention_s: Input should"]),
        (LNS + '[store]\non_outage = "x"\n', ["lns.toml:4: store.on_outage: Input should be"]),
        (LNS + "[capture]\n", ["lns.toml:3: capture.path: is missing"]),
        (
            LNS + '[capture]\npath = "a"\nsize_max_mib = 0\nsize_max = 7\n',
            [
                "lns.toml:4: capture.path: the name of a capture ends in .jsonl, "
                "by which scores and reports find it",
                "lns.toml:5: capture.size_max_mib: Input should be greater than or equal to 1",
                "lns.toml:6: capture.size_max: unknown key; did you mean 'size_max_mib'?",
            ],
        ),
        (
            LNS + '[tls]\ncert = "a"\nkye = "b"\n',
            [
                "lns.toml:3: tls.key: is missing",
                "lns.toml:5: tls.kye: unknown key; did you mean 'key'?",
            ],
        ),
        (LNS + "[dedupe]\n", ["lns.toml:3: dedupe: unknown key; did you mean 'dedup'?"]),
        (
            LNS + '"a(b" = 1\n["c(d"]\n',
            [
                "lns.toml:3: lns.a(b: unknown key; known here: devices, id, listen",
                "lns.toml:4: c(d: unknown key; known here: capture, cups, dedup, lns",
            ],
        ),
        ("lns = 1\n", ["lns.toml:1: lns: is one table: write [lns], in single brackets, once"]),
        (LNS + 'id = "b"\n', ["lns.toml:3: not TOML: Cannot overwrite a value"]),
        (
            LNS + 'devices = "nowhere.toml"\n',
            ["lns.toml:3: lns.devices: there is no file nowhere.toml"],
        ),
    ],
)
def test_the_mistakes_of_a_server(folder: Path, text: str, sentences: list[str]) -> None:
    found = server_mistakes(folder, text)
    assert len(found) == len(sentences)
    for sentence, start in zip(found, sentences, strict=True):
        assert sentence.startswith(start)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"lns\.toml: cannot be read: No such file"):
        load(tmp_path / "lns.toml")


def test_a_file_that_is_not_utf_8_is_named(folder: Path) -> None:
    (folder / "lns.toml").write_bytes(b'[lns]\nid = "\xff"\n')
    with pytest.raises(ConfigError, match=r"lns\.toml: cannot be read: it is not UTF-8"):
        load(folder / "lns.toml")


def test_a_byte_order_mark_is_no_part_of_a_file(folder: Path) -> None:
    for name in ("lns.toml", "devices.toml"):
        (folder / name).write_bytes(b"\xef\xbb\xbf" + (folder / name).read_bytes())
    assert [device.name for device in load(folder / "lns.toml").devices] == ["alpha", "beta"]


def test_paths_are_relative_to_their_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "site").mkdir()
    (folder / "site" / "keys").mkdir()
    (folder / "site" / "keys" / "alpha").write_text(APP_KEY + "\n")
    (folder / "site" / "all.toml").write_text(OTAA.replace(APP_KEY, "file:keys/alpha"))
    (folder / "lns.toml").write_text(LNS + 'devices = "site/all.toml"\n')
    monkeypatch.chdir("/")
    (alpha,) = load(folder / "lns.toml").devices
    assert alpha.app_key == bytes.fromhex(APP_KEY)


def test_a_key_may_stand_in_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALPHA_KEY", APP_KEY.lower())
    (folder / "devices.toml").write_text(OTAA.replace(APP_KEY, "env:ALPHA_KEY"))
    (alpha,) = load_devices(folder / "devices.toml")
    assert alpha.app_key == bytes.fromhex(APP_KEY)


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("env:NO_SUCH_NAME", "the environment has no variable NO_SUCH_NAME"),
        ("file:nowhere", "cannot read the key file nowhere"),
        ("file:short", "a key is 32 hex digits, env:NAME or file:PATH"),
        ("file:latin", "cannot read the key file latin"),
    ],
)
def test_a_key_that_cannot_be_had(folder: Path, written: str, sentence: str) -> None:
    (folder / "short").write_text(APP_KEY[:-1])
    (folder / "latin").write_bytes(b"\xe4" * 32)
    assert mistakes(folder, OTAA.replace(APP_KEY, written)) == [
        f"devices.toml:6: device[0].app_key: {sentence}"
    ]


@pytest.mark.parametrize(
    "text",
    [
        OTAA.replace(APP_KEY, APP_KEY + "00"),
        OTAA.replace(APP_KEY, "0x" + APP_KEY),
        OTAA.replace("70B3D57ED0000001", APP_KEY),
        OTAA.replace("70B3D57ED0000000", APP_KEY),
        OTAA.replace('"otaa"', f'"{APP_KEY}"'),
        OTAA.replace("app_key", "app_kee"),
        OTAA + f'strategy = "{APP_KEY}"\n',
        OTAA + f'server = ["{APP_KEY}"]\n',
        OTAA.replace("otaa", "abp"),
        OTAA + OTAA,
        OTAA.replace(f'"{APP_KEY}"', f'"{APP_KEY}'),
        OTAA.replace(f'"{APP_KEY}"', APP_KEY),
    ],
)
def test_the_text_of_a_key_is_in_no_sentence(folder: Path, text: str) -> None:
    assert APP_KEY not in "\n".join(mistakes(folder, text)).upper()


def test_no_key_is_in_the_repr_of_a_configuration(folder: Path) -> None:
    shown = repr(load(folder / "lns.toml"))
    for key in (APP_KEY, NWK_S_KEY, APP_S_KEY):
        assert key not in shown
        assert repr(bytes.fromhex(key)) not in shown


def test_how_a_device_listens_and_where_it_sends_is_what_its_join_accepts_say(folder: Path) -> None:
    said = "rx1_dr_offset = 5\nrx_delay_s = 15\nrx2_dr = 3\nmore_channels_hz = [867100000]\n"
    (folder / "devices.toml").write_text(OTAA + said)
    [device] = load(folder / "lns.toml").devices
    assert (device.listening, device.more_channels_hz) == (Listening(5, 15, 3), (867_100_000,))
    (folder / "devices.toml").write_text(OTAA)
    [device] = load(folder / "lns.toml").devices
    assert (device.listening, device.more_channels_hz) == (Listening(0, 1, None), ())


@pytest.mark.parametrize(
    ("region", "key", "said"),
    [
        ("EU868", "rx1_dr_offset = 6", "EU868 has 0 to 5"),
        ("US915", "rx1_dr_offset = 4", "US915 has 0 to 3"),
        ("EU868", "rx2_dr = 8", "EU868 has 0 to 7 for downlinks"),
        ("US915", "rx2_dr = 4", "US915 has 8 to 13 for downlinks"),
        ("US915", "more_channels_hz = [902300000]", "the channels of US915 are fixed"),
        (
            "EU868",
            "more_channels_hz = [867100000, 867200000]",
            "no station listens at 867200000 Hz",
        ),
    ],
)
def test_no_device_listens_as_its_region_cannot(
    folder: Path, region: str, key: str, said: str
) -> None:
    (folder / "devices.toml").write_text(f"{OTAA}{key}\n")
    name = key.split()[0]
    told = f"devices.toml:7: device[0].{name}: {said}"
    assert server_mistakes(folder, f'{LNS}region = "{region}"\n') == [told]


def test_a_device_that_does_not_join_is_told_nothing(folder: Path) -> None:
    said = "how to listen and where to send; leave out rx_delay_s and rx2_dr"
    [told] = mistakes(folder, f"{ABP}rx_delay_s = 2\nrx2_dr = 3\n")
    assert said in told
