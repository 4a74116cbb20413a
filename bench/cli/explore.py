"""`lorabench explore`: what happens in histories that nobody thought of?"""

import gc
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from bench.chance import stream
from bench.cli.output import (
    RUNS,
    AsJson,
    ProgressDisplay,
    Refused,
    Seed,
    answer,
    command_line,
    labelled,
    refusing,
    shown_path,
)
from bench.explore.explore import (
    Explored,
    Finding,
    Order,
    drawing,
    holes,
    play_and_judge,
    possible,
    table,
    undisturbed,
)
from bench.explore.explore import explore as explore_histories
from bench.explore.generate import Limits, random_history
from bench.explore.history import History, KeptHistory, keep_histories, read_histories, read_history
from bench.explore.rig_stage import fits_wires, for_wires, missing
from bench.night.record import ExitCode

Rig = Literal["simulated", "emulated"]
WAIT_ON_WIRES_US = 2_000_000
EXAMPLES = (
    "lorabench explore --rig emulated --histories 10",
    "lorabench explore --minutes 1 --seed 7",
    "lorabench explore --histories 2000 --servers 2 --no-faults --table",
    "lorabench explore --history 'servers=1 a=relaxed/Mark : a send A1 A2 ; wait 60s ; a again A2'",
    "lorabench explore --minutes 10 --keep scenarios/explored.json",
)
HOLES_TOLD = 12


def explore(
    *,
    minutes: float | None = None,
    histories: int | None = None,
    seed: Seed = 1,
    servers: int | None = None,
    devices: int = 3,
    faults: bool = True,
    history: str | None = None,
    keep: Path | None = None,
    workers: int = 1,
    until_first: Annotated[bool, Parameter(negative="")] = False,
    show_table: Annotated[bool, Parameter(name="--table", negative="")] = False,
    rig: Rig | None = None,
    capture_dir: Path = RUNS,
    as_json: AsJson = False,
) -> int:
    """Play random histories of devices, stations and servers, and judge every reception.

    Each is judged by a model of what is due and by laws that need none. What breaks one is cut down
    to the shortest history that shows it, and told as a drawing, as a command that repeats it, and
    as a case to be kept. What nobody can know is told too.

    :param minutes: Explore for so long; a minute, if nothing else is said.
    :param histories: Explore so many histories: the same ones for the same seed.
    :param servers: Network servers with one store: 1, 2 or 3. Any, if left out.
    :param devices: Devices of a history at most: 1, 2 or 3.
    :param faults: Let servers, stations, the store and the broker fail.
    :param history: Play this one history, as a finding tells it.
    :param keep: Add what was found to a file of histories, which are scenarios then: `lorabench run
        --catalogue FILE` plays them, and those of scenarios/explored.json are always played.
    :param workers: Processes that explore side by side.
    :param until_first: Stop as soon as something was found.
    :param show_table: Print how often each pair of situations met.
    :param rig: Play histories on a rig, ten if nothing else is said, with captures and verdicts.
        Left out: in memory, hundreds a second.
    :param capture_dir: Where the folder of a run on a rig is made.
    """
    _look_through(minutes, histories, servers, devices, workers)
    of_memory = {"--minutes": minutes, "--workers": workers > 1, "--table": show_table}
    of_memory["--until-first"] = until_first
    of_chance = of_memory | {"--histories": histories, "--servers": servers}
    if rig is not None:
        _refuse("--rig", of_memory, "is for histories in memory")
    if history is not None:
        _refuse("--history", of_chance, "is for random histories, and this is one")
    _look_at(keep)
    if history is not None and rig is None:
        return _play_one(history, keep, as_json=as_json)
    limits = Limits(
        servers=Limits().servers if servers is None else (servers,),
        devices_max=devices,
        faults=faults,
    )
    if rig is not None:
        order = Order(seed, histories, limits=limits)
        return _on_rig(rig, order, history, capture_dir, keep, as_json=as_json)
    if minutes is None and histories is None:
        minutes = 1
    seconds = None if minutes is None else minutes * 60
    order = Order(seed, histories, seconds, limits, workers, until_first)
    with ProgressDisplay() as display:
        explored = explore_histories(order, display)
    kept = _keep(keep, [(str(one.cause), one.history) for one in explored.findings])
    lines = chain(_lines(explored, order, show_table=show_table), labelled(_played_by(keep, kept)))
    code = ExitCode.FAILED if explored.findings else ExitCode.PASSED
    code = ExitCode.INTERRUPTED if explored.interrupted else code
    return answer(_as_json(explored, kept, order), lines, code, as_json=as_json)


