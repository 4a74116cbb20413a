"""One bench, one user: held, freed, freed by a death, and several at once."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench.lab.inventory import BenchLock, Inventory, LockHeld, load, owner_of
from tests.bench.lab.inventory.bench_toml import bench_toml

HOLDER = """
import sys
from pathlib import Path
from bench.lab.inventory import load
from bench.lab.inventory import BenchLock
with BenchLock(load(Path(sys.argv[1]))):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def bench(tmp_path: Path) -> Inventory:
    return load(bench_toml(tmp_path))


def holder(bench: Inventory) -> subprocess.Popen[str]:
    """Another process that holds the bench."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(bench.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def test_the_second_learns_who_is_the_first(bench: Inventory) -> None:
    with holder(bench) as first, pytest.raises(LockHeld) as caught, BenchLock(bench):
        pytest.fail("two have it")
    owner = caught.value.owner
    assert owner is not None and owner.pid == first.pid and owner.command.startswith("-c")
    assert str(owner) in str(caught.value)
    assert f"end process {first.pid} on {owner.host}" in str(caught.value)
    assert owner.since.endswith("Z") and owner.user


def test_it_is_free_again_after_use(bench: Inventory) -> None:
    for _ in range(2):
        with BenchLock(bench):
            assert f'"pid": {os.getpid()}' in bench.lock.read_text()
        assert bench.lock.read_text() == ""


def test_it_is_free_after_its_owner_was_killed(bench: Inventory) -> None:
    with holder(bench) as first:
        first.send_signal(signal.SIGKILL)
        first.wait()
        assert f'"pid": {first.pid}' in bench.lock.read_text()
        with BenchLock(bench):
            assert f'"pid": {os.getpid()}' in bench.lock.read_text()


def test_everybody_can_see_who_has_it(bench: Inventory) -> None:
    assert owner_of(bench) is None
    with holder(bench) as first:
        owner = owner_of(bench)
        assert owner is not None and owner.pid == first.pid
        first.send_signal(signal.SIGKILL)
        first.wait()
        assert owner_of(bench) is None, "it has died"
    with BenchLock(bench):
        pass
    assert owner_of(bench) is None


def test_it_is_free_after_an_error(bench: Inventory) -> None:
    with pytest.raises(ZeroDivisionError), BenchLock(bench):
        raise ZeroDivisionError
    with BenchLock(bench):
        pass


def test_a_lock_that_does_not_say_whose_it_is(bench: Inventory) -> None:
    with holder(bench):
        bench.lock.write_text("\x1b[2J")
        with pytest.raises(LockHeld, match="somebody uses it") as caught, BenchLock(bench):
            pytest.fail("two have it")
    assert caught.value.owner is None and "\x1b" not in str(caught.value)


def test_a_lock_file_that_cannot_be_written_says_what_to_do(bench: Inventory) -> None:
    elsewhere = replace(bench, lock=bench.path / "lab-1.lock")  # in a folder that is a file
    with pytest.raises(OSError, match=r"Not a directory; name another in bench\.toml") as caught:
        BenchLock(elsewhere).__enter__()
    assert 'lock = "/run/lock/lab-1.lock"' in str(caught.value)


def test_everybody_on_the_computer_may_take_it(bench: Inventory) -> None:
    with BenchLock(bench):
        assert bench.lock.stat().st_mode & 0o777 == 0o666
