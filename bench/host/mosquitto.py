"""The MQTT broker of a rig: a real Mosquitto on a free port of the loopback.

It keeps its sessions on disk: stopped and started again, it has what it acknowledged.
"""

import os
import shutil
from pathlib import Path

from bench.host.listener import PolledListener
from bench.host.ports import LOOPBACK, is_answered
from bench.host.program import ProgramMissing

_PLACES = ("/usr/local/sbin", "/usr/sbin", "/opt/homebrew/sbin")
MISSING = (
    "Mosquitto, an MQTT broker, is needed and is not there: run `make mosquitto`, or install the"
    " package (sudo apt-get install --no-install-recommends mosquitto), or name the program in the"
    " environment variable MOSQUITTO"
)


def mosquitto_program() -> str:
    """The path of the program; ProgramMissing, which says what to do, where there is none."""
    places = os.pathsep.join((os.environ.get("PATH", os.defpath), *_PLACES))
    named = os.environ.get("MOSQUITTO")
    program = shutil.which(named or "mosquitto", path=places)
    if program is not None:
        return program
    if named:
        raise ProgramMissing(f"MOSQUITTO names {named}, and there is no such program: unset it")
    raise ProgramMissing(MISSING)


class Mosquitto(PolledListener):
    """One broker with its files in `folder`, and any further `lines` in its configuration.

    The port is chosen at the first start and stays. Without a `password_file` anybody may connect.
    """

    def __init__(self, folder: Path, *lines: str) -> None:
        super().__init__("mosquitto", folder / "mosquitto.log")
        self._program = mosquitto_program()
        self._folder = folder
        self._lines = lines

    @property
    def url(self) -> str:
        """The URL, without user and password."""
        return f"mqtt://{LOOPBACK}:{self.port}"

    def _is_ready(self) -> bool:
        return is_answered(self.port)

    def _begin(self) -> None:
        config = self._folder / "mosquitto.conf"
        own = [f"listener {self.port} {LOOPBACK}", f"persistence_location {self._folder}/"]
        own += ["persistence true", "log_dest stderr", "max_queued_messages 0"]
        if not any(line.startswith("password_file") for line in self._lines):
            own.append("allow_anonymous true")
        # As root it would become the user mosquitto, who may not write here.
        own += ["user root"] if os.geteuid() == 0 else []
        config.write_text("\n".join((*own, *self._lines)) + "\n")
        self.launch([self._program, "-c", str(config)])
