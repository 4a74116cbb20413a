"""Runs of the whole captures, made once for all tests that look at them."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import traffic
from tests.sizes import size

CAPTURES = Path(__file__).resolve().parents[4] / "shared" / "captures"


ARCHIVED_UPLINKS = size(500, None)
"""The whole archive takes minutes; every night plays it too."""


def capture(name: str) -> Path:
    """A whole capture; it lies beside the checkout, not in it."""
    path = CAPTURES / name
    if path.is_file():
        return path
    pytest.skip(f"{path} is not there; the captures of real traffic lie beside the checkout")


@pytest.fixture(scope="session")
def conformance_capture() -> Path:
    """1 031 frames of conformance tests."""
    return capture("conformance-frames.json")


@pytest.fixture(scope="session")
def saint_eynard_capture() -> Path:
    """14 204 lines of one device on a mountain."""
    return capture("saint-eynard-33.ndjson.gz")


@pytest.fixture(scope="session")
def conformance_run(
    conformance_capture: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The run of all conformance logs with every strategy."""
    yield from _run(conformance_capture, tmp_path_factory, strategy=None, limit=None)


@pytest.fixture(scope="session")
def saint_eynard_run(
    saint_eynard_capture: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The run of the archive with the strategy Mark, which has the most words."""
    yield from _run(saint_eynard_capture, tmp_path_factory, strategy="Mark", limit=ARCHIVED_UPLINKS)


def _run(
    path: Path, tmp_path_factory: pytest.TempPathFactory, *, strategy: str | None, limit: int | None
) -> Iterator[Path]:
    runs_dir = tmp_path_factory.mktemp("runs")
    yield traffic.run([path], runs_dir=runs_dir, strategy=strategy, seed=1, limit=limit)
    shutil.rmtree(runs_dir)  # it is large
