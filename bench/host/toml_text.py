"""How is a table written as TOML?"""

import json
from collections.abc import Mapping, Sequence


def toml_text(tables: Mapping[str, object]) -> str:
    """The TOML of named tables: a mapping is a table, a sequence of mappings an array of tables.

    Values are text, whole numbers, fractions, truth values and lists of them; None is left out.
    TypeError for anything else.
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
