"""Does a network server's own account of a reception name the frame, and whose it is, rightly?

And that of what level 1 forgot before its time.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.capture.reading import Event
from bench.inspection.downlink import Answered
from bench.verdict.owner import Found, Scrutiny
from bench.verdict.wire import Uplink
from bench.virtual.lorawan.air_interface import DataFrame
from bench.virtual.lorawan.join_frames import JoinRequest

_FORGOTTEN = re.compile(r"[0-9A-F]{16}:([0-9A-F]{8}|[0-9A-F]{16}):[0-9]+")
_SILENCE_ERROR_US = 300_000
"""By how much a silence may differ from what passed at the taps."""
_AT_ONCE_US = 10_000
"""By then a server that waits for nothing has said what became of a text."""
_COPIES, _REFUSED = ("Duplicate", "SoftDuplicate"), ("Duplicate", "InvalidFrameCounter")
_NAMELESS = ("UnknownDevice", "MicMismatch")
"""Refused before anybody knew who had sent it."""


def outcome(
    told: Mapping[str, Any],
    uplink: Uplink,
    sender: Answered | None,
    strategy: str | None,
    check: Scrutiny,
) -> Iterator[Found]:
    """What is wrong in the outcome of a frame that was heard so.

    `sender`: the device of the case that sent it, if one did; `strategy` is that device's.
    """
    if told.get("reason") == "InternalError":
        return  # that is what is wrong
    frame = uplink.frame
    due: dict[str, object] = {}
    if isinstance(frame, DataFrame):
        due = {
            "dev_addr": frame.dev_addr,
            "mic": frame.mic.hex().upper(),
            "confirmed": frame.confirmed,
        }
    if isinstance(frame, JoinRequest):
        due = {"mic": frame.mic.hex().upper(), "dev_eui": None}
        if "status" in told or told.get("reason") == "BelongsToAnotherServer":
            due["dev_eui"] = frame.dev_eui
    elif told.get("reason") in _NAMELESS:
        yield from check.same("dev_eui", None, told.get("dev_eui"))
    if sender is not None and ("status" in told or told.get("reason") == "BelongsToAnotherServer"):
        due |= {"dev_eui": sender.device.dev_eui, "strategy": strategy}
        if isinstance(frame, DataFrame):
            due["f_cnt"] = sender.f_cnt
    for name, value in due.items():
        yield from check.same(name, _plain(value), _plain(told.get(name)))


class Decided:
    """When each server has said what became of the copy of a frame that came before its others.

    One that goes nowhere then waits for nothing: no store is asked about what level 1 has seen.
    """

    def __init__(self) -> None:
        self._since_us: dict[tuple[str, str], int] = {}

    def compare(self, event: Event, told_us: int, check: Scrutiny) -> Iterator[Found]:
        """What is wrong in when an outcome is told, whose frame its station told at `told_us`."""
        frame, t_us = (event["lns"], event["frame_id"]), int(event["t_us"])
        if event.get("status") not in _COPIES:
            self._since_us[frame] = t_us
        elif event.get("reason") in _REFUSED:
            late_us = t_us - max(told_us, self._since_us.get(frame, t_us))
            if late_us > _AT_ONCE_US:
                yield check.wrong("told", "at once", f"{late_us // 1000} ms later")


def unreadable(told: Mapping[str, Any], check: Scrutiny) -> Iterator[Found]:
    """What is wrong in the outcome of a reception that cannot be read."""
    due = {"upstream": "dropped", "reason": "Malformed", "answer": "NotAsked"}
    for name, value in {**due, "level2": "NotAsked", "status": None, "dev_eui": None}.items():
        yield from check.same(name, value, _plain(told.get(name)))


def forgotten(event: Event, told: Sequence[Uplink]) -> Iterator[Found]:
    """What is wrong in what level 1 says that it forgot: which frame, and how long it was silent.

    A frame is named by DevEUI, MIC and the counter on the wire, a join by JoinEUI, DevEUI and
    DevNonce. `told`: all that stations have told so far.
    """
    key: str = event["key"]
    check = Scrutiny(rule="evicted", of=f"what was forgotten, {key}", t_us=event["t_us"])
    if _FORGOTTEN.fullmatch(key) is None:
        yield check.wrong("key", "a DevEUI, a MIC and a counter, or what names a join", key)
        return
    _, mic, counter = key.split(":")
    frames = [one for one in told if one.frame_id == key]
    for uplink in told:
        if isinstance(uplink.frame, DataFrame) and uplink.frame.mic.hex().upper() == mic:
            frames.append(uplink)
            yield from check.same("FCnt", str(uplink.frame.f_cnt), counter)
    silences = [event["t_us"] - one.t_us for one in frames]
    if frames and all(abs(us - event["silent_us"]) > _SILENCE_ERROR_US for us in silences):
        yield check.wrong("silent_us", silences[-1], event["silent_us"])


def _plain(value: object) -> object:
    """A word is the same text in this process as in the capture of another one."""
    return str(value) if isinstance(value, str) else value
