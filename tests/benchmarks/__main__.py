"""`make bench`: how fast are the parts that must be fast, beside something bare in the same run?

Runs every benchmark of this folder but the long ones, or those named on the command line. Each
prints a table of its own and is a program of its own: `python -m tests.benchmarks.scoring --help`.
Exit status 1 when one of them finds something wrong.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
LONG = {"soak": "ten minutes"}


def main(names: list[str]) -> int:
    """Run the benchmarks one after the other; 4 for a name that is none."""
    known = sorted(path.stem for path in HERE.glob("*.py") if not path.stem.startswith("_"))
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)}; known: {', '.join(known)}")
        return 4
    failed = []
    for name in names or [name for name in known if name not in LONG]:
        print(f"== {name}", flush=True)
        command = [sys.executable, "-m", f"tests.benchmarks.{name}"]
        if subprocess.run(command, cwd=HERE.parents[1], check=False).returncode:
            failed.append(name)
        print(flush=True)
    if not names:
        for name, long in LONG.items():
            print(f"left out, takes {long}: {sys.executable} -m tests.benchmarks {name}")
    if failed:
        print(f"something is wrong in: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
