"""Write identity, keys, region, data rate and role into a board, and read them back.

The same as `lorabench devices provision`: it runs with the Python that the bench is installed for.
"""

import sys

try:
    from bench.cli.program import main
except ImportError as missing:
    raise SystemExit(
        f"error: {missing.name} is missing for this Python. Install the bench (`make install`),"
        " then use its own: .venv/bin/python firmware_scripts/provision.py"
    ) from None

if __name__ == "__main__":
    sys.exit(main(["devices", "provision", *sys.argv[1:]]))
