"""One command on a serial line: which lines are its answer, which event is its end?"""

import asyncio
import re

from bench.device.at import Line, LineKind
from bench.device.serial_line import LineLost

REPLIES_MAX = 100

Heard = Line | LineLost


class Exchange:
    """What a device said since a command was written to it.

    `status` is the line that ends the reply, `ending` the event that ends what was begun, counted
    only from the status on; a device that starts anew is both, and so is a lost line. `after`: the
    reply that must come before a status counts, where one of an earlier command may be under way.
    """

    def __init__(
        self, command: str, endings: re.Pattern[str] | None = None, *, after: str = ""
    ) -> None:
        loop = asyncio.get_running_loop()
        self.command = command
        self.replies: list[str] = []
        self.echoed = False
        self.status: asyncio.Future[Heard] = loop.create_future()
        self.ending: asyncio.Future[Heard] = loop.create_future()
        self._endings = endings
        self._after = after.upper()

    def hear(self, line: Line) -> None:
        """Take a line, whoever it is for."""
        match line.kind:
            case LineKind.BOOT:
                self.end(line)
            case LineKind.STATUS if not self.status.done() and not self._after:
                self.status.set_result(line)
            case LineKind.REPLY if not self.status.done():
                self._reply(line.text)
            case LineKind.EVENT if self.status.done() and not self.ending.done():
                if self._endings is not None and self._endings.fullmatch(line.text):
                    self.ending.set_result(line)

    def end(self, why: Heard) -> None:
        """Nothing more will come."""
        for future in (self.status, self.ending):
            if not future.done():
                future.set_result(why)

    def value(self, name: str) -> str | None:
        """The value in the reply `AT+NAME=value`, None without such a line."""
        head = f"{name}="
        return next((r[len(head) :] for r in self.replies if r.upper().startswith(head)), None)

    def _reply(self, text: str) -> None:
        if text == self.command:
            self.echoed = True
            return
        if self._after and text.upper().startswith(self._after):
            self._after = ""
        if len(self.replies) < REPLIES_MAX:
            self.replies.append(text)
