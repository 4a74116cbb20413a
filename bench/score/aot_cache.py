"""Can the Java machine start from an archive of classes that an earlier start has left behind?

JDK 25 and later can: a machine told to do so notes what it loads, and from the notes a second one
builds an archive (about 200 MB, some 20 s). The archive fits one Java build and one list of jars,
so its name is made from both: another Java or another Spark finds no archive and has a new one
built.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.score.java import JavaRuntime, cache_folder

_KEPT_MAX = 2
_BUILDING_MAX_S = 180
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

    def build(self, java: JavaRuntime, started_with: list[str]) -> None:
        """Build the archive from the notes of the machine that had these arguments and has ended.

        Without notes, or where Java cannot build it, there is simply no archive.
        """
        if not self._notes.is_file():
            return
        # The modules opened must be the same in all three machines: the one that took the notes,
        # this one, and those that will start from the archive.
        same = [argument for argument in started_with if not argument.startswith("-XX:AOT")]
        command = [str(java.home / "bin" / "java"), "-XX:AOTMode=create"]
        command += [f"-XX:AOTConfiguration={self._notes}", f"-XX:AOTCache={self._unfinished}"]
        quiet = subprocess.DEVNULL
        try:
            subprocess.run(
                [*command, *same],
                stdin=quiet,
                stdout=quiet,
                stderr=quiet,
                timeout=_BUILDING_MAX_S,
                check=True,
            )
            self._unfinished.replace(self.path)
        except (subprocess.SubprocessError, FileNotFoundError):
            self._unfinished.unlink(missing_ok=True)
        self._notes.unlink(missing_ok=True)
        archives = sorted(self.path.parent.glob("*.aot"), key=lambda path: path.stat().st_mtime_ns)
        for old in archives[:-_KEPT_MAX]:
            old.unlink(missing_ok=True)

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
