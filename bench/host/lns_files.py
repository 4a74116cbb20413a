"""What stands in the files of a network server: tables of TOML, and the records of its devices."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from msgspec.structs import asdict

from lns.config import JOIN_NONCE_MIN_MAX
from lns.dedup.session import AS_REGION_SAYS
from lns.uplink.registry import Activation, EndDevice


def toml_text(tables: Mapping[str, object]) -> str:
    """The TOML of named tables: a mapping is a table, a sequence of mappings an array of tables.

    Values are text, whole numbers, fractions, truth values and lists of them; None is left out.
    TypeError for anything else. What a person pastes behind other tables has to be `[[device]]`:
    tomli-w writes short tables as one value, `device = [{…}]`.
    """
    parts = []
    for name, table in tables.items():
        if isinstance(table, Mapping):
            parts.append(f"[{_key(name)}]\n{_pairs(table)}")
        elif isinstance(table, Sequence) and not isinstance(table, str):
            rows = [f"[[{_key(name)}]]\n{_pairs(row)}" for row in table]
            # An array without tables must be told too.
            parts += rows or [f"{_key(name)} = []\n"]
        else:
            raise TypeError(f"{name} is no table: {type(table).__name__}")
    return "\n".join(sorted(parts, key=lambda part: part.startswith("[")))


def _pairs(table: Mapping[str, object]) -> str:
    return "".join(
        f"{_key(key)} = {_value(value)}\n" for key, value in table.items() if value is not None
    )


def _key(key: str) -> str:
    bare = key.isascii() and key.replace("_", "").replace("-", "").isalnum()
    return key if bare else _value(key)


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            # A JSON text is a TOML text, but for one character.
            return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007F")
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case _:
            raise TypeError(f"TOML has no {type(value).__name__}")


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
_USUAL = {field.name: field.default for field in fields(EndDevice)}
"""What a table need not say: the server takes it so."""
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
        table["dev_addr"] = str(device.dev_addr)
        for name in ("nwk_s_key", "app_s_key"):
            table[name] = getattr(device.session_keys, name).hex().upper()
    for name in _FACTS:
        value = getattr(device, name)
        others = _ABP_ONLY if device.activation is Activation.OTAA else _OTAA_ONLY
        if value == _USUAL[name] or name in others:
            continue
        table[name] = getattr(value, "value", value)
    if "join_nonce_min" in table:
        table["join_nonce_min"] = min(device.join_nonce_min, JOIN_NONCE_MIN_MAX)
    if device.activation is Activation.OTAA:
        usual = asdict(AS_REGION_SAYS)
        settings = asdict(device.listening).items()
        table |= {name: value for name, value in settings if value != usual[name]}
        if device.more_channels_hz:
            table["more_channels_hz"] = list(device.more_channels_hz)
    return table
