"""How many modules does whoever follows an uplink through the network server visit?"""

from pathlib import Path

import lns
from lns.uplink.data import Uplinks
from tests.lns.served_network import Network, serve, uplink
from tests.walk import Walk

PAGE = Path(lns.__file__).parents[1] / "CONTRIBUTING.md"

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


def test_an_uplink_passes_ten_modules_and_a_store() -> None:
    walk = Walk(lns, within=Uplinks.receive.__code__)

    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(9))
        with walk:
            await network.west.hears(uplink(10))

    assert serve(scenario).words[-1] == ("west", "NonDuplicate", "forwarded", "-", "NotAsked")
    assert sorted(walk.modules) == sorted([*PASSED, "store.memory"])


def test_the_page_for_developers_names_them() -> None:
    _, walk = PAGE.read_text("utf-8").split("## One reception, on foot")
    named = walk.split("## Tests")[0]
    assert [module for module in PASSED if f"`{module}`" not in named] == []
