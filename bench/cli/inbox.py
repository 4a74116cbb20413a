"""`lorabench inbox` and `outbox`: what applications get once, and what is still owed to them."""

import asyncio
import logging
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from bench.cli.consumer import Consumer, KeyTimes, Store, consume, figures_at
from bench.cli.output import (
    AsJson,
    Flag,
    Refused,
    answer,
    labelled,
    refusing,
    shown_path,
    time_span_us,
)
from bench.night.record import ExitCode
from bench.report.excerpts import shown
from lns.delivery import ConfigurationError, Detectors, MessageIdWindow, SequenceTracker
from lns.delivery.inbox import Figures, utc_us
from lns.delivery.mqtt_session import Broker, broker
from lns.delivery.outbox import Outbox, OutboxState, Stream, Waiting, state_of
from lns.delivery.publisher import UpstreamUnavailable
from lns.delivery.subscription import expect_topic_filter
from lns.store.inbox_store import ENTRIES_MAX, ParkedMessage

EXAMPLES = (
    "lorabench inbox --broker mqtt://127.0.0.1 --store inbox.sqlite",
    "lorabench inbox --broker mqtt://127.0.0.1 --store inbox.sqlite --to uplinks.jsonl",
    "lorabench inbox --broker mqtt://127.0.0.1 --store inbox.sqlite --to mqtt:clean --keys",
    "lorabench inbox --broker mqtt://127.0.0.1 --store inbox.sqlite --once > uplinks.jsonl",
    "lorabench inbox --broker mqtt://127.0.0.1 --store redis://127.0.0.1 --client-id one"
    " --topic '$share/app/lorawan/+/+/up' --no-sequence",
    "lorabench inbox --show inbox.sqlite",
    "lorabench outbox var/lns-a.outbox",
    "lorabench outbox var/lns-a.outbox --json",
    "lorabench outbox var/lns-a.outbox --release",
)

TOPIC = "lorawan/+/+/up"
ONCE_S = "2s"
PARKED_MAX = 20


def inbox(
    *,
    broker_url: Annotated[str | None, Parameter(name="--broker")] = None,
    ca: Path | None = None,
    topic: str = TOPIC,
    client_id: str = "inbox",
    store: str | None = None,
    to: str = "-",
    window: str | None = None,
    partitioned: Flag = False,
    sessions: Flag = False,
    ids_max: int = ENTRIES_MAX,
    sequence: Annotated[
        bool,
        Parameter(
            name=("--sequence", "--performDuplicateChecking"),
            negative=("--no-sequence", "--no-performDuplicateChecking"),
        ),
    ] = True,
    keys: Flag = False,
    retention: str = "15d",
    retry: str = "1d",
    min_msg_time: str | None = None,
    network: str = "10s",
    capture: Path | None = None,
    until_idle: str | None = None,
    once: Annotated[
        bool,
        Parameter(
            negative=(), show_default=False, help=f"Take what is there: --until-idle {ONCE_S}."
        ),
    ] = False,
    every: str = "30s",
    show: str | None = None,
    config: Path | None = None,
    as_json: AsJson = False,
) -> int:
    """Take messages from a broker, and let each have its effect once, however often it comes.

    A message is remembered and has its effect in one transaction; then the broker is told that it
    arrived. So it may be killed at any time, and goes on where it was. Three detectors look for
    duplicates: the message id (as Azure Service Bus does), the sequence number of the topic (AEP)
    and the Remove Duplicates key (CMQ). Stops with Ctrl-C or SIGTERM. --json goes with --show.

    :param broker_url: mqtt[s]://[user:password@]host[:port]; file:PATH names a file that holds it.
    :param ca: PEM file of those who vouch for the broker (mqtts://).
    :param topic: The topic filter to subscribe to.
    :param client_id: Names the session at the broker; no two consumers share one.
    :param store: What is remembered: a SQLite file, or redis://host[:port] for several consumers.
    :param to: Where messages go: - (JSON Lines on stdout), a file of JSON Lines, or mqtt:TOPIC,
        which publishes them again as TOPIC/<their topic>.
    :param window: The ids of each topic are compared for so long, 20s to 7d; `off` compares none.
        10min if nothing is said, or what the store has. Its length may be changed later, for all
        consumers of the store; whether there is one may not.
    :param partitioned: An id counts together with its partition key.
    :param sessions: A message is taken only if its session id is its partition key.
    :param ids_max: So many ids are remembered, and as many sequence numbers and keys: enough for
        messages a second x window, 1 a second in 7d are 604800. When there are more, the oldest is
        forgotten early (told as `left too early`), and its repeat is accepted.
    :param sequence: Compare the sequence numbers of each topic.
    :param keys: Compare Remove Duplicates keys too: a frame counts once, whichever servers and
        stations heard it.
    :param retention: Keys: the broker keeps a message so long.
    :param retry: Keys: a server sends a message again so long: its `retry_max_s`, or more.
    :param min_msg_time: Keys: what tells of what time the oldest message is that may still come,
        instead of --retention: `lorawan/+/min_msg_time`, where network servers retain it, or
        `command:…`, which prints a time (ISO 8601 or seconds since 1970, or nothing: the queue is
        empty).
    :param network: Keys: a message is on its way so long.
    :param capture: Write every decision to this file, as lines of a capture.
    :param until_idle: Stop when nothing has come for so long.
    :param every: So often the statistics are told on stderr.
    :param show: Show what this store remembers and has counted, and stop.
    :param config: A TOML file with these options in its section [inbox]; others go before.
    """
    if show is not None:
        return _show(show, as_json=as_json)
    if as_json:
        raise Refused("--json goes with --show. What a running inbox does is told by --capture.")
    if broker_url is None or store is None:
        missing = "--broker" if broker_url is None else "--store"
        raise Refused(f"{missing} is missing: which broker, and where to remember? (Or --show.)")
    with refusing(ValueError, said="--topic: {}."):
        expect_topic_filter(topic)
    if not client_id:
        raise Refused("--client-id is empty: without a name the broker keeps nothing for it.")
    if topic.startswith("$share/") and sequence:
        raise Refused(
            "A shared subscription needs --no-sequence: a message that another one overtakes at"
            " another consumer would count as a duplicate."
        )
    times = _key_times(retention, retry, network, min_msg_time, topic) if keys else None
    if min_msg_time is not None and not keys:
        raise Refused("--min-msg-time goes with --keys.")
    idle = until_idle or (ONCE_S if once else None)
    consumer = Consumer(
        broker=_broker(broker_url, ca),
        topic=topic,
        client_id=client_id,
        store=Store(store, _ids_max(ids_max)),
        to=to,
        keeps_window=window is None,
        detectors=Detectors(
            window=_window(window or "10min", partitioned=partitioned, sessions=sessions),
            sequence=SequenceTracker(perform_duplicate_checking=sequence),
        ),
        keys=times,
        capture=capture,
        idle_us=None if idle is None else time_span_us(idle, "--until-idle"),
        every_us=max(time_span_us(every, "--every"), 100_000),
    )
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    asyncio.run(consume(consumer))
    return ExitCode.PASSED


