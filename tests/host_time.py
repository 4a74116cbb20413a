"""How long did something take, on a host that has other work too?"""

from contextlib import suppress
from pathlib import Path
from time import monotonic


def coreless_us(pid: str = "self") -> int:
    """For how long threads of a process were ready to run and did not; 0 where nobody tells.

    All threads: one that has no core may have what another one waits for.
    """
    waited_ns = 0
    for told in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError, IndexError):  # it has ended meanwhile
            waited_ns += int(told.read_text().split()[1])
    return waited_ns // 1000


class Watch:
    """A stop watch that stands still while the host has no core for this process."""

    def __init__(self) -> None:
        self._began_s, self._coreless_us = monotonic(), coreless_us()

    @property
    def seconds(self) -> float:
        """What has passed since it was made."""
        without_s = (coreless_us() - self._coreless_us) / 1_000_000
        return max(0.0, monotonic() - self._began_s - without_s)
