"""A cluster scores what one machine scores, and goes on without an executor that was killed.

Four Java machines or more at once, for minutes: `make cluster` runs it, and no other run.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from shutil import copytree
from typing import Any

import pyspark
import pytest

from bench.night.record import ExitCode
from bench.spark.session import java_runtime

pytestmark = pytest.mark.timeout(3600)

ROOT = Path(__file__).resolve().parents[3]
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
RUN = "20261120T020003Z-7f3a"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("cluster")
    command = [sys.executable, "-m", "bench", "run", "several_servers", "--capture-dir"]
    subprocess.run([*command, str(root / "runs")], cwd=ROOT, check=True, capture_output=True)
    [played] = (root / "runs").iterdir()
    return played.rename(root / RUN)


@pytest.fixture(scope="module")
def locally(run: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = copytree(run, tmp_path_factory.mktemp("locally") / RUN)
    scoring = scored_by(folder, "local[2]")
    output, _ = scoring.communicate(timeout=1500)
    assert scoring.returncode == 0, output
    return said(folder)


def scored_by(folder: Path, master: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench", "score", str(folder), "--master", master]
    command += ["--lake", str(folder.parent / "lake")]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def said(folder: Path) -> str:
    """What score.json says but for Spark itself: its version, its master and its time."""
    found: dict[str, Any] = json.loads((folder / "score.json").read_text("utf-8"))
    assert found["totals"]["PASS"] > 50
    del found["spark"]
    return json.dumps(found, indent=1)


def descendants(pid: int) -> Iterator[int]:
    """The processes that a process has started, and those that these have."""
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            for child in map(int, thread.read_text().split()):
                yield child
                yield from descendants(child)


def executors(pids: list[int]) -> list[int]:
    """Those of the processes that are executors of Spark."""
    found = []
    for pid in {child for parent in pids for child in descendants(parent)}:
        with suppress(FileNotFoundError, ProcessLookupError):
            if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return sorted(found)


def kill_an_executor_after(
    table: str, scoring: subprocess.Popen[str], lake: Path, parents: list[int]
) -> None:
    """Wait until a table of the score has been made, then end an executor."""
    while not list(lake.glob(f"_unfinished/*/kept/{table}/part-*")):
        assert still_runs(scoring), scoring.communicate()
    victims = executors(parents)
    assert victims, "no executor is left to be killed"
    os.kill(victims[0], signal.SIGKILL)


def still_runs(process: subprocess.Popen[Any]) -> bool:
    """Whether a process has not ended after a tenth of a second."""
    try:
        process.wait(0.1)
    except subprocess.TimeoutExpired:
        return True
    return False


def test_a_local_cluster_that_loses_an_executor_scores_the_same(
    run: Path, locally: str, tmp_path: Path
) -> None:
    folder = copytree(run, tmp_path / RUN)
    scoring = scored_by(folder, "local-cluster[2,1,1024]")
    kill_an_executor_after("matched", scoring, tmp_path / "lake", [scoring.pid])
    output, _ = scoring.communicate(timeout=1500)
    assert scoring.returncode == 0, output
    assert said(folder) == locally
    assert not (tmp_path / "lake" / "_unfinished").exists()


def test_a_standalone_cluster_that_loses_an_executor_scores_the_same(
    run: Path, locally: str, tmp_path: Path
) -> None:
    folder = copytree(run, tmp_path / RUN)
    with standalone(tmp_path) as (master, parents):
        scoring = scored_by(folder, master)
        kill_an_executor_after("matched", scoring, tmp_path / "lake", parents)
        output, _ = scoring.communicate(timeout=1500)
        assert scoring.returncode == 0, output
        assert said(folder) == locally


def test_captures_that_executors_do_not_see_are_refused_with_a_sentence(
    run: Path, tmp_path: Path
) -> None:
    hidden, lake = tmp_path / "hidden", tmp_path / "lake"
    hidden.mkdir()
    # A folder that the driver and its children have to themselves.
    script = 'mount -t tmpfs none "$1" && cp -r "$2" "$1" && shift 2 && exec "$@"'
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    command += [str(hidden), str(run), sys.executable, "-m", "bench", "score", str(hidden / RUN)]
    with standalone(tmp_path) as (master, _):
        done = subprocess.run(
            [*command, "--master", master, "--lake", str(lake)],
            cwd=ROOT, check=False, capture_output=True, text=True, timeout=1500,
        )  # fmt: skip
    assert done.returncode == ExitCode.USAGE, done.stdout + done.stderr
    assert f"An executor of {master} does not see {hidden / RUN}" in done.stderr
    assert "Captures and lake must lie on a folder that all executors share" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (lake / "runs").exists()


@contextmanager
def standalone(folder: Path) -> Iterator[tuple[str, list[int]]]:
    """A Master and two Workers: the URL of the one, and the processes of the others."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    worker = ["--host", "127.0.0.1", "--webui-port", "0", "-c", "1", "-m", "1g"]
    with ExitStack() as running:
        start = "org.apache.spark.deploy"
        log = folder / "master.log"
        daemon(running, log, f"{start}.master.Master", "--host", "127.0.0.1", "--port", str(port),
               "--webui-port", "0")  # fmt: skip
        workers = [
            daemon(running, folder / f"worker-{number}.log", f"{start}.worker.Worker", *worker,
                   "-d", str(folder / f"worker-{number}"), url)
            for number in range(2)
        ]  # fmt: skip
        while log.read_text("utf-8", "replace").count("Registering worker") < 2:
            assert all(still_runs(one) for one in workers), log.read_text("utf-8", "replace")
        yield url, [one.pid for one in workers]


def daemon(running: ExitStack, log: Path, *words: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **java_runtime().environment(), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"SPARK_DAEMON_MEMORY": "256m", "PYSPARK_PYTHON": sys.executable}
    file = running.enter_context(log.open("wb"))
    process = subprocess.Popen(
        [str(SPARK_CLASS), *words], env=environment, stdout=file, stderr=subprocess.STDOUT
    )
    running.callback(process.wait, 60)
    running.callback(process.terminate)
    return process
