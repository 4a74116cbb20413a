"""Let a board forget everything: keys, session, counters and settings.

The same as `lorabench devices reset`: it runs with the Python that the bench is installed for.
"""

import sys

try:
    from bench.cli.program import main
except ImportError as missing:
    raise SystemExit(
        f"error: {missing.name} is missing for this Python. Install the bench (`make install`),"
        " then use its own: .venv/bin/python firmware_scripts/factory_reset.py"
    ) from None

if __name__ == "__main__":
    sys.exit(main(["devices", "reset", *sys.argv[1:]]))
