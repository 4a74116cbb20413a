"""How do the runs of many nights fit on the disk of a lab PC, with nothing lost?

The captures of old runs are compressed where they lie; whatever reads a capture reads both forms.
Scores, reports and manifest stay as they are, and the manifest says what was done. Nothing is ever
deleted but a file whose compressed form was read back and found equal.
"""

import asyncio
import base64
import gzip
import json
import os
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

from bench.capture.reading import CAPTURE, COMPRESSED
from bench.capture.run_folder import replace, replacing
from bench.lab.inventory.sections import ReportSection
from lns.clock import utc_of_this_host
from lns.delivery.mqtt_session import BrokerLost, broker, post
from lns.server.address import without_login

MANIFEST = "manifest.json"
_NIGHT = re.compile(r"(\d{8})T\d{6}Z-")
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Compacted:
    """One run whose captures were compressed; `trouble` is what kept the rest from it."""

    run: Path
    files: int
    before_bytes: int
    after_bytes: int
    trouble: str | None = None

    def __str__(self) -> str:
        sizes = f"{_megabytes(self.before_bytes)} to {_megabytes(self.after_bytes)}"
        many = f"{self.files} capture file{'' if self.files == 1 else 's'}"
        line = f"{self.run.name}: {many} compressed, {sizes}; nothing deleted"
        return line if self.trouble is None else f"{line}; then {self.trouble}"


def compact_runs(runs: Path, *, nights_kept: int) -> Iterator[Compacted]:
    """Compress the captures of all runs older than the newest nights, the oldest first.

    A run that is compressed already is passed over. Trouble with one, such as a full disk, ends it
    and is told; every file is whole in one form or the other at any time.
    """
    for run in old_runs(runs, nights_kept=nights_kept):
        done = compact(run)
        if done.files or done.trouble is not None:
            yield done


def old_runs(runs: Path, *, nights_kept: int) -> list[Path]:
    """The runs of all but the newest nights, oldest first; a run without a date is none of them.

    A night is the date at the head of a run's name, and counts when it has a run.
    """
    if not runs.is_dir():
        return []
    dated = sorted(
        (found[1], folder)
        for folder in runs.iterdir()
        if (found := _NIGHT.match(folder.name)) and (folder / MANIFEST).is_file()
    )
    newest = sorted({night for night, _ in dated})[-nights_kept:] if nights_kept > 0 else []
    return [folder for night, folder in dated if night not in newest]


def compact(run: Path) -> Compacted:
    """Compress the captures of one run, and write into its manifest what they were."""
    packed: dict[str, int] = {}
    after_bytes, trouble = 0, None
    try:
        for path in sorted(filter(Path.is_file, run.glob(f"*{CAPTURE}"))):
            before_bytes = path.stat().st_size
            after_bytes += _compress(path)
            packed[path.name] = before_bytes
    except OSError as error:
        trouble = f"stopped: {error.strerror or error}"
    try:
        if packed:
            _note(run / MANIFEST, packed)
    except OSError as error:
        trouble = trouble or f"its manifest could not be written: {error.strerror or error}"
    return Compacted(run, len(packed), sum(packed.values()), after_bytes, trouble)


def _compress(path: Path) -> int:
    packed = path.with_name(f"{path.name}{COMPRESSED}")
    with path.open("rb") as plain, replacing(packed) as file:
        # No name and no time inside: the same capture always gives the same bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as into:
            shutil.copyfileobj(plain, into, _BLOCK_BYTES)
        file.flush()
        os.fsync(file.fileno())
        after_bytes = file.tell()
        if not _is_same(path, file):
            raise OSError(f"{path.name} changed while it was compressed")
    path.unlink()
    return after_bytes


def _is_same(plain: Path, packed: BinaryIO) -> bool:
    packed.seek(0)
    with plain.open("rb") as one, gzip.open(packed, "rb") as other:
        while block := one.read(_BLOCK_BYTES):
            if other.read(len(block)) != block:
                return False
        return not other.read(1)


def _note(manifest: Path, packed: dict[str, int]) -> None:
    said: dict[str, Any] = json.loads(manifest.read_text(encoding="utf-8"))
    before = said.get("compacted", {}).get("files", {})
    said["compacted"] = {
        "at": f"{utc_of_this_host():%Y-%m-%dT%H:%M:%SZ}",
        "files": {**before, **packed},
    }
    replace(manifest, (json.dumps(said, indent=2) + "\n").encode())


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


# A broker, on a topic of the bench, and a web hook. Neither can change how the night went: whatever
# goes wrong here is a line for the person who reads the log. URLs may hold passwords or tokens; of
# them nothing but scheme and host is ever shown.
LIMIT_US = 10_000_000


def topic(bench: str) -> str:
    return f"lorabench/{bench}/night"


def publish(
    report_to: ReportSection, bench: str, summary: Mapping[str, object], *, limit_us: int = LIMIT_US
) -> list[str]:
    """Tell everybody who is to be told; a line on each."""
    body = json.dumps(summary, ensure_ascii=False).encode()
    lines = []
    if report_to.mqtt is not None:
        lines.append(_publish(report_to.mqtt, topic(bench), body, limit_us))
    if report_to.webhook is not None:
        lines.append(_post(report_to.webhook, body, limit_us))
    return lines


def _publish(url: str, where: str, body: bytes, limit_us: int) -> str:
    async def posted() -> None:
        async with asyncio.timeout(limit_us / 1_000_000):
            await post(broker(url), where, body)

    try:
        asyncio.run(posted())
    except (BrokerLost, TimeoutError, ValueError, OSError) as error:
        why = str(error) or "no answer in time"
        return f"The summary was not published to {_shown(url)}: {why}."
    return f"The summary is published to {_shown(url)}, topic {where}."


def _post(url: str, body: bytes, limit_us: int) -> str:
    request = urllib.request.Request(
        without_login(url), data=body, headers=_headers(url), method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=limit_us / 1_000_000):
            return f"The summary is posted to {_shown(url)}."
    except urllib.error.HTTPError as error:
        error.close()
        why = f"it answers {error.code} {error.reason}"
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        why = str(reason) or "no answer in time"
    return f"The summary was not posted to {_shown(url)}: {why}."


def _headers(url: str) -> dict[str, str]:
    """What a web hook is told besides: the login of its URL, which is no part of an address."""
    headers = {"Content-Type": "application/json"}
    parts = urlsplit(url)
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
    return headers


def _shown(url: str) -> str:
    """Scheme and host of a URL, and its port: neither login nor path, which may be secret."""
    parts = urlsplit(url)
    host = parts.hostname or "?"
    port = f":{parts.port}" if parts.port is not None else ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}"
