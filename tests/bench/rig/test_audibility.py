"""Which receptions are of one transmission, and who was meant to hear it?"""

from hypothesis import given
from hypothesis import strategies as st

from bench.rig.on_hardware.hardware_bench import TOGETHER_US, Audibility

FRAME, OTHER = b"\x40one", b"\x40two"


def test_two_stations_tell_of_one_transmission() -> None:
    hearing = Audibility()
    first, is_new = hearing.heard("west", FRAME, 0)
    again, is_new_too = hearing.heard("east", FRAME, TOGETHER_US)
    assert (is_new, is_new_too) == (True, False)
    assert first is again
    assert first.told_by == ["west", "east"]


def test_the_same_bytes_later_are_another_transmission() -> None:
    hearing = Audibility()
    first, _ = hearing.heard("west", FRAME, 0)
    later, is_new = hearing.heard("east", FRAME, TOGETHER_US + 1)
    assert is_new and later is not first


def test_a_station_that_tells_again_has_heard_another_transmission() -> None:
    hearing = Audibility()
    first, _ = hearing.heard("west", FRAME, 0)
    second, is_new = hearing.heard("west", FRAME, 10)
    assert is_new and second is not first


def test_two_frames_at_one_moment_are_two() -> None:
    hearing = Audibility()
    first, _ = hearing.heard("west", FRAME, 0)
    second, _ = hearing.heard("east", OTHER, 0)
    assert first is not second


def test_all_hear_it_unless_somebody_is_named() -> None:
    hearing = Audibility()
    one, _ = hearing.heard("west", FRAME, 0)
    assert hearing.is_audible("west", one) and hearing.is_audible("east", one)
    hearing.only(["east"])
    two, _ = hearing.heard("west", OTHER, 0)
    assert not hearing.is_audible("west", two) and hearing.is_audible("east", two)


def test_the_schedule_goes_by_transmissions_and_its_last_entry_stays() -> None:
    hearing = Audibility()
    hearing.schedule([("west",), ("west", "east")])
    audible = []
    for number in range(3):
        one, _ = hearing.heard("west", FRAME, number * 2_000_000)
        hearing.heard("east", FRAME, number * 2_000_000 + 10_000)
        audible.append(one.audible)
    assert audible == [("west",), ("west", "east"), ("west", "east")]


def test_a_replay_is_heard_by_its_own_and_uses_up_no_entry() -> None:
    hearing = Audibility()
    hearing.schedule([("west",)])
    hearing.expect_injected(FRAME, ("east",))
    replay, _ = hearing.heard("west", FRAME, 0)
    assert replay.injected and replay.audible == ("east",)
    assert hearing.told_injected == 0  # who was to hear it has not told yet
    hearing.heard("east", FRAME, 1_000)
    assert hearing.told_injected == 1
    genuine, _ = hearing.heard("west", OTHER, 2_000_000)
    assert not genuine.injected and genuine.audible == ("west",)


@given(st.lists(st.sampled_from(["west", "east", "north"]), min_size=1, max_size=12))
def test_a_transmission_has_each_station_once(told: list[str]) -> None:
    """However often stations tell of the same bytes at one moment."""
    hearing = Audibility()
    found = [hearing.heard(station, FRAME, 0)[0] for station in told]
    transmissions = list({id(one): one for one in found}.values())
    for one in transmissions:
        assert len(set(one.told_by)) == len(one.told_by)
    assert sum(len(one.told_by) for one in transmissions) == len(told)
    assert len(transmissions) == max(told.count(station) for station in told)
