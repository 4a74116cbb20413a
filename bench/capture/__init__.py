"""Runs on disk: their folders, their manifests, and reading them back."""

from collections.abc import Callable
from typing import TypeAlias

Record: TypeAlias = Callable[[str, str, dict[str, object]], object]
"""Writes one event that happens now: its source, its kind, its fields."""
