"""One command on a serial line: which lines are its answer, which event is its end?"""

import asyncio
import re
from collections import deque

from bench.device.at import Line, LineKind
from bench.device.grammar import Reply
from bench.device.serial_line import LineLost

REPLIES_MAX = 100

Heard = Line | LineLost


class Exchange:
    """What a device said since a command was written to it.

    `status` is the line that ends the reply, `ending` the line that ends what was begun, counted
    only from the status on, or with `early` from the command on; a device that starts anew is both,
    and so is a lost line. `replies` are the lines before the status, `told` those after it, the
    newest. `after`: the reply that must come before a status counts, where one of an earlier
    command may be under way.
    """

    def __init__(
        self,
        command: str,
        reply: Reply,
        endings: re.Pattern[str] | None = None,
        *,
        after: str = "",
        early: bool = False,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.command = command
        self.replies: list[str] = []
        self.told: deque[str] = deque(maxlen=REPLIES_MAX)
        self.echoed = False
        self.status: asyncio.Future[Heard] = loop.create_future()
        self.ending: asyncio.Future[Heard] = loop.create_future()
        self._reply = reply
        self._endings = endings
        self._after = after.upper()
        self._early = early
        self._quiet: asyncio.TimerHandle | None = None

    def hear(self, line: Line) -> None:
        """Take a line, whoever it is for."""
        if line.kind is LineKind.BOOT:
            self.end(line)
        elif self.status.done():
            if line.kind is not LineKind.EVENT:
                self.told.append(line.text)
            self._hear_ending(line)
        elif line.kind is LineKind.EVENT:
            if self._early:
                self._hear_ending(line)
        else:
            self._hear_reply(line)

    def end(self, why: Heard) -> None:
        """Nothing more will come."""
        for future in (self.status, self.ending):
            if not future.done():
                future.set_result(why)

    def refuses(self, status: Line) -> bool:
        """Whether this status says that the device will not."""
        return self._reply.refused.fullmatch(status.text) is not None

    @property
    def is_under_way(self) -> bool:
        """Whether something was begun whose end is still to come."""
        return self._endings is not None and self.status.done() and not self.ending.done()

    @property
    def answer(self) -> list[str]:
        """The lines of the reply, the status last."""
        status = self.status.result() if self.status.done() else None
        return [*self.replies, status.text] if isinstance(status, Line) else list(self.replies)

    def value(self, name: str) -> str | None:
        """The value in the reply `AT+NAME=value`, None without such a line."""
        head = f"{name}="
        return next((r[len(head) :] for r in self.replies if r.upper().startswith(head)), None)

    def _hear_ending(self, line: Line) -> None:
        if self._endings is not None and not self.ending.done():
            if self._endings.fullmatch(line.text):
                self.ending.set_result(line)

    def _hear_reply(self, line: Line) -> None:
        text = line.text
        if self._quiet is not None:
            self._quiet.cancel()
            self._quiet = None
        if text == self.command:
            self.echoed = True
            return
        if self._after and text.upper().startswith(self._after):
            self._after = ""
        reply = self._reply
        ends = reply.accepted.fullmatch(text) or reply.refused.fullmatch(text)
        if ends and not self._after:
            self.status.set_result(line)
            return
        if len(self.replies) < REPLIES_MAX and not ends:
            self.replies.append(text)
        if reply.perhaps.fullmatch(text):
            loop = asyncio.get_running_loop()
            self._quiet = loop.call_later(reply.quiet_us / 1_000_000, self._settle, line)

    def _settle(self, line: Line) -> None:
        if not self.status.done():
            self.replies.pop()
            self.status.set_result(line)
