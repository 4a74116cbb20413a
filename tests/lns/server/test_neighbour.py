"""One bad peer never costs another: what a neighbour waits while somebody attacks the server.

The server is a process, the neighbour another one, the attacker this one. A neighbour's p99 from
`updf` to `dnmsg` stays below 100 ms, not counting for how long the host had no core for the server
or the neighbour: that is the fault of other work on the host. A processor that takes longer for
everything, because somebody else has the other half of its core, makes the limit longer as well.
"""

import asyncio
import json
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from paho.mqtt.client import Client, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion

from bench.chance import stream
from bench.host.lns_files import CLIENT, Authority, write_server_files, write_station_files
from bench.virtual.lorawan.join_frames import join_request
from lns.clock import now_us
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.identifiers import DevAddr, Eui
from lns.station.messages import UpInfo
from lns.station.protocol import LinkClosed
from tests.broker import Mosquitto
from tests.host_time import slowness
from tests.lns.served_network import APP_KEY, EAST, JOIN_EUI, WEST, uplink
from tests.lns.server.basics_station import CLOSE, BasicsStation, StationSocket, UpgradeRefused
from tests.lns.test_running import DEVICES, LNS, ROOT, Process, running
from tests.sizes import size
from tests.station_texts import frame_text

pytestmark = pytest.mark.xdist_group("neighbour")

LIMIT_US = 100_000
ATTACK_US = size(700_000, 1_200_000)
ATTEMPTS = 5
CALM_US, CALM_TRIES = 20_000, 25
AUTHORITY = Authority()
BETA = DevAddr("01ABCDE0")
BETA_KEYS = SessionKeys(bytes(range(16)), bytes(range(16, 32)))
CROWD = DevAddr("0BADADD0")
CROWD_DEVICES = 1000
GAMMA = Eui("70B3D57ED0000003")


@dataclass(frozen=True)
class Figures:
    """What a neighbour measured over some time; see `tests.lns.server.neighbour`."""

    waits_us: list[int]
    served_us: list[int]

    def __str__(self) -> str:
        served, waited = p99(self.served_us) / 1000, p99(self.waits_us) / 1000
        return f"{served:.1f} ms ({waited:.1f} on the wall) of {len(self.waits_us)}"


def p99(values: list[int]) -> int:
    return sorted(values)[-(-99 * len(values) // 100) - 1]


class Neighbour:
    """The process of `tests.lns.server.neighbour`."""

    def __init__(self, process: Process, folder: Path | None) -> None:
        command = [sys.executable, "-m", "tests.lns.server.neighbour"]
        command += [str(process.popen.pid), process.tc_uri]
        if folder is not None:
            AUTHORITY.client(EAST).write(folder, "east")
            files = ("stations-ca.crt", "east.crt", "east.key")
            command += [str(folder / file) for file in files]
        pipe = subprocess.PIPE
        self.popen = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)

    def figures(self) -> Figures:
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None
        self.popen.stdin.write("\n")
        self.popen.stdin.flush()
        return Figures(**json.loads(self.popen.stdout.readline()))

    def until_it_measures(self) -> None:
        while not self.figures().waits_us:
            assert self.popen.poll() is None

    def end(self) -> None:
        self.popen.kill()
        self.popen.communicate()


@dataclass(frozen=True)
class Scene:
    """A server with a neighbour, and what an attacker needs to know of them."""

    process: Process
    neighbour: Neighbour
    folder: Path
    cups_port: int = 0

    @property
    def port(self) -> int:
        return int(self.process.tc_uri.rpartition(":")[2])

    def tls(self, name: str = WEST, by: Authority = AUTHORITY) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=AUTHORITY.certificate.decode())
        by.issue([name], usages=[CLIENT]).write(self.folder, "attacker")
        context.load_cert_chain(self.folder / "attacker.crt", self.folder / "attacker.key")
        return context

    async def station(self) -> BasicsStation:
        station = BasicsStation(WEST, self.process.tc_uri, context=self.tls())
        await station.connect()
        await station.until_configured()
        return station


