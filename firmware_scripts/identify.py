"""Who is at the serial ports? Prints inventory entries to paste into bench.toml.

The same as `lorabench devices --discover`: it runs with the Python that the bench is installed for.
"""

import sys

try:
    from bench.cli.program import main
except ImportError as missing:
    raise SystemExit(
        f"error: {missing.name} is missing for this Python. Install the bench (`make install`),"
        " then use its own: .venv/bin/python firmware_scripts/identify.py"
    ) from None


def ports(words: list[str]) -> list[str]:
    """The words, where one that belongs to no option is a port to ask."""
    taken = ("--bench", "--port")
    arguments: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        arguments += [word] if word[:1] == "-" or before in taken else ["--port", word]
    return arguments


if __name__ == "__main__":
    sys.exit(main(["devices", "--discover", *ports(sys.argv[1:])]))
