"""What has a consumer of this process done, in a file that lies beside its own?"""

import sys
from collections.abc import Callable
from pathlib import Path

from bench.capture import Record
from bench.inspection.consumer import ConsumerBooks, refusal
from bench.rig.interfaces import ConsumerSettings
from bench.verdict.wire import json_of
from lns.clock import now_us
from lns.delivery import Incoming
from lns.delivery.effect import EffectUnavailable, JsonLinesFile, JsonLinesStream, json_lines
from lns.store.inbox_store import Transaction


class Refused(Exception):
    """The application cannot have this message."""


class Lines:
    """The effect: a line of JSON in a file for each message, written to the capture once it stays.

    What a kill took back is cut off, unless the file is `elsewhere`: a pipe, which keeps all that
    it was given. Messages whose id begins with what the effect `refuses` fail, the first `refusals`
    times (None: always).
    """

    def __init__(
        self,
        settings: ConsumerSettings,
        folder: Path,
        record: Record,
        crashes: Callable[[str], None],
        books: ConsumerBooks,
        found: Callable[[str], None],
        kept: Callable[[], None],
    ) -> None:
        self._kept = kept
        self._name = settings.name
        self._books = books
        self._found = found
        self._record = record
        self._crashes = crashes
        self._refuses = settings.refuses
        self._refusals = settings.refusals
        self._elsewhere = settings.elsewhere
        self.path = folder / f"{settings.name}.jsonl"
        self._told_octets = 0
        self._had = 0
        self.room: int | None = None
        self._lines: JsonLinesFile | JsonLinesStream

    def begin(self) -> None:
        """Open the file, as a consumer does that starts."""
        self._had = 0
        if self._elsewhere:
            self._lines = JsonLinesStream(self.path.open("ab", buffering=0), owned=True)
        else:
            self._lines = json_lines(str(self.path), sys.stdout.buffer)

    def give_up(self) -> None:
        """The consumer is gone, and with it what it had opened."""
        self._lines.close()

    def open(self, transaction: Transaction) -> None:
        """What was never kept is no more in the file; EffectUnavailable."""
        self._lines.open(transaction)
        self._look("when it is opened")

    def handle(self, message: Incoming, transaction: Transaction) -> None:
        """Have one more line; EffectUnavailable while there is no room."""
        self._crashes("effect")
        for text in self._books.tried(self._name, message.channel, message.message_id, now_us()):
            self._found(text)
        if self.room is not None and self._had >= self.room:
            self._books.unavailable(self._name, now_us())
            raise EffectUnavailable("the application has no room")
        refuses = self._refuses is not None and message.message_id.startswith(self._refuses)
        if refuses and self._refusals != 0:
            if self._refusals is not None:
                self._refusals -= 1
            self._books.failed(self._name, message.channel, message.message_id, now_us())
            raise Refused(refusal(message.message_id))
        self._lines.handle(message, transaction)
        self._had += 1

    def flush(self, transaction: Transaction) -> None:
        """The lines are in the file."""
        self._lines.flush(transaction)
        if self._elsewhere:
            self._tell()
        if self._had:
            self._crashes("commit")

    def end(self, *, kept: bool) -> None:
        """Keep the lines or none of them."""
        self._lines.end(kept=kept)
        if self._had and not kept:
            self._found(f"{self._name}: {self._had} effects were had and are not kept")
        if self.room is not None:
            self.room -= self._had
        self._had = 0
        if kept:
            self._tell()
            self._kept()

    def _tell(self) -> None:
        """Write down the lines that are new."""
        octets = self.path.read_bytes()[self._told_octets :]
        self._told_octets += len(octets)
        for text in octets.splitlines():
            line = json_of(text.decode(errors="replace")) or {}
            self._books.had(self._name, line)
            fields = {"consumer": self._name, "channel": line.get("channel", "")}
            fields |= {"message_id": line.get("messageId", ""), "position": line.get("position")}
            self._record("application", "application.effect", fields)

    def look_at_the_end(self) -> None:
        """Nothing has become of the file but what was told."""
        if self.path.exists():
            self._look("in the end")

    def _look(self, when: str) -> None:
        octets = self.path.stat().st_size
        if octets != self._told_octets:
            due = self._told_octets
            self._found(f"{self._name}: effects {when}: expected {due} octets, observed {octets}")
