"""Runs that were killed, cut, silenced or damaged: what each says of itself, and whom it blames.

The programs are those that people start; what is damaged are copies of one run that was whole.
"""

import gzip
import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from shutil import copy2, copytree
from typing import Any

import pytest

from bench.capture.wholeness import wholeness
from bench.night.record import exit_code, exit_code_of, read_verdicts
from bench.report import write
from bench.report.score_file import read_score
from tests.bench.score.conftest import Scored, captures
from tests.bench.test_pytest_plugin import heed_ctrl_c

ROOT = Path(__file__).resolve().parents[3]
Factory = pytest.TempPathFactory
FEW = "a_second_station or a_single_station"
CASES = 12
FILE = "scenarios/test_multi_concentrator.py"
"""Where those are; to collect one file takes a second less than to collect all."""
BENCH_ERROR, USAGE, INTERRUPTED = 12, 4, 2

pytestmark = pytest.mark.timeout(900)  # three runs and a score on a slow machine


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "bench", *words]


def environment() -> dict[str, str]:
    return {**os.environ, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}


def ran(*words: str, files_max_bytes: int | None = None) -> subprocess.CompletedProcess[str]:
    """A command to its end; no file of it may grow beyond the bytes given."""
    limit = (files_max_bytes, files_max_bytes)
    return subprocess.run(
        command(*words),
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        preexec_fn=None
        if files_max_bytes is None
        else partial(resource.setrlimit, resource.RLIMIT_FSIZE, limit),
    )


def ended_by(which: signal.Signals, folder: Path, *, after: str) -> tuple[Path, int, str]:
    """A run that gets a signal as soon as it has said this: its folder, exit code, last words."""
    with subprocess.Popen(
        command("run", "--capture-dir", str(folder)),
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=heed_ctrl_c,
    ) as run:
        assert run.stdout is not None
        said = ""
        for line in run.stdout:
            said += line
            if after in line:
                break
        run.send_signal(which)
        said += run.stdout.read()
        code = run.wait(60)
    [made] = folder.iterdir()
    return made, code, said


def only_run_in(folder: Path) -> Path:
    [made] = folder.iterdir()
    return made


Change = Callable[[list[bytes]], list[bytes]]


def lines_changed(run: Path, stream: str, change: Change) -> None:
    file = run / f"{stream}.jsonl"
    file.write_bytes(b"".join(change(file.read_bytes().splitlines(keepends=True))))


def cut_after_a_case(run: Path) -> None:
    """Cut every stream where the fourth case ended, as if the rest had never been."""
    ends = [json.loads(line) for line in (run / "bench.jsonl").read_bytes().splitlines()]
    end_us = [line["t_us"] for line in ends if line["kind"] == "case.end"][3]
    for file in run.glob("*.jsonl"):
        lines = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(b"".join(line for line in lines if json.loads(line)["t_us"] <= end_us))


def bench_cut(lines: list[bytes]) -> list[bytes]:
    """Only the bench itself says nothing any more after its fourth case; all others go on."""
    ends = [place for place, line in enumerate(lines) if b'"case.end"' in line]
    return lines[: ends[3] + 1]


