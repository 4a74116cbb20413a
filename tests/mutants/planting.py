"""How does a fault get into functions and constants that are loaded already, or are to be?"""

import gc
import importlib.abc
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tests.mutants.faults import ROOT, Fault

_OF_THE_PROJECT = ("lns.", "bench.")
_SHARED_INTS = range(-5, 257)
"""Numbers that are one object wherever they stand: nobody can tell whose default it is."""


class Broken(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from memory, with its fault."""

    def __init__(self, fault: Fault) -> None:
        parts = Path(fault.file).with_suffix("").parts
        self._is_package = parts[-1] == "__init__"
        self._name = ".".join(parts[:-1] if self._is_package else parts)
        self._fault = fault

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self._name:
            return None
        origin = str(ROOT / self._fault.file)
        return importlib.util.spec_from_loader(
            name, self, origin=origin, is_package=self._is_package
        )

    def exec_module(self, module: ModuleType) -> None:
        path = str(ROOT / self._fault.file)
        exec(compile(self._fault.broken(), path, "exec"), module.__dict__)  # noqa: S102


def plant(fault: Fault) -> bool:
    """Put a fault into the functions that are loaded already; False where it does not fit one."""
    path = str(ROOT / fault.file)
    new = {code.co_qualname: code for code in codes(compile(fault.broken(), path, "exec"))}
    planted = False
    # By `type`: a proxy of something that is gone is asked for nothing.
    for function in [found for found in gc.get_objects() if type(found) is FunctionType]:
        old = function.__code__
        if old.co_filename != path or fault.function not in _plain(old.co_qualname):
            continue
        code = new.get(old.co_qualname)
        if code is None or code.co_freevars != old.co_freevars:
            return False
        function.__code__ = code
        planted = True
    return planted


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple | frozenset):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(_is_plain(key) and _is_plain(one) for key, one in value.items())
    return isinstance(value, int | str | bytes | float | None)


def plant_constant(fault: Fault) -> bool:
    """Give a constant another value wherever it is known by its name; False where it is no such.

    What other modules have worked out of it stays as it is: who survives is tried once more.
    """
    parts = Path(fault.file).with_suffix("").parts
    module = sys.modules.get(".".join(parts))
    name = fault.assigned
    if module is None or not name or name not in vars(module):
        return False
    fresh: dict[str, Any] = {"__name__": module.__name__, "__file__": str(ROOT / fault.file)}
    exec(compile(fault.broken(), str(ROOT / fault.file), "exec"), fresh)  # noqa: S102
    old, new = vars(module)[name], fresh.get(name)
    if not (_is_plain(old) and _is_plain(new)):
        return False
    if isinstance(old, dict):
        old.clear()
        old.update(new)
        return True
    for other in list(sys.modules.values()):
        if other.__name__.startswith(_OF_THE_PROJECT) and vars(other).get(name) is old:
            setattr(other, name, new)
    if type(old) is not int or old not in _SHARED_INTS:
        _change_defaults(old, new)
    return True


def _change_defaults(old: object, new: object) -> None:
    for function in [found for found in gc.get_objects() if type(found) is FunctionType]:
        if not (function.__module__ or "").startswith(_OF_THE_PROJECT):
            continue
        if function.__defaults__:
            function.__defaults__ = tuple(new if d is old else d for d in function.__defaults__)
        for key, value in (function.__kwdefaults__ or {}).items():
            if value is old:
                function.__kwdefaults__[key] = new


def _plain(qualname: str) -> tuple[str, ...]:
    """A function and those that it stands in, without `<locals>`."""
    parts = qualname.replace("<locals>.", "").split(".")
    return tuple(".".join(parts[:end]) for end in range(1, len(parts) + 1))


def codes(code: CodeType) -> Iterator[CodeType]:
    """The functions and classes in what was compiled, and those in them."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from codes(constant)
