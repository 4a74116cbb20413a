"""Have the stations started, do they connect, and what is to be done if not?"""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.cli.exit_code import BenchBroken, ExitCode
from bench.cli.gateway_answer import Asked, Told, each
from bench.cli.progress import ProgressDisplay
from bench.host.program import HostError
from bench.lab.gateways.basicstation_files import CannotConfigure
from bench.lab.gateways.basicstation_journal import journal
from bench.lab.gateways.basicstation_log import advice, health
from bench.lab.gateways.roll_call import RollCall
from lns.clock import now_us
from lns.lorawan.identifiers import Eui

_AHEAD_US_MAX = 10_000
_RADIO_START_US = 30_000_000  # from the connection to `Concentrator started`
_LOOK_AGAIN_US = 2_000_000


async def check(of: Asked) -> Told:
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
    facts = {
        "healthy": found.is_healthy,
        "connected": found.connected,
        "missing": found.missing,
        "eui": found.eui,
        "ahead_us": log.ahead_us,
        "duty_cycle_off": found.duty_cycle_off,
        "too_late": of.too_late,
        "advice": said,
    }
    return Told(name, [f"{name}: {state}", *(f"  {line}" for line in said)], facts, code)


async def check_with_roll_call(asked: Sequence[Asked], wait_us: int) -> list[Told]:
    """Listen at the tap, wait for the gateways, then check them."""
    stations = [of.gateway.eui for of in asked]
    with tempfile.TemporaryDirectory(prefix="lorabench-") as folder, ProgressDisplay() as progress:
        try:
            async with RollCall(asked[0].inventory, Path(folder)) as call:
                here = await call.until_all(
                    stations, wait_us, lambda n: progress("gateways connected", n, len(stations))
                )
                told = await _checked(asked, here)
        except (HostError, CannotConfigure) as failed:
            raise BenchBroken(f"Nobody can listen at the tap: {failed}") from None
    return [_with_connection(of, one, here) for of, one in zip(asked, told, strict=True)]


async def _checked(asked: Sequence[Asked], here: set[Eui]) -> list[Told]:
    """The checks, again and again while a radio may still be about to start."""
    deadline_us = now_us() + _RADIO_START_US
    while True:
        told = await each(check, asked)
        late = [
            of.gateway.name
            for of, one in zip(asked, told, strict=True)
            if of.gateway.eui in here and one.facts.get("healthy") is False
        ]
        if not late or now_us() >= deadline_us:
            return told
        await asyncio.sleep(_LOOK_AGAIN_US / 1_000_000)


def _with_connection(of: Asked, told: Told, here: set[Eui]) -> Told:
    """What is said of a gateway, and whether it has connected."""
    came = of.gateway.eui in here
    said = "is connected" if came else "has not connected"
    # Without a look into its log, that it has connected is all that can be asked for.
    fine = came and (told.code is ExitCode.PASSED or "error" in told.facts)
    return Told(
        told.name,
        [f"{told.name}: {said}", *told.lines],
        {**told.facts, "connected": came},
        ExitCode.PASSED if fine else ExitCode.BENCH_ERROR,
    )
