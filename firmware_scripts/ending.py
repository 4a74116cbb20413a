"""How does a script end, and what does it say?

0 done or nothing to do, 1 it did not work, 2 interrupted, 4 the command line or a file is wrong.
Errors are one message that says what to do, on stderr; what was changed goes to stdout.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

if sys.version_info < (3, 11):  # noqa: UP036 # a bare lab PC may have an older one
    raise SystemExit("error: these scripts need Python 3.11 or newer")

DONE, FAILED, INTERRUPTED, USAGE = 0, 1, 2, 4


class Failed(Exception):
    """It did not work; the text says what happened and what to do."""


class WrongUsage(Exception):
    """The command line or a file that it names is wrong; the text says what to write instead."""


class Arguments(argparse.ArgumentParser):
    """A parser that shows `examples` under its options and ends with 4 on a usage error."""

    def __init__(self, description: str, examples: Sequence[str]) -> None:
        super().__init__(
            description=description,
            epilog="examples:\n" + "\n".join(f"  {line}" for line in examples),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        print(f"{self.prog}: {message}; --help shows examples", file=sys.stderr)
        raise SystemExit(USAGE)


def run(main: Callable[[], None]) -> NoReturn:
    """Run a script's `main` and leave with its exit code, without a traceback for mistakes."""
    try:
        main()
    except WrongUsage as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(USAGE) from None
    except Failed as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(FAILED) from None
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
    raise SystemExit(DONE)
