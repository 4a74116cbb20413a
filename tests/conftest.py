"""What every test of the suite shares: how long it may look for examples, and where Spark runs."""

import os
import re

import pytest
from hypothesis import HealthCheck, settings

SPARK_TIMEOUT_S = 300

# The everyday profile is derandomised: the same commit gives the same result. The fuzz profile
# looks for new examples (`make fuzz`), and prints what repeats a failure.
settings.register_profile("everyday", derandomize=True, deadline=None, max_examples=100)
settings.register_profile(
    "fuzz",
    deadline=None,
    max_examples=5000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "everyday")
settings.load_profile(PROFILE)


EXAMPLES = pytest.StashKey[dict[str, int]]()


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Remember how many examples a property test looked at (Hypothesis counts them)."""
    told = getattr(item, "hypothesis_statistics", None)
    if told is not None:
        numbers = re.findall(r"(\d+) (?:passing|failing)\b", told)
        item.config.stash.setdefault(EXAMPLES, {})[item.nodeid] = sum(map(int, numbers))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """`make fuzz` tells how far it looked."""
    looked = config.stash.get(EXAMPLES, {})
    if not looked or PROFILE != "fuzz":
        return
    terminalreporter.section("examples")
    for test, number in sorted(looked.items(), key=lambda found: found[1]):
        terminalreporter.write_line(f"{number:8d}  {test}")
    terminalreporter.write_line(f"{sum(looked.values()):8d}  in {len(looked)} tests")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need Spark share one worker, so one JVM, and have the time to start it."""
    for item in items:
        if item.get_closest_marker("spark") is None:
            continue
        item.add_marker(pytest.mark.xdist_group("spark"))
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SPARK_TIMEOUT_S))
