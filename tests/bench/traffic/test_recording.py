"""The order of things in a log."""

from bench.traffic.recording import Hearing, Log, Uplink, steps
from lns.lorawan.identifiers import Eui

WEST, EAST = Eui("0016C001F1500001"), Eui("0016C001F1500002")


def uplink(at_us: int, *arrivals: tuple[Eui, int]) -> Uplink:
    hearings = tuple(Hearing(station, arrival_us, -80, 7.0) for station, arrival_us in arrivals)
    return Uplink(
        at_us=at_us,
        phy=b"",
        frame_id=str(at_us),
        dev_eui=Eui("0000000000000001"),
        dr=5,
        freq_hz=868_100_000,
        hearings=hearings,
        f_cnt=at_us,
    )


def order(*uplinks: Uplink) -> list[tuple[int, str, str]]:
    names = {WEST: "west", EAST: "east"}
    log = Log("log", "title", (), names, uplinks)
    return [
        (step.at_us, step.uplink.frame_id, names[step.hearing.station] if step.hearing else "air")
        for step in steps(log)
    ]


def test_an_uplink_ends_before_it_is_reported_and_no_two_things_share_a_microsecond() -> None:
    assert order(uplink(100, (WEST, 100), (EAST, 100))) == [
        (100, "100", "air"),
        (101, "100", "west"),
        (102, "100", "east"),
    ]


def test_reports_of_several_uplinks_interleave() -> None:
    assert order(uplink(0, (WEST, 10), (EAST, 300)), uplink(200, (WEST, 210), (EAST, 220))) == [
        (0, "0", "air"),
        (10, "0", "west"),
        (200, "200", "air"),
        (210, "200", "west"),
        (220, "200", "east"),
        (300, "0", "east"),
    ]


def test_nothing_is_reported_before_it_was_heard() -> None:
    assert order(uplink(50, (WEST, 20))) == [(50, "50", "air"), (51, "50", "west")]
