"""How does a process of an emulated lab live? Until the lab ends it."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


def live(work: Coroutine[Any, Any, None]) -> int:
    """Do this until the process is ended; a Ctrl-C at the terminal is for the lab, not for us."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(work)
    return 0
