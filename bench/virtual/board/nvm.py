"""What does a board remember without power?"""

import json
import os
from pathlib import Path
from typing import Any


class Nvm:
    """The flash of one board: named values, in a file that is whole at every moment.

    Without a file it is gone with the process.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._values: dict[str, Any] = {}
        if file is not None and file.exists():
            self._values = json.loads(file.read_text())

    def get(self, name: str, default: Any = None) -> Any:
        """A value, `default` if it was never written."""
        return self._values.get(name, default)

    def put(self, **values: Any) -> None:
        """Write values; on the disk once this returns."""
        self._values.update(values)
        self._write()

    def erase(self, *kept: str) -> None:
        """Forget everything but these."""
        self._values = {name: self._values[name] for name in kept if name in self._values}
        self._write()

    def _write(self) -> None:
        if self._file is None:
            return
        made = self._file.with_suffix(".new")
        made.touch(mode=0o600)  # there are keys in it
        made.write_text(json.dumps(self._values, indent=1))
        os.replace(made, self._file)
