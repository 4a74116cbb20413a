import asyncio
import json
from collections.abc import Callable, Coroutine
from itertools import pairwise
from pathlib import Path

import pytest

from bench.clock import run
from bench.station import LinkClosed, TextLink
from bench.station.tap import MemoryLink, link_pair
from bench.verdict import wire
from bench.virtual.air import Heard, Links, Medium
from bench.virtual.virtual_station import VirtualStation
from lns.clock import now_us
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import EU868
from lns.station.messages import (
    Dnmsg,
    Jreq,
    Propdf,
    Updf,
    XtimeReport,
    dnmsg_text,
    parse_up,
    router_config,
)
from tests.xtimes import split

STATION, DEVICE = Eui("B827EBFFFE000001"), Eui("70B3D57ED0000001")
PHY = bytes.fromhex("40f17dbe4900020001954378762b11ff0d")
PDU = b"\x60" + bytes(11)
CONFIG = json.dumps(router_config(EU868, mux_time=1_795_188_057.5))
S = 1_000_000
RECORDED = json.loads(
    (Path(__file__).parents[2] / "vectors" / "station" / "recorded.json").read_text()
)
UPLINKS = [m["msg"] for m in RECORDED["messages"] if "upinfo" in m["msg"]]
RECORDED_VERSION = next(
    m["msg"] for m in RECORDED["messages"] if m["msg"].get("msgtype") == "version"
)
HEARD = wire.Upinfo(rctx=0, xtime=1, rssi_dbm=-50, snr_db=9.5, gpstime=0, rxtime=2.0)


def spelled(told: dict[str, object]) -> dict[str, object]:
    """What a message says of the frame itself."""
    return {k: v for k, v in told.items() if k not in ("RefTime", "DR", "Freq", "upinfo")}


def bytes_of(told: dict[str, object]) -> bytes | None:
    """The frame that a recorded message tells of, as the server puts it together."""
    message = parse_up(json.dumps(told))
    return message.phy() if isinstance(message, Updf | Jreq | Propdf) else None


class Rig:
    """A station, the air, and a server that only notes what arrives, and when."""

    def __init__(self, **setup: object) -> None:
        self.events: list[tuple[str, dict[str, object]]] = []
        self.medium = Medium(EU868, Links(), self.record)
        self.station = VirtualStation(
            STATION, self.medium, self.connect, seed=3, record=self.record, **setup  # type: ignore[arg-type]
        )  # fmt: skip
        self.eui = DEVICE
        self.reachable = True
        self.server: MemoryLink | None = None
        self.connected_us: list[int] = []
        self.told: list[tuple[int, str]] = []
        self.tasks: asyncio.TaskGroup
        self.heard: list[Heard] = []
        self.medium.attach(self, hears="down")

    def record(self, source: str, kind: str, fields: dict[str, object]) -> None:
        self.events.append((kind, fields))

    def frame_heard(self, heard: Heard) -> None:
        self.heard.append(heard)

    async def connect(self) -> TextLink:
        if not self.reachable:
            raise LinkClosed("nobody there")
        station, self.server = link_pair()
        self.connected_us.append(now_us())
        self.tasks.create_task(self.listen(self.server))
        return station

    async def listen(self, link: MemoryLink) -> None:
        try:
            while True:
                text = await link.receive()
                self.told.append((now_us(), text))
        except LinkClosed:
            pass

    async def tell(self, text: str) -> None:
        assert self.server is not None
        await self.server.send(text)
        await asyncio.sleep(0.001)

    async def hear(self, *, dr: int = 5, phy: bytes = PHY) -> Updf:
        """Let the station hear one frame; the message it makes of it."""
        before = len(self.told)
        self.medium.transmit(DEVICE, phy, direction="up", freq_hz=868_100_000, dr=dr, power_dbm=14)
        await asyncio.sleep(0.1)
        message = parse_up(self.told[before][1])
        assert isinstance(message, Updf)
        return message

    def answer(self, updf: Updf, **fields: object) -> str:
        windows = {"rx1_dr": 5, "rx1_freq_hz": 868_100_000, "rx2_dr": 0, "rx2_freq_hz": 869_525_000}
        known = {"dev_eui": DEVICE, "diid": 7, "pdu": PDU, "xtime": updf.upinfo.xtime}
        return dnmsg_text(Dnmsg(**{**known, **windows, **fields}))  # type: ignore[arg-type]

    @property
    def sent(self) -> list[dict[str, object]]:
        return [f for k, f in self.events if k == "radio.transmit" and f["direction"] == "down"]

    def messages(self, msgtype: str) -> list[dict[str, object]]:
        told = [json.loads(text) for _, text in self.told]
        return [message for message in told if message.get("msgtype") == msgtype]


