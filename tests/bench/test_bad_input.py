"""What a station may get wrong, on the whole simulated rig: one outcome each, nothing broken."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.clock import seconds
from bench.rig.rig import Rig
from bench.station.tap import told_by
from bench.verdict.expectation import Table
from bench.virtual.air import uplink_in
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.identifiers import eui
from lns.station.messages import Jreq, Updf, parse_up
from tests.bench.rig.played import Played, Scenario, play

Message = dict[str, Any]

RECORDED = Path(__file__).parents[1] / "vectors" / "station" / "recorded.json"
UP = [
    message["msg"]
    for message in json.loads(RECORDED.read_text("utf-8"))["messages"]
    if message["dir"] == "up"
]
UPDF: Message = next(message for message in UP if message.get("msgtype") == "updf")
JREQ: Message = next(message for message in UP if message.get("msgtype") == "jreq")
RECORDED_DEV_ADDR, RECORDED_F_CNT = "49BE7DF1", 2
RECORDED_KEYS = SessionKeys(
    bytes.fromhex("44024241ed4ce9a68c6a8bc055233fd3"),
    bytes.fromhex("ec925802ae430ca77fd3dd73cb2cc588"),
)
MALFORMED = ("-", "dropped", "Malformed", "NotAsked")

NEW = Table("""
    strategy kind        | first
    *        confirmed   | NonDuplicate forwarded RX1
    *        unconfirmed | NonDuplicate forwarded NotAsked
