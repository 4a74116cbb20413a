"""Who is told of what does not work, and how often."""

import asyncio
import logging

import pytest

from bench.clock import run
from lns.clock import StoreUnavailable, Trouble, in_time, now_us

LOG = logging.getLogger("lns.test")


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def test_each_change_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOG.name)
    trouble = Trouble(LOG)
    for state in (None, "is gone", "is gone", "refuses", None, None):
        trouble.is_now(state, "%s %s", "it", state or "is back")
    assert said(caplog) == [
        ("WARNING", "it is gone"), ("WARNING", "it refuses"), ("INFO", "it is back"),
    ]  # fmt: skip


def test_what_has_never_worked_is_told_when_it_works(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOG.name)
    trouble = Trouble(LOG, "is not there yet")
    assert trouble.state == "is not there yet"
    trouble.is_now(None, "it works")
    assert trouble.state is None
    assert said(caplog) == [("INFO", "it works")]


def test_a_store_that_takes_longer_is_away() -> None:
    async def ask(takes_us: int) -> int:
        await asyncio.sleep(takes_us / 1_000_000)
        return now_us()

    async def both() -> None:
        assert await in_time("it", 1_000, ask(999)) == 999
        with pytest.raises(StoreUnavailable, match="it takes longer than 1000 us"):
            await in_time("it", 1_000, ask(1_001))
        assert now_us() == 1_999

    run(both())
