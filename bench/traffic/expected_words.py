"""Which words are due for each reception of a log, from the capture alone?

ADR 007 in a few lines, so plain that they can be checked by eye. They share nothing with the
network server: no registry, no cache, no policy table; the capture says who sent what, when, and
who heard it.
"""

from collections import Counter
from dataclasses import dataclass

from bench.traffic.recording import Device, Log, Uplink

RETENTION_US = 60_000_000
GAP_MAX = 16384
REPEATED_ANSWERS_MAX = 3
_COPY = {"Drop": "dropped(Duplicate)", "Mark": "marked", "None": "forwarded"}
_AGAIN = {"Drop": "dropped(ResubmissionSuppressed)", "Mark": "marked", "None": "forwarded"}
_BAD_COUNTER = "dropped(InvalidFrameCounter)"


@dataclass(slots=True)
class _Sighting:
    station: str
    last_us: int


class ExpectedWords:
    """Asked once for each reception in order of arrival; remembers what was heard before."""

    def __init__(self, log: Log, strategy: str) -> None:
        self._strategy = strategy
        self._devices = {device.dev_eui: device for device in log.devices}
        self._newest = {device.dev_eui: device.f_cnt_up for device in log.devices}
        self._sightings: dict[str, _Sighting] = {}
        self._repeated: Counter[tuple[str, int]] = Counter()
        self._nonces: set[tuple[str, ...]] = set()

    def of(self, uplink: Uplink, station: str, at_us: int) -> str:
        """The words "status upstream(reason) answer" for a report that arrives at `at_us`."""
        device = self._devices.get(uplink.dev_eui)
        if device is None:
            return "- dropped(UnknownDevice) NotAsked"
        if not uplink.genuine:
            return "- dropped(MicMismatch) NotAsked"
        sighting = self._sightings.get(uplink.frame_id)
        if sighting is None or at_us - sighting.last_us >= RETENTION_US:
            sighting = self._sightings[uplink.frame_id] = _Sighting(station, at_us)
            copy = "new"
        else:
            sighting.last_us = at_us
            copy = "same station" if sighting.station == station else "other station"
        if uplink.f_cnt is None:
            return self._join(device, uplink, copy)
        status, upstream, answers = self._data(device, uplink, uplink.f_cnt, copy)
        if uplink.f_port == 0 and "(" not in upstream:
            upstream = "dropped"  # nothing in it for the application
        asked = "RX1" if answers else "Suppressed"
        return f"{status} {upstream} {asked if uplink.wants_answer else 'NotAsked'}"

    def _join(self, device: Device, uplink: Uplink, copy: str) -> str:
        if copy != "new":
            return "Duplicate dropped(Duplicate) Suppressed"
        nonce = tuple(uplink.frame_id.split(":")[1:])  # DevEUI, DevNonce
        if nonce in self._nonces:
            return "NonDuplicate dropped(DevNonceUsed) Suppressed"
        if uplink.join_eui != device.join_eui:
            return "NonDuplicate dropped(UnknownDevice) Suppressed"
        self._nonces.add(nonce)
        return "NonDuplicate dropped RX1"

    def _data(self, device: Device, uplink: Uplink, f_cnt: int, copy: str) -> tuple[str, str, bool]:
        """Status, upstream with reason, and whether an answer may leave."""
        newest = self._newest[device.dev_eui]
        begins_again = device.relaxed_f_cnt and f_cnt <= 1
        if copy == "other station" and self._strategy == "Drop":
            return "Duplicate", _COPY["Drop"], False
        if copy == "other station":
            fits = f_cnt == newest or begins_again
            return "SoftDuplicate", _COPY[self._strategy] if fits else _BAD_COUNTER, False
        if copy == "new":
            is_next = newest is None or f_cnt > newest
            if begins_again or (is_next and f_cnt - (newest or 0) <= GAP_MAX):
                self._newest[device.dev_eui] = f_cnt
                for old in [key for key in self._repeated if key[0] == device.dev_eui]:
                    del self._repeated[old]
                return "NonDuplicate", "forwarded", True
            if f_cnt == newest and uplink.confirmed:
                return "NonDuplicate", *self._repeat(device, f_cnt, "forwarded")
            return "NonDuplicate", _BAD_COUNTER, False
        status = "DuplicateDueToResubmission"
        if uplink.confirmed and (f_cnt == newest or begins_again):
            return status, *self._repeat(device, f_cnt, _AGAIN[self._strategy])
        if begins_again:
            return status, _AGAIN[self._strategy], False
        return status, _BAD_COUNTER, False

    def _repeat(self, device: Device, f_cnt: int, upstream: str) -> tuple[str, bool]:
        """One more answer for this counter, as long as there is one left."""
        self._repeated[device.dev_eui, f_cnt] += 1
        if self._repeated[device.dev_eui, f_cnt] > REPEATED_ANSWERS_MAX:
            return "dropped(ResubmissionLimit)", False
        return upstream, True
