"""Which packages, in which versions and with which hashes, are installed for pyproject.toml?

`make lock` writes the answer into requirements.lock, for every platform at once: a package that is
not for all of them has a marker. A version that stands there already stays, unless LOCK_ARGS says
--upgrade: then it is the newest that pyproject.toml allows.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
HEAD = """\
# Exact versions that the project is tested with, and the hashes of their files. `make` installs
# them by `pip --require-hashes`. Made from pyproject.toml by `make lock`: change nothing by hand.
"""
# One package: "name==version ; marker \\", then its hashes, indented.
_PACKAGE = re.compile(r"^[^\s#].*(?:\n[ \t]+.*)*", re.MULTILINE)


def compiled(*inputs: str, more: list[str]) -> dict[str, str]:
    """The packages that these need, by name: what stands in the lock of each.

    A package may stand there twice, in one version for older Pythons and another for newer ones.
    """
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made.lock"
        made.write_text(LOCK.read_text("utf-8"), "utf-8")
        command = [
            sys.executable,
            "-m",
            "uv",
            "pip",
            "compile",
            *inputs,
            "--output-file",
            str(made),
        ]
        command += ["--universal", "--python-version", "3.11", "--generate-hashes", "--quiet"]
        command += ["--no-header", "--no-annotate", "--no-emit-index-url", *more]
        subprocess.run(command, cwd=ROOT, check=True)
        found = _PACKAGE.findall(made.read_text("utf-8"))
    packages: dict[str, str] = {}
    for package in found:
        name = package.partition("==")[0]
        packages[name] = f"{packages[name]}\n{package}" if name in packages else package
    return packages


def main(more: list[str]) -> None:
    """Write the lock: three parts, each without what stands above it."""
    with tempfile.TemporaryDirectory() as folder:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
        builds = Path(folder) / "build.in"
        # pip before 24 builds what has no pyproject.toml of its own (pyspark) with wheel.
        builds.write_text("\n".join([*project["build-system"]["requires"], "wheel"]), "utf-8")
        run_time = compiled("pyproject.toml", more=more)
        develop = compiled("pyproject.toml", "--extra", "dev", str(builds), more=more)
    parts = {
        "At run time": run_time,
        "For development: tests, types, style, building": {
            name: package for name, package in develop.items() if name not in run_time
        },
    }
    texts = ["\n".join((f"# {title}", *packages.values())) for title, packages in parts.items()]
    LOCK.write_text("\n".join((HEAD, "\n\n".join(texts), "")), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
