"""Has the machine the room, the rights, the ports and the clocks that a run needs?"""

import os
import shutil
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.doctor.check import Looked, missing, ok, warning
from bench.doctor.programs import answer

DISK_MIN_MB, DISK_WANTED_MB = 500, 5_000
MEMORY_WANTED_MB = 3_000  # Spark takes 2 GB
CORES_WANTED = 2
PORTS_WANTED = 8  # network servers, taps, broker, store
USUAL_PORTS = {6090: "network server", 1883: "broker", 6379: "store"}
RESOLUTION_MAX_NS = 1_000


def look_at_folders(folders: Sequence[Path | str]) -> Looked:
    """Whether runs and the lake can be written; a lake elsewhere, named by a URI, is not tried."""
    here = [Path(folder) for folder in folders if "://" not in str(folder)]
    for folder in here:
        found = _existing(folder)
        if not found.is_dir():
            return missing(f"{found} is no folder", f"mv {found} {found}.old")
        if not os.access(found, os.W_OK | os.X_OK):
            return missing(f"{found} may not be written", f'sudo chown -R "$(id -u)" {found}')
    return ok(", ".join(f"{folder}/" for folder in here) + " can be written")


def look_at_disk(folder: Path) -> Looked:
    """Room for captures, Spark's tables and Java's archive."""
    free_mb = shutil.disk_usage(_existing(folder)).free // 1_000_000
    told = f"{free_mb / 1000:.1f} GB free"
    if free_mb < DISK_MIN_MB:
        return missing(f"{told}; {DISK_MIN_MB} MB are needed at least", f"du -sh {folder}/*")
    if free_mb < DISK_WANTED_MB:
        return warning(f"{told}; a night of real traffic wants more", f"du -sh {folder}/*")
    return ok(told)


def look_at_memory(root: Path) -> Looked:
    """Cores, and the memory that is left: Spark takes 2 GB."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cores = cores or 1
    free_mb = _available_mb(root / "proc" / "meminfo")
    memory = "memory unknown" if free_mb is None else f"{free_mb / 1000:.1f} GB of memory free"
    told = f"{cores} core{'' if cores == 1 else 's'}, {memory}"
    if free_mb is not None and free_mb < MEMORY_WANTED_MB:
        return warning(f"{told}; Spark wants 3 GB", "ps aux --sort=-rss | head")
    if cores < CORES_WANTED:
        return warning(f"{told}; a night takes twice as long", "nproc")
    return ok(told)


def look_at_captures(files: Sequence[Path]) -> Looked:
    """Captures of real traffic, which the nightly imports if there are any."""
    if not files:
        return warning(
            "none: the nightly runs without real traffic", "lorabench nightly --captures FOLDER"
        )
    return ok(f"{len(files)} in {files[0].parent}")


def look_at_ports() -> Looked:
    """Free TCP ports of the loopback for a rig, and whether the usual ones are taken."""
    with ExitStack() as opened:
        for number in range(PORTS_WANTED):
            if not _is_free(0, opened):
                return missing(f"{number} of {PORTS_WANTED} ports on 127.0.0.1", "ss -tlnp")
        taken = [
            f"{port} ({whose})" for port, whose in USUAL_PORTS.items() if not _is_free(port, opened)
        ]
    if taken:
        return warning(f"free ones on 127.0.0.1, but not {', '.join(taken)}", "ss -tlnp")
    return ok(f"free on 127.0.0.1, also {', '.join(map(str, USUAL_PORTS))}")


def look_at_monotonic_clock() -> Looked:
    """The clock that captures on real time are written with."""
    resolution_ns = round(time.get_clock_info("monotonic").resolution * 1_000_000_000)
    if resolution_ns > RESOLUTION_MAX_NS:
        return warning(f"resolution {resolution_ns} ns, coarser than 1 us", "uname -a")
    return ok(f"resolution {resolution_ns} ns")


def look_at_wall_clock(root: Path) -> Looked:
    """Whether the host's clock follows a time server: two gateways are compared by it."""
    if (root / "run" / "systemd" / "timesync" / "synchronized").exists():
        return ok("synchronised by systemd-timesyncd")
    start = "sudo timedatectl set-ntp true"
    if shutil.which("timedatectl") is None:
        return warning("not known: there is no timedatectl", "chronyc tracking")
    told = (answer(["timedatectl", "show", "-p", "NTPSynchronized", "--value"]) or "").strip()
    if told == "yes":
        return ok("synchronised, says timedatectl")
    if told == "no":
        return warning("not synchronised, says timedatectl", start)
    return warning("not known: timedatectl gives no answer here", "chronyc tracking")


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    found = folder.absolute()
    while not found.exists() and found != found.parent:
        found = found.parent
    return found


def _available_mb(meminfo: Path) -> int | None:
    if not meminfo.is_file():
        return None
    for line in meminfo.read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) // 1000
    return None


def _is_free(port: int, opened: ExitStack) -> bool:
    """Whether a port can be listened at; 0 is any. It is held until `opened` closes."""
    listener = opened.enter_context(socket.socket())
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(1)
    except OSError:
        return False
    return True
