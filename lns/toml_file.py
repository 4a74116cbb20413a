"""What stands in a TOML file, and where is each mistake in it?

Every mistake is one sentence with file, line and key; a key nobody knows is answered with the
nearest known one. No value that could be a secret is ever repeated.
"""

import difflib
import os
import re
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from lns.lorawan import identifiers
from lns.lorawan.identifiers import DevAddr, Eui
from lns.lorawan.region import REGIONS, region

ENCODING = "utf-8-sig"
"""That of a TOML file, with a byte order mark or without."""


_CHARACTERS_MAX = 64 << 20


class ConfigError(Exception):
    """A configuration that cannot be used; one line a mistake: file, line, key, what to do."""


class Section(BaseModel):
    """A table of a TOML file: unknown keys are mistakes, values are not repeated in errors."""

    model_config = ConfigDict(extra="forbid", strict=False, hide_input_in_errors=True)


Model = TypeVar("Model", bound=Section)


def read_model(path: Path, model: type[Model]) -> tuple[Model, str]:
    """The file as a model and as text, which has the lines; ConfigError with every mistake."""
    table, text = read_table(path)
    try:
        return model.model_validate(table, context=path.parent), text
    except ValidationError as error:
        mistakes = [_sentence(path, text, model, dict(mistake)) for mistake in error.errors()]
        raise ConfigError("\n".join(mistakes)) from None


def read_table(path: Path) -> tuple[dict[str, Any], str]:
    """The file as plain values and as text; ConfigError if it is no TOML.

    A byte order mark, which editors of Windows put before a text, is no part of it.
    """
    try:
        with path.open(encoding=ENCODING) as file:
            text = file.read(_CHARACTERS_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{path}: cannot be read: {said}") from error
    if len(text) > _CHARACTERS_MAX:
        raise ConfigError(f"{path}: cannot be read: it has more than {_CHARACTERS_MAX >> 20} MiB")
    try:
        return tomllib.loads(text), text
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        line = int(found[1]) if found else len(_lines(text))
        raise ConfigError(f"{path}:{line}: not TOML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: cannot be read: it is nested too deeply") from None


def mistake(path: Path, text: str, where: list[str | int], said: str) -> ConfigError:
    """One mistake as file:line, key and what to do about it."""
    key = ".".join(f"[{part}]" if isinstance(part, int) else part for part in where)
    return ConfigError(f"{path}:{line_of(text, where)}: {key.replace('.[', '[')}: {said}")


def _known_region(name: str) -> str:
    return region(name).name


RegionName = Annotated[str, AfterValidator(_known_region), Field(examples=[*REGIONS])]
"""The name of a region."""


def secret(value: str, folder: Path) -> str:
    """A secret that is written out, or as `env:NAME` or `file:PATH` (relative to `folder`).

    ValueError, without the secret, when the variable or the file is not there.
    """
    if value.startswith("env:"):
        name = value.removeprefix("env:")
        if name not in os.environ:
            raise ValueError(f"the environment has no variable {name}")
        return os.environ[name].strip()
    if value.startswith("file:"):
        path = folder / value.removeprefix("file:")
        try:
            return path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"cannot read the key file {path}") from error
    return value.strip()


def _key(value: object, info: Any) -> bytes:
    """A 128-bit key: 32 hex digits, `env:NAME` or `file:PATH`; never shown in an error."""
    if not isinstance(value, str):
        raise ValueError("a key is text: 32 hex digits, env:NAME or file:PATH")
    digits = secret(value, info.context)
    if not re.fullmatch(r"[0-9A-Fa-f]{32}", digits):
        raise ValueError("a key is 32 hex digits, env:NAME or file:PATH")
    return bytes.fromhex(digits)


def eui_written(value: object) -> str:
    """An EUI in any spelling; what was written is not repeated, it could be a key."""
    with suppress(ValueError):
        return identifiers.eui(value if isinstance(value, str) else "")
    raise ValueError("an EUI is text: 16 hex digits")


def _dev_addr(value: object) -> str:
    with suppress(ValueError):
        return identifiers.dev_addr(value if isinstance(value, str) else "")
    raise ValueError("a DevAddr is text: 8 hex digits")


Key = Annotated[bytes, BeforeValidator(_key)]
"""A key, from its digits or from where they are kept."""
EuiText = Annotated[Eui, BeforeValidator(eui_written)]
"""An EUI in any spelling."""
DevAddrText = Annotated[DevAddr, BeforeValidator(_dev_addr)]
"""A DevAddr in any spelling."""


def line_of(text: str, where: list[str | int]) -> int:
    """The line (from 1) of a key, or of the section that lacks it."""
    lines = _lines(text)
    section, key = (rf"[\"']?{re.escape(str(part))}[\"']?\s*" for part in (where[0], where[-1]))
    headers = _matching(rf"\s*\[+\s*{section}\]+", lines)
    # A table may stand in one line: `lns = {id = "lns-a"}`.
    headers = headers or _matching(rf"\s*{section}=", lines)
    index = next((part for part in where if isinstance(part, int)), 0)
    start = headers[index] if index < len(headers) else 0
    for number in range(start, len(lines)):
        if number > start and re.match(r"\s*\[", lines[number]):
            break
        if re.match(rf"\s*({section}\.\s*)?{key}=", lines[number]):
            return number + 1
    return start + 1


def _matching(pattern: str, lines: list[str]) -> list[int]:
    return [number for number, line in enumerate(lines) if re.match(pattern, line)]


def _lines(text: str) -> list[str]:
    # TOML, "New line": what else Unicode ends a line with may stand in a comment or a text.
    return text.removesuffix("\n").split("\n")


def _sentence(path: Path, text: str, model: type[BaseModel], found: dict[str, Any]) -> str:
    where = list(found["loc"])
    said = found["msg"].removeprefix("Value error, ")
    if found["type"] == "extra_forbidden":
        known = _known_keys(model, where[:-1])
        near = difflib.get_close_matches(str(where[-1]), known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known)}"
        said = f"unknown key; {hint}"
    elif found["type"] == "missing":
        said = "is missing"
    elif found["type"] in ("list_type", "tuple_type", "model_type"):
        said = _shape(model, where)
    return str(mistake(path, text, _place(model, where), said))


def _shape(model: type[BaseModel], where: list[str | int]) -> str:
    name = str(where[0])
    field = model.model_fields[name]
    if len(where) > 1 and isinstance(where[-1], str):
        return 'has to be a list, such as ["one", "two"]'
    if get_origin(field.annotation) in (list, tuple):
        return f"is a list of tables: write [[{name}]], in two brackets, at the head of each"
    return f"is one table: write [{name}], in single brackets, once, and its keys below"


def _place(model: type[BaseModel], where: list[str | int]) -> list[str | int]:
    # Behind a key that takes values of two kinds stands which of them was tried.
    sections: list[Any] = [model]
    for number, part in enumerate(where):
        if isinstance(part, str):
            if not sections:
                return where[:number]
            fields = sections[0].model_fields
            sections = _sections(fields[part].annotation) if part in fields else []
    return where


def _known_keys(model: type[BaseModel], where: list[str | int]) -> list[str]:
    for part in where:
        if isinstance(part, str):
            model = _sections(model.model_fields[part].annotation)[0]
    return sorted(field.alias or name for name, field in model.model_fields.items())


def _sections(inner: Any) -> list[type[BaseModel]]:
    sections = [inner, *get_args(inner)]
    return [s for s in sections if isinstance(s, type) and issubclass(s, BaseModel)]
