"""Mistakes of others are logged, but do not fill the log."""

import asyncio
import logging

import pytest

from bench.clock import run
from lns.complaints import LINES_MAX, Complaints

log = logging.getLogger(__name__)


def test_sixty_lines_a_minute_and_then_the_number_that_was_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        complaints = Complaints(log)
        for number in range(LINES_MAX + 5):
            complaints.complain("mistake %d", number)
        assert len(caplog.messages) == LINES_MAX
        await asyncio.sleep(60)
        complaints.complain("mistake %d", 99)

    run(scenario(), start_us=100_000_000)
    assert caplog.messages[-2:] == ["5 more complaints were not logged", "mistake 99"]