def _broker(url: str, ca: Path | None) -> Broker:
    if url.startswith("file:"):
        file = Path(url.removeprefix("file:"))
        try:
            url = file.read_text("utf-8").strip()
        except OSError as error:
            raise Refused(f"--broker: {file} cannot be read: {error.strerror}") from None
    with refusing(ValueError, said="--broker: {}"):
        return broker(url, ca)


def _ids_max(number: int) -> int:
    if number < 1:
        raise Refused("--ids-max is 1 or more; --window off remembers none.")
    return number


def _window(text: str, *, partitioned: bool, sessions: bool) -> MessageIdWindow | None:
    if text == "off":
        return None
    window_us = time_span_us(text, "--window")
    with refusing(ConfigurationError, said="--window: {}"):
        return MessageIdWindow(window_us, partitioned=partitioned, sessions=sessions)


def _key_times(
    retention: str, retry: str, network: str, oldest: str | None, topic: str
) -> KeyTimes:
    times = KeyTimes(
        retention_us=time_span_us(retention, "--retention"),
        retry_us=time_span_us(retry, "--retry"),
        network_us=time_span_us(network, "--network"),
        oldest=oldest,
    )
    with (
        refusing(ValueError, said="--min-msg-time: {}."),
        refusing(ConfigurationError, said="--keys: {}"),
    ):
        times.detector(lambda: None)
        expect_topic_filter(times.topic)
    if oldest is not None and times.command is None and topic.startswith("$share/"):
        raise Refused(
            "--min-msg-time with a shared subscription is a command: what another consumer has not"
            " done yet, the topic of the servers cannot tell."
        )
    return times


def _show(store: str, *, as_json: bool) -> int:
    figures, parked = asyncio.run(figures_at(Store(store)))
    document = {
        "store": store,
        **msgspec.to_builtins(figures),
        "parked_messages": [_parked(message) for message in parked],
    }
    return answer(document, _page(store, figures, parked), as_json=as_json)


def _page(store: str, figures: Figures, parked: list[ParkedMessage]) -> list[str]:
    window_us, ignored = figures.window_us, figures.ignored
    rows: list[tuple[str, object]] = [
        ("store", shown(store)),
        ("window", "ids are not compared" if window_us is None else f"{window_us // 1000000} s"),
        ("accepted", figures.accepted),
        *((f"ignored by {name}", count) for name, count in ignored.items()),
        ("NumDupMsgsRcvd", figures.num_dup_msgs_rcvd),
        ("unreadable", figures.unreadable),
        ("parked", figures.parked),
        ("tries in vain", figures.tries_failed),
        *((f"remembered by {name}", size.count) for name, size in figures.remembered.items()),
        ("left too early", figures.evicted),
    ]
    lines = labelled(rows)
    for message in parked[:PARKED_MAX]:
        lines.append(
            f"parked after {message.tries} tries: {shown(message.message_id)}"
            f" on {shown(message.channel)}: {shown(message.reason, 300)}"
        )
    if len(parked) > PARKED_MAX:
        lines.append(f"and {len(parked) - PARKED_MAX} more; --json shows them all")
    return lines


def _parked(message: ParkedMessage) -> dict[str, object]:
    fields: dict[str, object] = msgspec.structs.asdict(message)
    return fields | {"body": message.body.decode("utf-8", "replace")}


STREAMS_MAX = 20


def outbox(
    file: Path, /, *, streams_max: int = STREAMS_MAX, release: Flag = False, as_json: AsJson = False
) -> int:
    """Show the messages of a network server that no broker has acknowledged yet.

    Only looks; the network server may run meanwhile. What waited for longer than `retry_max_s` is
    parked: applications may have forgotten that they have had it, so a person decides.

    :param file: The outbox: what `[upstream] outbox` names.
    :param streams_max: At most so many streams, those with the most messages first.
    :param release: Let what is parked be sent after all, under new numbers, when the network server
        runs again; it must not run now.
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
    document = {"file": file, **msgspec.to_builtins(state)}
    return answer(document, _outbox_page(file, state, streams_max), as_json=as_json)


def _outbox_page(file: Path, state: OutboxState, streams_max: int) -> list[str]:
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
    with closing(Outbox(file)) as outbox:
        await outbox.release(utc_us())


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
