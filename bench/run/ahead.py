"""How is a long run on virtual time played on more than one processor, with the same bytes?

Cases come in chunks, and each chunk begins at a time of its own, however long those before it took.
So other processes, forks of this one, can play every other chunk while this one plays the rest.
What they tell of a case is taken only if it passed and began when it was to begin; everything else
this process plays itself. The capture is written here alone, in the order of the cases.
"""

import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import msgspec

from bench.run.attempts import Play
from bench.verdict.expectation import Result, Verdict
from lns.capture import Capture
from lns.clock import now_us

CHUNK = 64
CHUNK_US = 60 * 86_400_000_000
"""Longer than any chunk takes on its clock. One that takes longer delays the next ones."""
PROCESSES_MAX = 4

_encode = msgspec.json.Encoder().encode
Kept = tuple[str, str, int, bytes]  # source, kind, t_us, the fields as JSON


@dataclass(frozen=True, slots=True)
class Played:
    """One case that passed: from when to when (µs), and what it has to say."""

    case: str
    begun_us: int
    next_us: int
    verdict: Verdict
    lines: Sequence[Kept]

    def write(self, capture: Capture) -> None:
        """The lines of the case, numbered anew; OSError where they cannot be written."""
        last_seq: dict[str, int] = {}
        for source, kind, t_us, fields in self.lines[:-1]:
            last_seq[source] = capture.record_json(source, kind, fields, t_us)
        source, kind, t_us, fields = self.lines[-1]
        end = msgspec.json.decode(fields)
        end["books"] = [{**one, "last_seq": last_seq[one["source"]]} for one in end["books"]]
        capture.record(source, kind, end, t_us=t_us)


@dataclass(slots=True)
class Lines:
    """Keeps what a case records, as a capture would write it."""

    kept: list[Kept] = field(default_factory=list)
    _seq: dict[str, int] = field(default_factory=dict)

    def record(
        self, source: str, kind: str, fields: dict[str, object], *, t_us: int | None = None
    ) -> dict[str, object]:
        when_us = now_us() if t_us is None else t_us
        seq = self._seq[source] = self._seq.get(source, -1) + 1
        self.kept.append((source, kind, when_us, _encode(fields)))
        return {"source": source, "seq": seq, "t_us": when_us, "kind": kind} | fields

    def flush(self) -> None:
        """They are told when the case is over."""


PlayOne = Callable[[Play, Lines, int], tuple[Verdict, int]]
"""Plays a case from a time on; its verdict, and when the next one begins (µs)."""


@dataclass(slots=True)
class _Helper:
    process: BaseProcess
    told: Connection

    def next(self) -> Played | None:
        try:
            played: Played = self.told.recv()
        except (EOFError, OSError):
            return None
        return played

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.process.close()
        self.told.close()


class Ahead:
    """The chunks of a run, and the processes that play some of them."""

    def __init__(self, plays: Sequence[Play], *, chunk: int = CHUNK) -> None:
        self._chunks = [plays[at : at + chunk] for at in range(0, len(plays), chunk)]
        self._chunk_of = {
            play.title.case: number for number, one in enumerate(self._chunks) for play in one
        }
        self._helpers: list[_Helper] = []
        self._played: dict[str, Played] = {}

    def begin(self, play: PlayOne, *, processes: int) -> None:
        """Let others play, `processes` together with this one; never beside other threads."""
        processes = min(processes, PROCESSES_MAX, len(self._chunks))
        if "fork" not in get_all_start_methods() or threading.active_count() > 1:
            return
        for number in range(1, processes):
            told, tell = get_context("fork").Pipe(duplex=False)
            heard = [*(helper.told for helper in self._helpers), told]
            mine = dict(list(enumerate(self._chunks))[number::processes])
            process = get_context("fork").Process(
                target=_play_ahead, args=(tell, heard, mine, play), daemon=True
            )
            process.start()
            tell.close()
            self._helpers.append(_Helper(process, told))

    def begins_us(self, case: str, next_us: int) -> int:
        """When a case begins whose predecessor let it begin at `next_us`."""
        return max(next_us, self._chunk_of.get(case, 0) * CHUNK_US)

    def take(self, case: str, begins_us: int) -> Played | None:
        """The case as another process has played it; None if this one is to play it."""
        chunk = self._chunk_of.get(case)
        number = 0 if chunk is None else chunk % (len(self._helpers) + 1)
        if number == 0:
            return None
        while case not in self._played:
            played = self._helpers[number - 1].next()
            if played is None:
                return None
            self._played[played.case] = played
        played = self._played.pop(case)
        passed = played.verdict.result is Result.PASS
        return played if passed and played.begun_us == begins_us else None

    def close(self) -> None:
        """Stop whoever still plays."""
        while self._helpers:
            self._helpers.pop().stop()


def _play_ahead(
    tell: Connection,
    heard: Sequence[Connection],
    chunks: Mapping[int, Sequence[Play]],
    play: PlayOne,
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever began it stops it
    for connection in heard:
        connection.close()  # or nothing would tell that the listener is gone
    with closing(tell), suppress(BrokenPipeError):
        for number, plays in chunks.items():
            next_us = number * CHUNK_US
            for one in plays:
                begun_us, lines = next_us, Lines()
                verdict, next_us = play(one, lines, begun_us)
                told = lines.kept if verdict.result is Result.PASS else []
                tell.send(Played(one.title.case, begun_us, next_us, verdict, told))
