"""Who listens on a TCP port of this host?

Read from /proc, where Linux tells it; of the programs of other users it does not.
"""

from pathlib import Path

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
    """The sockets that listen on this port, whatever the address."""
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
