"""Which modules of a package does somebody enter who follows what happens?"""

import sys
from pathlib import Path
from types import CodeType, FrameType, ModuleType


class Walk:
    """Remembers the modules in which something ran inside `with`; with `within` only in there."""

    def __init__(self, package: ModuleType, within: CodeType | None = None) -> None:
        assert package.__file__ is not None
        self._root = Path(package.__file__).parent
        self._within = within
        self._is_there = within is None
        self.modules: set[str] = set()

    def __enter__(self) -> None:
        sys.setprofile(self._note)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if frame.f_code is self._within and event in ("call", "return"):
            self._is_there = event == "call"
        file = Path(frame.f_code.co_filename)
        if self._is_there and file.is_relative_to(self._root):
            parts = file.relative_to(self._root).with_suffix("").parts
            self.modules.add(".".join(part for part in parts if part != "__init__"))
