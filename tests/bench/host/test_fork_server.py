"""A server that starts Python programs as forks of itself."""

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bench.host.fork_server import ForkServer
from bench.host.program import HostError, Program, ProgramDied
from tests.looped import on_a_loop

PATIENCE_S = 60
HERE = {"PYTHONPATH": str(Path(__file__).parents[3])}
SPEAKER = """
import os, sys, time
import json as imported_before
print("on stderr", file=sys.stderr, flush=True)
print(*sys.argv[1:], os.environ["WORD"], os.getcwd(), __name__, flush=True)
if "fails" in sys.argv:
    sys.exit("no such thing")
if "ends" in sys.argv:
    sys.exit(3)
time.sleep(600)
"""


@asynccontextmanager
async def starting(folder: Path) -> AsyncIterator[ForkServer]:
    (folder / "speaker.py").write_text(SPEAKER)
    path = f"{folder}{os.pathsep}{HERE['PYTHONPATH']}"
    server = ForkServer(folder / "server.log", ["json", "bench.host.program"], {"PYTHONPATH": path})
    await server.ready()
    try:
        yield server
    finally:
        await server.stop()


def told_of(pid: int) -> str:
    """What the kernel tells of a process, "" when it is gone."""
    file = Path(f"/proc/{pid}/status")
    return file.read_text() if file.exists() else ""


def children() -> list[int]:
    """The processes that this thread has begun or adopted."""
    return [int(pid) for pid in Path("/proc/thread-self/children").read_text().split()]


def speaker(*words: str) -> list[str]:
    return [sys.executable, "-m", "speaker", *words]


@on_a_loop
async def test_a_fork_is_a_program_like_any_other(tmp_path: Path) -> None:
    files = len(os.listdir("/proc/self/fd"))
    async with starting(tmp_path) as server:
        program = Program("speaker", tmp_path / "log", starter=server)
        for end in (program.stop, program.kill):
            await program.begin(speaker("a", "b"), speaks=True, env={"WORD": "c"})
            said = await program.first_line(PATIENCE_S)
            assert said == f"a b c {os.getcwd()} __main__"
            pid = program.pid
            assert f"\nPPid:\t{os.getpid()}\n" in told_of(pid)
            program.pause()
            assert "\nState:\tT" in told_of(pid)
            program.resume()
            await end()
            assert not program.running and program.died is None
            assert not told_of(pid)
        assert program.log.read_text() == "on stderr\n" * 2
    assert len(os.listdir("/proc/self/fd")) == files


@on_a_loop
async def test_without_a_pipe_all_that_it_says_is_in_its_log(tmp_path: Path) -> None:
    async with starting(tmp_path) as server:
        program = Program("speaker", tmp_path / "log", starter=server)
        await program.begin(speaker("ends"), env={"WORD": "c"})
        with pytest.raises(ProgramDied, match=r"with exit code 3[\s\S]*on stderr\nends c "):
            await program.watch()


@pytest.mark.parametrize(
    ("word", "how"), [("fails", "with exit code 1[\\s\\S]*no such thing"), ("", "by signal 9")]
)
@on_a_loop
async def test_its_end_is_told_with_how_it_came(word: str, how: str, tmp_path: Path) -> None:
    async with starting(tmp_path) as server:
        program = Program("speaker", tmp_path / "log", starter=server)
        await program.begin(speaker(word), env={"WORD": "c"}, speaks=True)
        await program.first_line(PATIENCE_S)
        if not word:
            os.kill(program.pid, signal.SIGKILL)
        with pytest.raises(ProgramDied, match=how):
            await program.watch()


@on_a_loop
async def test_what_is_no_module_is_started_as_ever(tmp_path: Path) -> None:
    async with starting(tmp_path) as server:
        program = Program("sleeper", tmp_path / "log", starter=server)
        await program.begin([sys.executable, "-c", "print('ready')"], speaks=True)
        assert await program.first_line(PATIENCE_S) == "ready"
        await program.stop()


@on_a_loop
async def test_one_that_is_gone_starts_nothing(tmp_path: Path) -> None:
    async with starting(tmp_path) as server:
        await server.kill()
        program = Program("speaker", tmp_path / "log", starter=server)
        with pytest.raises(HostError, match="fork server"):
            await program.begin(speaker(), env={"WORD": "c"})


@on_a_loop
async def test_what_a_program_imports_is_there_before_it_starts(tmp_path: Path) -> None:
    (tmp_path / "speaking").mkdir()
    (tmp_path / "speaking" / "__init__.py").write_text("")
    (tmp_path / "speaking" / "words.py").write_text("import os\nBORN = os.getpid()\n")
    (tmp_path / "speaking" / "__main__.py").write_text(
        "import os\nfrom speaking.words import BORN\n"
        "if __name__ == '__main__':\n    print(BORN, os.getpid(), flush=True)\n"
    )
    env = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{HERE['PYTHONPATH']}"}
    server = ForkServer(tmp_path / "server.log", ["speaking.__main__"], env)
    await server.ready()
    program = Program("speaking", tmp_path / "log", starter=server)
    for _ in range(2):
        await program.begin([sys.executable, "-m", "speaking"], speaks=True)
        said = await program.first_line(PATIENCE_S)
        assert said == f"{server.pid} {program.pid}"
        await program.stop()
    assert program.log.read_text() == ""
    await server.stop()


@on_a_loop
async def test_a_start_that_is_given_up_leaves_nothing_behind(tmp_path: Path) -> None:
    async with starting(tmp_path) as server:
        files, before = len(os.listdir("/proc/self/fd")), children()
        assert server.pid in before
        given_up = Program("speaker", tmp_path / "log", starter=server)
        start = asyncio.create_task(given_up.begin(speaker(), speaks=True, env={"WORD": "c"}))
        await asyncio.sleep(0)
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start
        assert not given_up.running
        assert len(os.listdir("/proc/self/fd")) == files
        assert set(children()) <= set(before)  # other tests of this process have some, too
        program = Program("speaker", tmp_path / "log", starter=server)
        await program.begin(speaker("d"), speaks=True, env={"WORD": "c"})
        assert (await program.first_line(PATIENCE_S)).startswith("d c")
        await program.stop()


@on_a_loop
async def test_a_module_that_cannot_be_imported_is_told(tmp_path: Path) -> None:
    server = ForkServer(tmp_path / "server.log", ["nothing_of_that_name"], HERE)
    with pytest.raises(ProgramDied, match="nothing_of_that_name"):
        await server.ready()
    await server.stop()


BENCH = """
import asyncio, os, sys
from pathlib import Path
from bench.host.fork_server import ForkServer
from bench.host.program import Program

async def main():
    folder = Path(sys.argv[1])
    server = ForkServer(folder / "server.log", [], {})
    await server.ready()
    program = Program("speaker", folder / "log", starter=server)
    await program.begin([sys.executable, "-m", "speaker"], speaks=True, env={"WORD": "c"})
    await program.first_line(60)
    print(server.pid, program.pid, flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


def test_everything_dies_with_the_bench(tmp_path: Path) -> None:
    (tmp_path / "speaker.py").write_text(SPEAKER)
    path = f"{tmp_path}{os.pathsep}{HERE['PYTHONPATH']}"
    done = subprocess.run(
        [sys.executable, "-c", BENCH, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    for pid in map(int, done.stdout.split()):
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        with os.fdopen(handle):
            assert select.select([handle], [], [], PATIENCE_S)[0], "it outlives the bench"
