"""Which kind of file is this, and what traffic does it hold?"""

import gzip
import zlib
from pathlib import Path
from typing import BinaryIO

from bench.traffic import campus_iot, conformance
from bench.traffic.recording import TrafficError, TrafficFile

KNOWN = (conformance.FORMAT, campus_iot.FORMAT)
TEXT_BYTES_MAX = 256 << 20
_GZIP = b"\x1f\x8b"
_HEAD_BYTES = 65_536


def read(
    path: Path,
    *,
    seed: int = 1,
    limit: int | None = None,
    stations: int = 1,
    bytes_max: int = TEXT_BYTES_MAX,
) -> TrafficFile:
    """Read a file of real traffic, whatever its name.

    TrafficError, with the file and the place, where it is cut short, of no known format, longer
    than `bytes_max` (unpacked, if it is compressed), or without a single uplink that can be used;
    OSError where it cannot be opened. A single broken record is left out and told in `left_out`.
    `limit`: at most so many uplinks of the file. `stations`: how many deliver traffic that one
    gateway heard.
    """
    text = _text(path, bytes_max)
    head = text[:_HEAD_BYTES]
    if b'"logs"' in head:
        found = conformance.read(path, text, seed=seed, limit=limit, stations=stations)
    elif b'"devEUI"' in head or b'"rxInfo"' in head:
        found = campus_iot.read(path, text, seed=seed, limit=limit)
    else:
        raise TrafficError(path, "", f"unknown format; known are: {'; '.join(KNOWN)}")
    if not found.logs:
        reason = f"; the first record left out: {found.left_out[0]}" if found.left_out else ""
        raise TrafficError(path, "", f"no uplink that can be used{reason}")
    return found


def _text(path: Path, bytes_max: int) -> bytes:
    """What a file says, unpacked if it is compressed; never more than `bytes_max` are held."""
    with path.open("rb") as file:
        packed = file.read(len(_GZIP)) == _GZIP
        file.seek(0)
        text = _unpacked(path, file, bytes_max) if packed else file.read(bytes_max + 1)
    if len(text) > bytes_max:
        unpacked = " unpacked" if packed else ""
        limit = f"{bytes_max / (1 << 20):g} MiB"
        raise TrafficError(path, "", f"more than {limit}{unpacked}, which is the limit; split it")
    return text


def _unpacked(path: Path, file: BinaryIO, bytes_max: int) -> bytes:
    """At most one octet more than `bytes_max`: a small file may hold terabytes."""
    try:
        with gzip.open(file, "rb") as stream:
            return stream.read(bytes_max + 1)
    except (EOFError, OSError, zlib.error) as error:
        place = f"after {file.tell()} compressed bytes"
        raise TrafficError(path, place, f"the gzip file is cut short or broken: {error}") from error
