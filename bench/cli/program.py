"""Which commands are there, and how does a mistake end?"""

import errno
import os
import re
import signal
import sys
import threading
import tomllib
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from inspect import cleandoc
from pathlib import Path
from tomllib import TOMLDecodeError
from types import FrameType, ModuleType
from typing import TextIO

from cyclopts import App, CycloptsError
from cyclopts.config import Dict

from bench.cli.output import PROGRAM, STDOUT, Refused, print_error, print_json, refusing, why
from bench.night.record import MEANINGS, ExitCode
from lns.capture import naming

COMMANDS: dict[str, str] = {
    "nightly": "nightly.nightly",
    "run": "run.run",
    "explore": "explore.explore",
    "scenarios": "scenarios.scenarios",
    "import": "run.import_captures",
    "score": "report.score",
    "report": "report.report",
    "timeline": "report.timeline",
    "nights": "nights.nights",
    "history": "nights.history",
    "compare": "nights.compare",
    "flaky": "nights.flaky",
    "lab": "nights.lab",
    "known": "nights.known",
    "devices": "on_hardware.devices.devices",
    "stations": "on_hardware.stations.stations",
    "power": "on_hardware.lab.power",
    "at": "on_hardware.lab.at",
    "doctor": "on_hardware.doctor.doctor",
    "lns": "lns.lns",
    "inbox": "inbox.inbox",
    "outbox": "inbox.outbox",
    "emulate": "lns.emulate",
    "certificates": "lns.certificates",
}
"""Of each command its module in `bench.cli`, with EXAMPLES, perhaps VERBS or CODES (exit codes
of its own, by command), and its function.

Only the module that is asked for is imported: all of them take more than a second.
"""

INTERRUPTED = "interrupted. What was captured so far stays."

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Why a disk takes no more, which no other word of a person would change."""


_MEANINGS: Mapping[int, str] = dict(MEANINGS.items())
_EXAMPLE_MAX = 74
"""Columns of an example in a terminal of eighty, beside what stands around it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code. A person's mistake gives one message, never a traceback.

    A traceback is a mistake of the bench, and its code that of a bench that failed.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    _open_what_is_closed()
    ended: list[int] = []
    _take_for_ctrl_c(ended, signal.SIGTERM, signal.SIGHUP)
    try:
        return _answered(words)
    except OSError as error:
        gone = isinstance(error, BrokenPipeError)
        if not gone:
            with suppress(OSError):
                print_error(f"{PROGRAM}: {_of_the_world(error)}")
        # Whoever read the output has gone, or it takes no more. The interpreter would still try.
        for stream in (sys.stdout, sys.stderr):
            _turn_away(stream)
        return ExitCode.INTERRUPTED if gone else ExitCode.BENCH_ERROR
    except Exception:
        if ended:  # a Java that is ended with this process fails in its own words
            return _told(words, INTERRUPTED, ExitCode.INTERRUPTED)
        traceback.print_exc()
        return ExitCode.BENCH_ERROR  # the interpreter's 1 would be the FAIL of a network server


