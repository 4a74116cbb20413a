"""With which settings does Spark run, here or on a cluster?"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.spark.java import AotCache, aot_cache, cache_folder, cached_text, java_runtime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


def _silent(_: str) -> None:
    return None


def is_local(master: str) -> bool:
    """Whether all work is done by this very process; `local-cluster` starts others."""
    return re.match(r"local(\[|$)", master) is not None


@contextmanager
def session(
    master: str | None = None,
    *,
    profile: Profile = Profile.THROUGHPUT,
    memory: str | None = None,
    shuffle_partitions: int | None = None,
    compiled: bool = True,
    records: bool = True,
    progress: Callable[[str], None] = _silent,
) -> Iterator[SparkSession]:
    """A Spark session on `master` (default: all cores of this machine), stopped at the end.

    `compiled` lets Spark compile each query, which pays from millions of rows on; without it
    tables are taken to fit into one partition, and nothing is broadcast. `memory` is Java's heap,
    such as "8g"; left out, it follows from the profile and from what this machine has.
    A session that is already active in this process is lent instead, and left running. The first
    session on a JDK 25 or later that `records` also has the archive of classes built, which makes
    its end some seconds longer, once. Raises JavaMissing.
    """
    import pyspark
    from pyspark.sql import SparkSession

    lent = SparkSession.getActiveSession()
    if lent is not None:
        yield lent
        return
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
