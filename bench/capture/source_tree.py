"""Which code runs here: what commit, and what differs from it?"""

import hashlib
import os
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

PROGRAM = "lorabench"
UNKNOWN = "unknown"
SERVER = "lns"
_CODE = ("lns", "bench", "scenarios")
_SCENARIOS = "scenarios"
_BRANCH_OF_JOB = ("GITHUB_REF_NAME", "CI_COMMIT_REF_NAME")
_PATIENCE_S = 20


def device_under_test(named: str | None = None) -> dict[str, object]:
    """The network server under test, as a manifest has it: name, version, commit, dirty.

    `named`, as NAME, NAME@VERSION or NAME@VERSION+COMMIT, is another one than that of this tree.
    """
    if named is None:
        return {"name": SERVER, "version": version(PROGRAM), **source_code()}
    name, _, rest = named.partition("@")
    told, _, commit = rest.partition("+")
    return {"name": name, "version": told or UNKNOWN, "commit": commit or UNKNOWN, "dirty": None}


def source_code() -> dict[str, object]:
    """The commit of this tree, and whether it is `dirty`: None where there is no git to ask.

    `difference` is a hash of what differs from the commit, files that git does not know included.
    """
    commit = git_commit(short=False)
    difference = None if commit == UNKNOWN else _difference()
    return {
        "commit": commit,
        "dirty": None if commit == UNKNOWN else difference is not None,
        **({"difference": difference} if difference is not None else {}),
    }


def line_of(dut: object) -> str:
    """What is tested, for all nights to come: the server of this tree by its branch, else its name.

    A build job has a commit checked out and no branch; then the environment of the job says it.
    """
    if dut != SERVER:
        return str(dut)
    found = (_git("rev-parse", "--abbrev-ref", "HEAD") or b"").decode().strip()
    named = (os.environ.get(name, "") for name in _BRANCH_OF_JOB)
    branch = found if found not in ("", "HEAD") else next(filter(None, named), "")
    return f"{SERVER}@{branch}" if branch else SERVER


@cache
def catalogue_sha() -> str:
    """A hash of all scenarios, as they lie on the disk."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted((_root() / _SCENARIOS).rglob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


@cache
def git_commit(*, short: bool = True) -> str:
    """The commit of this source tree; "unknown" where there is no git to ask."""
    found = _git("rev-parse", *(["--short=12"] if short else []), "HEAD")
    return UNKNOWN if found is None else found.decode().strip()


def version(distribution: str) -> str:
    """The version of an installed distribution."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


def _difference() -> str | None:
    """A hash of what the code differs in from its commit; None where it does not."""
    changed = _git("diff", "--no-ext-diff", "--binary", "HEAD", "--", *_CODE)
    strange = _git("ls-files", "--others", "--exclude-standard", "-z", "--", *_CODE)
    if not changed and not strange:
        return None
    digest = hashlib.blake2b(changed or b"", digest_size=8)
    for name in sorted(filter(None, (strange or b"").split(b"\0"))):
        path = _root() / name.decode(errors="surrogateescape")
        digest.update(b"\0" + name + b"\0" + (path.read_bytes() if path.is_file() else b""))
    return digest.hexdigest()


def _git(*words: str) -> bytes | None:
    """What git says of the folder with this code; None where it says nothing."""
    if not (_root() / ".git").exists():  # installed, perhaps in the repository of somebody else
        return None
    command = ("git", "-C", str(_root()), *words)
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=_PATIENCE_S)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def _root() -> Path:
    return Path(__file__).resolve().parent.parent.parent
