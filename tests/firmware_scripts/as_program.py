"""A script in a fork, as `python FILE …` runs it: `python -m tests.firmware_scripts.as_program`."""

import runpy
import sys

if __name__ == "__main__":
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