Scene = Callable[[Rig], Coroutine[object, object, None]]


def play(scene: Scene, *, configured: bool = True, **setup: object) -> Rig:
    async def main() -> Rig:
        rig = Rig(**setup)
        async with asyncio.TaskGroup() as rig.tasks:
            running = rig.tasks.create_task(rig.station.run())
            await asyncio.sleep(0.01)
            if configured:
                await rig.tell(CONFIG)
            await scene(rig)
            await asyncio.sleep(0.2)
            running.cancel()
        return rig

    return run(main())


async def nothing(_: Rig) -> None:
    pass


def test_a_station_introduces_itself_and_its_radio_waits_for_the_configuration() -> None:
    async def scene(rig: Rig) -> None:
        assert not rig.station.radio_on
        assert rig.station.xtime_now() == 0
        assert not rig.station.deliver(PHY, dr=5, freq_hz=1, rssi_dbm=-1, snr_db=1.0)
        rig.medium.transmit(DEVICE, PHY, direction="up", freq_hz=868_100_000, dr=5, power_dbm=14)
        await asyncio.sleep(1)

    rig = play(scene, configured=False)
    assert len(rig.told) == 1
    assert "fault.begin" not in dict(rig.events)
    assert rig.messages("version")[0]["protocol"] == 2


def test_a_frame_is_told_within_31_ms() -> None:
    latencies_us: list[int] = []

    async def scene(rig: Rig) -> None:
        for _ in range(100):
            before = len(rig.told)
            sent = rig.medium.transmit(
                DEVICE, PHY, direction="up", freq_hz=868_100_000, dr=5, power_dbm=14
            )
            await asyncio.sleep(0.1234)
            latencies_us.append(rig.told[before][0] - sent.end_us)

    play(scene)
    assert min(latencies_us) >= 800
    assert max(latencies_us) <= 31_000
    assert len(set(latencies_us)) > 50


@pytest.mark.parametrize(
    ("freq_hz", "dr", "is_heard"),
    [
        (868_100_000, 0, True),
        (867_900_000, 5, True),
        (868_300_000, 6, True),
        (868_100_000, 6, False),
        (868_800_000, 7, True),
        (868_300_000, 7, False),
        (865_100_000, 5, False),
    ],
)
def test_a_station_hears_its_channels_and_no_others(freq_hz: int, dr: int, is_heard: bool) -> None:
    """Eight of 125 kHz, one of 250 kHz with SF7, one of FSK; whatever else is sent is lost."""

    async def scene(rig: Rig) -> None:
        rig.told.clear()
        rig.medium.transmit(DEVICE, PHY, direction="up", freq_hz=freq_hz, dr=dr, power_dbm=14)
        await asyncio.sleep(3)

    rig = play(scene)
    assert len(rig.messages("updf")) == is_heard
    lost = [fields["cause"] for kind, fields in rig.events if kind == "radio.lost"]
    assert lost == [] if is_heard else ["not tuned"]


