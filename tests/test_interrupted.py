"""Does whoever breaks off a run always break it off, wherever it is at that moment?"""

from collections.abc import Iterator

import pluggy
import pytest

SPECIFIED, IMPLEMENTED = pluggy.HookspecMarker("runs"), pluggy.HookimplMarker("runs")


class Runs:
    @SPECIFIED
    def plays(self) -> None: ...


class Timed:
    """Wraps a run as pytest-timeout does, and is broken off when that is over."""

    @IMPLEMENTED(hookwrapper=True)
    def plays(self) -> Iterator[None]:
        yield
        raise KeyboardInterrupt


def test_an_interrupt_at_the_end_of_a_case_is_one() -> None:
    """And no warning of how the plugin ended, which is an error here."""
    manager = pluggy.PluginManager("runs")
    manager.add_hookspecs(Runs)
    manager.register(Timed())
    with pytest.raises(KeyboardInterrupt):
        manager.hook.plays()
