"""A network server as a process: started, killed, paused, and back on the same port."""

import asyncio
import os
import signal
import stat
from pathlib import Path

import pytest

from bench.host.lns_process import LnsProcess
from bench.host.program import ProgramDied
from bench.station import LinkClosed
from bench.station.web_socket import StationLinks, discover
from lns.lorawan.identifiers import Eui
from lns.station.spelling import version_text
from tests import forked
from tests.looped import on_a_loop

WEST = Eui("0016C001F1500001")
KEY = "00112233445566778899AABBCCDDEEFF"
ALPHA = {
    "name": "alpha",
    "dev_eui": "70B3D57ED0000001",
    "activation": "abp",
    "dev_addr": "01ABCDEF",
    "nwk_s_key": KEY,
    "app_s_key": KEY,
    "f_cnt_bits": 32,
    "relaxed_f_cnt": False,
}
PATIENCE_S = 60


def lns(folder: Path, *, anew: bool = False, **sections: dict[str, object]) -> LnsProcess:
    """A fork; `anew`: as the operating system starts it."""
    starter = None if anew else forked.Starter()
    return LnsProcess(folder, {"lns": {"id": "lns-a"}, **sections}, [ALPHA], starter=starter)


async def configured(links: StationLinks, uri: str) -> str:
    async with asyncio.timeout(PATIENCE_S):
        link = await links.connect(uri, WEST)
        await link.send(version_text("2.0.6(linux/virtual)"))
        return await link.receive()


@on_a_loop
async def test_it_comes_back_on_the_same_port_after_sigkill(tmp_path: Path) -> None:
    server, links = lns(tmp_path, anew=True), StationLinks()
    await server.start()
    uri = server.uri
    assert uri.startswith("ws://127.0.0.1:")
    assert '"router_config"' in await configured(links, uri)
    pid = server.pid
    await server.kill()
    with pytest.raises(LinkClosed):
        await discover(uri, WEST)
    await server.start()
    assert server.uri == uri and server.pid != pid
    assert '"router_config"' in await configured(links, uri)
    await links.close()
    await server.stop()
    assert server.died is None


@on_a_loop
async def test_the_files_are_private_and_the_log_tells_no_key(tmp_path: Path) -> None:
    server = lns(tmp_path, capture={"path": "lns-a.jsonl"})
    await server.start()
    await server.stop()
    for name in ("lns.toml", "devices.toml"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert KEY not in server.tail(10_000)
    assert "stopping" in server.tail()
    assert (tmp_path / "lns-a.jsonl").exists()


@on_a_loop
async def test_a_paused_server_answers_when_it_goes_on(tmp_path: Path) -> None:
    server, links = lns(tmp_path), StationLinks()
    await server.start()
    server.pause()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(configured(links, server.uri))
        done, _ = await asyncio.wait([waiting], timeout=0.3)
        assert not done
        server.resume()
    assert '"router_config"' in waiting.result()
    await links.close()
    server.pause()
    await server.stop()
    assert not server.running


@on_a_loop
async def test_its_own_end_is_noticed_with_what_it_said(tmp_path: Path) -> None:
    server = lns(tmp_path)
    await server.start()
    os.kill(server.pid, signal.SIGABRT)
    with pytest.raises(ProgramDied, match="network server lns-a ended by signal 6"):
        async with asyncio.timeout(PATIENCE_S):
            await server.watch()


@on_a_loop
async def test_a_wrong_configuration_is_told_in_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(ProgramDied, match=r"lns\.toml:\d+: .*retention"):
        await lns(tmp_path, dedup={"retention_s": 0}).start()


@on_a_loop
async def test_new_devices_are_known_after_a_restart(tmp_path: Path) -> None:
    server = lns(tmp_path)
    server.devices = [ALPHA, {**ALPHA, "name": 'b"eta'}]
    with pytest.raises(ProgramDied, match=r"devices\.toml"):
        await server.start()
    server.devices = [ALPHA]
    await server.start()
    await server.kill()
