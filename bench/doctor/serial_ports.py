"""Are there boards at serial ports, may they be opened, and does somebody else open them?"""

import grp
import os
from pathlib import Path

from bench.doctor.check import Looked, missing, ok, warning

GROUP = "dialout"
_PATTERNS = ("ttyUSB*", "ttyACM*")
_INTRUDERS = ("ModemManager", "brltty")
_SHOWN_MAX = 6


def serial_ports(root: Path) -> list[Path]:
    """The serial ports of USB, by name."""
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
    running = {_name_of(process) for process in (root / "proc").glob("[0-9]*")}
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


def _name_of(process: Path) -> str:
    try:
        return (process / "comm").read_text("utf-8", "replace").strip()
    except OSError:  # it has ended meanwhile
        return ""
