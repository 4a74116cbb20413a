"""Is the Python of this program the one it was tested with, packages included?"""

import importlib.util
import re
import sys
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

import bench
from bench.doctor.check import Looked, missing, ok, warning

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
    """Whether this version of the bench can drive the rig of that name."""
    if importlib.util.find_spec(f"bench.run.{name}") is not None:
        return ok("part of this version")
    return missing("not part of this version", "lorabench run --rig simulated")


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _some(names: list[str]) -> str:
    more = len(names) - _SHOWN_MAX
    return ", ".join(names[:_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