def test_what_is_told_of_a_frame() -> None:
    async def scene(rig: Rig) -> None:
        updf = await rig.hear()
        assert updf.phy() == PHY
        assert (updf.dr, updf.freq_hz) == (5, 868_100_000)
        assert (updf.upinfo.rssi_dbm, updf.upinfo.snr_db) == (-86, 12)
        assert (updf.upinfo.gpstime, updf.upinfo.fts, updf.upinfo.rctx) == (0, -1, 0)
        assert 1_795_188_057.5 < updf.ref_time < 1_795_188_058.5
        assert split(updf.upinfo.xtime).session != 0
        assert rig.station.xtime_now() - updf.upinfo.xtime < 100_000

    play(scene)


def test_the_clock_of_a_station_is_its_own() -> None:
    async def scene(rig: Rig) -> None:
        await asyncio.sleep(0.02)
        await rig.tell('{"msgtype":"getxtime"}')
        before = rig.station.xtime_now()
        assert split(before).counter_us >= 5_000
        await asyncio.sleep(100)
        assert rig.station.xtime_now() - before == 100 * S + 2_000

    rig = play(scene, ppm=20, offset_us=5_000)
    (report,) = (parse_up(t) for _, t in rig.told if '"getxtime"' in t)
    assert isinstance(report, XtimeReport)
    assert report.xtimes[0] > 0


def test_a_configured_station_has_forgotten_its_clock_for_a_moment() -> None:
    async def scene(rig: Rig) -> None:
        assert not rig.station.clock.is_told
        await rig.tell('{"msgtype":"getxtime"}')
        assert not rig.station.clock.is_told
        await asyncio.sleep(0.02)
        await rig.tell('{"msgtype":"getxtime"}')
        assert rig.station.clock.is_told
        await rig.tell(CONFIG)
        await rig.tell('{"msgtype":"getxtime"}')
        assert not rig.station.clock.is_told

    rig = play(scene)
    reports = [parse_up(text) for _, text in rig.told if '"getxtime"' in text]
    shown = [report.xtimes[0] > 0 for report in reports if isinstance(report, XtimeReport)]
    assert shown == [False, True, False]


def test_the_better_of_two_copies_of_one_poll_is_told() -> None:
    async def scene(rig: Rig) -> None:
        for rssi_dbm, snr_db, freq_hz in ((-50, 5.0, 1), (-60, 9.0, 2), (-40, 4.0, 3)):
            rig.station.deliver(PHY, dr=5, freq_hz=freq_hz, rssi_dbm=rssi_dbm, snr_db=snr_db)
        rig.station.deliver(PHY, dr=4, freq_hz=4, rssi_dbm=-90, snr_db=0.0)

    rig = play(scene)
    assert [message["Freq"] for message in rig.messages("updf")] == [2, 4]


def test_a_repetition_is_no_mirror() -> None:
    async def scene(rig: Rig) -> None:
        for _ in range(2):
            rig.station.deliver(PHY, dr=5, freq_hz=1, rssi_dbm=-50, snr_db=5.0)
            await asyncio.sleep(0.5)

    assert len(play(scene).messages("updf")) == 2


def test_an_injected_frame_is_noted_as_a_fault_of_the_air() -> None:
    async def scene(rig: Rig) -> None:
        rig.station.deliver(PHY, dr=5, freq_hz=1, rssi_dbm=5, snr_db=50.0, end_us=now_us() - S)
        rig.station.deliver(PHY, dr=4, freq_hz=1, rssi_dbm=-50, snr_db=5.0, origin="device")

    rig = play(scene)
    kinds = [kind for kind, fields in rig.events if fields.get("seam") == "air"]
    assert kinds == ["fault.begin", "fault.end"]
    upinfo = rig.messages("updf")[0]["upinfo"]
    assert isinstance(upinfo, dict)
    # Kept in an octet each: what does not fit begins again at the other end.
    assert (upinfo["rssi"], upinfo["snr"]) == (-251, -14)


EDGES = [
    (0, 1 * S), (970_000, 1 * S), (980_000, 1 * S), (980_001, 2 * S), (985_000, 2 * S),
    (1_970_000, 2 * S), (1_980_000, 2 * S), (1_980_001, None), (1_985_000, None), (9 * S, None),
]  # fmt: skip


