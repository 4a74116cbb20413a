"""What are a network server and a consumer told to do, is it allowed, and do they take it so?

What nobody has written in a server's files is what the README promises. A key, a token and the URL
of somebody else's server are compared, and told to nobody.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.verdict.owner import Found, Scrutiny
from lns.delivery import Detectors, MessageIdWindow, RemoveDuplicatesKeys, SequenceTracker
from lns.delivery.detectors import TOPIC

Table = Mapping[str, Any]
_UNWRITTEN: Mapping[str, Table] = {
    "lns": {"region": "EU868", "net_id": "000013", "devices": "devices.toml",
            "listen": "127.0.0.1:6090", "public_uri": None, "stations": "any"},
    "tls": {"client_ca": None, "any_station": False, "tokens": None},
    "cups": {},
    "dedup": {"retention_s": 60, "entries_max": 1_000_000},
    "store": {"url": "memory://", "on_outage": "open"},
    "upstream": {"url": "memory://", "outbox": None, "ca": None, "messages_max": None,
                 "client_id": None, "keep_s": 3, "retry_max_s": 86_400},
    "capture": {"run_id": None, "size_max_mib": 1024},
}  # fmt: skip
_OPTIONAL = ("tls", "cups", "capture")
_KEYS = ("app_key", "nwk_s_key", "app_s_key")
_OF_A_DEVICE: Table = {
    **dict.fromkeys(("join_eui", "dev_addr", "server", "dev_status_s", "rx2_dr", *_KEYS)),
    "lorawan": "1.0.4", "strategy": "None", "relaxed_f_cnt": True, "f_cnt_bits": 32, "nb_trans": 1,
    "class": "A", "join_nonce_min": 1, "rx1_dr_offset": 0, "rx_delay_s": 1, "more_channels_hz": (),
}  # fmt: skip
_TOLD_TO_NOBODY = (*_KEYS, "url")
_WITHIN = {
    **{key: f"session_keys.{key}" for key in ("nwk_s_key", "app_s_key")},
    **{key: f"listening.{key}" for key in ("rx1_dr_offset", "rx_delay_s", "rx2_dr")},
}
Meant = Callable[[str], str]
"""The secret that is meant by what is written, which may be `env:NAME` or `file:PATH`."""


def settings(taken: Any, lns_toml: str, check: Scrutiny) -> Iterator[Found]:
    """What a server has taken another way than it stands in `lns.toml`, by section and key."""
    written = tomllib.loads(lns_toml)
    for section, unwritten in _UNWRITTEN.items():
        seen, is_there = getattr(taken, section), section in written or section not in _OPTIONAL
        yield from check.same(section, is_there, seen is not None)
        if is_there and seen is not None:
            due = {**unwritten, **written.get(section, {})}
            yield from _alike(section, due, {key: getattr(seen, key) for key in due}, check)


def devices(
    taken: Sequence[Any], devices_toml: str, meant: Meant, check: Scrutiny
) -> Iterator[Found]:
    """What a server has taken another way than it stands in `devices.toml`, by device and key."""
    written = tomllib.loads(devices_toml)["device"]
    yield from check.same("devices", len(written), len(taken))
    for table, device in zip(written, taken, strict=False):
        due = {**_OF_A_DEVICE, **table}
        due |= {key: due[key] and bytes.fromhex(meant(due[key])) for key in _KEYS}
        where = {"class": "device_class", **_WITHIN}
        seen = {key: _within(device, where.get(key, key).split(".")) for key in due}
        yield from _alike(table["name"], due, seen, check)


def tokens(taken: Any, tokens_toml: str, meant: Meant, check: Scrutiny) -> Iterator[Found]:
    """What a server has taken another way than it stands in `tokens.toml`, by station."""
    written = {_plain(station): token for station, token in tomllib.loads(tokens_toml).items()}
    yield from check.same("stations with a token", [*written], [*taken])
    for station, token in written.items():
        due = re.sub("^authorization:", "", meant(token), flags=re.IGNORECASE).strip()
        yield from check.same(f"token of {station} as written", True, taken.get(station) == due)


def _within(device: Any, path: Sequence[str]) -> Any:
    for name in path:
        device = device and getattr(device, name)
    return device


def _alike(of: str, due: Table, seen: Table, check: Scrutiny) -> Iterator[Found]:
    for key, value in due.items():
        expected, observed = _plain(value), _text(seen[key])
        if key in _TOLD_TO_NOBODY:
            expected, observed = "as written", "as written" if expected == observed else "not so"
        yield from check.same(f"{of}: {key}", expected, observed)


def _plain(value: object) -> str:
    """The one spelling that a server has of what is written: of EUIs and DevAddrs capitals."""
    if isinstance(value, list | tuple):
        return " ".join(map(_plain, value))
    said = _text(value)
    octets = re.sub("[-:]", "", said)
    return octets.upper() if re.fullmatch("[0-9A-Fa-f]{16}|[0-9A-Fa-f]{8}", octets) else said


def _text(value: object) -> str:
    """A value as it is; a number may be a text, and a URI end in a slash."""
    if isinstance(value, list | tuple):
        return " ".join(map(_text, value))
    return str(int(value) if isinstance(value, float) else value).rstrip("/")


WINDOWS_US = 20_000_000, 7 * 86_400_000_000
"""The shortest and the longest time for which a consumer compares ids."""
DEFAULTS_US = {
    "window_us": 600_000_000,
    "retention_us": 15 * 86_400_000_000,
    "retry_us": 86_400_000_000,
    "network_us": 10_000_000,
}
"""The times of a consumer that is told none."""
KEYS_MAX_US = 15 * 86_400_000_000
"""The longest time for which a queue keeps a message, and a consumer its key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """The detectors, store and effect of one consumer; times in µs, `window_us` None: off."""

    name: str
    window_us: int | None
    partitioned: bool
    sessions: bool
    sequence: bool
    keys: bool
    retention_us: int
    retry_us: int
    network_us: int
    knows_oldest: bool
    store: str | None
    elsewhere: bool
    refuses: str | None = None
    refusals: int | None = None
    entries_max: int | None = None
    republishes: int = 0
    waiting_max: int | None = None

    @property
    def are_allowed(self) -> bool:
        """Whether a consumer has to take them, as the seeds say; any others it has to refuse."""
        window_us = WINDOWS_US[0] if self.window_us is None else self.window_us
        keys_fit = min(self.retry_us, self.network_us) >= 0 and 0 < self.retention_us <= KEYS_MAX_US
        return WINDOWS_US[0] <= window_us <= WINDOWS_US[1] and (keys_fit or not self.keys)

    def detectors(self, oldest_us: Callable[[], int | None] | None = None) -> Detectors:
        """The detectors themselves; ConfigurationError."""
        window = keys = None
        if self.window_us is not None:
            length = _unless_default(window_us=self.window_us)
            window = MessageIdWindow(**length, partitioned=self.partitioned, sessions=self.sessions)
        if self.keys:
            times = _unless_default(
                retention_us=self.retention_us, retry_us=self.retry_us, network_us=self.network_us
            )
            asked = oldest_us if self.knows_oldest else None
            keys = RemoveDuplicatesKeys(**times, min_msg_time_us=asked)
        sequence = SequenceTracker(perform_duplicate_checking=self.sequence)
        return Detectors(window=window, sequence=sequence, keys=keys)

    def options(self) -> list[str]:
        """The same for `lorabench inbox`."""
        options = ["--window", "off" if self.window_us is None else _span(self.window_us)]
        options += ["--partitioned"] if self.partitioned else []
        options += ["--sessions"] if self.sessions else []
        options += [] if self.sequence else ["--no-sequence"]
        if self.keys:
            options += ["--keys", "--retention", _span(self.retention_us)]
            options += ["--retry", _span(self.retry_us), "--network", _span(self.network_us)]
            options += ["--min-msg-time", TOPIC] if self.knows_oldest else []
        return options


def _unless_default(**times_us: int) -> dict[str, int]:
    """What a consumer is told; by default it has to know what is right by itself."""
    return {name: us for name, us in times_us.items() if us != DEFAULTS_US[name]}


def _span(us: int) -> str:
    whole_s, rest_us = divmod(us, 1_000_000)
    return f"{whole_s}.{rest_us:06d}s"
