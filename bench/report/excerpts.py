"""What did the captures record around the findings of a case, and what of it may a page print?

The captures of a night may be large, so they are read once, line by line: the time and the case of
a line are found in its fixed prefix, and only lines that are asked for are parsed. Stations,
devices and captures are hostile until proven otherwise: their texts may hold keys, control
characters, half characters (lone surrogates), text that runs backwards, or megabytes. Escaping for
HTML and XML is the writer's business.
"""

import json
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from bench.capture.reading import Event, Timetable, capture_files, cases_of, event, lines

LINES_MAX = 120  # of one case, on the page
LINE_BYTES_MAX = 1_000_000  # longer lines are hostile, and not shown

_T_US = re.compile(rb'"t_us":\s*(\d{1,18})[,}]')
# Right after the kind: before every field that a device or a station can fill.
_CASE = re.compile(rb'"kind":\s*"[^"\\]*",\s*"case":\s*("(?:[^"\\]|\\.)*")')
_SOURCES = ("bench", "device", "air", "tap", "lns", "upstream")


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of the run's clock, both ends included, in µs; `key` is whose it is.

    With a `case` it holds the events of that case and no others, else everything of that time.
    """

    key: str
    begin_us: int
    end_us: int
    case: str | None = None


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The events of a window in time order; `left_out` of them had to go, before `gaps`."""

    events: tuple[Event, ...]
    left_out: int = 0
    gaps: Mapping[int, int] | None = None  # index in events -> how many were left out before it


def read_events(
    run_folder: Path, windows: Sequence[Window] | None = None, sources: str = "*"
) -> Iterator[Event]:
    """The events of a run's captures, sorted by t_us; only what `windows` may need, if given.

    `sources` is a pattern for the names of sources, such as `bench`. Lines that are not one JSON
    object with an integer t_us (a torn last line) are passed over, and so is what follows where a
    capture is damaged.
    """
    if windows is not None and not windows:  # a good night: nothing of its captures is shown
        return
    sieve = None if windows is None else _Sieve(windows)
    paths = capture_files(run_folder, sources)
    found = [event for path in paths for event in _events_of(path, sieve)]
    yield from sorted(found, key=_place)


def excerpts(
    run_folder: Path,
    windows: Sequence[Window],
    moments_us: Mapping[str, Sequence[int]],
    *,
    table: Timetable | None = None,
) -> dict[str, Excerpt]:
    """Per window key, its events: the LINES_MAX nearest to the window's `moments_us`.

    `table` holds the cases of the run, also those without a window: it tells whose a line is that
    names no case.
    """
    events = list(read_events(run_folder, windows))
    times = [event["t_us"] for event in events]
    of_case: defaultdict[str, list[Event]] = defaultdict(list)
    table = table or Timetable(
        {w.case: (w.begin_us, w.end_us) for w in windows if w.case is not None}
    )
    for one in events:
        for case in cases_of(one, table):
            of_case[case].append(one)
    return {
        window.key: nearest(
            events[bisect_left(times, window.begin_us) : bisect_right(times, window.end_us)]
            if window.case is None
            else of_case[window.case],
            moments_us.get(window.key, ()),
            LINES_MAX,
        )
        for window in windows
    }


def _events_of(path: Path, sieve: "_Sieve | None") -> Iterator[Event]:
    for line in _lines_there(path):
        if len(line) > LINE_BYTES_MAX or (sieve is not None and not sieve.lets_through(line)):
            continue
        found = event(line)
        if found is not None and type(found.get("t_us")) is int:
            yield found


def _lines_there(path: Path) -> Iterator[bytes]:
    with suppress(OSError):  # one that is damaged is a hole in the books, which tell of it
        yield from lines(path)


class _Sieve:
    def __init__(self, windows: Sequence[Window]) -> None:
        self._cases = {window.case for window in windows if window.case is not None}
        self._spans = _merged(windows)
        self._caseless = _merged([window for window in windows if window.case is None])

    def lets_through(self, line: bytes) -> bool:
        found = _CASE.search(line)
        if found is None:
            return _inside(line, self._spans)
        return _text(found.group(1)) in self._cases or _inside(line, self._caseless)


@lru_cache  # the lines of a case stand together
def _text(quoted: bytes) -> str | None:
    try:
        return str(json.loads(quoted))
    except ValueError:
        return None


def _inside(line: bytes, spans: tuple[list[int], list[int]]) -> bool:
    # t_us stands before every field that a device or a station can fill.
    found = _T_US.search(line)
    if found is None:
        return False
    begins, ends = spans
    place = bisect_right(begins, int(found.group(1))) - 1
    return place >= 0 and int(found.group(1)) <= ends[place]