def _open_what_is_closed() -> None:
    """A standard stream that was closed at the start (`>&-`) takes all, and no file its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))


def _take_for_ctrl_c(ended: list[int], *numbers: signal.Signals) -> None:
    """Who is ended by somebody else ends as he does at a terminal: nothing of his is left behind.

    Not where somebody has said that it is to be left out (`nohup`).
    """

    def end(number: int, frame: FrameType | None) -> None:
        ended.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        return
    for number in numbers:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, end)


def _turn_away(stream: TextIO) -> None:
    with suppress(OSError, ValueError):
        stream.flush()
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _answered(words: list[str]) -> int:
    try:
        code = _run(words)
        _flush()
        return code
    except CycloptsError as error:
        known = [word for word in words[:1] if word in COMMANDS]
        hint = f"`{' '.join([PROGRAM, *known, '--help'])}` shows what it takes."
        return _told(words, " ".join(str(error).split()), ExitCode.USAGE, hint)
    except Refused as refusal:
        return _told(words, str(refusal), refusal.exit_code)
    except BrokenPipeError:
        raise
    except OSError as error:
        # A folder that is not there or may not be written, a full disk: facts, not bugs.
        is_full = error.errno in FULL
        code = ExitCode.BENCH_ERROR if is_full else ExitCode.USAGE
        return _told(words, _of_the_world(error), code)
    except KeyboardInterrupt:
        return _told(words, INTERRUPTED, ExitCode.INTERRUPTED)


def _flush() -> None:
    with naming(STDOUT):
        sys.stdout.flush()


def _of_the_world(error: OSError) -> str:
    if error.filename is None or not error.errno:
        return str(error)
    if isinstance(error, FileExistsError):
        return f"{error.filename} is a file, and a folder is wanted there."
    if isinstance(error, NotADirectoryError):
        return f"{error.filename}: a part of this path is a file, and no folder."
    return f"{error.filename}: {why(error)}."


def _told(words: Sequence[str], text: str, code: ExitCode, hint: str = "") -> ExitCode:
    if "--json" in words:
        print_json({"error": text, **({"hint": hint} if hint else {}), "exit_code": int(code)})
        _flush()
        return code
    print_error(f"{PROGRAM}: {text}")
    if hint:
        print_error(hint)
    return code


def _run(words: list[str]) -> int:
    only = words[0] if words and words[0] in COMMANDS else None
    result = application(only, config=_config(words))(
        words or ["--help"], print_error=False, exit_on_error=False, result_action="return_value"
    )
    return result if isinstance(result, int) else ExitCode.PASSED


def _config(words: Sequence[str]) -> Dict | None:
    if list(words[:1]) != ["inbox"]:
        return None
    named = [word for word in words if word.startswith("--config=")]
    if "--config" in words[:-1]:
        named.append(words[words.index("--config") + 1])
    if not named:
        return None
    file = named[-1].removeprefix("--config=")
    if not Path(file).is_file():
        raise Refused(f"--config: there is no file {file}.")
    with refusing(TOMLDecodeError, UnicodeDecodeError, said=f"--config: {file}: {{}}."):
        return Dict(tomllib.loads(Path(file).read_text("utf-8-sig")), source=file)


def application(only: str | None = None, *, config: Dict | None = None) -> App:
    """The program with all its commands; what is not said is looked up in the configuration.

    With `only`, no other command is told of in the help.
    """
    app = App(
        name=PROGRAM,
        help="A test bench for message deduplication in a LoRaWAN network server.",
        help_epilogue=_epilogue(("lorabench nightly", "lorabench run --help")),
        help_format="plaintext",
        version=_version,
        config=() if config is None else (config,),
        suppress_keyboard_interrupt=False,
    )
    for name, place in COMMANDS.items():
        module, _, function = place.rpartition(".")
        path = f"{__package__}.{module}"
        if only in (None, name):
            found = import_module(path)
            codes: dict[str, Mapping[int, str]] = getattr(found, "CODES", {})
            epilogue = _epilogue(_examples(name, found), codes.get(name, _MEANINGS))
            command = getattr(found, function)
            verbs: dict[str, Callable[..., int]] = getattr(found, "VERBS", {})
            for documented in (command, *verbs.values()):
                documented.__doc__ = re.sub(r"\n +(?=\S)", " ", cleandoc(documented.__doc__ or ""))
            if not verbs:
                app.command(command, name=name, help_epilogue=epilogue)
                continue
            group = App(name=name, help_epilogue=epilogue, version_flags=())
            group.default(command)
            for verb, act in verbs.items():
                group.command(act, name=verb, help_epilogue=epilogue)
            app.command(group)
        else:
            app.command(f"{path}:{function}", name=name)
    if only is None:
        app.register_install_completion_command(help="Let the shell complete commands and options.")
    return app


def _examples(command: str, module: ModuleType) -> list[str]:
    """Those of a command; what begins with none of its module goes with the one before."""
    own: dict[str, list[str]] = {}
    last = command
    for example in module.EXAMPLES:
        word = "".join(example.split()[1:2])
        if COMMANDS.get(word, "").rpartition(".")[0] == module.__name__.removeprefix("bench.cli."):
            last = word
        own.setdefault(last, []).append(example)
    return own[command]


def _epilogue(examples: Sequence[str], meanings: Mapping[int, str] = _MEANINGS) -> str:
    listed = [f"  {_folded(example)}" for example in examples]
    codes = [f"  {code:3}  {meaning}" for code, meaning in meanings.items()]
    return "\n".join(["Examples:", *listed, "", "Exit codes:", *codes])


def _folded(example: str) -> str:
    # A terminal would break it anywhere, and what is copied from there would be two commands.
    lines: list[str] = []
    for part in re.split(r" (?=--)", example):
        if lines and len(f"{lines[-1]} {part}") <= _EXAMPLE_MAX:
            lines[-1] += f" {part}"
        else:
            lines.append(part)
    return " \\\n    ".join(lines)


def _version() -> str:
    try:
        return version(PROGRAM)
    except PackageNotFoundError:
        return "not installed (run from the source tree)"
