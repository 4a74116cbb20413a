"""A broker and an application for the tests of the way upstream."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker import Listener, Mosquitto


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Mosquitto]:
    """A running broker that anybody may use."""
    server = Mosquitto(tmp_path).start()
    yield server
    server.stop()


@pytest.fixture
def listener(mosquitto: Mosquitto) -> Iterator[Listener]:
    """An application that hears all."""
    application = Listener(mosquitto.port)
    yield application
    application.close()
