"""How many files, sockets and ptys may this process have open, and how long may another's grow?"""

import resource

from bench.host.program import HostError


def take_all_allowed() -> int:
    """Raise the limit of this process, and of its children, as far as it may; the new limit.

    The usual 1024 are fewer than the sockets and ptys of many cases side by side.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def limit_file_size(pid: int, octets: int | None) -> None:
    """Let no file of another process grow beyond this, as on a full disk; None: as far as it may.

    HostError where the kernel has no such limit for others.
    """
    try:
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard if octets is None else octets, hard))
    except (AttributeError, OSError) as error:
        raise HostError(f"no limit for the files of process {pid}: {error}") from error
