"""Send a captured PHYPayload again with a second radio, and wait for the proof.

The same as `lorabench devices replay`: it runs with the Python that the bench is installed for.
"""

import sys

try:
    from bench.cli.program import main
except ImportError as missing:
    raise SystemExit(
        f"error: {missing.name} is missing for this Python. Install the bench (`make install`),"
        " then use its own: .venv/bin/python firmware_scripts/replay.py"
    ) from None

if __name__ == "__main__":
    sys.exit(main(["devices", "replay", *sys.argv[1:]]))