""")


def text_of(message: Message, **changed: object) -> str:
    return json.dumps({**message, **changed}, separators=(",", ":"))


def without(message: Message, field: str) -> str:
    return text_of({name: value for name, value in message.items() if name != field})


def after(*texts: str) -> Scenario:
    """A station says this, then a device sends a confirmed frame: all is as if nothing had been.

    What can be read has the station's own `xtime`: another one would name another session.
    """

    async def scenario(rig: Rig) -> None:
        rig.only("west")
        rig.provision(
            "recorded", dev_addr_text=RECORDED_DEV_ADDR, keys=RECORDED_KEYS, f_cnt=RECORDED_F_CNT
        )
        for text in texts:
            await rig.start()
            own = rig.station("west").station.xtime_now()
            readable = isinstance(parse_up(text), Updf | Jreq)
            await rig.say(told_by(own, text) if readable else text, by="west")
            await rig.wait(seconds(1))
        uplink = await rig.alpha.send(confirmed=True)
        rig.expect(uplink, NEW, first="west")
        rig.expect_reply(uplink)

    return scenario


def words(run: Played) -> list[tuple[str, ...]]:
    """What became of the bad input: every outcome but that of the good frame, which is the last."""
    *bad, good = run.of("lns.outcome")
    assert (good["status"], good["upstream"], good["answer"]) == (
        "NonDuplicate",
        "forwarded",
        "RX1",
    )
    assert run.verdict.result == "PASS", str(run.verdict)
    return [
        tuple(event.get(word, "-") for word in ("status", "upstream", "reason", "answer"))
        for event in bad
    ]


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "{", "nonsense", "\x00\x01\x02", "{'msgtype':'updf'}", text_of(UPDF)[:-1],
        text_of(UPDF) + "}", text_of(UPDF) * 2, "\ufeff" + text_of(UPDF), '{"msgtype":"\\ud800"}',
        '{"msgtype":"updf","FCnt":1e999}', text_of(UPDF, snr=float("nan")),
    ],
    ids=lambda text: ascii(text[:24]),
)  # fmt: skip
def test_what_is_no_json_is_a_malformed_reception(tmp_path: Path, text: str) -> None:
    assert words(play(tmp_path, after(text))) == [MALFORMED]


@pytest.mark.parametrize("text", ["[", "{" * 9, '{"a":', "[1,{"], ids=ascii)
def test_json_without_a_bottom_is_a_malformed_reception(tmp_path: Path, text: str) -> None:
    assert words(play(tmp_path, after(text * 100_000))) == [MALFORMED]


def test_a_deep_field_spoils_only_its_own_reception(tmp_path: Path) -> None:
    deep = text_of(UPDF)[:-1] + ',"x":' + "[" * 100_000 + "]" * 100_000 + "}"
    assert words(play(tmp_path, after(deep))) == [MALFORMED]


@pytest.mark.parametrize(
    "text",
    [
        "x" * 5_000_000,
        text_of(UPDF, FRMPayload="00" * 2_000_000),
        text_of(UPDF).replace('"FPort":1', f'"FPort":{"1" * 1_000_000}'),
    ],
    ids=["no JSON", "payload", "number"],
)
def test_a_huge_text_is_a_malformed_reception(tmp_path: Path, text: str) -> None:
    assert words(play(tmp_path, after(text))) == [MALFORMED]


@pytest.mark.parametrize(
    "text",
    [
        "[]", "5", "null", "true", '"updf"', "{}", '[{"msgtype":"updf"}]', '{"msgtype":5}',
        '{"msgtype":null}', '{"msgtype":["updf"]}', '{"msgtype":"UPDF"}', '{"msgtype":"alarm"}',
        '{"msgtype":"dndf"}', '{"msgtype":"propdf"}', '{"msgtype":"version"}',
        '{"msgtype":"version","station":5}', '{"msgtype":"timesync","txtime":"now"}',
        '{"msgtype":"getxtime"}', '{"msgtype":"getxtime","xtimes":[0,0,0,0]}',
        '{"msgtype":"getxtime","xtimes":[-1]}', '{"msgtype":"getxtime","xtimes":5}',
        '{"msgtype":"dntxed"}', '{"msgtype":"dntxed","diid":"1","DevEui":"x","DR":5,"Freq":1}',
        '{"msgtype":"dntxed","diid":99,"DevEui":"00-00-00-00-00-00-00-01","DR":5,"Freq":1}',
        '{"router":true}', '{"router":"no EUI"}', '{"msgtype":"router_config"}',
        '{"msgtype":"dnmsg"}',
    ],
)  # fmt: skip
def test_what_is_no_reception_has_no_outcome(tmp_path: Path, text: str) -> None:
    assert words(play(tmp_path, after(text))) == []


INTEGERS: tuple[object, ...] = ("1", None, 1.5, [], {}, True)
TEXTS: tuple[object, ...] = (5, None, [], {}, True, "0", "0g", "zz")
NUMBERS: tuple[object, ...] = ("1", None, [], {})
EUIS: tuple[object, ...] = (
    None,
    [],
    {},
    True,
    1.5,
    -1,
    1 << 64,
    "",
    "x",
    "00-11-22-33-44-55-66",
    "0011223344556677-",
)
BAD_RADIO: dict[str, tuple[object, ...]] = {
    "MIC": (*INTEGERS, 1 << 32, -(1 << 31) - 1, 10**30),
    "RefTime": NUMBERS,
    "DR": (*INTEGERS, -1, 16),
    "Freq": (*INTEGERS, 0, -1, 1 << 32),
    "upinfo": (None, [], "x", 5),
}
BAD_UPDF: dict[str, tuple[object, ...]] = {
    "MHdr": (*INTEGERS, -1, 256, 65, 0x00, 0x20, 0x60, 0xA0, 0xC0, 0xE0),
    "DevAddr": (*INTEGERS, 1 << 32, -(1 << 31) - 1),
    "FCtrl": (*INTEGERS, -1, 256, 1, 15),
    "FCnt": (*INTEGERS, -1, 65_536),
    "FOpts": (*TEXTS, "00", "00" * 16),
    "FPort": (*INTEGERS, -2, 256, -1),
    "FRMPayload": (*TEXTS, "00" * 243),
    **BAD_RADIO,
}
BAD_JREQ: dict[str, tuple[object, ...]] = {
    "MHdr": (*INTEGERS, -1, 256, 1, 0x40),
    "JoinEui": EUIS,
    "DevEui": EUIS,
    "DevNonce": (*INTEGERS, -1, 65_536),
    **BAD_RADIO,
}
BAD_UPINFO: dict[str, tuple[object, ...]] = {
    "rctx": (*INTEGERS, 1 << 63),
    "xtime": (*INTEGERS, -1, 1 << 63),
    "gpstime": (*INTEGERS, 1 << 63),
    "fts": (*INTEGERS, 1 << 63),
    "rssi": NUMBERS,
    "snr": NUMBERS,
    "rxtime": NUMBERS,
}
OPTIONAL = {"RefTime", "upinfo"}  # a station without any clock says nothing of it


@pytest.mark.parametrize("field", BAD_UPDF)
def test_one_bad_field_spoils_a_data_uplink_and_nothing_else(tmp_path: Path, field: str) -> None:
    texts = [text_of(UPDF, **{field: value}) for value in BAD_UPDF[field]]
    texts += [] if field in OPTIONAL else [without(UPDF, field)]
    assert words(play(tmp_path, after(*texts))) == [MALFORMED] * len(texts)


@pytest.mark.parametrize("field", BAD_JREQ)
def test_one_bad_field_spoils_a_join_request_and_nothing_else(tmp_path: Path, field: str) -> None:
    texts = [text_of(JREQ, **{field: value}) for value in BAD_JREQ[field]]
    texts += [] if field in OPTIONAL else [without(JREQ, field)]
    assert words(play(tmp_path, after(*texts))) == [MALFORMED] * len(texts)


@pytest.mark.parametrize("message", [UPDF, JREQ], ids=["updf", "jreq"])
@pytest.mark.parametrize("field", BAD_UPINFO)
def test_one_bad_field_of_upinfo_spoils_the_reception(
    tmp_path: Path, field: str, message: Message
) -> None:
    upinfo = message["upinfo"]
    texts = [text_of(message, upinfo={**upinfo, field: bad}) for bad in BAD_UPINFO[field]]
    assert words(play(tmp_path, after(*texts))) == [MALFORMED] * len(texts)


def test_every_field_of_the_recorded_messages_is_spoilt() -> None:
    assert {*BAD_UPDF, "msgtype"} == UPDF.keys()
    assert {*BAD_JREQ, "msgtype"} == JREQ.keys()
    assert BAD_UPINFO.keys() == UPDF["upinfo"].keys() == JREQ["upinfo"].keys()


def test_the_recorded_message_itself_is_accepted(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        device = rig.provision(
            "recorded", dev_addr_text=RECORDED_DEV_ADDR, keys=RECORDED_KEYS, f_cnt=RECORDED_F_CNT
        )
        await rig.start()
        told = parse_up(text_of(UPDF))
        assert isinstance(told, Updf)
        frame = uplink_in(device.provisioned.dev_eui, told.phy(), RECORDED_F_CNT)
        rig.announce(frame)
        await rig.say(text_of(UPDF), by="west")
        rig.expect(frame, NEW, first="west")

    run = play(tmp_path, scenario)
    assert run.verdict.result == "PASS", str(run.verdict)
    [message] = run.of("upstream.published")
    assert message["body"]["payload"] == "74657374"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"MIC": 234819884}, "MicMismatch"),
        ({"MIC": 0}, "MicMismatch"),
        ({"FCnt": 3}, "MicMismatch"),
        ({"FRMPayload": "95447876"}, "MicMismatch"),
        ({"FRMPayload": ""}, "MicMismatch"),
        ({"FPort": 2}, "MicMismatch"),
        ({"FPort": -1, "FRMPayload": ""}, "MicMismatch"),
        ({"MHdr": 128}, "MicMismatch"),
        ({"FCtrl": 128}, "MicMismatch"),
        ({"FCtrl": 1, "FOpts": "02"}, "MicMismatch"),
        ({"DevAddr": 1}, "UnknownDevice"),
        ({"DevAddr": -1}, "UnknownDevice"),
        ({"DevAddr": 0xFFFFFFFF}, "UnknownDevice"),
    ],
    ids=str,
)
def test_a_readable_frame_that_no_device_can_have_sent(
    tmp_path: Path, changed: Message, reason: str
) -> None:
    found = words(play(tmp_path, after(text_of(UPDF, **changed))))
    assert found == [("-", "dropped", reason, "NotAsked")]


def test_a_join_of_an_unknown_device(tmp_path: Path) -> None:
    run = play(tmp_path, after(text_of(JREQ)))
    assert words(run) == [("-", "dropped", "UnknownDevice", "NotAsked")]


def test_a_join_with_a_wrong_mic(tmp_path: Path) -> None:
    bravo = text_of(JREQ, DevEui="70B3D57ED0000002", JoinEui="70B3D57ED0000000")
    assert isinstance(parse_up(bravo), Jreq)
    run = play(tmp_path, after(bravo))
    assert words(run) == [("-", "dropped", "MicMismatch", "NotAsked")]
    [outcome] = run.of("lns.outcome", reason="MicMismatch")
    assert outcome["frame_id"] == f"70B3D57ED0000000:{eui('70B3D57ED0000002')}:35076"


@pytest.mark.parametrize(
    "phy",
    ["", "40", "40f17dbe49", "40f17dbe490002009545", "40f17dbe49000200019543", "00" * 22,
     "60f17dbe4900020001954378762b11ff0d", "20" + "00" * 16, "40f17dbe490f02002b11ff0d",
     "c0" + "00" * 18],
)  # fmt: skip
def test_a_frame_that_is_none_does_not_leave_the_station(tmp_path: Path, phy: str) -> None:
    """Below 12 bytes, a downlink, a join request of 22 bytes, FOpts beyond the end, …"""

    async def scenario(rig: Rig) -> None:
        rig.only("west")
        await rig.start()
        station = rig.station("west").station
        station.deliver(bytes.fromhex(phy), dr=5, freq_hz=868_100_000, rssi_dbm=-80, snr_db=7.5)
        await rig.wait(seconds(1))
        uplink = await rig.alpha.send(confirmed=True)
        rig.expect(uplink, NEW, first="west")
        rig.expect_reply(uplink)

    assert words(play(tmp_path, scenario)) == []


def test_a_flood_of_nonsense_leaves_one_outcome_each(tmp_path: Path) -> None:
    texts = ["{", "[]", text_of(UPDF, MIC=0), text_of(JREQ, DevEui="x"), text_of(UPDF, FCnt=3)] * 20
    found = words(play(tmp_path, after(*texts)))
    assert len(found) == 80
    assert found.count(MALFORMED) == 40


def test_no_key_of_any_device_is_written(tmp_path: Path) -> None:
    keys: list[bytes] = []

    async def scenario(rig: Rig) -> None:
        stranger = rig.stranger(activation="otaa")
        devices = [rig.alpha, rig.bravo, rig.charlie, stranger]
        await rig.bravo.join()
        await stranger.join()
        for device in (rig.alpha, rig.bravo, rig.charlie):
            await device.send(confirmed=True, retries=1)
            await rig.forge(device, by="west")
        await rig.restart_lns()
        for device in devices:
            known = device.provisioned  # type: ignore[attr-defined]
            sessions = [known.keys, *(held for _, held in rig.sessions_opened(known))]
            keys.append(known.app_key)
            keys.extend(key for held in sessions for key in (held.nwk_s_key, held.app_s_key))
        held = rig.device("bravo").firmware
        assert held is not None and held.session is not None
        assert held.session.keys.nwk_s_key in keys

    run = play(tmp_path, scenario)
    assert len(set(keys)) == 4 * 3 + 2
    files = sorted(run.folder.iterdir())
    assert len(files) >= 8
    for path in files:
        text = path.read_bytes().lower()
        for key in keys:
            for spelled in (key, key[::-1]):
                assert spelled.hex().encode() not in text, f"a key stands in {path.name}"
            assert key not in text
