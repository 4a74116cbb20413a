"""Does what a station is told let it hear and serve the devices of its region, and know the time?

Source: Basics Station, `router_config`, `sx1301_conf` and MuxTime; Regional Parameters RP002-1.0.3.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bench.verdict.owner import Found, Scrutiny
from bench.verdict.wire import gps_us
from bench.virtual.lorawan.air_interface import ChannelPlan, Fsk, Lora

HWSPEC = "sx1301/1"
_DRS = 16
_REACH_HZ = 500_000
"""How far from the centre of its radio a channel may be."""
_KNOWN = frozenset(
    "msgtype NetID JoinEui JoinEUI region hwspec freq_range DRs sx1301_conf nocca nodc nodwell"
    " MuxTime bcning max_eirp protocol config regionid sx1302_conf".split()
)


def router_config(
    told: dict[str, Any], plan: ChannelPlan, net_id: str, check: Scrutiny
) -> Iterator[Found]:
    """What is wrong in the plan that a station is given."""
    yield from misspelt(told, check)
    if told.get("region") not in plan.station_names:
        yield check.wrong("region", plan.name, told.get("region"))
    yield from check.same("hwspec", HWSPEC, told.get("hwspec"))
    yield from check.same("freq_range", list(plan.limits_hz), told.get("freq_range"))
    yield from check.same("DRs", _data_rates(plan), told.get("DRs"))
    if told.get("NetID") is not None and int(net_id, 16) not in _list(told["NetID"]):
        yield check.wrong("NetID", f"none, or one with {net_id}", told["NetID"])
    for name in ("JoinEui", "JoinEUI"):
        if told.get(name):
            yield check.wrong(name, None, told[name])
    yield from _radios(told.get("sx1301_conf"), plan, check)


def misspelt(told: dict[str, Any], check: Scrutiny) -> Iterator[Found]:
    """The keys of a message that differ in case from those that a station knows."""
    for name in sorted(told.keys() - _KNOWN):
        due = next((known for known in _KNOWN if known.lower() == name.lower()), None)
        if due is not None:
            yield check.wrong("key", due, name)


def _list(told: object) -> list[object]:
    return told if isinstance(told, list) else []


def _data_rates(plan: ChannelPlan) -> list[list[int]]:
    """[SF, kHz, only for downlinks] for each DR; SF 0 is FSK, -1 none."""
    rows: list[list[int]] = []
    for dr, modulated in enumerate(plan.data_rates):
        match modulated:
            case Lora(sf, bw_hz):
                rows.append([sf, bw_hz // 1000, int(dr not in plan.up_drs)])
            case Fsk():
                rows.append([0, 0, 0])
            case _:
                rows.append([-1, 0, 0])
    return rows + [[-1, 0, 0]] * (_DRS - len(rows))


def _radios(told: object, plan: ChannelPlan, check: Scrutiny) -> Iterator[Found]:
    rows = _list(told)
    if len(rows) != 1 or not isinstance(rows[0], dict):
        yield check.wrong("sx1301_conf", "one board", told)
        return
    conf = rows[0]
    try:
        found_hz = [_frequency(conf, f"chan_multiSF_{n}") for n in range(8)]
        heard_hz = sorted(freq_hz for freq_hz in found_hz if freq_hz is not None)
        single, fsk = _frequency(conf, "chan_Lora_std"), _frequency(conf, "chan_FSK")
    except (KeyError, TypeError):
        yield check.wrong("sx1301_conf", "radios and channels with their frequencies", conf)
        return
    yield from check.same("chan_multiSF", sorted(plan.heard_hz), heard_hz)
    single_hz, modulated = plan.heard_single
    yield from check.same("chan_Lora_std", single_hz, single)
    yield from check.same("chan_FSK", plan.heard_fsk_hz, fsk)
    standard = conf.get("chan_Lora_std", {})
    for name, value in {"bandwidth": modulated.bw_hz, "spread_factor": modulated.sf}.items():
        yield from check.same(f"{name} of chan_Lora_std", value, standard.get(name))
    for name in sorted(conf):
        channel = conf[name]
        if name.startswith("chan_") and channel.get("enable"):
            if abs(channel["if"]) > _REACH_HZ:
                yield check.wrong(f"if of {name}", "within reach of its radio", channel["if"])


def _frequency(conf: dict[str, Any], name: str) -> int | None:
    """The centre of a channel in hertz; None if it is off."""
    channel = conf.get(name)
    if not channel or not channel["enable"]:
        return None
    radio = conf[f"radio_{channel['radio']}"]
    return int(radio["freq"] + channel["if"]) if radio["enable"] else None


_LATE_US, _EARLY_US = 10_000_000, 200_000
"""A server tells the time before it passes the tap, and may be late; it cannot be early."""
_SIMULATED_LATE_US = 10_000
"""On the simulated rig it tells the time at the moment at which that passes the tap."""
_APART_S = 0.000_01


@dataclass(frozen=True, slots=True)
class ServerTime:
    """What the clocks of servers showed when the bench's was 0, where that is known."""

    began: datetime | None = None
    is_simulated: bool = False

    @property
    def _late_us(self) -> int:
        return _SIMULATED_LATE_US if self.is_simulated else _LATE_US

    def mux_time(self, told: dict[str, Any], t_us: int, check: Scrutiny) -> Iterator[Found]:
        """MuxTime, which every message of a server may have."""
        if self.began is None:
            return
        now_s, said = self.began.timestamp() + t_us / 1_000_000, told.get("MuxTime")
        late_s = now_s - said if isinstance(said, int | float) else None
        if late_s is None or not -_EARLY_US <= late_s * 1_000_000 <= self._late_us:
            yield check.wrong("MuxTime", f"about {now_s:.1f}", said)

    def gps_time(self, told: dict[str, Any], t_us: int, check: Scrutiny) -> Iterator[Found]:
        """The GPS time of an answer to `timesync`: that of now, and of its own MuxTime."""
        if self.began is None:
            return
        said_us, mux_s, began_us = told.get("gpstime", 0), told.get("MuxTime"), gps_us(self.began)
        if not -self._late_us <= said_us - began_us - t_us <= _EARLY_US:
            yield check.wrong("gpstime", f"about {began_us + t_us}", told.get("gpstime"))
        if isinstance(mux_s, int | float):  # both are of one moment
            due_s = began_us / 1_000_000 + mux_s - self.began.timestamp()
            if abs(said_us / 1_000_000 - due_s) > _APART_S:
                yield check.wrong("gpstime", f"that of MuxTime {mux_s}", told.get("gpstime"))