@pytest.mark.parametrize(("reply_us", "start_us"), EDGES)
def test_which_window_a_reply_still_meets(reply_us: int, start_us: int | None) -> None:
    async def scene(rig: Rig) -> None:
        assert rig.server is not None
        rig.station.deliver(PHY, dr=5, freq_hz=868_100_000, rssi_dbm=-50, snr_db=5.0)
        end_us = now_us()
        xtime = rig.station.xtime_now()
        await asyncio.sleep(reply_us / S)
        updf = Dnmsg(
            dev_eui=DEVICE, diid=7, pdu=PDU, xtime=xtime, rx1_dr=5, rx1_freq_hz=868_100_000,
            rx2_dr=0, rx2_freq_hz=869_525_000,
        )  # fmt: skip
        await rig.server.send(dnmsg_text(updf))
        await asyncio.sleep(4)
        assert [h.transmission.start_us - end_us for h in rig.heard] == (
            [] if start_us is None else [start_us]
        )
        told = rig.messages("dntxed")
        assert [message["xtime"] for message in told] == (
            [] if start_us is None else [xtime + start_us]
        )

    rig = play(scene)
    if start_us is not None:
        window = (5, 868_100_000) if start_us == S else (0, 869_525_000)
        (sent,), (told,) = rig.sent, rig.messages("dntxed")
        assert (sent["dr"], sent["freq_hz"]) == (told["DR"], told["Freq"]) == window
        assert told["diid"] == 7


def test_dntxed_is_told_5_ms_after_the_start() -> None:
    async def scene(rig: Rig) -> None:
        updf = await rig.hear()
        await rig.tell(rig.answer(updf))
        await asyncio.sleep(2)
        (at_us,) = (at_us for at_us, text in rig.told if '"dntxed"' in text)
        assert at_us == rig.heard[0].transmission.start_us + 5_000

    play(scene)


@pytest.mark.parametrize(
    ("fields", "starts_s"),
    [
        ({"rx2_dr": None, "rx2_freq_hz": None}, [1]),
        ({"rx1_dr": None, "rx1_freq_hz": None}, [2]),
        ({"rx_delay_s": 0}, [1]),
        ({"rx_delay_s": 5}, [5]),
        ({"xtime": 1}, []),
        ({"rx2_dr": 9}, []),
        ({"rx1_freq_hz": 915_000_000}, []),
        ({"device_class": 1}, []),
    ],
    ids=str,
)
def test_when_a_downlink_is_sent_and_when_not(
    fields: dict[str, object], starts_s: list[int]
) -> None:
    async def scene(rig: Rig) -> None:
        rig.station.deliver(PHY, dr=5, freq_hz=868_100_000, rssi_dbm=-50, snr_db=5.0)
        end_us = now_us()
        await asyncio.sleep(0.1)
        updf = parse_up(rig.told[-1][1])
        assert isinstance(updf, Updf)
        await rig.tell(rig.answer(updf, **fields))
        await asyncio.sleep(8)
        starts_us = [h.transmission.start_us - end_us for h in rig.heard]
        assert starts_us == [start_s * S for start_s in starts_s]

    play(scene)


@pytest.mark.parametrize(
    ("priorities", "order"), [((0, 0), [1, 2]), ((0, 20), [2, 1]), ((5, 0), [1, 2])]
)
def test_of_two_downlinks_at_once_one_goes_to_rx2(
    priorities: tuple[int, int], order: list[int]
) -> None:
    async def scene(rig: Rig) -> None:
        updf = await rig.hear()
        for diid, priority in enumerate(priorities, start=1):
            await rig.tell(rig.answer(updf, diid=diid, priority=priority))
        await asyncio.sleep(3)

    rig = play(scene)
    assert [message["diid"] for message in rig.messages("dntxed")] == order
    assert [sent["dr"] for sent in rig.sent] == [5, 0]


