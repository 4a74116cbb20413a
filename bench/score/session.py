"""How does the bench get a Spark session that starts fast, says little and leaves nothing?"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from bench.score.aot_cache import AotCache, aot_cache
from bench.score.java import cache_folder, cached_text, java_runtime

LOCAL_MASTER = "local[*]"
_ENDING_MAX_S = 60
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
logger.fields.name = org.apache.spark.sql.catalyst.util.SparkStringUtils
logger.fields.level = error
"""


class Profile(StrEnum):
    """What the Java machine is tuned for."""

    THROUGHPUT = "throughput"
    QUICK_START = "quick start"  # C1 compiler only: for the test suite, slow on millions of rows


def _silent(_: str) -> None:
    return None


@contextmanager
def session(
    master: str | None = None,
    *,
    profile: Profile = Profile.THROUGHPUT,
    memory: str = "2g",
    shuffle_partitions: int | None = None,
    compiled: bool = True,
    progress: Callable[[str], None] = _silent,
) -> Iterator[SparkSession]:
    """A Spark session on `master` (default: all cores of this machine), stopped at the end.

    `compiled` lets Spark compile each query, which pays from some hundred thousand rows on.
    A session that is already active in this process is lent instead, and left running. The first
    session on a JDK 25 or later also builds the archive of aot_cache, which makes its end 20 to
    30 s longer, once. Raises JavaMissing.
    """
    lent = SparkSession.getActiveSession()
    if lent is not None:
        yield lent
        return
    java = java_runtime()
    os.environ.update(java.environment())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    archive = aot_cache(java, Path(pyspark.__file__).parent / "jars")
    recording = archive is not None and not archive.is_built
    recording = recording and profile is Profile.THROUGHPUT and not _java_is_running()
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
        if recording and archive is not None:
            started_with = _java_arguments(spark)
            spark.stop()
            progress("keeping Java's classes for faster starts (once, about 20 s)")
            _end_java()
            archive.build(java, started_with)
        else:
            spark.stop()


def _java_options(archive: AotCache | None, *, recording: bool, profile: Profile) -> list[str]:
    log4j2 = cached_text("log4j2.properties", _LOG4J2)
    options = [f"-Dlog4j2.configurationFile={log4j2.as_uri()}"]
    if profile is Profile.QUICK_START:
        options += ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    if archive is not None and recording:
        options += archive.record_options()
    elif archive is not None and archive.is_built:
        options += archive.start_options()
    return options


def _build(
    master: str,
    *,
    memory: str,
    shuffle_partitions: int | None,
    compiled: bool,
    java_options: list[str],
) -> SparkSession:
    local = master.startswith("local")
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
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        "spark.sql.debug.maxToStringFields": "200",
        # Plans are checked once more after every rule, for the authors of rules.
        "spark.sql.lightweightPlanChangeValidation": "false",
        # Every column expression would otherwise look up the Python line that made it.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }
    if not compiled:
        settings["spark.sql.codegen.wholeStage"] = "false"
        settings["spark.sql.codegen.factoryMode"] = "NO_CODEGEN"
    if local:
        settings["spark.driver.bindAddress"] = "127.0.0.1"
        settings["spark.driver.host"] = "127.0.0.1"
    builder = SparkSession.builder.appName("lorabench score").master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _java_is_running() -> bool:
    return pyspark.SparkContext._gateway is not None


def _java_arguments(spark: SparkSession) -> list[str]:
    java: Any = spark.sparkContext._jvm
    machine = java.java.lang.management.ManagementFactory.getRuntimeMXBean()
    return [*map(str, machine.getInputArguments()), "-cp", str(machine.getClassPath())]


def _end_java() -> None:
    """Let the Java machine end now, and wait for it: it writes its notes while it ends."""
    gateway = pyspark.SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return
    gateway.shutdown()
    process.stdin.close()
    process.wait(_ENDING_MAX_S)
    pyspark.SparkContext._gateway = None
    pyspark.SparkContext._jvm = None
