"""What has a bench sent in the hour before this run began?

The law knows no runs: who begins a second one within the hour has used up a part of it already.
Beside the bench lies a file with a line for each transmission, by the wall clock.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.lab.regulation.airtime_ledger import HOUR_US, AirtimeLedger
from lns.lorawan.region import Region

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class _Line:
    """One transmission in the file; `start_utc_us` counts from 1970."""

    transmitter: str
    freq_hz: int
    airtime_us: int
    start_utc_us: int


class LastingLedger(AirtimeLedger):
    """An airtime ledger that begins with what its file has of the last hour, and goes on in it.

    `now_us` and `utc` are the two clocks at this moment. Only one run may have the file at a time:
    that of the bench's lock. OSError where the file cannot be written.
    """

    def __init__(
        self, region: Region, file: Path, *, conducted: bool, now_us: int, utc: datetime
    ) -> None:
        super().__init__(region, conducted=conducted)
        self._file = file
        utc_us = (utc - _EPOCH) // _MICROSECOND
        self._ahead_us = utc_us - now_us
        kept = [line for line in _read(file) if line.start_utc_us > utc_us - 2 * HOUR_US]
        # A wall clock that was set back must not make a transmission one of tomorrow.
        kept = [_ended(line, by_utc_us=utc_us) for line in kept]
        for line in sorted(kept, key=lambda line: line.start_utc_us):
            start_us = line.start_utc_us - self._ahead_us
            super().note(line.transmitter, line.freq_hz, line.airtime_us, start_us)
        aside = file.with_name(f"{file.name}.{os.getpid()}")
        aside.write_text("".join(map(_text, kept)), encoding="utf-8")
        aside.replace(file)

    def note(self, transmitter: str, freq_hz: int, airtime_us: int, start_us: int) -> None:
        """Book what was sent, also for the runs that follow."""
        super().note(transmitter, freq_hz, airtime_us, start_us)
        line = _Line(transmitter, freq_hz, airtime_us, start_us + self._ahead_us)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(_text(line))


def _read(file: Path) -> Iterator[_Line]:
    """The lines that are whole; none where there is no file."""
    if not file.is_file():
        return
    for text in file.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            told = json.loads(text)
            numbers = (int(told[name]) for name in ("freq_hz", "airtime_us", "start_utc_us"))
            yield _Line(str(told["transmitter"]), *numbers)
        except (ValueError, TypeError, KeyError):
            continue  # torn when its writer died


def _ended(line: _Line, *, by_utc_us: int) -> _Line:
    return replace(line, start_utc_us=min(line.start_utc_us, by_utc_us - line.airtime_us))


def _text(line: _Line) -> str:
    return json.dumps(asdict(line)) + "\n"