def _on_rig(
    rig: str, order: Order, text: str | None, capture_dir: Path, keep: Path | None, *, as_json: bool
) -> int:
    # Pytest and reports, which histories in memory do not need: a quarter of the start.
    from bench.cli.run import Selection, run_scenarios
    from bench.night.record import in_words, totals

    wires = rig == "emulated"
    if text is not None:
        found = [_read(text)]
        why = missing(found[0])
        if why is not None:
            raise Refused(f"--history: no rig can play this one, only memory can: {why}.")
    else:
        limits = order.limits
        limits = replace(limits, waits_max_us=WAIT_ON_WIRES_US) if wires else limits
        found = []
        chance = stream(order.seed, "explore", rig)
        with undisturbed():
            while len(found) < (order.histories or 10):
                history = random_history(chance, limits)
                history = for_wires(history) if wires else history
                fits = missing(history) is None and (not wires or fits_wires(history))
                if fits and play_and_judge(history).due:
                    found.append(history)
                gc.collect(0)
    capture_dir.mkdir(parents=True, exist_ok=True)
    file = capture_dir / f"explored-{order.seed}.json"
    file.unlink(missing_ok=True)
    played = keep_histories(file, [(f"history {n}", one) for n, one in enumerate(found, 1)])
    selection = Selection(
        "scenarios/test_explored.py", rig, order.seed, None, capture_dir, explored=file
    )
    with ProgressDisplay() as display:
        ran = run_scenarios(selection, display)
    words = {
        case.id: next((one.verdict for one in ran.verdicts if f"[{case.id}" in one.case), None)
        for case in played
    }
    failed = [case.history for case in played if words[case.id] not in ("PASS", None)]
    kept = _keep(keep, [(f"on the {rig} rig", one) for one in failed])
    cases = [{**case.as_json(), "verdict": words[case.id]} for case in played]
    document = {"cases": cases, "captures": str(ran.folder), "kept": [k.id for k in kept]}
    histories = f"{len(ran.verdicts)} histor{'y' if len(ran.verdicts) == 1 else 'ies'}"
    rows = [
        ("histories", shown_path(file)),
        ("captures", shown_path(ran.folder)),
        ("one alone", command_line("explore", "--rig", rig, "--history", "…")),
        *_played_by(keep, kept),
    ]
    lines = [f"{histories}: {in_words(totals(ran.verdicts))}", *labelled(rows)]
    return answer(document, lines, ran.exit_code, as_json=as_json)


def _read(text: str) -> History:
    with refusing(ValueError, said="--history: {}"):
        return read_history(text)


def _look_through(
    minutes: float | None, histories: int | None, servers: int | None, devices: int, workers: int
) -> None:
    if minutes is not None and not minutes > 0:
        raise Refused("--minutes: more than none, as 0.5 or 10.")
    if histories is not None and histories < 1:
        raise Refused("--histories: at least one.")
    if servers not in (None, 1, 2, 3):
        raise Refused("--servers: 1, 2 or 3.")
    if devices not in (1, 2, 3):
        raise Refused("--devices: 1, 2 or 3.")
    if workers < 1:
        raise Refused("--workers: at least one.")


def _refuse(option: str, others: Mapping[str, object], why: str) -> None:
    for other, said in others.items():
        if said:
            raise Refused(f"{option}: {other} {why}.")


def _look_at(keep: Path | None) -> None:
    if keep is None:
        return
    if keep.is_dir():
        raise Refused(f"--keep: {keep} is a folder; name a file.")
    if not keep.absolute().parent.is_dir():
        raise Refused(f"--keep: there is no folder {keep.parent}.")
    if not os.access(keep if keep.exists() else keep.absolute().parent, os.W_OK):
        raise Refused(f"--keep: {keep} may not be written.")
    _keep(keep, [])