def _merged(windows: Sequence[Window]) -> tuple[list[int], list[int]]:
    begins: list[int] = []
    ends: list[int] = []
    for window in sorted(windows, key=lambda w: (w.begin_us, w.end_us)):
        if ends and window.begin_us <= ends[-1]:
            ends[-1] = max(ends[-1], window.end_us)
        else:
            begins.append(window.begin_us)
            ends.append(window.end_us)
    return begins, ends


def _place(event: Event) -> tuple[int, int, str, int]:
    """Time first; then the way of an uplink, so that one instant reads in the order of causes."""
    source, kind = str(event.get("source", "")), str(event.get("kind", ""))
    rank = next((i for i, name in enumerate(_SOURCES) if source.startswith(name)), 4)
    if kind in ("case.expect", "case.end", "fault.end"):
        rank = len(_SOURCES)
    seq = event.get("seq")
    return event["t_us"], rank, source, seq if isinstance(seq, int) else 0


def nearest(events: Sequence[Event], moments_us: Sequence[int], lines_max: int) -> Excerpt:
    """The `lines_max` events nearest to a moment, or to the first event if there is no moment."""
    if len(events) <= lines_max:
        return Excerpt(tuple(events))
    near = sorted(moments_us) or [events[0]["t_us"]]
    distances = [_distance(near, event["t_us"]) for event in events]
    kept = sorted(sorted(range(len(events)), key=distances.__getitem__)[:lines_max])
    gaps = {
        place: index - before - 1
        for place, (before, index) in enumerate(zip([-1, *kept], kept, strict=False))
        if index - before > 1
    }
    return Excerpt(tuple(events[i] for i in kept), len(events) - len(kept), gaps)


def _distance(moments_us: Sequence[int], t_us: int) -> int:
    place = bisect_right(moments_us, t_us)
    return min(abs(t_us - moment) for moment in moments_us[max(0, place - 1) : place + 1])


TEXT_MAX = 600  # characters

_MASK = "****"

# A key is 16 bytes: as one word of 32 hex digits, or as 16 pairs, the way AT consoles print them.
_KEY_WORD = re.compile(r"(?<![0-9A-Za-z])[0-9A-Fa-f]{32}(?![0-9A-Za-z])")
_KEY_PAIRS = re.compile(
    r"(?<![0-9A-Za-z])(?:[0-9A-Fa-f]{2}[ :,-]){15}[0-9A-Fa-f]{2}(?![0-9A-Za-z])"
)
_KEY_NAMED = re.compile(
    r"((?:S_?KEY|APP_?KEY|NWK_?KEY|TOKEN|PASSWORD|PASSWD|SECRET)[\"']?\s*[=:,]\s*)"
    r"(\"[^\"]*\"|'[^']*'|[^\s,;}]+)",
    re.IGNORECASE,
)
_URL_USER = re.compile(r"://[^\s/@]+@")

# Control characters, half characters, and what turns the direction of writing (Trojan Source).
_INVISIBLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    r"\ufff0-\uffff\ud800-\udfff]"
)
_TOKEN_FLAG = re.compile(r"--?[\w-]*(?:key|token|password|secret)[\w-]*", re.IGNORECASE)


@lru_cache(maxsize=8192)
def shown(text: str, text_max: int = TEXT_MAX) -> str:
    """The text with keys masked, invisible characters made visible, and at most `text_max` long."""
    return visible(without_keys(text[: 4 * text_max]), text_max)


def visible(text: str, text_max: int = TEXT_MAX) -> str:
    """The text without a character that hides or breaks something, at most `text_max` long."""
    cut = text if len(text) <= text_max else text[: text_max - 1] + "…"
    return _INVISIBLE.sub(_picture, cut)


def without_keys(text: str) -> str:
    """The text with everything that looks like a key, token or password replaced by ****."""
    masked = _URL_USER.sub(f"://{_MASK}@", text)
    masked = _KEY_NAMED.sub(rf"\1{_MASK}", masked)
    return _KEY_PAIRS.sub(_MASK, _KEY_WORD.sub(_MASK, masked))


def shown_arguments(arguments: list[str]) -> list[str]:
    """Command-line arguments; the one after `--key` and the like is masked too."""
    previous = ["", *arguments]
    return [
        _MASK if _TOKEN_FLAG.fullmatch(before) else shown(argument)
        for before, argument in zip(previous, arguments, strict=False)
    ]


def decode(content: bytes) -> str:
    """UTF-8, with what is not UTF-8 replaced."""
    return content.decode("utf-8", errors="replace")


def _picture(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)  # the control pictures of Unicode: ␀ ␁ …
    return "�"
