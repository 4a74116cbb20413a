"""How does a file come into a run folder: whole or not at all, and where it was meant to go?

A run folder may come from somewhere else, with links in it. What is written takes the place of a
link; nothing is ever written through one.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` when the block ends; OSError.

    What was there before stays as it is when the block ends with an error.
    """
    # In the same folder, or the rename would not be atomic.
    aside = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    aside.unlink(missing_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with open(os.open(aside, flags, 0o666), "w+b") as file:
            yield file
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def replace(path: Path, content: bytes) -> None:
    """Put a whole file in the place of `path`; OSError."""
    with replacing(path) as file:
        file.write(content)