def test_a_third_downlink_at_once_is_dropped() -> None:
    async def scene(rig: Rig) -> None:
        updf = await rig.hear()
        for diid in (1, 2, 3):
            await rig.tell(rig.answer(updf, diid=diid))
        await asyncio.sleep(4)

    assert len(play(scene).messages("dntxed")) == 2


def test_the_duty_cycle_moves_a_downlink_to_rx2_and_then_drops_it() -> None:
    async def scene(rig: Rig) -> None:
        for diid in (1, 2, 3):
            updf = await rig.hear(phy=PHY[:6] + bytes([diid]) + PHY[7:])
            await rig.tell(rig.answer(updf, diid=diid))
            await asyncio.sleep(1.5)
        await asyncio.sleep(3)

    told = play(scene, duty_cycle=True).messages("dntxed")
    assert [(message["diid"], message["DR"]) for message in told] == [(1, 5), (2, 0)]
    assert len(play(scene).messages("dntxed")) == 3


def test_class_c_is_sent_at_once_and_tried_again_while_the_radio_is_busy() -> None:
    async def scene(rig: Rig) -> None:
        class_c = {"device_class": 2, "xtime": 0, "rx1_dr": None, "rx1_freq_hz": None}
        updf = await rig.hear()
        start_us = now_us()
        await rig.tell(rig.answer(updf, diid=1, **class_c))
        await rig.tell(rig.answer(updf, diid=2, **class_c))
        await asyncio.sleep(4)
        starts_us = [h.transmission.start_us - start_us for h in rig.heard]
        assert starts_us[0] == 20_000
        assert 1_011_232 <= starts_us[1] <= 1_150_000

    assert [m["diid"] for m in play(scene).messages("dntxed")] == [1, 2]


def test_class_c_after_an_uplink_takes_rx1_or_goes_at_once() -> None:
    async def scene(rig: Rig) -> None:
        updf = await rig.hear()
        await rig.tell(rig.answer(updf, device_class=2))
        await asyncio.sleep(4)
        updf = await rig.hear()
        await asyncio.sleep(1.2)
        await rig.tell(rig.answer(updf, device_class=2))
        await asyncio.sleep(4)
        await rig.tell(rig.answer(updf, device_class=2, xtime=0))

    assert [sent["dr"] for sent in play(scene).sent] == [5, 0]


def test_a_new_configuration_is_a_new_session_and_old_replies_are_dropped() -> None:
    async def scene(rig: Rig) -> None:
        updf = await rig.hear()
        await rig.tell(CONFIG)
        new = await rig.hear()
        assert split(new.upinfo.xtime).session != split(updf.upinfo.xtime).session
        await rig.tell(rig.answer(updf))
        await asyncio.sleep(3)

    assert play(scene).sent == []


def beacon(rig: Rig, number: int) -> None:
    """Let the station hear a frame that no other is like."""
    phy = PHY[:6] + bytes([number]) + PHY[7:]
    rig.medium.transmit(DEVICE, phy, direction="up", freq_hz=868_100_000, dr=5, power_dbm=14)


def test_frames_wait_for_the_link_and_keep_their_session() -> None:
    async def scene(rig: Rig) -> None:
        before = await rig.hear()
        for wait_s in (1, 2, 4):  # the longest waits come last
            assert rig.server is not None
            rig.server.close()
            await asyncio.sleep(wait_s + 0.1)
        assert rig.server is not None
        rig.server.close()
        await asyncio.sleep(0.01)
        assert not rig.station.connected
        for number in range(70):
            beacon(rig, number)
            await asyncio.sleep(0.1)
        rig.told.clear()
        await asyncio.sleep(20)
        kinds = [json.loads(text)["msgtype"] for _, text in rig.told]
        assert kinds == ["version", *["updf"] * 64]
        after = parse_up(rig.told[1][1])
        assert isinstance(after, Updf)
        assert split(after.upinfo.xtime).session == split(before.upinfo.xtime).session

    rig = play(scene)
    lost = [fields["cause"] for kind, fields in rig.events if kind == "radio.lost"]
    assert lost == ["busy"] * 6


