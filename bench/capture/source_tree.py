"""Which code runs here: what commit, and what differs from it?"""

import hashlib
import subprocess
from importlib import metadata
from pathlib import Path

PROGRAM = "lorabench"
UNKNOWN = "unknown"
_CODE = ("lns", "bench", "scenarios")
_PATIENCE_S = 20


def device_under_test() -> dict[str, object]:
    """The network server under test, as a manifest has it: name, version, commit, dirty.

    `difference` is a hash of what differs from the commit, files that git does not know included.
    `dirty` is None where there is no git to ask.
    """
    commit = git_commit(short=False)
    difference = None if commit == UNKNOWN else _difference()
    return {
        "name": "lns",
        "version": version(PROGRAM),
        "commit": commit,
        "dirty": None if commit == UNKNOWN else difference is not None,
        **({"difference": difference} if difference is not None else {}),
    }


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
    command = ("git", "-C", str(_root()), *words)
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=_PATIENCE_S)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def _root() -> Path:
    return Path(__file__).resolve().parent.parent.parent
