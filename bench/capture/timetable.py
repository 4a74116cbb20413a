"""Which cases of a run were open at a moment?"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping

HOST_STALLED = "host.stalled"  # concerns every case that was open when the host woke

_LATER_US = 10**18  # later than anything


class Timetable:
    """When each case of a run was open, both ends included, in µs; built once, never changed.

    `cases` are in the order in which they began.
    """

    def __init__(self, windows: Mapping[str, tuple[int, int]]) -> None:
        self._windows = dict(sorted(windows.items(), key=lambda item: item[1][0]))
        self._points: list[int] = []
        self._open: list[tuple[str, ...]] = []
        for t_us, case, begins in self._changes():
            now = self._open[-1] if self._open else ()
            now = (*now, case) if begins else tuple(name for name in now if name != case)
            if self._points and self._points[-1] == t_us:
                self._open[-1] = now
            else:
                self._points.append(t_us)
                self._open.append(now)

    @classmethod
    def of(cls, begins_us: Mapping[str, int], ends_us: Mapping[str, int]) -> "Timetable":
        """A case without an end, as in a run that was killed, is open until another one begins."""
        following = sorted(begins_us.values())
        windows = {}
        for case, begin_us in begins_us.items():
            place = bisect_right(following, begin_us)
            next_us = following[place] if place < len(following) else _LATER_US
            windows[case] = begin_us, ends_us.get(case, next_us - 1)
        return cls(windows)

    @property
    def cases(self) -> tuple[str, ...]:
        return tuple(self._windows)

    def __contains__(self, case: str) -> bool:
        return case in self._windows

    def window(self, case: str) -> tuple[int, int]:
        """The first and the last µs of a case; KeyError for one that did not begin."""
        return self._windows[case]

    def open_at(self, t_us: int) -> tuple[str, ...]:
        """The cases that were open at this moment, in the order in which they began."""
        place = bisect_right(self._points, t_us) - 1
        return self._open[place] if place >= 0 else ()

    def _changes(self) -> Iterator[tuple[int, str, bool]]:
        """Each beginning, and the first µs after each end; an end comes before a beginning."""
        changes = [(begin_us, True, case) for case, (begin_us, _) in self._windows.items()]
        changes += [(end_us + 1, False, case) for case, (_, end_us) in self._windows.items()]
        order = sorted(changes, key=lambda change: change[:2])
        return ((t_us, case, begins) for t_us, begins, case in order)
