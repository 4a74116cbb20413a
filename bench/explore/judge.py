"""What is wrong with a history that was played, and how does that look to a person?

A broken law, or another word than the model's. The drawing has one line for each thing that
happened, in order: the time, a lane for each station, what it was and what became of it; what was
due stands below where it differs.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.explore.history import SERVERS, History, OnAir
from bench.explore.laws import Cause, broken_laws
from bench.explore.memory_stage import play_in_memory
from bench.explore.model import Model
from bench.explore.model_books import Due
from bench.explore.trace import (
    DownlinkWanted,
    Event,
    Frame,
    RadioLost,
    RadioRestarted,
    Reception,
    ServerRestarted,
    StoreDisturbed,
    StoreEmptied,
    Trace,
    UpstreamDisturbed,
    Words,
)

MODEL = "the model"


@dataclass(frozen=True, slots=True)
class Judged:
    """A trace with what was due and all that was wrong, each cause once."""

    trace: Trace
    due: dict[int, Due]
    causes: tuple[Cause, ...]

    @property
    def unknowable(self) -> list[str]:
        return [due.why for due in self.due.values() if due.words is None]


def play_and_judge(history: History) -> Judged:
    """Play a history in memory; a crash of the server is a broken law too."""
    try:
        return judge(play_in_memory(history))
    except Exception as error:
        cause = Cause("no crash", f"{type(error).__name__}: {str(error).splitlines()[:1]}")
        return Judged(Trace(history, 0), {}, (cause,))


def judge(trace: Trace) -> Judged:
    due = Model(trace).judge()
    causes = broken_laws(trace)
    for number, one in due.items():
        for words in trace.outcomes[number][:1]:
            if one.words is not None and words != one.words:
                causes.append(Cause(MODEL, difference(one.words, words)))
                break
        else:
            continue
        break  # what follows a first difference is often its consequence
    return Judged(trace, due, tuple(dict.fromkeys(causes)))


def difference(due: Words, became: Words) -> str:
    """Two outcomes, as far as they differ; without what only the strategy makes different."""
    parts = []
    for name in ("status", "upstream", "reason", "answer", "level2"):
        left, right = _plain(name, due), _plain(name, became)
        if left != right:
            parts.append(f"{name} {left} is due, {right} it became")
    if not parts:
        parts = [f"{due} is due, {became} it became"]
    return "; ".join(parts)


def _plain(name: str, words: Words) -> str:
    word: str = getattr(words, name)
    if name == "status" and word in ("Duplicate", "SoftDuplicate"):
        return "a copy"
    if name == "upstream":
        return "dropped" if word == "dropped" else "up"
    if name == "answer" and word in ("RX1", "RX2", "TooLate"):
        return "answered"
    return word


def shape(history: History) -> tuple[str, ...]:
    """What a history is made of, without who and when: the same for one cause."""
    steps = [
        f"{type(step).__name__}{len(step.heard) if isinstance(step, OnAir) else ''}"
        for step in history.steps
    ]
    return (*sorted({device.kind for device in history.devices}), *steps)


_TIME_WIDTH = 10


def drawing(judged: Judged) -> list[str]:
    """The timeline of a history that was played and judged."""
    trace = judged.trace
    places = trace.history.places
    names = " ".join(f"{SERVERS[server]}{station + 1}" for server, station in places)
    lines = [f"{'time s':>{_TIME_WIDTH}}  {names}"]
    began_us = trace.events[0].at_us if trace.events else 0
    seen: set[int] = set()
    for event in trace.events:
        at = f"{(event.at_us - began_us) / 1_000_000:{_TIME_WIDTH}.6f}"
        lanes = "  ".join(_mark(event, place) for place in places)
        lines.append(f"{at}  {lanes}   {_words(trace, event, seen)}")
        lines += [f"{'':{_TIME_WIDTH}}  {'':{len(names)}}  {one}" for one in _became(judged, event)]
    return lines


def _mark(event: Event, place: tuple[int, int]) -> str:
    match event:
        case Reception():
            return "●" if event.place == place else "·"
        case RadioLost(_, server, station):
            return "×" if (server, station) == place else "·"
        case RadioRestarted(_, server, station):
            return "○" if (server, station) == place else "·"
        case ServerRestarted(_, server):
            return "═" if server == place[0] else "·"
        case _:
            return "┄" if event.server in (-1, place[0]) else "·"


def _words(trace: Trace, event: Event, seen: set[int]) -> str:
    match event:
        case Reception(frame=frame):
            again = "again: " if frame.number in seen else ""
            seen.add(frame.number)
            late_us = event.at_us - event.ended_us
            late = f", {late_us / 1_000:g} ms late" if late_us > 1_000 else ""
            by = "" if event.genuine else ", sent by somebody else"
            return f"{again}{_frame(frame)}{late}{by}"
        case ServerRestarted(_, server):
            return f"server {SERVERS[server]} has restarted"
        case RadioLost(_, server, station):
            return f"the link of {SERVERS[server]}{station + 1} is cut"
        case RadioRestarted(_, server, station, _, again, mute):
            byte = "the session byte that it had" if again else "another session"
            silent = ", and does not tell its clock" if mute else ""
            return f"{SERVERS[server]}{station + 1} is back with {byte}{silent}"
        case UpstreamDisturbed(_, server, slow_us, refused):
            how = " and ".join(
                ([f"takes {slow_us / 1_000:g} ms"] if slow_us else []) + ["is refused"] * refused
            )
            return f"the next message of server {SERVERS[server]} {how}"
        case StoreDisturbed(at_us, server, until_us, late_us):
            how = f"answers {late_us / 1_000:g} ms late" if late_us else "is away"
            return f"the store {how} for server {SERVERS[server]}, {(until_us - at_us) / 1e6:g} s"
        case StoreEmptied():
            return "the store has lost all that it knew"
        case DownlinkWanted(_, server, device):
            return (
                f"the application wants {'abc'[device]} to be sent something by {SERVERS[server]}"
            )


def _frame(frame: Frame) -> str:
    name = f"{'abc'[frame.device]} "
    if frame.is_join:
        return name + ("a forged join" if frame.forged else f"joins, DevNonce {frame.f_cnt}")
    kind = "confirmed" if frame.confirmed else "unconfirmed"
    life = f" of life {frame.life}" if frame.life else ""
    asks = ", asks for a link check" if frame.asks else ""
    return f"{name}FCnt {frame.f_cnt}{life}, " + ("forged" if frame.forged else kind) + asks


def _became(judged: Judged, event: Event) -> Iterator[str]:
    if not isinstance(event, Reception):
        return
    outcomes, due = judged.trace.outcomes[event.number], judged.due.get(event.number)
    for words in map(str, outcomes) if outcomes else ("nothing: it has no outcome",):
        yield f"→ {words}"
    if due is not None and due.words is None:
        yield f"  what is due is unknowable: {due.why}"
    elif due is not None and outcomes[:1] != [due.words]:
        yield f"  ! due is {due.words}"
