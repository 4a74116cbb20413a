"""The processes of an emulated lab together: stations, boards, the air, and how all of it ends."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from bench.cli.program import main
from bench.host.program import STALLED_US, free_port
from bench.lab.basicstation_host import health
from bench.lab.inventory import load
from bench.virtual.lab.emulated_lab import BOARDS, STATIONS, EmulatedLab, LabRuns
from bench.virtual.lab.lab_folder import ControlRefused, ask
from lns.lorawan.frame import MType, build_data
from lns.lorawan.region import EU868
from lns.station.messages import router_config
from tests.bench.virtual.wiring import ABP, ATTEMPTS_MAX, BANNER, DEV_ADDR, KEYS, SOON, Terminal
from tests.host_time import coreless_us
from tests.looped import on_a_loop

PLAY_S = 120
WEST, EAST = "16:c001:f150:1", "16:c001:f150:2"


class NetworkServer:
    """Tells stations where to connect, configures them, and acknowledges by one of them."""

    def __init__(self, port: int) -> None:
        self.uri = f"ws://127.0.0.1:{port}"
        self.said: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()
        self.links: dict[str, ServerConnection] = {}
        self.answers_by = WEST

    async def serve(self, link: ServerConnection) -> None:
        assert link.request is not None
        path = link.request.path
        if path == "/router-info":
            router = json.loads(await link.recv())["router"]
            await link.send(json.dumps({"router": router, "uri": f"{self.uri}/{router}"}))
            return
        router = path[1:]
        self.links[router] = link
        with suppress(ConnectionClosed):
            async for text in link:
                message = json.loads(text)
                if message["msgtype"] == "version":
                    await link.send(json.dumps(router_config(EU868)))
                if message["msgtype"] == "updf" and message["MHdr"] == 128:
                    await self.acknowledge(router, message)
                self.said.put_nowait((router, message))
        self.said.put_nowait((router, {"msgtype": "gone"}))

    async def acknowledge(self, router: str, updf: dict[str, Any]) -> None:
        if router != self.answers_by:
            return
        phy = build_data(
            MType.UNCONFIRMED_DOWN, dev_addr=DEV_ADDR, f_cnt=updf["FCnt"], keys=KEYS, ack=True
        )
        dnmsg = {
            "msgtype": "dnmsg", "DevEui": "AC-1F-09-FF-FE-00-00-01", "dC": 0, "diid": 7,
            "pdu": phy.hex(), "RxDelay": 1, "RX1DR": updf["DR"], "RX1Freq": updf["Freq"],
            "priority": 1, "xtime": updf["upinfo"]["xtime"], "rctx": updf["upinfo"]["rctx"],
        }  # fmt: skip
        await self.links[router].send(json.dumps(dnmsg))

    async def until(self, *wanted: tuple[str, str]) -> list[dict[str, Any]]:
        """The messages of these stations and types, whatever else comes."""
        found: dict[tuple[str, str], dict[str, Any]] = {}
        async with asyncio.timeout(60):
            while set(wanted) - set(found):
                router, message = await self.said.get()
                found[router, message["msgtype"]] = message
        return [found[key] for key in wanted]


Scene = Callable[[EmulatedLab, NetworkServer], Coroutine[Any, Any, None]]


def play(folder: Path, scene: Scene) -> None:
    """Play with one board and two stations; once more where it goes wrong on a host that is late.

    A board misses its windows then.
    """
    for attempt in range(ATTEMPTS_MAX):
        waited_us: list[int] = []
        try:
            return asyncio.run(_staged(folder.with_name(f"lab-{attempt}"), scene, waited_us))
        except (AssertionError, TimeoutError, ExceptionGroup):
            if max(waited_us, default=0) < STALLED_US or attempt == ATTEMPTS_MAX - 1:
                raise


async def _staged(folder: Path, scene: Scene, waited_us: list[int]) -> None:
    port = free_port()
    server = NetworkServer(port)
    async with (
        asyncio.timeout(PLAY_S),
        serve(server.serve, "127.0.0.1", port),
        EmulatedLab(folder, server.uri, boards=BOARDS[:1]) as lab,
    ):
        try:
            await server.until((WEST, "version"), (EAST, "version"))
            await scene(lab, server)
        finally:
            waited_us += [coreless_us(str(pid)) for pid in (os.getpid(), *alive(folder))]


async def ready_board(lab: EmulatedLab) -> Terminal:
    board = Terminal.at(lab.folder / "dev" / "dut")
    await board.until(BANNER)
    await board.set(*SOON, *ABP)
    return board


def test_two_stations_hear_a_board_and_one_answers_it(tmp_path: Path) -> None:
    async def scene(lab: EmulatedLab, server: NetworkServer) -> None:
        board = await ready_board(lab)
        await board.set("AT+CFM=1")
        assert await board.ask("AT+SEND=2:01") == "OK\r\n"
        west, east, sent = await server.until((WEST, "updf"), (EAST, "updf"), (WEST, "dntxed"))
        assert (west["MIC"], west["upinfo"]["rssi"]) == (east["MIC"], -64)
        assert sent["diid"] == 7
        assert await board.until(b"\r\n") == b"+EVT:SEND_CONFIRMED_OK\r\n"
        for name in ("west", "east"):
            started = health((lab.folder / name / "log").read_text().splitlines())
            assert started.is_healthy and started.duty_cycle_off, started
        await ask(lab.folder, "attenuate", "west", "90")
        await ask(lab.folder, "deaf", "east")
        await board.set("AT+CFM=0")
        await board.ask("AT+SEND=2:02")
        await board.until(b"+EVT:TX_DONE\r\n")
        await ask(lab.folder, "attenuate", "west", "70")
        await board.ask("AT+SEND=2:03")
        [heard] = await server.until((WEST, "updf"))
        assert (heard["FCnt"], heard["upinfo"]["rssi"]) == (3, -114)
        assert server.said.empty()  # neither had heard the second, nor the other one the third
        board.close()

    play(tmp_path / "lab", scene)


def test_a_killed_station_is_gone_and_comes_back_with_another_session(tmp_path: Path) -> None:
    async def scene(lab: EmulatedLab, server: NetworkServer) -> None:
        board = await ready_board(lab)
        await board.ask("AT+SEND=2:01")
        [before] = await server.until((WEST, "updf"))
        await board.until(b"+EVT:TX_DONE\r\n")
        await ask(lab.folder, "kill-station", "west")
        await server.until((WEST, "gone"))
        await ask(lab.folder, "start-station", "west")
        await server.until((WEST, "version"))
        await board.ask("AT+SEND=2:02")
        [after] = await server.until((WEST, "updf"))
        assert before["upinfo"]["xtime"] >> 48 != after["upinfo"]["xtime"] >> 48
        log = (lab.folder / "west" / "log").read_text()
        for marker in ("Station EUI : 16:c001:f150:1", "Infos: 16:c001:f150:1", "Concentrator st"):
            assert log.count(marker) == 2
        board.close()

    play(tmp_path / "lab", scene)


def test_a_station_without_power_does_not_hang_up(tmp_path: Path) -> None:
    async def scene(lab: EmulatedLab, server: NetworkServer) -> None:
        board = await ready_board(lab)
        await ask(lab.folder, "power-off", "west")
        await board.ask("AT+SEND=2:01")
        await server.until((EAST, "updf"))
        await board.until(b"+EVT:TX_DONE\r\n")
        assert server.said.empty()  # neither a frame from the west nor its end
        await ask(lab.folder, "power-on", "west")
        await server.until((WEST, "gone"), (WEST, "version"))
        await board.ask("AT+SEND=2:02")
        await server.until((WEST, "updf"))
        board.close()

    play(tmp_path / "lab", scene)


def test_a_bench_toml_describes_it_and_its_switches_work(tmp_path: Path) -> None:
    async def scene(lab: EmulatedLab, server: NetworkServer) -> None:
        bench = load(lab.bench_toml)
        assert [device.name for device in bench.devices] == ["dut"]
        assert [gateway.name for gateway in bench.gateways] == ["west", "east"]
        radio = bench.radios[0]
        assert radio.port and radio.power and radio.reset
        board = Terminal.at(Path(radio.port))
        await board.until(BANNER)
        await run(bench.power(radio.reset).settings()["cycle"])
        await board.until(BANNER)
        await run(bench.power(radio.power).settings()["off"])
        await board.end()
        assert "dut" not in os.listdir(lab.folder / "dev")
        await run(bench.power(radio.power).settings()["on"])
        again = Terminal.at(Path(radio.port))
        await again.until(BANNER)
        assert bench.gateways[0].restart is not None
        await run(bench.gateways[0].restart)
        await server.until((WEST, "gone"), (WEST, "version"))
        board.close()
        again.close()

    play(tmp_path / "lab", scene)


async def run(words: Any) -> None:
    process = await asyncio.create_subprocess_exec(*words)
    assert await process.wait() == 0


@on_a_loop
async def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    async with EmulatedLab(folder, "ws://127.0.0.1:9", boards=BOARDS[:1], stations=()) as lab:
        for verb, name, why in (
            ("unplug", "nobody", "there is no 'nobody' here, only dut"),
            ("kill-station", "dut", "dut is a board; kill-station is not for it"),
            ("attenuate", "dut", "'' is no attenuation in dB"),
        ):
            with pytest.raises(ControlRefused, match=why):
                await ask(lab.folder, verb, name)
        with pytest.raises(LabRuns, match="end it, or take another folder"):
            await EmulatedLab(folder, "ws://127.0.0.1:9").start()
        assert (folder / "dev" / "dut").exists()  # the first one goes on


def alive(folder: Path) -> list[int]:
    """The processes that have this folder in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if str(folder).encode() in words and state != "Z":
                found.append(int(entry.name))
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_when_the_lab_ends(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "lab"
    command = [sys.executable, "-m", "bench", "emulate", "--folder", str(folder)]
    command += ["--tap", f"127.0.0.1:{free_port()}"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as lab:
        assert lab.stdout is not None
        assert lab.stdout.readline().strip() == str(folder / "bench.toml")
        assert len(alive(folder)) == 2 + len(BOARDS) + len(STATIONS)  # and the air
        if number is signal.SIGINT:
            os.killpg(lab.pid, number)  # as a terminal does it
        else:
            lab.send_signal(number)
        assert lab.wait(20) == (-number if number is signal.SIGKILL else 0)
    deadline = asyncio.run(until_gone(folder))
    assert not deadline
    if number is not signal.SIGKILL:
        assert os.listdir(folder / "dev") == []


async def until_gone(folder: Path) -> list[int]:
    for _ in range(100):
        if not (left := alive(folder)):
            return []
        await asyncio.sleep(0.05)
    return left


def test_without_the_air_the_lab_ends_and_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    command = [sys.executable, "-m", "bench", "emulate", "--folder", str(folder)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as lab:  # type: ignore[call-overload]
        assert lab.stdout and lab.stderr
        lab.stdout.readline()
        air = next(
            pid for pid in alive(folder)
            if b"bench.virtual.lab.air_process" in Path(f"/proc/{pid}/cmdline").read_bytes()
        )  # fmt: skip
        os.kill(air, signal.SIGKILL)
        assert lab.wait(20) == 12
        assert "the air ended by signal 9" in lab.stderr.read()
    assert not asyncio.run(until_gone(folder))


def test_mistakes_at_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["unplug", "dut"], "something is done with --control and the lab's folder"),
        (["--tap", "127.0.0.1:0"], "it is a host and a port"),
        (["--control", str(tmp_path), "explode", "dut"], "--control takes a verb and a name"),
        (["--control", str(tmp_path), "unplug", "dut"], f"nothing runs in {tmp_path}"),
    ):
        assert main(["emulate", *words]) == 4
        assert said in capsys.readouterr().err
