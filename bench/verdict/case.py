"""One case: its lines in the capture, and the verdict they add up to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from bench.capture.reading import Event, contents
from bench.verdict.evidence import ABSENT, ANSWER_FIELDS
from bench.verdict.expectation import Due, Result, Verdict, judge, unreached
from bench.verdict.owner import FINDING, Found
from lns.lorawan.identifiers import Eui
from lns.uplink.registry import EndDevice


@dataclass(frozen=True, slots=True)
class Title:
    case: str
    scenario: str
    file: str
    group: str
    title: str
    strategy: str | None = None
    confirmed: bool | None = None
    attempt: int = 1
    params: dict[str, str] = field(default_factory=dict)


class StimulusMissed(Exception):
    """What a scenario set up did not come about; `owner` is who is the reason: air, gateway, …"""

    def __init__(self, owner: str, reason: str) -> None:
        super().__init__(reason)
        self.owner = owner


def fault_fields(
    seam: str,
    fault: str,
    detail: Mapping[str, object],
    *,
    server: str | None = None,
    station: str | None = None,
) -> dict[str, object]:
    """What `fault.begin` and `fault.end` say; `server` and `station`: who alone meets it."""
    fields: dict[str, object] = {"seam": seam, "fault": fault}
    fields |= {} if station is None else {"station": station}
    fields["origin"] = "injected"
    fields |= {} if server is None else {"lns": server}
    return fields | {"detail": dict(detail)}


class Book(Protocol):
    """Where a case writes its lines: a capture, or what keeps them for one."""

    def record(
        self, source: str, kind: str, fields: dict[str, object], *, t_us: int | None = None
    ) -> dict[str, object]: ...

    def flush(self) -> None: ...


class Case:
    """Records the events of one case, into a capture and for the verdict.

    Every line names the case, so that cases may run side by side. What is recorded before `begin`
    is written right after it. `repeated`: it is over, and another attempt follows.
    """

    def __init__(self, title: Title, book: Book, *, rig: str) -> None:
        self.title = title
        self._book = book
        self._rig = rig
        self._events: list[Event] = []
        self._early: list[tuple[str, str, dict[str, object]]] = []
        self._begun = False
        self._rows: dict[str, int] = {}
        self._answers: dict[str, int] = {}
        self._races = 0
        self._numbers: dict[str, tuple[int, int]] = {}
        self.repeated = False

    def record(self, source: str, kind: str, fields: dict[str, object]) -> None:
        if self._begun:
            self._write(source, kind, fields, None)
        else:
            self._early.append((source, kind, fields))

    def collect(self, event: Event) -> None:
        """Write an event that another process has written already, as of its own time."""
        self._write(event["source"], event["kind"], contents(event), event["t_us"])

    def witness(self, event: Event) -> None:
        """Judge by an event too that concerns every case there is; it has been written."""
        if self._begun:
            self._events.append(event)

    def fault(self, seam: str, fault: str, kind: str = "fault.begin", **detail: object) -> None:
        """Tell of a fault that the bench injects."""
        self.record("bench", kind, fault_fields(seam, fault, detail))

    def _write(self, source: str, kind: str, fields: dict[str, object], t_us: int | None) -> None:
        fields = {"case": self.title.case, **fields}
        written: Event = self._book.record(source, kind, fields, t_us=t_us)
        self._events.append(written)
        count, _ = self._numbers.get(source, (0, 0))
        self._numbers[source] = count + 1, written["seq"]

    @property
    def events(self) -> Sequence[Event]:
        """The events of this case so far, as they were written."""
        return self._events

    def begin(self) -> None:
        """Open the case; only once, however often it is asked for."""
        if self._begun:
            return
        self._begun = True
        title = self.title
        fields: dict[str, object] = {
            "scenario": title.scenario,
            "file": title.file,
            "group": title.group,
            "title": title.title,
            "rig": self._rig,
            "params": title.params,
        }
        if title.strategy is not None:
            fields["strategy"] = title.strategy
        if title.confirmed is not None:
            fields["confirmed"] = title.confirmed
        self.record("bench", "case.begin", fields)
        early, self._early = self._early, []
        for event in early:
            self.record(*event)

    def device(
        self, device: EndDevice, *, f_cnt_up: int | None, only_at: str | None = None
    ) -> None:
        """Tell the facts of a device that a score needs; no keys."""
        fields: dict[str, Any] = {
            "dev_eui": device.dev_eui,
            "name": device.name,
            "activation": device.activation,
            "strategy": device.strategy,
            "lorawan": device.lorawan,
            "relaxed_f_cnt": device.relaxed_f_cnt,
            "f_cnt_bits": device.f_cnt_bits,
            "nb_trans": device.nb_trans,
        }
        optional = {
            "join_eui": device.join_eui,
            "dev_addr": device.dev_addr,
            "server": device.server,
            "only_at": only_at,
            "dev_status_s": device.dev_status_s,
            "join_nonce_min": device.join_nonce_min if device.join_nonce_min > 1 else None,
            "f_cnt_up": f_cnt_up,
        }
        fields |= {name: value for name, value in optional.items() if value is not None}
        self._fact("case.device", fields)

    def station(self, eui: Eui, name: str) -> None:
        self._fact("case.station", {"eui": eui, "name": name})

    def lns(self, lns: str, event: str, **facts: object) -> None:
        self._fact("case.lns", {"lns": lns, "event": event, **facts})

    def expect_outcome(
        self, frame_id: str, station: Eui, due: Due, *, race: int | None = None
    ) -> None:
        """Expect the words of the next reception of a frame, in order of arrival at the LNS."""
        n = self._rows.get(frame_id, 0)
        self._rows[frame_id] = n + 1
        words = due.words
        fields: dict[str, object] = {
            "expect": "outcome",
            "frame_id": frame_id,
            "n": n,
            "station": station,
            "status": words.status,
            "upstream": words.upstream,
            "reason": words.reason,
            "answer": words.answer,
        }
        if words.level2 != ABSENT:
            fields["level2"] = words.level2
        if race is not None:
            fields["race"] = race
        self._fact("case.expect", fields)

    def expect_race(self, frame_id: str, due: Mapping[Eui, Due]) -> None:
        """Expect stations to deliver a frame at one moment, each with the words of any of them."""
        self._races += 1
        for station, one in due.items():
            self.expect_outcome(frame_id, station, one, race=self._races)

    def expect_line(self, dev_eui: Eui, line: str) -> None:
        """Expect a device to say something, after what it was expected to say before.

        RSSI and SNR of a downlink may be left out: `without_signal`.
        """
        self._fact("case.expect", {"expect": "device", "dev_eui": dev_eui, "line": line})

    def expect_upstream(
        self, dev_eui: Eui, f_cnt: int, station: Eui, body: dict[str, object]
    ) -> None:
        """Expect every message of an uplink through a station to have these fields."""
        which = {"dev_eui": dev_eui, "f_cnt": f_cnt, "station": station}
        self._fact("case.expect", {"expect": "upstream", **which, "body": body})

    def expect_status(self, dev_eui: Eui, count: int) -> None:
        """Expect the application to be told so often what a device says of itself."""
        self._fact("case.expect", {"expect": "status", "dev_eui": dev_eui, "count": count})

    def expect_answer(self, frame_id: str, said: Mapping[str, int | bool | None]) -> None:
        """Expect the next answer to a frame to say this (`bench.verdict.evidence`)."""
        unknown = sorted(set(said) - set(ANSWER_FIELDS))
        if unknown:
            raise ValueError(f"no answer says {', '.join(unknown)}; {', '.join(ANSWER_FIELDS)}")
        n = self._answers.get(frame_id, 0)
        self._answers[frame_id] = n + 1
        facts = {"frame_id": frame_id, "n": n, "body": dict(said)}
        self._fact("case.expect", {"expect": "answer", **facts})

    def expect_evictions(self, count: int) -> None:
        """Expect network servers to tell so often that level 1 forgot a frame before its time."""
        self._fact("case.expect", {"expect": "evicted", "count": count})

    def expect_finding(self, owner: str, rule: str, station: Eui) -> None:
        """Expect the report to have a finding about a station, which the scenario brings about."""
        facts = {"owner": owner, "rule": rule, "station": station}
        self._fact("case.expect", {"expect": "finding", **facts})

    def expect_on_air(self, frame_id: str, windows: Sequence[str]) -> None:
        """Expect stations to report just these answers to a frame on the air, in this order."""
        facts = {"frame_id": frame_id, "windows": list(windows)}
        self._fact("case.expect", {"expect": "on_air", **facts})

    def expect_effects(
        self,
        count: int,
        which: Mapping[str, object],
        *,
        consumer: str | None = None,
        by: str | None = None,
    ) -> None:
        """Expect a consumer, or all of them together, to let messages have so many effects.

        With `by`: to ignore so many as duplicates that this detector has recognised. `which` has
        dev_eui, dev_addr and f_cnt of an uplink, or the message_id.
        """
        facts: dict[str, object] = {"expect": "effect" if by is None else "ignored", **which}
        optional = {"consumer": consumer, "by": by}
        facts |= {name: value for name, value in optional.items() if value is not None}
        self._fact("case.expect", {**facts, "count": count})

    def missed(self, owner: str, reason: str) -> None:
        """Note that something did not come about that the scenario builds on."""
        self._fact("stimulus.missed", {"owner": owner, "reason": reason})

    def find(self, found: Found) -> None:
        """Note what the bench itself has found wrong; it decides the verdict."""
        self._fact(FINDING, found.fields())

    def end(
        self,
        error: str | None = None,
        *,
        owner: str = "bench",
        repeated: Callable[[Verdict], bool] = lambda verdict: False,
    ) -> Verdict:
        """Judge and close the case; `error` is what kept the bench from running it, and whose.

        What went wrong because nothing reached a network server is a stimulus that was missed.
        Marked as `repeated` when that says that another attempt follows. What the case has written
        until then is in the operating system's hands, and counted in `books`.
        """
        self.begin()
        verdict = self._judged(error, owner)
        went_wrong = verdict.result is Result.FAIL or error is not None
        why = unreached(self.in_order(), is_stuck=error is not None) if went_wrong else None
        if why is not None:
            self.missed("air", why if error is None else f"{why}; then: {error}")
            verdict = self._judged(None, owner)
        fields: dict[str, object] = {
            "verdict": verdict.result,
            "reasons": list(verdict.reasons),
            "attempt": self.title.attempt,
        }
        self.repeated = repeated(verdict)
        if self.repeated:
            fields["repeated"] = True
        if verdict.owner is not None:
            fields["owner"] = verdict.owner
        fields["books"] = [
            {"source": source, "lines": count, "last_seq": last_seq}
            for source, (count, last_seq) in sorted(self._numbers.items())
        ]
        self._fact("case.end", fields)
        self._book.flush()
        return verdict

    def _judged(self, error: str | None, owner: str) -> Verdict:
        verdict = judge(self.in_order())
        if error is None:
            return verdict
        if verdict.result is Result.FAIL:
            return replace(verdict, reasons=(*verdict.reasons, f"besides: {error}"))
        return Verdict(Result.ERROR, owner, (error,))

    def in_order(self) -> list[Event]:
        """The events of this case so far, in order of time."""
        return sorted(self._events, key=_in_order)

    def _fact(self, kind: str, fields: dict[str, object]) -> None:
        self.record("bench", kind, fields)


def _in_order(event: Event) -> tuple[int, str, int]:
    return event["t_us"], event["source"], event["seq"]
