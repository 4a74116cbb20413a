"""Who is told of what does not work, and how often."""

import logging

import pytest

from lns.outage import Trouble

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
