"""How does a network server of its own process learn of devices and settings?"""

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from msgspec.structs import asdict

from bench.host.ports import LOOPBACK
from lns.uplink.end_device import Activation, EndDevice

_FACTS = (
    "lorawan",
    "strategy",
    "server",
    "relaxed_f_cnt",
    "f_cnt_bits",
    "nb_trans",
    "dev_status_s",
    "join_nonce_min",
)
_ABP_ONLY = frozenset({"relaxed_f_cnt"})
_OTAA_ONLY = frozenset({"join_nonce_min"})


def device_tables(devices: Iterable[EndDevice]) -> list[dict[str, Any]]:
    """The `[[device]]` tables of devices.toml, keys in hexadecimal."""
    return [_table(device) for device in devices]


def _table(device: EndDevice) -> dict[str, Any]:
    table: dict[str, Any] = {
        "name": f"{device.name}-{device.dev_eui}",
        "dev_eui": str(device.dev_eui),
        "activation": device.activation.value,
        "class": device.device_class.value,
    }
    if device.activation is Activation.OTAA:
        assert device.app_key is not None
        table |= {"join_eui": str(device.join_eui), "app_key": device.app_key.hex().upper()}
    else:
        assert device.session_keys is not None
        keys = device.session_keys
        table |= {"dev_addr": str(device.dev_addr)}
        table |= {"nwk_s_key": keys.nwk_s_key.hex().upper()}
        table |= {"app_s_key": keys.app_s_key.hex().upper()}
    for name in _FACTS:
        value = getattr(device, name)
        others = _ABP_ONLY if device.activation is Activation.OTAA else _OTAA_ONLY
        if value is None or name in others:
            continue
        table[name] = getattr(value, "value", value)
    if device.activation is Activation.OTAA:
        told = asdict(device.listening).items()
        table |= {name: value for name, value in told if value is not None}
        if device.more_channels_hz:
            table["more_channels_hz"] = list(device.more_channels_hz)
    return table


def by_way_of(url: str, port: int) -> str:
    """The same URL, but of a relay on this host."""
    parts = urlsplit(url)
    login, at, _ = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{login}{at}{LOOPBACK}:{port}"))
