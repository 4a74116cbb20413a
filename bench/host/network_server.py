"""A network server as a process of its own: started, killed, paused and restarted for real."""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import lns
from bench.host.listener import Listener
from bench.host.ports import LOOPBACK
from bench.host.program import ProgramDied, Starter
from bench.host.toml_text import toml_text
from lns.server.address import DISCOVERY_PATH, host_and_port

START_S = 60
COMMAND = "LORABENCH_SERVER"
"""The environment variable with the command of another network server than that of this tree."""
_LISTENING = "listening "

Sections = Mapping[str, Mapping[str, object]]


class ServerDied(ProgramDied):
    """A network server ended while it was to serve, and nobody had asked it to."""


class LnsProcess(Listener):
    """`python -m lns` on the files `lns.toml` and `devices.toml` in `folder`, log beside them.

    Another command may stand in the environment (LORABENCH_SERVER); else `starter` starts it, if
    given.

    `settings` are the sections of `lns.toml`, `devices` the tables of `devices.toml`; both files
    are written anew, readable by their owner only, at each start. Without a port in `[lns] listen`
    one is chosen at the first start and stays. `uri`, once it has started, is what `tc.uri` says.
    """

    taken_says = "cannot listen on"

    def __init__(
        self,
        folder: Path,
        settings: Sections,
        devices: Sequence[Mapping[str, object]],
        *,
        env: Mapping[str, str] | None = None,
        starter: Starter | None = None,
    ) -> None:
        given = shlex.split(os.environ.get(COMMAND, ""))
        name = str(settings.get("lns", {}).get("id", "lns"))
        listen = settings.get("lns", {}).get("listen", f"{LOOPBACK}:0")
        self._host, port = host_and_port(str(listen))
        super().__init__(
            f"network server {name}", folder / "lns.log", port=port,
            starter=None if given else starter,
        )  # fmt: skip
        self.folder = folder
        self.settings = settings
        self.devices = devices
        self.uri = ""
        self._command = given or [sys.executable, "-m", "lns"]
        # Another server finds its own package, and not the one in the folder where this runs.
        apart = {"PYTHONPATH": "", "PYTHONSAFEPATH": "1"}
        own = apart if given else {"PYTHONPATH": source_folder()}
        self._env = {**own, **(env or {})}

    async def _serve(self) -> None:
        """Start it and wait until stations can connect; `uri` is then what `tc.uri` would say."""
        self._write_files()
        await self.begin(
            [*self._command, str(self.folder / "lns.toml")],
            speaks=True,
            env=self._env,
        )
        line = await self.first_line(START_S)
        if not line.startswith(_LISTENING):
            await self.kill()
            raise ProgramDied(f"{self.name} said {line!r} instead of where it listens")
        self.uri = line.removeprefix(_LISTENING).removesuffix(DISCOVERY_PATH)

    def _write_files(self) -> None:
        host = f"[{self._host}]" if ":" in self._host else self._host
        own = {"devices": "devices.toml", "listen": f"{host}:{self.port}"}
        settings = {**self.settings, "lns": {**self.settings.get("lns", {}), **own}}
        self.folder.mkdir(parents=True, exist_ok=True)
        _write_private(self.folder / "lns.toml", toml_text(settings))
        _write_private(self.folder / "devices.toml", toml_text({"device": self.devices}))


def _write_private(file: Path, text: str) -> None:
    """Replace a file by one that only its owner can read: it may hold keys."""
    file.unlink(missing_ok=True)
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(text)


def source_folder() -> str:
    """Where the package `lns` of this very bench lies, before all of PYTHONPATH."""
    folder = str(Path(lns.__path__[0]).resolve().parent)
    return os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))
