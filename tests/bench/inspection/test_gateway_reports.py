"""Whose fault is it that a device did not hear what its station was handed?"""

import pytest

from bench.inspection.station import REPORTED_WITHIN_US, Reports
from bench.verdict.expectation import Evidence
from bench.verdict.owner import Owner

DEV_EUI = "70B3D57ED0000001"
TOLD = {"DevEui": "70-B3-D5-7E-D0-00-00-01", "RX1DR": 5, "RX1Freq": 868_100_000}
IN_RX1, IN_RX2 = "+EVT:RX_1:UNICAST:7:02", "+EVT:RX_2:UNICAST:7:02"
SENT = {"RX1": {"DR": 5, "Freq": 868_100_000}, "RX2": {"DR": 0, "Freq": 869_525_000}}
OVER_US = 2_000_000
LATE_US = OVER_US + REPORTED_WITHIN_US + 1


def blamed(
    sent_in: str | None, said: list[str], *, due: str = IN_RX1, right: bool = True,
    end_us: int = LATE_US, lost: bool = False,
) -> list[str]:  # fmt: skip
    reports = Reports()
    reports.hand_over("0016", 7, TOLD, OVER_US, is_right=right)
    if sent_in is not None:
        reports.report("0016", 7, SENT[sent_in])
    assert reports.are_as_asked == (sent_in == "RX1")
    evidence = Evidence(names={"0016": "west"})
    evidence.expected_lines[DEV_EUI].append(due)
    evidence.lines[DEV_EUI].extend(said)
    if lost:
        evidence.links_lost_us["0016"].append(0)
    found = list(reports.wrong(evidence, end_us))
    assert all(one.owner is Owner.GATEWAY for one in found)
    return [one.text for one in found]


def test_a_station_that_never_sent_it_has_kept_it() -> None:
    assert blamed(None, []) == [f"west never reported downlink 7 for {DEV_EUI} on the air"]


def test_a_station_that_sent_it_later_made_it_come_later() -> None:
    assert blamed("RX2", [IN_RX2]) == [f"west sent downlink 7 for {DEV_EUI} in RX2, not in RX1"]


@pytest.mark.parametrize(
    "blameless",
    [
        {"sent_in": "RX1", "said": []},
        {"sent_in": "RX2", "said": []},
        {"sent_in": "RX2", "said": [IN_RX2], "due": IN_RX2},
        {"sent_in": "RX2", "said": [IN_RX2], "right": False},
        {"sent_in": None, "said": [IN_RX1]},
        {"sent_in": None, "said": [], "end_us": LATE_US - 1},
        {"sent_in": None, "said": [], "lost": True},
    ],
)
def test_a_station_is_not_blamed_for(blameless: dict[str, object]) -> None:
    assert blamed(**blameless) == []  # type: ignore[arg-type]
