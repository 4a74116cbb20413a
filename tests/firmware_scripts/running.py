"""Runs a script of firmware_scripts as a person does: as a process of its own."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests import forked

SCRIPTS = Path(__file__).resolve().parents[2] / "firmware_scripts"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a script ended, and what it said."""

    code: int
    out: str
    err: str


BY_THE_BENCH = ("identify.py", "provision.py", "replay.py", "factory_reset.py")
"""Scripts that are commands of the bench; all that they import takes half a second."""


def script(
    name: str,
    *arguments: object,
    path: Path | None = None,
    anew: bool = False,
    **environment: str,
) -> Ended:
    """Run a script; `path` stands before the others in which programs are looked for.

    One that is a command of the bench is a fork, if it is not to start `anew`.
    """
    environ = {**os.environ, **environment}
    if path is not None:
        environ["PATH"] = f"{path}:{environ['PATH']}"
    file = SCRIPTS / name
    if file.name in BY_THE_BENCH and not anew:
        words = ["tests.firmware_scripts.as_program", str(file), *map(str, arguments)]
        ran = forked.run(words, cwd=Path.cwd(), env=environ, timeout=300, imports=forked.BOARDS)
        assert "Traceback" not in ran.stderr, ran.stderr
        return Ended(ran.returncode, ran.stdout, ran.stderr)
    head = [sys.executable, str(file)] if file.suffix == ".py" else ["sh", str(file)]
    done = subprocess.run(
        [*head, *map(str, arguments)],
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Ended(done.returncode, done.stdout, done.stderr)


def fake_program(folder: Path, name: str, body: str = "") -> Path:
    """A program that notes its arguments in `<name>.log` beside it, then runs `body`."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f'#!/bin/sh\necho "$*" >>"{folder}/{name}.log"\n{body}\n')
    program.chmod(0o755)
    return program


def calls(folder: Path, name: str) -> list[str]:
    """The arguments of each call of a fake program."""
    log = folder / f"{name}.log"
    return log.read_text().splitlines() if log.exists() else []
