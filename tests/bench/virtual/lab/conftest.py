"""What the tests of the emulated lab share."""

import pytest

from tests.bench.virtual.wiring import Outcomes


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """All scenes of the module, played."""
    played: Outcomes = request.module.SCENES.play(tmp_path_factory.mktemp("desks"))
    return played