def test_equal_frames_that_wait_are_one() -> None:
    async def scene(rig: Rig) -> None:
        assert rig.server is not None
        rig.server.close()
        for power_dbm in (-100, -50, -90):
            rig.station.deliver(PHY, dr=5, freq_hz=1, rssi_dbm=power_dbm, snr_db=power_dbm / 10)
            await asyncio.sleep(0.2)
        await asyncio.sleep(2)

    (told,) = play(scene).messages("updf")
    upinfo = told["upinfo"]
    assert isinstance(upinfo, dict)
    assert upinfo["rssi"] == -50


def test_where_no_server_is_found_the_radio_stops_and_what_waited_is_lost() -> None:
    tries_us: list[int] = []

    async def scene(rig: Rig) -> None:
        def forgotten() -> None:
            tries_us.append(now_us())

        rig.station._rediscover = forgotten
        assert rig.server is not None
        rig.reachable = False
        rig.server.close()
        beacon(rig, 1)
        await asyncio.sleep(0.5)
        assert rig.station.radio_on
        await asyncio.sleep(1)
        assert not rig.station.radio_on
        beacon(rig, 2)
        await asyncio.sleep(100)
        rig.reachable = True
        rig.told.clear()
        await asyncio.sleep(50)
        assert [json.loads(text)["msgtype"] for _, text in rig.told] == ["version"]

    play(scene)
    waits_s = [round((b - a) / S) for a, b in pairwise(tries_us)]
    # Where it was is tried once, and discovery right after it; then every 10, 20, 30 s …
    assert waits_s == [10, 20, 30, 40]


def test_a_server_is_looked_for_anew_after_five_losses() -> None:
    discoveries: list[int] = []

    async def scene(rig: Rig) -> None:
        rig.station._rediscover = lambda: discoveries.append(len(rig.connected_us))
        for _ in range(7):
            assert rig.server is not None
            rig.server.close()
            await asyncio.sleep(20)

    play(scene)
    assert discoveries == [6]


def test_strength_is_kept_without_its_fraction() -> None:
    async def scene(rig: Rig) -> None:
        rig.station.deliver(PHY, dr=5, freq_hz=1, rssi_dbm=-85, snr_db=-7.4)
        await asyncio.sleep(0.1)

    (told,) = play(scene).messages("updf")
    upinfo = told["upinfo"]
    assert isinstance(upinfo, dict)
    assert (upinfo["rssi"], upinfo["snr"]) == (-85, -7.25)


def test_a_queue_holds_10_kib() -> None:
    async def scene(rig: Rig) -> None:
        assert rig.server is not None
        rig.server.close()
        for number in range(60):
            phy = PHY[:9] + bytes([number]) + bytes(190)
            rig.station.deliver(phy, dr=5, freq_hz=1, rssi_dbm=-50, snr_db=5.0)
        await asyncio.sleep(2)

    assert len(play(scene).messages("updf")) == 10_240 // 200


def test_a_version_names_firmware_package_and_features() -> None:
    (told,) = play(nothing).messages("version")
    assert list(told) == list(RECORDED_VERSION)
    assert told["firmware"] == told["package"] == "lorabench 1.0"
    assert told["features"] == "rmtsh"
    (told,) = play(nothing, gps_start_us=7).messages("version")
    assert told["features"] == "rmtsh gps"


def test_a_clock_is_told_in_microseconds_of_the_host() -> None:
    async def scene(rig: Rig) -> None:
        await asyncio.sleep(3)
        await rig.tell('{"msgtype":"getxtime","MuxTime":1795188060.5}')

    (told,) = play(scene).messages("getxtime")
    assert list(told) == ["msgtype", "MuxTime", "ustime", "UTCtime", "xtimes"]
    assert told["MuxTime"] == 1_795_188_060.5
    up_us, utc_us, xtimes = told["ustime"], told["UTCtime"], told["xtimes"]
    assert isinstance(up_us, int)
    assert isinstance(utc_us, int)
    assert isinstance(xtimes, list)
    assert up_us > 3 * S
    assert utc_us == 1_795_188_060_500_000
    assert len(xtimes) == 4
    assert xtimes[1:] == [0, 0, 0]


