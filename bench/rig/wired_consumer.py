"""A consumer of the emulated rig: `lorabench inbox` as a process, killed for real."""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Set
from contextlib import suppress
from pathlib import Path
from typing import Any

import bench
from bench.capture import Record
from bench.capture.reading import Event
from bench.host.ports import LOOPBACK
from bench.host.program import Program, ProgramDied, Starter
from bench.host.relay import Relay
from bench.rig.collecting import Collector
from bench.rig.consumer_settings import ConsumerSettings
from lns.clock import now_us
from lns.delivery import ConfigurationError

START_S = 60
QUIET_US = 500_000
_SUBSCRIBED = " brings "
_REFUSED = "was created"


class WiredConsumer:
    """One process with its files in a folder, at the end of a wire of its own to the broker.

    `collect` is told every line of its capture; what the application has is told at the end.
    `starter` starts it.
    """

    def __init__(
        self,
        settings: ConsumerSettings,
        record: Record,
        collect: Callable[[Event], None],
        starter: Starter | None = None,
    ) -> None:
        self._starter = starter
        self.settings = settings
        self._record = record
        self._collect = collect
        self._crash_at: str | None = None
        self._said_us = 0
        self._decided: set[str] = set()
        self._unreadable = 0
        self._folder: Path | None = None
        self._wire: Relay | None = None
        self._program: Program | None = None
        self._collector: Collector | None = None
        self._following: asyncio.Task[None] | None = None
        self._store = "inbox.sqlite"

    async def prepare(
        self, folder: Path, broker_port: int, store_url: str | None, tasks: asyncio.TaskGroup
    ) -> None:
        """Make what outlives the process: its folder, its wire, the follower of its capture."""
        self._folder = folder
        self._store = store_url or str(folder / "inbox.sqlite")

        def note(kind: str, fields: Any) -> None:
            self._record("bench", kind, {"consumer": self.settings.name, **fields})

        self._wire = await Relay(LOOPBACK, broker_port, name="consumer", note=note).start()
        self._program = self._new_program()
        self._collector = Collector(folder / "inbox.jsonl", self._take)
        self._following = tasks.create_task(self._collector.run())

    async def start(self) -> None:
        """Start it, and wait until the broker knows it; ConfigurationError, ProgramDied."""
        said_before = self._said().count(_SUBSCRIBED)
        await self.program.begin(self._command(), env=_environment())
        try:
            await self.program.until(lambda: self._said().count(_SUBSCRIBED) > said_before, START_S)
        except ProgramDied as died:
            if _REFUSED not in self.program.tail(1):
                raise
            self._program = self._new_program()
            raise ConfigurationError(self._program.tail(1)) from died

    async def kill(self) -> None:
        """End it as SIGKILL does."""
        await self.program.kill()

    def crash(self, at: str) -> None:
        """Let it not come to its next message ("effect"), or not say that it had it ("ack")."""
        if at == "effect":
            self.program.pause()
        elif at == "ack":
            self.wire.swallow("up")
        else:
            raise ValueError(f"a process cannot be killed at {at!r}: effect, ack")
        self._crash_at = at

    async def until_crashed(self) -> None:
        """Kill it if it is to crash; at "ack" it has decided on what it was brought."""
        if self._crash_at is not None:
            self._crash_at = None
            await self.kill()
            await self.wire.restore()

    def lose_acks(self) -> None:
        """Let nothing that it says reach the broker."""
        self.wire.swallow("up")

    async def redeliver(self) -> None:
        """End its connection; it makes another one."""
        await self.wire.restore()

    def has_decided_on(self, message_ids: Set[str]) -> bool:
        """Whether it has said what became of all these messages."""
        return len(message_ids - self._decided) <= self._unreadable

    @property
    def crashes_at(self) -> str | None:
        """Where it is about to crash."""
        return self._crash_at

    @property
    def is_quiet(self) -> bool:
        """Whether it has said nothing for a while."""
        return now_us() - self._said_us > QUIET_US

    @property
    def runs(self) -> bool:
        """Whether the process is there."""
        return self._program is not None and self._program.running

    @property
    def died(self) -> Exception | None:
        """How it ended, if nobody asked for that."""
        return None if self._program is None else self._program.died

    async def stop(self) -> None:
        """End it as a service is ended, and tell what the application has in the end."""
        if self._program is None:
            return
        if self._following is not None:
            self._following.cancel()
        await self.program.stop()
        assert self._collector is not None and self._folder is not None
        self._collector.read()
        self._program = None
        await self.wire.stop()
        with suppress(FileNotFoundError):
            for line in (self._folder / "effects.jsonl").read_text("utf-8").splitlines():
                self._tell(json.loads(line))

    @property
    def program(self) -> Program:
        """The process; it must have been prepared."""
        assert self._program is not None, "it is started by the first act"
        return self._program

    @property
    def wire(self) -> Relay:
        """The wire to the broker."""
        assert self._wire is not None, "it is started by the first act"
        return self._wire

    def _command(self) -> list[str]:
        assert self._folder is not None
        name, folder = self.settings.name, self._folder
        return [
            sys.executable, "-m", "bench", "inbox", "--broker", f"mqtt://{LOOPBACK}:{self.wire.port}",
            "--client-id", name.replace(" ", "-"), "--store", self._store,
            "--to", str(folder / "effects.jsonl"), "--capture", str(folder / "inbox.jsonl"),
            *self.settings.options(),
        ]  # fmt: skip

    def _new_program(self) -> Program:
        assert self._folder is not None
        name, log = f"consumer {self.settings.name}", self._folder / "inbox.log"
        return Program(name, log, starter=self._starter)

    def _said(self) -> str:
        log = self.program.log
        return log.read_text("utf-8", "replace") if log.exists() else ""

    def _take(self, event: Event) -> None:
        self._said_us = now_us()
        self._decided.add(event.get("message_id", ""))
        self._unreadable += event["kind"] == "inbox.unreadable"
        self._collect(event | {"consumer": self.settings.name})

    def _tell(self, line: dict[str, Any]) -> None:
        fields = {"consumer": self.settings.name, "channel": line["channel"]}
        fields |= {"message_id": line["messageId"], "position": line["position"]}
        self._record("application", "application.effect", fields)


def _environment() -> dict[str, str]:
    """Where the packages of this very bench lie, before any other of that name."""
    source = str(Path(bench.__path__[0]).resolve().parent)
    return {"PYTHONPATH": os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))}
