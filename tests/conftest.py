"""What every test of the suite shares: how long it may look for examples, and where Spark runs."""

import os

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
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "everyday"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need Spark share one worker, so one JVM, and have the time to start it."""
    for item in items:
        if item.get_closest_marker("spark") is None:
            continue
        item.add_marker(pytest.mark.xdist_group("spark"))
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SPARK_TIMEOUT_S))