@pytest.mark.parametrize(
    ("late_s", "gps_us", "known_us"),
    [
        (0.0, 0, 0),
        (0.0, 400_000, 0),
        (0.0, 5 * S, 5 * S),
        (2.5, 0, None),
    ],
)
def test_which_second_it_is_a_station_with_gps_asks_its_server(
    late_s: float, gps_us: int, known_us: int | None
) -> None:
    """`gps_us`: how wrong the server is; a receiver needs it for the number of the second only."""
    start_us = 1_479_226_436 * S

    async def scene(rig: Rig) -> None:
        before = await rig.hear()
        assert before.upinfo.gpstime == 0
        asked = rig.messages("timesync")[-1]["txtime"]
        assert isinstance(asked, int)
        await asyncio.sleep(late_s)
        told = {"msgtype": "timesync", "txtime": asked, "gpstime": start_us + asked + gps_us}
        await rig.tell(json.dumps(told))
        heard = await rig.hear(phy=PHY[:6] + b"\x07" + PHY[7:])
        ended_us = rig.station.clock.time_us(heard.upinfo.xtime)
        assert ended_us is not None
        right_us = start_us + ended_us
        assert heard.upinfo.gpstime == (0 if known_us is None else right_us + known_us)

    play(scene, gps_start_us=start_us)