def devices() -> str:
    def abp(name: str, number: int, dev_addr: str, keys: SessionKeys) -> str:
        return (
            f'[[device]]\nname = "{name}"\ndev_eui = "{number:016X}"\nactivation = "abp"\n'
            f'dev_addr = "{dev_addr}"\nnwk_s_key = "{keys.nwk_s_key.hex()}"\n'
            f'app_s_key = "{keys.app_s_key.hex()}"\n'
        )

    chance = stream(7, "neighbour", "keys")
    crowd = (
        abp(f"crowd-{n}", n, CROWD, SessionKeys(chance.randbytes(16), chance.randbytes(16)))
        for n in range(1, CROWD_DEVICES + 1)
    )
    gamma = (
        f'[[device]]\nname = "gamma"\ndev_eui = "{GAMMA}"\nactivation = "otaa"\n'
        f'join_eui = "{JOIN_EUI}"\napp_key = "{APP_KEY.hex()}"\n'
    )
    return DEVICES + abp("beta", 0x70B3D57ED0000002, BETA, BETA_KEYS) + gamma + "".join(crowd)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A server with everything that a station can meet: certificates, CUPS, a capture."""
    folder = tmp_path_factory.mktemp("lns")
    write_server_files(folder, AUTHORITY, "127.0.0.1")
    home, client = folder / "stations" / EAST, AUTHORITY.client(EAST)
    write_station_files(home, "tc", "wss://a:1", trust=AUTHORITY.certificate, client=client)
    (folder / "devices.toml").write_text(devices())
    tls = '[tls]\ncert = "server.crt"\nkey = "server.key"\nclient_ca = "stations-ca.crt"\n'
    cups = '[cups]\nlisten = "127.0.0.1:0"\ncredentials = "stations"\n'
    (folder / "lns.toml").write_text(LNS + tls + cups)
    with ExitStack() as stack:
        stderr = (folder / "log").open("w")
        stack.callback(stderr.close)
        process = stack.enter_context(running(folder / "lns.toml", stderr=stderr))
        neighbour = Neighbour(process, folder)
        stack.callback(neighbour.end)
        neighbour.until_it_measures()
        told = (folder / "log").read_text().partition("CUPS: listening https://127.0.0.1:")[2]
        yield Scene(process, neighbour, folder, int(told.partition("/")[0]))


def text_of(station: BasicsStation, phy: bytes, *, xtime: int | None = None) -> str:
    upinfo = UpInfo(xtime=station.xtime_now() if xtime is None else xtime, rssi_dbm=-71, snr_db=9.5)
    text = frame_text(phy, dr=5, freq_hz=868_100_000, upinfo=upinfo)
    assert text is not None
    return text


async def send(station: BasicsStation, texts: Callable[[int], str], count: int) -> None:
    """As fast as the server reads; what it answers is read and thrown away."""
    assert station.socket is not None
    socket = station.socket
    reading = asyncio.create_task(station.run())
    with suppress(ConnectionError, TimeoutError):
        for number in range(count):
            socket.send_text(texts(number))
            if number % 50 == 49:
                await socket.writer.drain()
                await asyncio.sleep(0)
        socket.send_frame(CLOSE, (1000).to_bytes(2, "big"))
        await reading
    reading.cancel()


HELLO = b"\x16\x03\x01\x00\xf0\x01\x00\x00\xec\x03\x03" + bytes(32)


async def half_handshakes(port: int) -> None:
    opened = []
    for _ in range(400):
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HELLO)
            opened.append(writer)
    for writer in opened:
        writer.transport.abort()


async def half_handshakes_with_the_server(scene: Scene) -> None:
    await half_handshakes(scene.port)


async def half_handshakes_with_cups(scene: Scene) -> None:
    await half_handshakes(scene.cups_port)


async def certificates_of_others(scene: Scene) -> None:
    """Good ones of a wrong name, and those of another authority, as fast as they are refused."""
    contexts = [scene.tls("gateway-7"), scene.tls(WEST, by=Authority("other")), scene.tls(WEST)]

    async def come(context: ssl.SSLContext) -> None:
        with suppress(UpgradeRefused, OSError, EOFError):
            uri = f"{scene.process.tc_uri}/router/{EAST}"
            await StationSocket.open(uri, context=context)

    for _ in range(20):
        await asyncio.gather(*map(come, contexts))


async def keys_of_others_from_cups(scene: Scene) -> None:
    context = scene.tls(WEST)
    body = json.dumps({"router": EAST, "cupsCredCrc": 0, "tcCredCrc": 0}).encode()
    head = f"POST /update-info HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    for _ in range(40):
        reader, writer = await asyncio.open_connection("127.0.0.1", scene.cups_port, ssl=context)
        writer.write(head + body)
        assert (await reader.read()).startswith(b"HTTP/1.1 403 ")
        writer.close()


async def stations_that_say_nothing(scene: Scene) -> None:
    context = scene.tls()
    opened = []
    for _ in range(60):
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", scene.port, ssl=context)
            opened.append(writer)
    for writer in opened:
        writer.transport.abort()


async def a_station_that_comes_and_goes(scene: Scene) -> None:
    for _ in range(40):
        station = BasicsStation(WEST, scene.process.tc_uri, context=scene.tls())
        await station.connect()
        assert station.socket is not None
        station.socket.reset()


async def forged_frames(scene: Scene) -> None:
    chance = stream(7, "neighbour", "forged")
    station = await scene.station()
    phy = uplink(9)

    def forged(number: int) -> str:
        return text_of(station, phy[:-4] + chance.randbytes(4))

    await send(station, forged, 12_000)


async def frames_for_a_thousand_devices(scene: Scene) -> None:
    station = await scene.station()
    keys = SessionKeys(bytes(16), bytes(16))

    def for_all(number: int) -> str:
        return text_of(station, uplink(number, dev_addr=CROWD, keys=keys))

    await send(station, for_all, 100)


async def an_old_frame_again_and_again(scene: Scene) -> None:
    station = await scene.station()

    def old(number: int) -> str:
        f_cnt = 20_001 if number == 0 else 0
        return text_of(station, uplink(f_cnt, confirmed=True, dev_addr=BETA, keys=BETA_KEYS))

    await send(station, old, 2000)


async def uplinks_without_a_clock(scene: Scene) -> None:
    station = await scene.station()

    def timeless(number: int) -> str:
        phy = uplink(number + 1, confirmed=True, dev_addr=BETA, keys=BETA_KEYS)
        return text_of(station, phy, xtime=0)

    await send(station, timeless, 2000)


async def joins_that_nobody_heard(scene: Scene) -> None:
    station = await scene.station()

    def join(number: int) -> str:
        phy = join_request(APP_KEY, join_eui=JOIN_EUI, dev_eui=GAMMA, dev_nonce=number // 2)
        return text_of(station, phy)

    await send(station, join, 1000)


async def hostile_json(scene: Scene) -> None:
    station = await scene.station()
    texts = ["[" * 60_000, '{"a":' * 10_000, '{"msgtype":"updf","a":' + "[" * 50_000, "{" * 60_000]
    await send(station, lambda number: texts[number % len(texts)], 200)


async def a_station_that_reads_nothing(scene: Scene) -> None:
    station = await scene.station()
    assert station.socket is not None
    socket = station.socket
    socket.writer.transport.pause_reading()  # type: ignore[attr-defined]
    with suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(ATTACK_US / 1_000_000):
            while True:
                for _ in range(200):
                    socket.send_text('{"msgtype":"timesync","txtime":1}')
                await socket.writer.drain()
                await asyncio.sleep(0)
    socket.reset()


Attack = Callable[[Scene], Awaitable[None]]
ATTACKS: list[Attack] = [
    half_handshakes_with_the_server,
    half_handshakes_with_cups,
    certificates_of_others,
    keys_of_others_from_cups,
    stations_that_say_nothing,
    a_station_that_comes_and_goes,
    forged_frames,
    frames_for_a_thousand_devices,
    an_old_frame_again_and_again,
    uplinks_without_a_clock,
    joins_that_nobody_heard,
    hostile_json,
    a_station_that_reads_nothing,
]


async def _attacked(scene: Scene, attack: Attack) -> Figures:
    """What the neighbour measured while somebody attacked, once an earlier attack is over."""
    for _ in range(CALM_TRIES):
        await asyncio.sleep(0.2)
        before = await asyncio.to_thread(scene.neighbour.figures)
        if before.served_us and max(before.served_us) < CALM_US:
            break
    end_us = now_us() + ATTACK_US
    while now_us() < end_us:
        with suppress(LinkClosed):
            await attack(scene)
    attacked = await asyncio.to_thread(scene.neighbour.figures)
    await StationSocket.reset_all()
    return attacked


def check(scene: Scene, attack: Attack) -> None:
    """The neighbour's p99 is within the limit, in one of some attempts: a host may stall."""
    told = []
    for _ in range(ATTEMPTS):
        before = slowness()
        attacked = asyncio.run(_attacked(scene, attack))
        times = max(before, slowness())
        told.append(
            f"{attack.__name__}: p99 {attacked} uplinks, on a host {times:.1f} times slower"
        )
        print(told[-1])
        if p99(attacked.served_us) < LIMIT_US * times:
            return
    pytest.fail("\n".join(told))


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_neighbour_is_answered_while_somebody_attacks(scene: Scene, attack: Attack) -> None:
    check(scene, attack)


