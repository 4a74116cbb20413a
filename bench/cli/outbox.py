"""`lorabench outbox`: what did a network server promise, and has not delivered yet?"""

import asyncio
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from bench.cli.options import AsJson
from bench.cli.output import ExitCode, Refused, labelled, print_json, print_lines, shown_path
from bench.report.foreign_text import shown
from lns.delivery.inbox import utc_us
from lns.delivery.outbox import Outbox, OutboxState, Stream, Waiting, state_of
from lns.delivery.publisher import UpstreamUnavailable

EXAMPLES = (
    "lorabench outbox var/lns-a.outbox",
    "lorabench outbox var/lns-a.outbox --json",
    "lorabench outbox var/lns-a.outbox --release",
)

STREAMS_MAX = 20


def outbox(
    file: Annotated[Path, Parameter(help="The outbox: what `[upstream] outbox` names.")],
    /,
    *,
    streams_max: Annotated[
        int, Parameter(help="At most so many streams, those with the most messages first.")
    ] = STREAMS_MAX,
    release: Annotated[
        bool,
        Parameter(
            negative=(),
            show_default=False,
            help="Let what is parked be sent after all, under new numbers, when the network server"
            " runs again; it must not run now.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Show the messages of a network server that no broker has acknowledged yet.

    Only looks; the network server may run meanwhile. What waited for longer than `retry_max_s` is
    parked: applications may have forgotten that they have had it, so a person decides.
    """
    try:
        if release and state_of(file).parked:
            asyncio.run(_release(file))
        state = state_of(file)
    except UpstreamUnavailable as unusable:
        raise Refused(
            f"{unusable}. An outbox is the file that `outbox` in the [upstream] section of"
            " lns.toml names, var/<lns id>.outbox if nothing is said."
        ) from None
    if as_json:
        print_json({"file": file, **msgspec.to_builtins(state)})
    else:
        print_lines(_page(file, state, streams_max))
    return ExitCode.PASSED


def _page(file: Path, state: OutboxState, streams_max: int) -> list[str]:
    rows: list[tuple[str, object]] = [
        ("file", f"{shown_path(file)} ({_size(state.file_bytes)})"),
        ("waiting", f"{_messages(state.waiting)} ({_size(state.body_bytes)})"),
    ]
    if state.oldest and state.newest:
        rows += [("oldest", _told(state.oldest)), ("newest", _told(state.newest))]
    if state.parked:
        rows.append(("parked", _messages(len(state.parked))))
    lines = labelled(rows)
    busiest = sorted(state.streams, key=lambda stream: (-stream.waiting, stream.topic))
    if busiest:
        listed = busiest[: max(0, streams_max)]
        lines += ["", *labelled([(shown(one.topic), _stream(one)) for one in listed])]
        if len(busiest) > len(listed):
            lines.append(f"and {len(busiest) - len(listed)} more streams; --streams-max shows them")
    for message in state.parked[: max(0, streams_max)]:
        lines.append(f"parked: {_told(message)}, {shown(message.topic)}")
    if len(state.parked) > streams_max:
        lines.append(f"and {len(state.parked) - max(0, streams_max)} more; --json shows them all")
    if state.parked:
        lines.append("--release lets them be sent after all.")
    return lines


async def _release(file: Path) -> None:
    """Let go on what is parked; UpstreamUnavailable, also while the network server runs."""
    outbox = Outbox(file)
    try:
        await outbox.release(utc_us())
    finally:
        outbox.close()


def _told(message: Waiting) -> str:
    received = f", received {shown(message.received_at)}" if message.received_at else ""
    return f"{shown(message.message_id)}, number {message.sequence_number}{received}"


def _stream(stream: Stream) -> str:
    if not stream.waiting:
        return f"nothing waits, {stream.numbered} numbered"
    which = f"{stream.first}" if stream.waiting == 1 else f"{stream.first} to {stream.last}"
    return f"{_messages(stream.waiting)} (number {which}), {stream.numbered} numbered"


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"


def _size(octets: int) -> str:
    return f"{octets / 1024:.0f} KiB" if octets < 1 << 20 else f"{octets / (1 << 20):.1f} MiB"
