"""A test that is a coroutine, on a loop of its own."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def on_a_loop(scene: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    return wraps(scene)(lambda *given, **facts: asyncio.run(scene(*given, **facts)))