def test_pulses_come_in_bursts_of_ten_until_one_is_answered() -> None:
    async def scene(rig: Rig) -> None:
        await asyncio.sleep(12)

    rig = play(scene, gps_start_us=1)
    asked_us = [at_us for at_us, text in rig.told if '"timesync"' in text]
    apart_ms = [(b - a) // 1000 for a, b in pairwise(asked_us)]
    assert apart_ms[:10] == [*[71] * 9, 5_000]
    assert not play(scene).messages("timesync")


@pytest.mark.parametrize("number", range(len(RECORDED["injected"])))
def test_a_frame_is_told_as_a_real_station_told_it(number: int) -> None:
    phy = bytes.fromhex(RECORDED["injected"][number]["phy"])
    told = wire.frame_told(phy, dr=5, freq_hz=868_100_000, heard=HEARD, ref_time=1.5)
    same = [m for m in UPLINKS if told is not None and spelled(m) == spelled(json.loads(told))]
    reported = [m for m in UPLINKS if bytes_of(m) == phy]
    assert bool(same) is bool(reported)
    if told is not None and same:
        assert list(json.loads(told)) == list(same[0])
        assert list(json.loads(told)["upinfo"]) == list(same[0]["upinfo"])


def test_a_downlink_that_a_real_station_took_is_understood() -> None:
    orders = [m["msg"] for m in RECORDED["messages"] if m["msg"].get("msgtype") == "dnmsg"]
    assert len(orders) > 40
    for order in orders:
        wanted = wire.wanted(order)
        assert wanted is not None
        assert wanted.rx1 == (order["RX1DR"], order["RX1Freq"])
        assert wanted.rx2 == (order["RX2DR"], order["RX2Freq"])
        assert wanted.pdu == bytes.fromhex(order["pdu"])
        assert (wanted.xtime, wanted.diid) == (order["xtime"], order["diid"])
    sent = [m["msg"] for m in RECORDED["messages"] if m["msg"].get("msgtype") == "dntxed"]
    wanted = wire.wanted({**orders[0], "diid": sent[0]["diid"]})
    assert wanted is not None
    told = wire.sent_told(
        wanted,
        dr=sent[0]["DR"],
        freq_hz=sent[0]["Freq"],
        xtime=sent[0]["xtime"],
        up_us=round(sent[0]["txtime"] * 1_000_000),
        gpstime=0,
    )
    assert told is not None
    assert list(json.loads(told).items()) == list(sent[0].items())


@pytest.mark.parametrize(
    "wrong",
    [
        {"RX1DR": None},
        {"RX2Freq": "869525000"},
        {"RX2Freq": 869_525_000.0},
        {"RxDelay": 16},
        {"diid": "7"},
        {"dC": 3},
        {"dC": None},
        {"pdu": "6"},
        {"pdu": "60" * 256},
        {"DevEui": "00-01"},
        {"priority": 256},
        {"RX1DR": None, "RX1Freq": None, "RX2DR": None, "RX2Freq": None},
    ],
    ids=str,
)
def test_one_wrong_field_spoils_a_downlink(wrong: dict[str, object]) -> None:
    order = next(m["msg"] for m in RECORDED["messages"] if m["msg"].get("msgtype") == "dnmsg")
    assert wire.wanted({**order, **wrong}) is None


def test_connections_are_tried_after_1_2_4_8_16_and_0_seconds() -> None:
    async def scene(rig: Rig) -> None:
        ended_us = []
        for _ in range(7):
            assert rig.server is not None
            ended_us.append(now_us())
            rig.server.close()
            await asyncio.sleep(20)
        waits_us = zip(rig.connected_us[1:], ended_us, strict=True)
        assert [start - end for start, end in waits_us] == [s * S for s in (1, 2, 4, 8, 16, 0, 1)]

    play(scene)


@pytest.mark.parametrize("reachable", [False, True])
def test_a_restart_forgets_everything_and_connects_at_once(reachable: bool) -> None:
    async def scene(rig: Rig) -> None:
        assert rig.server is not None
        updf = await rig.hear()
        await rig.tell(rig.answer(updf))
        if not reachable:
            rig.reachable = False
            rig.server.close()
            await asyncio.sleep(20)
            rig.reachable = True
        connections = len(rig.connected_us)
        rig.station.restart()
        assert not rig.station.radio_on
        await asyncio.sleep(0.01)
        assert len(rig.connected_us) == connections + 1
        await rig.tell(CONFIG)
        assert (await rig.hear()).upinfo.xtime >> 48 != updf.upinfo.xtime >> 48
        await asyncio.sleep(3)

    assert len(play(scene).sent) == (1 if not reachable else 0)


@pytest.mark.parametrize("fields", [{"hwspec": "sx1301/2"}, {"sx1301_conf": []}])
def test_a_configuration_for_another_radio_ends_the_connection(fields: dict[str, object]) -> None:
    async def scene(rig: Rig) -> None:
        await rig.tell(json.dumps({**router_config(EU868), **fields}))
        assert not rig.station.connected

    play(scene, configured=False)


@pytest.mark.parametrize(
    "fields",
    [{"region": "XX"}, {"freq_range": None}, {"DRs": None}, {"DRs": [[-1, 0, 0], 5, []]}],
)
def test_without_a_usable_plan_no_downlink_is_sent(fields: dict[str, object]) -> None:
    async def scene(rig: Rig) -> None:
        await rig.tell(json.dumps({**router_config(EU868), **fields}))
        updf = await rig.hear()
        await rig.tell(rig.answer(updf))
        await asyncio.sleep(3)

    assert play(scene, configured=False).sent == []


def test_power_is_higher_in_the_band_of_rx2() -> None:
    async def scene(rig: Rig) -> None:
        updf = await rig.hear()
        await rig.tell(rig.answer(updf))
        await rig.tell(rig.answer(updf))
        await asyncio.sleep(4)
        assert [heard.rssi_dbm for heard in rig.heard] == [-84, -73]

    play(scene)


def test_a_station_switched_off_hears_nothing() -> None:
    rig = play(nothing)
    assert not rig.station.radio_on
    assert not rig.station.connected
