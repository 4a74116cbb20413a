"""A device of class C hears in RX2 what nobody asked for; one of class A does not."""

import asyncio

import pytest

from bench.virtual.device import Settings
from tests.bench.virtual.test_device import Bench, Plan, play

ALWAYS = Settings(class_c=True)
LATE = Plan(5_000_000, freq_hz=869_525_000, dr=0, ack=False, port=7, payload=b"on")


def downlinks(*plans: Plan | None, settings: Settings = ALWAYS, sends: int = 1) -> list[str]:
    """The windows and payloads that a device prints."""

    async def scene() -> Bench:
        bench = Bench(*plans, settings=settings)
        for _ in range(sends):
            await bench.device.send(b"x")
            await asyncio.sleep(10)
        return bench

    printed = play(scene).lines
    lines = [line.split(":") for line in printed if line.startswith("+EVT:RX_")]
    return [f"{line[1]} {line[-2]} {line[-1]}" for line in lines]


def test_it_hears_when_it_has_sent_nothing() -> None:
    assert downlinks(LATE) == ["RX_C 7 6f6e"]


def test_a_class_a_device_does_not() -> None:
    assert downlinks(LATE, settings=Settings()) == []


@pytest.mark.parametrize("where", [{"dr": 1}, {"freq_hz": 868_100_000}])
def test_it_listens_in_rx2_only(where: dict[str, int]) -> None:
    plan = {"freq_hz": 869_525_000, "dr": 0, **where}
    assert downlinks(Plan(5_000_000, ack=False, port=7, payload=b"on", **plan)) == []


def test_its_windows_are_those_of_class_a_besides() -> None:
    plan = Plan(ack=False, port=7, payload=b"on")
    assert downlinks(plan, LATE, sends=2) == ["RX_1 7 6f6e", "RX_C 7 6f6e"]


def test_a_counter_that_was_heard_is_not_believed_again() -> None:
    again = Plan(5_000_000, f_cnt=0, freq_hz=869_525_000, dr=0, ack=False, port=7, payload=b"on")
    assert downlinks(LATE, again, sends=2) == ["RX_C 7 6f6e"]
