"""Planned cases for tests, with everything that a test does not say left at rest."""

from typing import Any

from bench.plan import PlannedAct, PlannedCase, PlannedDevice

SEND = PlannedAct(verb="send")
RETRY = PlannedAct(verb="send", confirmed=True, retries=2)


def device(name: str = "alpha", *acts: PlannedAct, **facts: Any) -> PlannedDevice:
    return PlannedDevice(name=name, activation="abp", acts=acts or (SEND,), **facts)


def case(name: str = "g/c", duration_us: int = 2_000_000, **facts: Any) -> PlannedCase:
    told = {"region": "EU868", "servers": ("lns-a",), "stations": ("west", "east"), **facts}
    return PlannedCase(case=name, duration_us=duration_us, **told)
