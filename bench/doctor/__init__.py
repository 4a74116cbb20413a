"""Has the machine the room, the rights, the ports, the clocks and the boards that a run needs?"""

import ctypes
import grp
import os
import resource
import shutil
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.capture.run_folder import captures_to_ask, unanswering
from bench.doctor import installed
from bench.doctor.installed import (
    Check,
    Look,
    Looked,
    Purpose,
    answer,
    checked,
    install,
    missing,
    obstacles,
    ok,
    warning,
    works,
)

# Read from /proc, where Linux tells it; of the programs of other users it does not.
_LISTENING = "0A"
_TABLES = ("tcp", "tcp6")


def listener(port: int, root: Path) -> str:
    """The program that listens on this port, "mosquitto, process 812"; "" where nobody tells."""
    sockets = {f"socket:[{inode}]" for inode in _inodes(port, root)}
    if not sockets:
        return ""
    for process in sorted((root / "proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        if _has_one_of(process, sockets):
            return f"{_name(process)}, process {process.name}"
    return ""


def _inodes(port: int, root: Path) -> set[str]:
    found = set()
    for table in _TABLES:
        try:
            lines = (root / "proc" / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if len(fields) < 10 or fields[3] != _LISTENING:
                continue
            if int(fields[1].rpartition(":")[2], 16) == port:
                found.add(fields[9])
    return found


def _has_one_of(process: Path, sockets: set[str]) -> bool:
    try:
        return any(str(handle.readlink()) in sockets for handle in (process / "fd").iterdir())
    except OSError:  # it is another user's, or has ended meanwhile
        return False


def _name(process: Path) -> str:
    try:
        return (process / "comm").read_text("utf-8", "replace").strip()
    except OSError:
        return "a program"


GROUP = "dialout"
_PATTERNS = ("ttyUSB*", "ttyACM*")
_INTRUDERS = ("ModemManager", "brltty")
_SHOWN_MAX = 6


def serial_ports(root: Path) -> list[Path]:
    return sorted(port for pattern in _PATTERNS for port in (root / "dev").glob(pattern))


def look_at_ports(root: Path) -> Looked:
    """The boards: each is a serial port."""
    ports = serial_ports(root)
    if not ports:
        return missing("no ttyUSB or ttyACM: no board is plugged in", "ls -l /dev/serial/by-id")
    more = f" and {len(ports) - _SHOWN_MAX} more" if len(ports) > _SHOWN_MAX else ""
    return ok(", ".join(port.name for port in ports[:_SHOWN_MAX]) + more)


def look_at_permission(root: Path) -> Looked:
    """Whether this user may open them; without any, whether it will be so."""
    join = f'sudo usermod -aG {GROUP} "$(id -un)"'
    ports = serial_ports(root)
    closed = [port.name for port in ports if not os.access(port, os.R_OK | os.W_OK)]
    if closed:
        return missing(f"{', '.join(closed[:_SHOWN_MAX])} may not be opened by this user", join)
    if ports:
        return ok("may be opened by this user")
    if os.geteuid() == 0:
        return ok("this user is root")
    if _is_member(os.getgroups()):
        return ok(f"this user is in the group {GROUP}")
    return warning(f"this user is not in the group {GROUP} (after the command: log in anew)", join)


def look_at_intruders(root: Path) -> Looked:
    """Programs that talk to every new serial port, and so to our boards."""
    running = {_name(process) for process in (root / "proc").glob("[0-9]*")}
    found = [name for name in _INTRUDERS if name in running]
    if found:
        stop = f"sudo systemctl disable --now {' '.join(found)}"
        return warning(f"{' and '.join(found)} will talk to the boards", stop)
    return ok(f"neither {' nor '.join(_INTRUDERS)} is running")


def _is_member(groups: list[int]) -> bool:
    try:
        return grp.getgrnam(GROUP).gr_gid in groups
    except KeyError:
        return False


DISK_MIN_MB, DISK_WANTED_MB = 500, 5_000
MEMORY_WANTED_MB = 3_000  # Spark takes 2 GB
CORES_WANTED = 2
PORTS_WANTED = 8  # network servers, taps, broker, store
PTYS_MIN, PTYS_WANTED = 4, 256  # one for each virtual board; cases run side by side
FILES_MIN, FILES_WANTED = 256, 4_096  # a pty has two, a link of a station four
USUAL_PORTS = {6090: "network server", 1883: "broker", 6379: "store"}
RESOLUTION_MAX_NS = 1_000
_TIMEX_BYTES = 1_024  # more than any struct timex; all zero: tell, change nothing
_TIME_ERROR = 5


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
    free_mb = shutil.disk_usage(_existing(folder)).free // 1_000_000
    space = f"{free_mb / 1000:.1f} GB free"
    if free_mb < DISK_MIN_MB:
        return missing(f"{space}; {DISK_MIN_MB} MB are needed at least", f"du -sh {folder}/*")
    if free_mb < DISK_WANTED_MB:
        return warning(f"{space}; a night of real traffic wants more", f"du -sh {folder}/*")
    return ok(space)


def look_at_memory(root: Path) -> Looked:
    """Cores, and the memory that is left: Spark takes 2 GB."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cores = cores or 1
    free_mb = _available_mb(root / "proc" / "meminfo")
    memory = "memory unknown" if free_mb is None else f"{free_mb / 1000:.1f} GB of memory free"
    machine = f"{cores} core{'' if cores == 1 else 's'}, {memory}"
    if free_mb is not None and free_mb < MEMORY_WANTED_MB:
        return warning(f"{machine}; Spark wants 3 GB", "ps aux --sort=-rss | head")
    if cores < CORES_WANTED:
        return warning(f"{machine}; a night takes twice as long", "nproc")
    return ok(machine)


def look_at_captures(files: Sequence[Path]) -> Looked:
    """Captures of real traffic, which the nightly imports if there are any."""
    if not files:
        return warning(
            "none: the nightly runs without real traffic", "lorabench nightly --captures FOLDER"
        )
    return ok(f"{len(files)} in {files[0].parent}")


def look_at_answers(runs: Path, capture: Path | None) -> Looked:
    """Gateways that a network server could not answer through, in its capture or the newest run."""
    try:
        files = captures_to_ask(runs, capture)
        late = unanswering(files)
    except OSError as error:
        said = f"{capture or runs} cannot be read: {error.strerror or error}"
        return warning(said, "lorabench doctor --lns-capture FILE")
    if late:
        sentence = "; ".join(f"{eui}: {said}" for eui, said in sorted(late.items()))
        return warning(sentence, "lorabench stations check")
    if not files:
        return ok("not asked yet: no run with gateways, and no --lns-capture")
    return ok("no gateway that answers too late")


def look_at_tcp_ports(root: Path) -> Looked:
    """Free TCP ports of the loopback for a rig, and who has the usual ones."""
    with ExitStack() as opened:
        for number in range(PORTS_WANTED):
            if not _is_free(0, opened):
                return missing(f"{number} of {PORTS_WANTED} ports on 127.0.0.1", "ss -tlnp")
        taken = [port for port in USUAL_PORTS if not _is_free(port, opened)]
        holders = [
            f"{port} ({USUAL_PORTS[port]}) is taken by {listener(port, root) or 'somebody'}"
            for port in taken
        ]
    if taken:
        # The rigs choose their ports: this only matters to who starts a program by hand.
        which = " or ".join(f"sport = :{port}" for port in taken)
        return warning(f"free on 127.0.0.1, but {', '.join(holders)}", f"ss -tlnp '{which}'")
    return ok(f"free on 127.0.0.1, also {', '.join(map(str, USUAL_PORTS))}")


def look_at_ptys(root: Path) -> Looked:
    """The lines on which virtual boards answer: whether they open, and how many there may be."""
    opened: list[int] = []
    try:
        for _ in range(PTYS_MIN):
            opened += os.openpty()
    except OSError as error:
        said = f"{len(opened) // 2} of {PTYS_MIN} could be opened: {error.strerror}"
        return missing(said, "sudo mount -t devpts devpts /dev/pts")
    finally:
        for handle in opened:
            os.close(handle)
    most, used = (_number(root / "proc/sys/kernel/pty" / name) for name in ("max", "nr"))
    if most is None or used is None:
        return ok("can be opened")
    room = f"can be opened, {most - used} of {most} are free"
    if most - used < PTYS_WANTED:
        return warning(room, f"sudo sysctl kernel.pty.max={most + PTYS_WANTED}")
    return ok(room)


def look_at_open_files() -> Looked:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits = f"{_limit(soft)} at once" + (f", {_limit(hard)} if asked for" if hard != soft else "")
    if 0 <= soft < FILES_MIN:
        return missing(f"{limits}; {FILES_MIN} are needed at least", f"ulimit -n {FILES_WANTED}")
    if 0 <= soft < FILES_WANTED and 0 <= hard < FILES_WANTED:
        return warning(
            f"{limits}; many cases side by side want {FILES_WANTED}",
            f"sudo prlimit --nofile={FILES_WANTED} --pid $$",
        )
    return ok(limits)


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
    there = shutil.which("timedatectl") is not None
    said = answer(["timedatectl", "show", "-p", "NTPSynchronized", "--value"]) if there else ""
    match (said or "").strip():
        case "yes":
            return ok("synchronised, says timedatectl")
        case "no":
            said = "not synchronised, says timedatectl"
            return warning(said, "sudo timedatectl set-ntp true")
    # No systemd, as in a container: the kernel knows whether anybody disciplines its clock.
    synchronised = kernel_clock_is_synchronised()
    if synchronised is None:
        return warning("not known: neither timedatectl nor the kernel tells", "chronyc tracking")
    if synchronised:
        return ok("synchronised, says the kernel")
    return warning("not synchronised, says the kernel", install("chrony"))


def kernel_clock_is_synchronised() -> bool | None:
    """What adjtimex(2), which changes nothing here, says; None where there is none."""
    try:
        adjtimex = ctypes.CDLL(None, use_errno=True).adjtimex
    except (OSError, AttributeError):
        return None
    state = int(adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES)))
    return None if state < 0 else state != _TIME_ERROR


def _existing(folder: Path) -> Path:
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


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _limit(number: int) -> str:
    return "any number" if number == resource.RLIM_INFINITY else str(number)


def _is_free(port: int, opened: ExitStack) -> bool:
    listener = opened.enter_context(socket.socket())
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(1)
    except OSError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Places:
    """Where to look: folders of the user, and the root of the file system."""

    runs: Path
    lake: str
    captures: Sequence[Path] = ()
    lns_capture: Path | None = None
    root: Path = Path("/")


def diagnosis(places: Places) -> list[Check]:
    """Every check, by what it is needed for. Never raises, starts no Java, and takes no second."""
    root = places.root
    lock = installed.project_folder() / installed.LOCK
    night, emulated, hardware = Purpose.NIGHTLY, Purpose.EMULATED, Purpose.HARDWARE
    looks: list[tuple[str, Purpose, Look]] = [
        ("Python", night, installed.look_at_python),
        ("packages", night, partial(installed.look_at_packages, lock)),
        ("Spark", night, installed.look_at_spark),
        ("Java", night, installed.look_at_java),
        ("Java's archive", night, installed.look_at_archive),
        ("folders", night, partial(look_at_folders, (places.runs, places.lake))),
        ("disk", night, partial(look_at_disk, places.runs)),
        ("cores, memory", night, partial(look_at_memory, root)),
        ("captures", night, partial(look_at_captures, places.captures)),
        ("rig", emulated, partial(installed.look_at_rig, "emulated")),
        ("Mosquitto", emulated, partial(installed.look_at_broker, root)),
        ("Redis or Valkey", emulated, partial(installed.look_at_store, root)),
        ("TCP ports", emulated, partial(look_at_tcp_ports, root)),
        ("ptys", emulated, partial(look_at_ptys, root)),
        ("open files", emulated, look_at_open_files),
        ("monotonic clock", emulated, look_at_monotonic_clock),
        ("rig", hardware, partial(installed.look_at_rig, "hardware")),
        ("serial ports", hardware, partial(look_at_ports, root)),
        ("permission", hardware, partial(look_at_permission, root)),
        ("other programs", hardware, partial(look_at_intruders, root)),
        ("answers", hardware, partial(look_at_answers, places.runs, places.lns_capture)),
        ("wall clock", hardware, partial(look_at_wall_clock, root)),
    ]
    return [checked(name, purpose, look) for name, purpose, look in looks]


def conclusion(checks: Sequence[Check]) -> str:
    ready = [f"the {purpose}" for purpose in Purpose if works(checks, purpose)]
    said = [f"{_listed(ready)} can run"] if ready else []
    for purpose in Purpose:
        lacking = [check for check in obstacles(checks, purpose) if check.purpose is purpose]
        if lacking:
            said.append(f"the {purpose} lacks {_listed([_named(check) for check in lacking])}")
        elif not works(checks, purpose):
            said.append(f"the {purpose} waits for that")
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]}."


def _named(check: Check) -> str:
    return "its driver in this version" if check.name == "rig" else check.name


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
