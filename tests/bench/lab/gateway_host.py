"""A gateway to log in to, for tests: `ssh` on the search path runs commands on this host.

What `ssh`, `systemctl`, `journalctl` and the others were called with stands in `calls`.
"""

import os
from pathlib import Path

import pytest

SSH = """#!/bin/sh
printf 'ssh %s\\n' "$*" >> {folder}/calls
while [ "$1" = -o ]; do shift 2; done
case $1 in
*nowhere) echo "ssh: connect to host nowhere port 22: No route to host" >&2; exit 255 ;;
*stranger) echo "Host key verification failed." >&2; exit 255 ;;
esac
PATH={folder}/there:$PATH exec sh -c "$2"
"""


class GatewayHost:
    """The gateway: programs in `there`, the home of its station in `home`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        (folder / "there").mkdir()
        (folder / "here").mkdir()
        self._write(folder / "here/ssh", SSH.format(folder=folder))
        self.program("systemctl", "")
        self.program("journalctl", f"cat {folder}/journal")

    def program(self, name: str, text: str) -> None:
        """A program of the gateway: it is noted, and does this."""
        noting = f"printf '%s %s\\n' {name} \"$*\" >> {self.folder}/calls"
        self._write(self.folder / "there" / name, f"#!/bin/sh\n{noting}\n{text}\n")

    def journal(self, text: str) -> None:
        """What `journalctl` prints."""
        (self.folder / "journal").write_text(text)

    @property
    def calls(self) -> list[str]:
        """Every call of a program that is noted."""
        calls = self.folder / "calls"
        return calls.read_text().splitlines() if calls.exists() else []

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)


@pytest.fixture(name="host")
def gateway_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GatewayHost:
    folder = tmp_path / "gateway"
    folder.mkdir()
    host = GatewayHost(folder)
    monkeypatch.setenv("PATH", f"{folder}/here{os.pathsep}{os.environ['PATH']}")
    return host
