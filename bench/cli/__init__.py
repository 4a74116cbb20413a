"""What does a person type, and what does the bench say back?

`main` is the program `lorabench`. Results go to stdout, progress and errors to stderr; with
`--json` stdout is one JSON document.
"""

from bench.cli.program import main

__all__ = ["main"]
