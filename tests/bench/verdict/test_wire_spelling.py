from itertools import product

import pytest

from bench.verdict.wire import id6
from lns.lorawan.identifiers import eui


@pytest.mark.parametrize(
    ("station", "spelt"),
    [("0016C001F1500001", "16:c001:f150:1"), ("0000000000000001", "::1"), ("0" * 16, "::0")],
)
def test_a_station_spells_its_own_eui_in_groups(station: str, spelt: str) -> None:
    assert id6(station) == spelt


def test_whatever_zeros_it_leaves_out_the_server_reads_them_again() -> None:
    spelt = {"".join(groups) for groups in product(("0000", "0001", "ABCD"), repeat=4)}
    assert {eui(id6(station)) for station in sorted(spelt)} == spelt
