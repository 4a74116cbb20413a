"""How many files, sockets and ptys may this process have open?"""

import resource


def take_all_allowed() -> int:
    """Raise the limit of this process, and of its children, as far as it may; the new limit.

    The usual 1024 are fewer than the sockets and ptys of many cases side by side.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
