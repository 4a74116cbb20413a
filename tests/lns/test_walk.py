"""How many modules does whoever follows an uplink through the network server visit?"""

import sys
from pathlib import Path
from types import CodeType, FrameType

import lns
from lns.uplink.data import Uplinks
from tests.lns.served_network import Network, serve, uplink

ROOT = Path(lns.__file__).parent
PAGE = (ROOT.parent / "CONTRIBUTING.md").read_text("utf-8")

PASSED = (
    "clock",
    "dedup.concentrator",
    "dedup.session",
    "dedup.strategy",
    "delivery.publisher",
    "lorawan.crypto",
    "lorawan.frame",
    "uplink.data",
    "uplink.mac_layer",
    "uplink.registry",
)


class Walk:
    """Notes the modules of `lns` in which something runs until `receive` is left."""

    def __init__(self, receive: CodeType) -> None:
        self._receive = receive
        self._within = False
        self.modules: set[str] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if frame.f_code is self._receive and event in ("call", "return"):
            self._within = event == "call"
        file = Path(frame.f_code.co_filename)
        if self._within and file.is_relative_to(ROOT):
            self.modules.add(".".join(file.relative_to(ROOT).with_suffix("").parts))


def test_an_uplink_passes_ten_modules_and_a_store() -> None:
    walk = Walk(Uplinks.receive.__code__)

    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(9))
        sys.setprofile(walk)
        try:
            await network.west.hears(uplink(10))
        finally:
            sys.setprofile(None)

    assert serve(scenario).words[-1] == ("west", "NonDuplicate", "forwarded", "-", "NotAsked")
    assert sorted(walk.modules) == sorted([*PASSED, "store.memory"])


def test_the_page_for_developers_names_them() -> None:
    _, walk = PAGE.split("## One reception, on foot")
    named = walk.split("## Tests")[0]
    assert [module for module in PASSED if f"`{module}`" not in named] == []
