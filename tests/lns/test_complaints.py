"""Mistakes of others are logged, but do not fill the log."""

import asyncio
import logging

import pytest

from bench.clock import run
from lns.complaints import LINES_MAX, Complaints, SafeFormatter, without_controls

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


def test_what_happens_as_often_as_somebody_wants_is_limited_alike(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        arrivals = Complaints(log, level=logging.INFO)
        for number in range(LINES_MAX + 5):
            arrivals.complain("connected %d", number)
        await asyncio.sleep(60)
        arrivals.complain("connected %d", 99)

    with caplog.at_level(logging.INFO):
        run(scenario(), start_us=100_000_000)
    assert len(caplog.messages) == LINES_MAX + 2
    assert caplog.messages[-2:] == ["5 more lines were not logged", "connected 99"]
    assert {record.levelname for record in caplog.records} == {"INFO"}


def test_nothing_that_a_terminal_obeys_is_left() -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\b\x7f\u202e\u2066\udc9b"
    assert without_controls(hostile) == (
        "\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\r\\x08\\x7f\\u202e\\u2066\\udc9b"
    )
    assert without_controls("Zürich\t№ 5\n") == "Zürich\t№ 5\n"


def test_a_line_of_the_log_moves_no_cursor() -> None:
    record = logging.LogRecord("lns", logging.WARNING, "", 0, "%s", ("a\x1b[1Ab",), None)
    assert SafeFormatter("%(message)s").format(record) == "a\\x1b[1Ab"
