import pytest
from hypothesis import given
from hypothesis import strategies as st

from lns.lorawan.identifiers import (
    Eui,
    dev_addr,
    eui,
    eui_dashed,
    eui_id6,
)


@pytest.mark.parametrize(
    ("spelling", "expected"),
    [
        ("70b3d57ed0000001", "70B3D57ED0000001"),
        ("47-62-78-C8-E5-D2-C4-B5", "476278C8E5D2C4B5"),
        ("85:27:c1:df:ee:a4:16:9e", "8527C1DFEEA4169E"),
        ("16:c001:f150:1", "0016C001F1500001"),
        ("b827:ebff:fe12:3456", "B827EBFFFE123456"),
        ("::1", "0000000000000001"),
        ("::0", "0000000000000000"),
        ("::", "0000000000000000"),
        ("0:1:0:2", "0000000100000002"),
        ("aa00::1", "AA00000000000001"),
        ("aaaa:bbbb::", "AAAABBBB00000000"),
        ("1:2::3", "0001000200000003"),
        ("f::", "000F000000000000"),
        (0x0016C001F1500001, "0016C001F1500001"),
        (0, "0000000000000000"),
        ((1 << 64) - 1, "FFFFFFFFFFFFFFFF"),
    ],
)
def test_every_spelling_of_an_eui_gives_the_same_text(spelling: str | int, expected: str) -> None:
    assert eui(spelling) == expected


@pytest.mark.parametrize(
    "spelling",
    [
        "",
        "70B3D57ED000000",
        "70B3D57ED00000011",
        "70B3D57ED000000G",
        "70-B3-D5-7E-D0-00-00",
        "70-B3:D5-7E-D0-00-00-01",
        "1:2:3",
        "1:2:3:4:5",
        "1::2:3:4",
        "1::2::3",
        ":::",
        "::12345",
        "::g",
        " ::1",
        -1,
        1 << 64,
    ],
)
def test_what_is_no_eui_is_refused_with_the_text(spelling: str | int) -> None:
    with pytest.raises(ValueError, match="not an EUI") as refused:
        eui(spelling)
    assert str(spelling) in str(refused.value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        # As a Basics Station 2.0.6 wrote them.
        ("0016C001F1500001", "16:c001:f150:1"),
        ("0000000000000001", "::1"),
        ("0000000100000002", "0:1:0:2"),
        ("AA00000000000001", "aa00::1"),
        ("AAAABBBB00000000", "aaaa:bbbb::"),
        # The other forms in which `::` stands for zeros.
        ("0000000000000000", "::0"),
        ("0000000000010002", "::1:2"),
        ("0001000000000000", "1::"),
        ("0000000100000000", "0:1::"),
        ("0001000000020003", "1:0:2:3"),
        ("0001000200000003", "1:2:0:3"),
        ("0000000100020003", "0:1:2:3"),
    ],
)
def test_id6_is_written_as_basics_station_writes_it(value: str, expected: str) -> None:
    assert eui_id6(Eui(value)) == expected


def test_an_eui_is_dashed_for_stations() -> None:
    assert eui_dashed(Eui("8527C1DFEEA4169E")) == "85-27-C1-DF-EE-A4-16-9E"


@given(st.lists(st.sampled_from([0, 1, 0xFFFF]), min_size=4, max_size=4))
def test_both_written_forms_read_back_as_the_same_eui(groups: list[int]) -> None:
    value = Eui("".join(f"{group:04X}" for group in groups))
    assert eui(eui_id6(value)) == eui(eui_dashed(value)) == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("01abcdef", "01ABCDEF"),
        (50244358, "02FEAB06"),
        (-1061461, "FFEFCDAB"),
        (0xFFEFCDAB, "FFEFCDAB"),
        (0, "00000000"),
        (-(1 << 31), "80000000"),
        ((1 << 32) - 1, "FFFFFFFF"),
    ],
)
def test_a_dev_addr_is_read_from_text_and_from_both_kinds_of_integer(
    value: str | int, expected: str
) -> None:
    assert dev_addr(value) == expected


@pytest.mark.parametrize("value", ["", "1ABCDEF", "01ABCDEFF", "01ABCDEG", 1 << 32, -(1 << 31) - 1])
def test_what_is_no_dev_addr_is_refused(value: str | int) -> None:
    with pytest.raises(ValueError, match="not a DevAddr"):
        dev_addr(value)
