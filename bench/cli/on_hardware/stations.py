"""`lorabench stations`: set the gateways of a lab up, ask what they do, look into their logs."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.capture.run_folder import captures_to_ask, unanswering
from bench.cli.on_hardware.lab import BENCH, Bench, bench_taken, inventory_of
from bench.cli.output import (
    RUNS,
    AsJson,
    BenchBroken,
    Flag,
    ProgressDisplay,
    Refused,
    RunsWritten,
    answer,
    facts_of,
)
from bench.clock import seconds
from bench.host.program import HostError
from bench.lab.basicstation_host import (
    GatewayFailed,
    advice,
    health,
    journal,
    restart_gateway,
    restart_words,
)
from bench.lab.basicstation_setup import CannotConfigure, RollCall, provision, wisgate_steps
from bench.lab.inventory import Inventory
from bench.lab.inventory.sections import BOARDS, GatewayKind, GatewaySection
from bench.night.record import ExitCode
from lns.clock import now_us
from lns.lorawan.identifiers import Eui


@dataclass(frozen=True, slots=True)
class GatewayAnswer:
    """What is said of one gateway; `facts` are for programs."""

    name: str
    lines: list[str]
    facts: dict[str, Any] = field(default_factory=dict)
    code: ExitCode = ExitCode.PASSED


@dataclass(frozen=True, slots=True)
class Asked:
    inventory: Inventory
    gateway: GatewaySection
    dry_run: bool
    lines_max: int
    too_late: str | None = None
    """What a network server said last of answers through it that came too late."""


async def each(
    verb: Callable[[Asked], Awaitable[GatewayAnswer]], asked: Sequence[Asked]
) -> list[GatewayAnswer]:
    """All gateways at once; one that fails keeps nobody from the others."""

    async def one(of: Asked) -> GatewayAnswer:
        try:
            return await verb(of)
        except (GatewayFailed, CannotConfigure) as failed:
            facts = {"error": str(failed)}
            return GatewayAnswer(of.gateway.name, [str(failed)], facts, ExitCode.BENCH_ERROR)

    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(one(of)) for of in asked]
    return [task.result() for task in running]


_AHEAD_US_MAX = 10_000
_RADIO_START_US = 30_000_000  # from the connection to `Concentrator started`
_LOOK_AGAIN_US = 2_000_000


async def check(of: Asked) -> GatewayAnswer:
    """What the log of a gateway says of its station, and what to do; GatewayFailed."""
    name = of.gateway.name
    log = await journal(of.gateway, of.lines_max)
    found = health(log.texts)
    said = advice(found, of.gateway.eui, conducted=of.inventory.conducted)
    if log.ahead_us is not None and abs(log.ahead_us) - log.within_us > _AHEAD_US_MAX:
        said.append(
            f"its clock is {log.ahead_us / 1000:+.0f} ms from that of this host; let chrony on it"
            " follow this host (`chronyc tracking`)"
        )
    if of.too_late is not None:
        said.append(
            f"{of.too_late}; restart it (`lorabench stations {name} restart`), and look at its"
            " backhaul and its clock"
        )
    state = "its station has started" if found.is_healthy else "its station has not started"
    ours = found.eui in (None, of.gateway.eui)
    code = ExitCode.PASSED if found.is_healthy and ours else ExitCode.BENCH_ERROR
    facts = {"healthy": found.is_healthy, **facts_of(found, "connected", "missing", "eui")}
    facts |= {"ahead_us": log.ahead_us, "duty_cycle_off": found.duty_cycle_off}
    facts |= {"too_late": of.too_late, "advice": said}
    return GatewayAnswer(name, [f"{name}: {state}", *(f"  {line}" for line in said)], facts, code)


async def check_with_roll_call(asked: Sequence[Asked], wait_us: int) -> list[GatewayAnswer]:
    stations = [of.gateway.eui for of in asked]
    with tempfile.TemporaryDirectory(prefix="lorabench-") as folder, ProgressDisplay() as progress:
        try:
            async with RollCall(asked[0].inventory, Path(folder)) as call:
                here = await call.until_all(
                    stations, wait_us, lambda n: progress("gateways connected", n, len(stations))
                )
                answers = await _checked(asked, here)
        except (HostError, CannotConfigure) as failed:
            raise BenchBroken(f"Nobody can listen at the tap: {failed}") from None
    return [_with_connection(of, one, here) for of, one in zip(asked, answers, strict=True)]


async def _checked(asked: Sequence[Asked], here: set[Eui]) -> list[GatewayAnswer]:
    deadline_us = now_us() + _RADIO_START_US
    while True:
        answers = await each(check, asked)
        late = [
            of.gateway.name
            for of, one in zip(asked, answers, strict=True)
            if of.gateway.eui in here and one.facts.get("healthy") is False
        ]
        if not late or now_us() >= deadline_us:
            return answers
        await asyncio.sleep(_LOOK_AGAIN_US / 1_000_000)


def _with_connection(of: Asked, answer: GatewayAnswer, here: set[Eui]) -> GatewayAnswer:
    came = of.gateway.eui in here
    said = "is connected" if came else "has not connected"
    # Without a look into its log, that it has connected is all that can be asked for.
    fine = came and (answer.code is ExitCode.PASSED or "error" in answer.facts)
    return GatewayAnswer(
        answer.name,
        [f"{answer.name}: {said}", *answer.lines],
        {**answer.facts, "connected": came},
        ExitCode.PASSED if fine else ExitCode.BENCH_ERROR,
    )


EXAMPLES = (
    "lorabench stations --bench lab.toml",
    "lorabench stations provision --dry-run --bench lab.toml",
    "lorabench stations west provision --bench lab.toml",
    "lorabench stations west logs --bench lab.toml",
    "lorabench stations check --wait-s 90 --bench lab.toml",
    "lorabench stations check --bench lab.toml --json",
)


def stations(
    *words: str,
    bench: Bench = BENCH,
    dry_run: Flag = False,
    lines: int = 2000,
    wait_s: int = 0,
    runs: RunsWritten = RUNS,
    lns_capture: Path | None = None,
    as_json: AsJson = False,
) -> int:
    """List the gateways of a bench, or do something with them.

    provision  make their files right, pointing at the tap; restart if needed
    restart    restart the station
    logs       print its log, on the clock of this host
    check      say whether it has started, and what to do if not

    A station starts its radio only while somebody listens at the tap: where
    no run is on, `check --wait-s 90` does.

    :param words: Names of gateways, all if left out, and one of provision, restart, logs, check;
        without one of these they are listed.
    :param dry_run: Change nothing; show the commands and how the files differ.
    :param lines: How many lines of a log are read.
    :param wait_s: With check: listen at the tap meanwhile, and wait that long for the gateways.
    :param lns_capture: With check: the capture of a network server; the newest run if left out.
    """
    inventory = inventory_of(bench)
    verb, chosen = _asked(inventory, words)
    if not chosen:
        raise Refused(f"{bench} has no [[gateway]]; hardware.md shows how one is written.")
    if lines < 1 or wait_s < 0:
        raise Refused("--lines is 1 or more, --wait-s 0 or more.")
    if wait_s and verb != "check":
        raise Refused("--wait-s is for check.")
    late = _late(runs, lns_capture) if verb == "check" else {}
    asked = [Asked(inventory, gateway, dry_run, lines, late.get(gateway.eui)) for gateway in chosen]
    alone = wait_s > 0 or (verb in _CHANGING and not dry_run)
    with bench_taken(inventory) if alone else nullcontext():
        if wait_s:
            answers = asyncio.run(check_with_roll_call(asked, seconds(wait_s)))
        else:
            answers = asyncio.run(each(_VERBS[verb], asked))
    facts = [{"name": one.name, **one.facts} for one in answers]
    said = (line for one in answers for line in one.lines)
    return answer(facts, said, max(one.code for one in answers), as_json=as_json)


def _late(runs: Path, lns_capture: Path | None) -> dict[str, str]:
    try:
        return unanswering(captures_to_ask(runs, lns_capture))
    except OSError as error:
        raise Refused(f"{lns_capture or runs} cannot be read: {error.strerror or error}") from None


async def _listed(of: Asked) -> GatewayAnswer:
    gateway = of.gateway
    board = BOARDS[gateway.board] if gateway.board else None
    what = f"{gateway.kind}" + (f" with {board.name} ({board.chip})" if board else "")
    facts = facts_of(gateway, "eui", "kind", "board", "ssh", "home", "power", "attenuator")
    where = gateway.ssh or ("this host" if gateway.kind is GatewayKind.PROGRAM else "no ssh")
    return GatewayAnswer(gateway.name, [f"{gateway.name:12} {gateway.eui}  {what}, {where}"], facts)


async def _provision(of: Asked) -> GatewayAnswer:
    name = of.gateway.name
    if of.gateway.kind is GatewayKind.WISGATE:
        steps = wisgate_steps(of.inventory, of.gateway)
        numbered = [f"  {number}. {step}" for number, step in enumerate(steps, 1)]
        return GatewayAnswer(name, [f"{name}: a WisGate is configured in its pages:", *numbered],
                    {"steps": steps})  # fmt: skip
    done = await provision(of.inventory, of.gateway, dry_run=of.dry_run)
    will = "would be " if of.dry_run else ""
    lines = [f"{name}: unchanged"] if not done.changed else [
        f"{name}: {will}{verb} {', '.join(files)}"
        for verb, files in (("written", done.written), ("removed", done.removed))
        if files
    ]  # fmt: skip
    if done.changed and not of.dry_run:
        lines.append(f"{name}: restarted" if done.restarted else f"{name}: restart it yourself")
    lines += [f"{name}: note: {note}" for note in done.notes]
    if of.dry_run:
        lines += [f"  $ {command}" for command in done.commands]
        lines += [f"  {line}" for line in done.diff]
    facts = facts_of(done, "changed", "written", "removed", "unchanged", "notes", "restarted")
    facts |= {"dry_run": of.dry_run}
    if of.dry_run:
        facts |= {"commands": done.commands, "diff": done.diff}
    return GatewayAnswer(name, lines, facts)


async def _restart(of: Asked) -> GatewayAnswer:
    words = restart_words(of.gateway)
    if of.dry_run:
        return GatewayAnswer(of.gateway.name, [f"{of.gateway.name}: would run: {words}"],
                    {"restarted": False, "command": words})  # fmt: skip
    await restart_gateway(of.gateway)
    return GatewayAnswer(of.gateway.name, [f"{of.gateway.name}: restarted"], {"restarted": True})


async def _logs(of: Asked) -> GatewayAnswer:
    found = await journal(of.gateway, of.lines_max)
    answers = [{"at": line.at, "text": line.text} for line in found.lines]
    facts = {"ahead_us": found.ahead_us, "within_us": found.within_us, "lines": answers}
    return GatewayAnswer(found.name, [f"{found.name}  {line}" for line in found.lines], facts)


_VERBS: dict[str, Callable[[Asked], Awaitable[GatewayAnswer]]] = {
    "list": _listed,
    "provision": _provision,
    "restart": _restart,
    "logs": _logs,
    "check": check,
}
_CHANGING = ("provision", "restart")


def _asked(inventory: Inventory, words: Sequence[str]) -> tuple[str, list[GatewaySection]]:
    known = {gateway.name: gateway for gateway in inventory.gateways}
    verbs = [word for word in words if word in _VERBS and word not in known]
    names = [word for word in words if word not in verbs]
    strange = [word for word in names if word not in known]
    if len(verbs) > 1:
        raise Refused(f"One thing at a time: {' or '.join(verbs)}.")
    if strange:
        raise Refused(
            f"{strange[0]} is no gateway of {inventory.path} and nothing to do. Gateways:"
            f" {', '.join(known) or 'none'}. To do: {', '.join(_VERBS)}."
        )
    chosen = list(dict.fromkeys(names)) or list(known)
    return (verbs or ["list"])[0], [known[name] for name in chosen]
