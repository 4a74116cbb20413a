"""How many modules does whoever follows an uplink from a scenario to its verdict visit?"""

import re
from pathlib import Path

import bench
from bench.rig.rig import Rig
from bench.verdict.case import Result, judge
from bench.verdict.expectation import Table
from tests.bench.rig.played import play
from tests.walk import Walk

PAGE = Path(bench.__file__).parents[1] / "CONTRIBUTING.md"
ANSWERED = Table("""
    strategy kind | west
    *        *    | NonDuplicate forwarded RX1
""")

PASSED = (
    "rig/case_setup",
    "rig/in_memory/application",
    "rig/in_memory/shared_store",
    "rig/rig",
    "rig/simulated_rig",
    "station/tap",
    "verdict/case",
    "verdict/expectation",
    "verdict/wire",
    "virtual/air",
    "virtual/device",
    "virtual/lorawan/air_interface",
    "virtual/lorawan/channel_plan",
    "virtual/mac",
    "virtual/rui3_traffic",
    "virtual/transmitter",
    "virtual/virtual_station",
)


def test_an_answered_uplink_passes_these_modules_and_the_clock(tmp_path: Path) -> None:
    walk = Walk(bench)

    async def scenario(rig: Rig) -> None:
        rig.only("west")
        await rig.alpha.send(confirmed=True)
        await rig.settle()
        with walk:
            uplink = await rig.alpha.send(confirmed=True)
            rig.expect(uplink, ANSWERED, west="west")
        await rig.settle()
        with walk:
            assert judge(rig.case.in_order()).result is Result.PASS

    play(tmp_path, scenario)
    assert sorted(walk.modules) == sorted(["clock", *(name.replace("/", ".") for name in PASSED)])


def test_the_page_for_developers_names_them_and_no_others() -> None:
    _, walk = PAGE.read_text("utf-8").split("**An uplink through the bench**")
    named = walk.split("## One reception")[0]
    assert sorted(set(re.findall(r"`bench/([a-z0-9_/]+)\.py`", named))) == list(PASSED)
    assert f"{len(PASSED)} in all" in named
