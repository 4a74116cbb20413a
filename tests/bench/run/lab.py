"""A lab without hardware for tests: its boards, stations and air run as processes of their own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.host.program import free_port
from tests.bench.test_pytest_plugin import Ran, pytest_in

START_S = 60


class Lab:
    """A running lab: its inventory, and its hands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.inventory = folder / "bench.toml"

    def work(self, verb: str, name: str) -> None:
        """Do something to a board or a station."""
        words = [sys.executable, "-m", "bench.virtual.lab.lab_folder", str(self.folder), verb, name]
        subprocess.run(words, check=True, timeout=START_S)


@contextmanager
def running_lab(folder: Path) -> Iterator[Lab]:
    """A lab on a free port; it ends with the context."""
    tap = f"127.0.0.1:{free_port()}"
    words = [sys.executable, "-m", "bench", "emulate", "--folder", str(folder), "--tap", tap]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip().endswith("bench.toml")
        yield Lab(folder)
    finally:
        process.terminate()
        process.communicate(timeout=START_S)


def hardware_in(folder: Path, lab: Lab, scenarios: str, **limits: int) -> Ran:
    """A run on this lab, with these limits in its inventory."""
    inventory = folder / "bench.toml"
    lines = [f"{name} = {value}\n" for name, value in limits.items()]
    inventory.write_text("".join([lab.inventory.read_text(), "\n[limits]\n", *lines]))
    words = ("--rig", "hardware", "--bench", str(inventory))
    return pytest_in(folder, scenarios, *words, LAB=str(lab.folder))


BOTH = '''
import os, subprocess, sys
import pytest
from bench.verdict.expectation import Table


@pytest.fixture
def alone():
    """Who asks for more than the rig is played when it is asked for, not beside others."""


def lab(verb, name):
    words = [sys.executable, "-m", "bench.virtual.lab.lab_folder", os.environ["LAB"], verb, name]
    subprocess.run(words, check=True)


FIRST = Table("""
    strategy kind      | first
    None     join      | NonDuplicate dropped RX1
    None     confirmed | NonDuplicate forwarded RX1
""")


TWO = Table("""
    strategy kind | first                          | copy
    None     *    | NonDuplicate forwarded NotAsked | SoftDuplicate forwarded NotAsked
""")

'''


JOINS = '''
async def test_joins(rig):
    """The boards draw or count their DevNonces, and check the JoinNonce or do not."""
    rig.only("west")
    for device in (rig.bravo, rig.provision("second", activation="otaa")):
        join = await device.join()
        rig.expect(join, FIRST, first="west")
        rig.expect_reply(join, "+EVT:JOINED")
'''