def _play_one(text: str, keep: Path | None, *, as_json: bool) -> int:
    judged = play_and_judge(_read(text))
    title = str(judged.causes[0]) if judged.causes else "worth to be played again"
    kept = _keep(keep, [(title, judged.trace.history)])
    drawn, broken = drawing(judged), [str(cause) for cause in judged.causes]
    document = {
        "history": str(judged.trace.history),
        "drawing": drawn,
        "broken": broken,
        "kept": [case.as_json() for case in kept],
    }
    lines = [*drawn, "", *(broken or ["No law is broken."]), *labelled(_played_by(keep, kept))]
    code = ExitCode.FAILED if judged.causes else ExitCode.PASSED
    return answer(document, lines, code, as_json=as_json)


def _keep(path: Path | None, found: list[tuple[str, History]]) -> list[KeptHistory]:
    if path is None:
        return []
    with refusing(ValueError, said="--keep: {}"):
        if found:
            return keep_histories(path, found)
        if path.exists():
            read_histories(path)
        return []


def _played_by(keep: Path | None, kept: list[KeptHistory]) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = [("kept", f"{case.id} {case.title}") for case in kept]
    if kept and keep is not None:
        rows += [("play it", command_line("run", "--catalogue", shown_path(keep)))]
    return rows


def _lines(explored: Explored, order: Order, *, show_table: bool) -> Iterator[str]:
    batch = explored.batch
    for number, finding in enumerate(explored.findings, 1):
        yield from _finding_lines(number, finding)
    if show_table:
        yield from (*table(batch.met), "")
    unknown = sum(batch.unknowable.values())
    pairs = len(possible(faults=order.limits.faults))
    missing = holes(batch.met, faults=order.limits.faults)
    rows: list[tuple[str, object]] = [
        ("histories", f"{batch.histories}, {batch.histories / explored.seconds:.0f} a second"),
        ("receptions", batch.receptions),
        ("unknowable", f"{unknown} ({explored.unknowable_share:.2%})"),
    ]
    rows += [("", f"{number} {why}") for why, number in batch.unknowable.most_common()]
    rows += [("pairs met", f"{pairs - len(missing)} of {pairs}")]
    rows += [("", f"hole: {one}, then {two}") for one, two in missing[:HOLES_TOLD]]
    rows += [("", f"and {len(missing) - HOLES_TOLD} more")] if missing[HOLES_TOLD:] else []
    rows += [("stopped", "by Ctrl-C: what was found so far")] if explored.interrupted else []
    rows += [("repeat it", _repeat(order, batch.histories))]
    rows += [("findings", len(explored.findings) or "none: no law broken, no other word")]
    yield from labelled(rows)


def _finding_lines(number: int, finding: Finding) -> Iterator[str]:
    count = f"{finding.count} histor{'y' if finding.count == 1 else 'ies'}"
    case = KeptHistory(f"X{number:02}", str(finding.cause), finding.history).as_json()
    yield f"{number}. {finding.cause}"
    yield f"   in {count}; the shortest has {finding.history.receptions} receptions"
    yield ""
    yield from (f"   {line}" for line in drawing(play_and_judge(finding.history)))
    yield ""
    yield f"   repeat it  {_repeat_one(finding.history)}"
    yield f"   case       {json.dumps(case, ensure_ascii=False)}"
    yield ""


def _repeat_one(history: History) -> str:
    return command_line("explore", "--history", history)


def _repeat(order: Order, histories: int) -> str:
    words: list[object] = ["--histories", histories, "--seed", order.seed]
    limits = order.limits
    words += ["--servers", *limits.servers] if len(limits.servers) == 1 else []
    words += ["--devices", limits.devices_max] if limits.devices_max != 3 else []
    words += [] if limits.faults else ["--no-faults"]
    return command_line("explore", *words)


def _as_json(explored: Explored, kept: list[KeptHistory], order: Order) -> dict[str, Any]:
    batch = explored.batch
    return {
        "histories": batch.histories,
        "receptions": batch.receptions,
        "seconds": round(explored.seconds, 1),
        "unknowable": dict(batch.unknowable.most_common()),
        "unknowable_share": round(explored.unknowable_share, 5),
        "pairs": len(possible(faults=order.limits.faults)),
        "holes": [list(pair) for pair in holes(batch.met, faults=order.limits.faults)],
        "findings": [
            {
                "law": one.cause.law,
                "words": one.cause.words,
                "count": one.count,
                "receptions": one.history.receptions,
                "history": str(one.history),
                "repeat": _repeat_one(one.history),
            }
            for one in explored.findings
        ],
        "kept": [case.as_json() for case in kept],
        "repeat": _repeat(order, batch.histories),
    }