@pytest.fixture
def broker_scene(tmp_path: Path) -> Iterator[tuple[Scene, Mosquitto]]:
    broker = Mosquitto(tmp_path).start()
    (tmp_path / "devices.toml").write_text(DEVICES)
    (tmp_path / "lns.toml").write_text(f'{LNS}[upstream]\nurl = "{broker.url}"\n')
    with ExitStack() as stack:
        stack.callback(broker.stop)
        process = stack.enter_context(running(tmp_path / "lns.toml"))
        neighbour = Neighbour(process, None)
        stack.callback(neighbour.end)
        neighbour.until_it_measures()
        yield Scene(process, neighbour, tmp_path), broker


@pytest.mark.broker
def test_a_neighbour_is_answered_while_somebody_publishes_megabytes(
    broker_scene: tuple[Scene, Mosquitto],
) -> None:
    scene, broker = broker_scene
    client = Client(CallbackAPIVersion.VERSION2, "stranger", protocol=MQTTv5)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    topic = "lorawan/lns-a/70B3D57ED0000001/down"

    async def megabytes(scene: Scene) -> None:
        sent = client.publish(topic, bytes(60_000_000), qos=1)
        await asyncio.to_thread(sent.wait_for_publish, 20)

    check(scene, megabytes)
    client.disconnect()
    client.loop_stop()


def test_a_neighbour_is_answered_while_the_disk_of_the_capture_is_full(tmp_path: Path) -> None:
    (tmp_path / "devices.toml").write_text(DEVICES)
    (tmp_path / "lns.toml").write_text(LNS)
    (tmp_path / "var").mkdir()
    (tmp_path / "var" / "lns-a.jsonl").symlink_to("/dev/full")

    async def nothing(scene: Scene) -> None:
        await asyncio.sleep(0.2)

    with running(tmp_path / "lns.toml") as process:
        neighbour = Neighbour(process, None)
        try:
            neighbour.until_it_measures()
            check(Scene(process, neighbour, tmp_path), nothing)
        finally:
            neighbour.end()
