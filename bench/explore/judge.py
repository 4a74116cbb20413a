"""What is wrong with a history that was played: a broken law, or another word than the model's?"""

from dataclasses import dataclass

from bench.explore.history import History, OnAir
from bench.explore.laws import broken_laws
from bench.explore.memory_stage import play_in_memory
from bench.explore.model import Model
from bench.explore.model_books import Due
from bench.explore.trace import Trace, Words

MODEL = "the model"


@dataclass(frozen=True, slots=True)
class Cause:
    """A law and how it was broken: the same for all histories that break it in this way."""

    law: str
    words: str

    def __str__(self) -> str:
        return f"{self.law}: {self.words}"


@dataclass(frozen=True, slots=True)
class Judged:
    """A trace with what was due and all that was wrong, each cause once."""

    trace: Trace
    due: dict[int, Due]
    causes: tuple[Cause, ...]

    @property
    def unknowable(self) -> list[str]:
        """Why the model says nothing about a reception, for each of them."""
        return [due.why for due in self.due.values() if due.words is None]


def play_and_judge(history: History) -> Judged:
    """Play a history in memory; a crash of the server is a broken law too."""
    try:
        return judge(play_in_memory(history))
    except Exception as error:
        cause = Cause("no crash", f"{type(error).__name__}: {str(error).splitlines()[:1]}")
        return Judged(Trace(history, 0), {}, (cause,))


def judge(trace: Trace) -> Judged:
    """All that is wrong with a trace."""
    due = Model(trace).judge()
    causes = [Cause(broken.law, broken.words) for broken in broken_laws(trace)]
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
