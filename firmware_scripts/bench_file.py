"""What does the inventory of the bench, bench.toml, say about one board?"""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ending import WrongUsage

KEY_DIGITS = 32


@dataclass(frozen=True, slots=True)
class BenchFile:
    """bench.toml as it was read."""

    path: Path
    content: Mapping[str, Any]

    @property
    def region(self) -> str:
        """The region of the bench."""
        return str(self.content.get("bench", {}).get("region", "EU868"))

    @property
    def conducted(self) -> bool:
        """Whether the bench stands on cables, so that no duty cycle need be kept."""
        return bool(self.content.get("bench", {}).get("conducted", False))

    def radios(self) -> list[Mapping[str, Any]]:
        """All devices, then all replayers."""
        return [*self.content.get("device", []), *self.content.get("replayer", [])]

    def entry(self, kinds: tuple[str, ...], name: str) -> Mapping[str, Any]:
        """The entry `name` among these kinds of tables; WrongUsage, naming those that are."""
        entries = [entry for kind in kinds for entry in self.content.get(kind, [])]
        for entry in entries:
            if entry.get("name") == name:
                return entry  # type: ignore[no-any-return]
        known = ", ".join(str(entry.get("name")) for entry in entries) or "none"
        raise WrongUsage(f"{self.path} has no {' or '.join(kinds)} named {name!r}; it has: {known}")


def read_bench_file(path: Path) -> BenchFile:
    """The file's content; WrongUsage if there is none or it is no TOML."""
    try:
        return BenchFile(path, tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise WrongUsage(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise WrongUsage(f"{path} is no TOML file: {error}") from None


def key_from(source: str, folder: Path, what: str) -> str:
    """The key that `env:NAME`, `file:PATH` or the hex itself stands for; never shown anywhere."""
    if source.startswith("env:"):
        name = source.removeprefix("env:")
        if name not in os.environ:
            raise WrongUsage(f"{what}: the environment has no {name}")
        text = os.environ[name]
    elif source.startswith("file:"):
        path = folder / source.removeprefix("file:")
        try:
            text = path.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise WrongUsage(f"{what}: {path} cannot be read: {error}") from None
    else:
        text = source
    return hex_digits(text, KEY_DIGITS, what, secret=True)


def hex_digits(text: str, digits: int, what: str, *, secret: bool = False) -> str:
    """Exactly so many hex digits, in upper case; WrongUsage otherwise, a secret never shown."""
    plain = re.sub(r"[\s:-]", "", text).upper()
    if re.fullmatch(f"[0-9A-F]{{{digits}}}", plain) is None:
        shown = f"{len(plain)} characters" if secret else repr(text)
        raise WrongUsage(f"{what} is {digits} hex digits, not {shown}")
    return plain