def beside_a_stream_of_another_run(run: Path) -> None:
    """What a station said in a case that this run never had."""
    said = (run / "tap-0016C001F1500001.jsonl").read_text().splitlines()
    rows = [{**json.loads(line), "case": "elsewhere", "source": "tap-1"} for line in said]
    (run / "tap-1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def without_answers(run: Path) -> None:
    """The tap tells nothing of what the network server said, and its numbers are in a row."""
    lines = (run / "tap-0016C001F1500001.jsonl").read_bytes().splitlines()
    rows = [row for row in map(json.loads, lines) if row.get("direction") != "down"]
    assert len(rows) < len(lines)
    told = (json.dumps(row | {"seq": seq}) + "\n" for seq, row in enumerate(rows))
    (run / "tap-0016C001F1500001.jsonl").write_text("".join(told))


def without_a_stream(run: Path) -> None:
    (run / "lns-a.jsonl").unlink()


def with_a_pipe(run: Path) -> None:
    (run / "lns-a.jsonl").unlink()
    os.mkfifo(run / "lns-a.jsonl")


def with_a_link_to_itself(run: Path) -> None:
    (run / "lns-a.jsonl").unlink()
    (run / "lns-a.jsonl").symlink_to("lns-a.jsonl")


def cut_short(run: Path) -> None:
    whole = (run / "lns-a.jsonl").read_bytes()
    (run / "lns-a.jsonl").unlink()
    (run / "lns-a.jsonl.gz").write_bytes(gzip.compress(whole)[:-20])


def an_answer(lines: list[bytes]) -> int:
    return next(place for place, line in enumerate(lines) if b'"lns.outcome"' in line)


def deleted(lines: list[bytes]) -> list[bytes]:
    return [line for place, line in enumerate(lines) if place != an_answer(lines)]


def doubled(lines: list[bytes]) -> list[bytes]:
    place = an_answer(lines)
    return [*lines[: place + 1], *lines[place:]]


def torn(lines: list[bytes]) -> list[bytes]:
    place = an_answer(lines)
    return [*lines[:place], lines[place][:70] + b"\n", *lines[place + 1 :]]


def changed(lines: list[bytes]) -> list[bytes]:
    place = an_answer(lines)
    other = lines[place].replace(b'"NonDuplicate"', b'"SoftDuplicate"')
    assert other != lines[place]
    return [*lines[:place], other, *lines[place + 1 :]]


DAMAGES: dict[str, Callable[[Path], None]] = {
    "cut after a case": cut_after_a_case,
    "the bench is cut after a case": partial(lines_changed, stream="bench", change=bench_cut),
    "a stream of another run": beside_a_stream_of_another_run,
    "a stream is missing": without_a_stream,
    "a stream is a pipe": with_a_pipe,
    "a stream is a link to itself": with_a_link_to_itself,
    "a compressed stream is cut short": cut_short,
    "a line is deleted": partial(lines_changed, stream="lns-a", change=deleted),
    "a line is doubled": partial(lines_changed, stream="lns-a", change=doubled),
    "a line is torn": partial(lines_changed, stream="lns-a", change=torn),
    "a line is changed": partial(lines_changed, stream="lns-a", change=changed),
    "answers are missing": without_answers,
    "the manifest is torn": lambda run: (run / "manifest.json").write_text("{") and None,
    "the manifest is emptied": lambda run: (run / "manifest.json").write_text("{}") and None,
}

# What each says first, how many cases are whole, how many are withheld, and how many are not there.
EXPECTED: dict[str, tuple[str | tuple[str, ...], int, int, int]] = {
    "cut after a case": ("8 of 12 cases have vanished from its books", 4, 0, 8),
    "the bench is cut after a case": ("8 of 12 cases have vanished from its books", 4, 0, 8),
    "a stream of another run": ("the stream tap-1 is not one that this run had", 12, 0, 0),
    "a stream is missing": ("12 cases are not whole", 0, 12, 0),
    "a stream is a pipe": ("12 cases are not whole", 0, 12, 0),
    "a stream is a link to itself": ("12 cases are not whole", 0, 12, 0),
    "a compressed stream is cut short": ("12 cases are not whole", 0, 12, 0),
    "a line is deleted": ("1 case is not whole", 11, 1, 0),
    "a line is doubled": ("1 case is not whole", 11, 1, 0),
    "a line is torn": ("1 case is not whole", 11, 1, 0),
    "a line is changed": ("12 cases are not whole", 0, 12, 0),
    "answers are missing": ("12 cases are not whole", 0, 12, 0),
    "the manifest is torn": ("manifest.json cannot be read", 12, 0, 0),
    "the manifest is emptied": ("manifest.json does not say what was planned", 12, 0, 0),
    "killed": ("killed at case ", 0, 0, 0),
    "interrupted": ("interrupted at case ", 0, 0, 0),
    # Which stream is full first decides whether the end of the run can still be told.
    "file limit": (("killed at case ", "stopped at case "), 0, 0, 0),
}


@dataclass(frozen=True)
class Made:
    """The folders of all runs by what happened to them, and what programs said of it."""

    root: Path
    folders: dict[str, Path]
    said: dict[str, tuple[int, str]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.getbasetemp() / "honesty")


@captures
def written(root: Path) -> dict[str, Path]:
    made = make(root.parent.parent / "honesty")
    copy = partial(copytree, symlinks=True, copy_function=copied)
    return {name: copy(folder, root / name) for name, folder in made.folders.items()}


def copied(file: str, into: str) -> None:
    """A copy of a file, or another pipe."""
    if Path(file).is_fifo():
        os.mkfifo(into)
    else:
        copy2(file, into)


@cache
def make(root: Path) -> Made:
    """A whole run and all the others."""
    done = ran("run", FEW, "--capture-dir", str(root / "whole"))
    assert done.returncode == 0, done.stderr
    folders = {"whole": only_run_in(root / "whole")}
    for number, (name, damage) in enumerate(DAMAGES.items()):
        folders[name] = copytree(folders["whole"], root / f"20261120T0200{number:02}Z-7f3a")
        damage(folders[name])
    said: dict[str, tuple[int, str]] = {}
    for name, which in (("killed", signal.SIGKILL), ("interrupted", signal.SIGINT)):
        folders[name], *told = ended_by(which, root / name, after="[  1")
        said[name] = told[0], told[1]
    small = ran("run", "--capture-dir", str(root / "limit"), files_max_bytes=300_000)
    folders["file limit"] = only_run_in(root / "limit")
    said["file limit"] = small.returncode, small.stdout + small.stderr
    # Two runs of one second would have one name, by which scores are told apart.
    for name in ("killed", "interrupted", "file limit"):
        folders[name] = folders[name].rename(folders[name].with_name(name.replace(" ", "-")))
    return Made(root, folders, said)


def test_the_run_that_was_left_alone_is_whole(made: Made) -> None:
    books = wholeness(made.folders["whole"])
    assert (books.whole, books.sentence, len(books.judged)) == (True, "", CASES)


@pytest.mark.parametrize("damage", EXPECTED)
def test_what_is_missing_is_told(damage: str, made: Made) -> None:
    first, judged, withheld, unplayed = EXPECTED[damage]
    books = wholeness(made.folders[damage])
    begins = (first,) if isinstance(first, str) else first
    assert books.sentence.startswith(tuple(f"incomplete: {words}" for words in begins))
    counted = len(books.judged), len(books.withheld), len(books.unplayed)
    if damage in DAMAGES:
        assert counted == (judged, withheld, unplayed)
    else:
        assert books.planned is not None and books.planned > 900
        assert sum(counted) == books.planned
        assert min(counted[0], counted[2]) > 0


def test_an_interrupted_run_says_how_many_cases_were_not_played(made: Made) -> None:
    code, said = made.said["interrupted"]
    books = wholeness(made.folders["interrupted"])
    assert code == INTERRUPTED, said
    assert f"incomplete: interrupted at case {books.begun} of {books.planned}" in said
    assert f"{len(books.unplayed)} cases are not played" in said


def test_a_disk_that_fills_up_ends_the_run_and_no_case_fails_of_it(made: Made) -> None:
    code, said = made.said["file limit"]
    assert code == BENCH_ERROR, said
    assert "File too large" in said
    assert "AssertionError" not in said
    assert "FAIL" not in said


@pytest.mark.parametrize("place", ["a file", "below a file"])
def test_a_place_that_cannot_be_written_is_refused_before_anything_plays(
    place: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    folders = {"a file": "file", "below a file": "file/runs"}
    done = ran("run", FILE, "--capture-dir", str(tmp_path / folders[place]))
    assert done.returncode == USAGE
    assert done.stderr.startswith(f"lorabench: --capture-dir {tmp_path / folders[place]}: ")
    assert "Nothing was played." in done.stderr
    assert done.stdout == ""


def test_a_disk_that_is_full_is_refused_before_anything_plays(tmp_path: Path) -> None:
    done = ran("run", FILE, "--capture-dir", str(tmp_path / "runs"), files_max_bytes=500)
    assert done.returncode == BENCH_ERROR
    assert "File too large. Nothing was played." in done.stderr
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.timeout(180)
@pytest.mark.parametrize("after", ["starting Spark", "reading"])
def test_a_score_that_is_interrupted_says_so_and_leaves_no_java(
    after: str, made: Made, tmp_path: Path
) -> None:
    words = command("score", str(made.folders["whole"]), "--lake", str(tmp_path / "lake"))
    with subprocess.Popen(
        words, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, preexec_fn=heed_ctrl_c, start_new_session=True,
    ) as score:  # fmt: skip
        assert score.stdout is not None
        for line in score.stdout:
            if after in line:
                break
        with suppress(subprocess.TimeoutExpired):
            score.wait(0.5)  # Java has begun, and cannot be asked anything yet
        os.killpg(score.pid, signal.SIGINT)  # as a terminal does
        rest = score.stdout.read()  # ends when nobody is left who could write
        assert score.wait(60) == INTERRUPTED
    assert rest.splitlines()[-1] == "lorabench: interrupted. What was captured so far stays."
    assert "NoSuchFileException" not in rest


def test_a_timeline_says_what_is_missing_of_its_case(made: Made) -> None:
    killed = made.folders["killed"]
    books = wholeness(killed)
    case = books.unplayed[-1]
    told = ran("timeline", str(killed), case)
    assert told.returncode == USAGE
    assert f"{case} is not there: " in told.stderr
    assert "incomplete: killed at case" in told.stderr
    deleted_line = made.folders["a line is deleted"]
    [withheld] = wholeness(deleted_line).withheld
    told = ran("timeline", str(deleted_line), withheld.case)
    assert told.returncode == 0
    assert "Nobody can judge it: incomplete: 1 of its" in told.stdout


DEAF = """
from bench.station.tap import Leaving, Tap, is_reception

_up = Tap._up


def lose(tap, text):
    if is_reception(text):
        return tap._note(Leaving(text, "up"), dropped=True)
    return _up(tap, text)


_leave = Tap._leave


def lose_what_is_said(tap, leaving):
    if leaving.direction == "up" and is_reception(leaving.text):
        return tap._note(leaving, dropped=True)
    return _leave(tap, leaving)


Tap._up, Tap._leave = lose, lose_what_is_said
"""


def files_with(chosen: str) -> list[str]:
    """The files in which there are scenarios that pytest would choose so."""
    words = chosen.split(" or ")
    texts = {file: file.read_text("utf-8") for file in sorted((ROOT / "scenarios").glob("test_*"))}
    return [
        str(file)
        for file, text in texts.items()
        if any(re.search(rf"^async def test_\w*{word}", text, re.MULTILINE) for word in words)
        or any(word in file.name for word in words)
    ]


def played(folder: Path, plugin: str, chosen: str) -> Path:
    """The run of some scenarios, simulated, in a process that this plugin has tampered with."""
    folder.mkdir(parents=True)
    (folder / "tampered.py").write_text(plugin)
    words = ["-p", "lorabench", "-p", "pytest_timeout", "-p", "tampered", *files_with(chosen), "-q"]
    words += ["-p", "no:cacheprovider", "-k", chosen]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "--capture-dir", str(folder / "runs")],
        cwd=ROOT,
        # Other plugins, and other files of scenarios, take longer than what is chosen.
        env={**environment(), "PYTHONPATH": str(folder), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (folder / "runs").is_dir(), done.stdout + done.stderr
    return only_run_in(folder / "runs")


def test_what_never_reached_a_network_server_is_nobodys_fault(tmp_path: Path) -> None:
    chosen = "second_station or joins or by_key or puback_is_lost"
    verdicts = read_verdicts(played(tmp_path / "deaf", DEAF, chosen))
    assert len(verdicts) > 30
    assert {verdict.verdict for verdict in verdicts} == {"INCONCLUSIVE"}
    assert exit_code_of(verdicts) == 11


SENDING = """
from lns.connections import Connections
from msgspec.structs import replace

_send = Connections.send


async def send(self, station, downlink):
    {}


Connections.send = send
"""
PUBLISHING = """
from lns.uplink.data import Uplinks

_publish = Uplinks._publish


async def publish(self, facts):
    {}


Uplinks._publish = publish
"""
LIED_IN = "a_second_station or a_single_station or a_join_heard or new_session or always_listens"
LIES = {
    "answers that are never sent": (
        SENDING.format("return station in self._current"),
        r"one answer per reception: .*: 1 by outcome, 1 scheduled, 0 passed the tap"
        r"|scheduled means handed over: .* was scheduled 1 times and reached the tap 0 times",
    ),
    "answers that nobody speaks of": (
        SENDING.format(
            "return await _send(self, station, downlink)"
            " and await _send(self, station, replace(downlink, diid=downlink.diid + 1000))"
        ),
        r"one answer per reception: .*: 1 by outcome, 1 scheduled, 2 passed the tap"
        r"|scheduled means handed over: .* was scheduled 0 times and reached the tap 1 times",
    ),
    "messages that are never sent": (
        PUBLISHING.format("pass"),
        r"forwarded means published: .*: [0-9] (un)?marked by outcome, 0 published",
    ),
    "messages that nobody speaks of": (
        PUBLISHING.format("await _publish(self, facts), await _publish(self, facts)"),
        r"forwarded means published: .*: [0-9] (un)?marked by outcome, [2468] published",
    ),
}
"""What a network server claims and does not do, or does and does not claim."""


def each_in_turn(tampering: Mapping[str, str]) -> str:
    """A plugin: every scenario with every way of tampering, one after the other in one process."""
    return f"""
import pytest
from lns.connections import Connection, Connections
from lns.delivery.detectors import Detectors
from lns.network_server import NetworkServer
from lns.station import protocol
from lns.uplink.data import Uplinks

TAMPERING = {dict(tampering)!r}
TOUCHED = [
    (Connection, "flush"), (Connections, "send"), (NetworkServer, "serve"),
    (protocol, "router_config_text"), (Uplinks, "_publish"), (Detectors, "judge"),
]
RIGHT = [(owner, name, getattr(owner, name)) for owner, name in TOUCHED]


def pytest_generate_tests(metafunc):
    metafunc.parametrize("tampering", TAMPERING, indirect=True)


@pytest.fixture(autouse=True)
def tampering(request):
    exec(TAMPERING[request.param], {{}})
    yield
    for owner, name, right in RIGHT:
        setattr(owner, name, right)
"""


@cache
def told_lies(root: Path) -> Path:
    """A run of all lies; each case has the name of its lie in its own."""
    plugin = each_in_turn({lie: text for lie, (text, _) in LIES.items()})
    return played(root, plugin, LIED_IN)


@captures
def lies_written(root: Path) -> dict[str, Path]:
    return {"lies": copytree(told_lies(root.parent.parent / "lies"), root / "lies")}


def ends_of(run: Path) -> dict[str, dict[str, Any]]:
    """How each case ended by its own account."""
    lines = [json.loads(line) for line in (run / "bench.jsonl").read_bytes().splitlines()]
    ends = [line for line in lines if line["kind"] == "case.end"]
    of = {(line["case"], line["attempt"]): line for line in ends}
    assert len(of) == len(ends), "a case has ended twice"
    return {case: line for (case, _), line in of.items()}


def concerned(run: Path, lie: str) -> set[str]:
    """The cases in which a server says that it answered, or that it let something through."""
    lines = [json.loads(line) for line in (run / "lns-a.jsonl").read_bytes().splitlines()]
    if "answers" in lie:
        said = {line["case"] for line in lines if line.get("stage") == "scheduled"}
    else:
        told = [line for line in lines if line["kind"] == "lns.outcome"]
        said = {line["case"] for line in told if line["upstream"] != "dropped"}
    return said


@pytest.mark.parametrize("lie", LIES)
def test_what_a_server_claims_must_be_seen(lie: str, tmp_path_factory: Factory) -> None:
    run = told_lies(tmp_path_factory.getbasetemp() / "lies")
    ends, said = ends_of(run), {case for case in concerned(run, lie) if lie in case}
    assert len(said) > 10
    for case in said:
        assert (ends[case]["verdict"], ends[case]["owner"]) == ("FAIL", "LNS"), ends[case]
        assert any(re.match(LIES[lie][1], one) for one in ends[case]["reasons"]), ends[case]
    assert exit_code_of([one for one in read_verdicts(run) if lie in one.case]) == 1


@pytest.mark.spark
@pytest.mark.parametrize("lie", LIES)
def test_the_score_sees_it_too(lie: str, scored: Scored) -> None:
    ends = {case: end for case, end in ends_of(scored.folders["lies"]).items() if lie in case}
    shown = {case: (end["verdict"], end.get("owner")) for case, end in ends.items()}
    found = scored.scores["lies"]
    judged = [row for row in found["verdicts"] if lie in row["case"]]
    assert {row["case"]: (row["verdict"], row["owner"]) for row in judged} == shown != {}
    rules = {rule for rule, _, _ in (part.partition(":") for part in LIES[lie][1].split("|"))}
    assert rules <= {row["rule"] for row in found["findings"] if lie in (row["case"] or "")}


FLUSHING = """
import asyncio, json
from lns.connections import Connection


async def flush(self):
    for text in self.protocol.texts_to_send():
        {}


Connection.flush = flush
"""
CONFIG = """
import json

from lns.station import protocol

_text = protocol.router_config_text


def broken(*given, **more):
    config = json.loads(_text(*given, **more))
    {}
    return json.dumps(config)


protocol.router_config_text = broken
"""
JUDGING = """
__name__ = "lns.delivery.detectors"
from lns.delivery.detectors import Detectors

_judge = Detectors.judge


def judge(self, *given):
    {}
    return _judge(self, *given)


Detectors.judge = judge
"""
MISCHIEF = {
    "it ends": (
        "from lns.network_server import NetworkServer\n"
        "async def serve(self, station, link):\n"
        "    await link.receive()\n"
        "    raise LookupError('no such thing')\n"
        "NetworkServer.serve = serve\n",
        r"ServerDied: network server lns-a ended: LookupError: no such thing",
    ),
    "it never tells of the channels": (
        FLUSHING.format("'router_config' in text or await self.link.send(text)"),
        r"ServerSilent: lns-a has sent no router_config to west",
    ),
    "it closes the connection": (
        FLUSHING.format("await self.link.send(text); 'RX1DR' in text and self.link.close()"),
        r"west: the network server has closed its connection: expected open, observed closed",
    ),
    "it says what is no JSON": (
        FLUSHING.format("await self.link.send(text.replace('{', '[', 1))"),
        r"text for west: text: expected a JSON object, observed \[",
    ),
    "it says what no protocol has": (
        FLUSHING.format(
            """await self.link.send(text); await self.link.send('{"msgtype":"reboot"}')"""
        ),
        r"text for west: msgtype: expected a message of the protocol, observed reboot",
    ),
    "a dnmsg without its frame": (
        FLUSHING.format("await self.link.send(text.replace('pdu', 'pud'))"),
        r"dnmsg for west: pud: expected none, observed",
    ),
    "a callback of it breaks": (
        FLUSHING.format(
            """await self.link.send(text)
        from asyncio import get_running_loop
        from lns.lorawan.identifiers import eui
        get_running_loop().call_soon(eui, 'nobody')"""
        ),
        r"a network server broke: ValueError: ",
    ),
    "it forgets to await": (
        FLUSHING.format(
            """await self.link.send(text)
        from lns.clock import within
        within(1, self.link.receive())"""
        ),
        r"within: expected to be awaited, observed forgotten",
    ),
    "it lets a socket go open": (
        FLUSHING.format(
            """await self.link.send(text)
        from socket import socket
        socket()"""
        ),
        r"socket\.socket: expected to be closed, observed let go open",
    ),
    "nobody asks what it was told": (
        FLUSHING.format(
            """await self.link.send(text)
        from lns.clock import StoreUnavailable
        asyncio.get_running_loop().create_future().set_exception(StoreUnavailable('gone'))"""
        ),
        r"a network server broke: StoreUnavailable: gone",
    ),
    "it exits": (
        CONFIG.format("raise SystemExit(3)"),
        r"ServerDied: network server lns-a ended: SystemExit: 3",
    ),
    "it sleeps": (
        CONFIG.format("__import__('time').sleep(0.3)"),
        r"a network server broke: Livelock: all stand still for 0\.3 s at \d+ us, running: "
        r"lns\.",
    ),
    "it ends the process": (
        CONFIG.format("__import__('os')._exit(0)"),
        r"a network server broke: Livelock: the process ends with 0 at \d+ us, running: lns\.",
    ),
    "an answer at the edge of RX1": (
        FLUSHING.format(
            "'dnmsg' in text and await asyncio.sleep(0.99); await self.link.send(text)"
        ),
        r"dnmsg for west to .*: time: expected 20 ms before RX1 opens, observed \d+ ms after that",
    ),
    "an answer after RX2": (
        FLUSHING.format("'dnmsg' in text and await asyncio.sleep(2.5); await self.link.send(text)"),
        r"dnmsg for west to .*: time: expected 20 ms before RX1 opens, observed \d+ ms after that",
    ),
    "a channel plan without data rates": (
        CONFIG.format("del config['DRs']"),
        r"router_config for west: DRs: expected .*, observed none",
    ),
    "a channel plan without radios": (
        CONFIG.format("config['sx1301_conf'] = [{}]"),
        r"router_config for west: chan_multiSF: expected \[.*868100000.*, observed \[\]",
    ),
}
"""What a network server may do that the bench must not stumble over, and what is said of it."""
OF_A_CONSUMER = {
    "a consumer sleeps": (
        JUDGING.format("__import__('time').sleep(0.3)"),
        r"a consumer broke: Livelock: all stand still for 0\.3 s at \d+ us, running: lns\.",
    ),
    "a consumer exits": (
        JUDGING.format("raise SystemExit(3)"),
        r"a consumer broke: SystemExit: 3",
    ),
}
"""The same of an application that consumes what the server publishes."""


@pytest.fixture(scope="module")
def mischievous(tmp_path_factory: Factory) -> Path:
    chosen = "a_second_station or joins_again_and_again or a_single_station or puback_is_lost"
    plugin = each_in_turn({name: text for name, (text, _) in (MISCHIEF | OF_A_CONSUMER).items()})
    return played(tmp_path_factory.mktemp("mischief") / "run", plugin, chosen)


@pytest.mark.parametrize("mischief", MISCHIEF | OF_A_CONSUMER)
def test_what_others_do_is_no_error_of_the_bench(mischief: str, mischievous: Path) -> None:
    ends = [end for case, end in ends_of(mischievous).items() if mischief in case]
    assert len(ends) > 5
    wrong = [end for end in ends if end["verdict"] != "PASS"]
    owner, kinds = ("LNS", MISCHIEF) if mischief in MISCHIEF else ("application", OF_A_CONSUMER)
    assert {(end["verdict"], end["owner"]) for end in wrong} == {("FAIL", owner)}, wrong
    says = kinds[mischief][1]
    assert any(re.match(says, one) for end in wrong for one in end["reasons"]), wrong[0]["reasons"]
    verdicts = [one for one in read_verdicts(mischievous) if mischief in one.case]
    assert exit_code_of(verdicts) == 1


@pytest.mark.spark
def test_a_whole_run_passes(scored: Scored) -> None:
    found = scored.scores["whole"]
    assert found["wholeness"]["sentence"] == ""
    assert found["totals"]["PASS"] == CASES
    assert (found["findings"], exit_code(found)) == ([], 0)


@pytest.mark.spark
@pytest.mark.parametrize("damage", EXPECTED)
def test_nobody_but_the_bench_is_blamed_for_what_is_missing(
    damage: str, made: Made, scored: Scored
) -> None:
    found, books = scored.scores[damage], wholeness(made.folders[damage])
    assert exit_code(found) == BENCH_ERROR
    assert found["wholeness"] == books.as_json()
    assert {row["owner"] for row in found["findings"]} == {"bench"}
    assert found["totals"]["FAIL"] == found["totals"]["INCONCLUSIVE"] == 0
    assert found["totals"]["PASS"] == len(books.judged)
    assert found["totals"]["ERROR"] == len(books.withheld)


@pytest.mark.spark
@pytest.mark.parametrize("damage", EXPECTED)
def test_no_page_of_it_is_green(damage: str, scored: Scored) -> None:
    folder = scored.folders[damage]
    write(folder)
    page = (folder / "report.html").read_text("utf-8")
    assert '<header class="er">' in page
    assert "<dd>12 (incomplete)</dd>" in page
    assert (folder / "summary.md").read_text("utf-8").startswith("# ⛔ ERROR: Incomplete: ")
    junit = (folder / "junit.xml").read_text("utf-8")
    books = read_score(folder).wholeness
    missing = len(books.unplayed) or int(not books.withheld)
    assert junit.count('type="incomplete"') == missing
    assert f'errors="{missing + len(books.withheld)}"' in junit
