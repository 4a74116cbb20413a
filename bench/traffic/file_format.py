"""Which kind of file is this, and what traffic does it hold?"""

import gzip
import zlib
from pathlib import Path

from bench.traffic import campus_iot, conformance
from bench.traffic.recording import TrafficError, TrafficFile

KNOWN = (conformance.FORMAT, campus_iot.FORMAT)
_GZIP = b"\x1f\x8b"
_HEAD_BYTES = 65_536


def read(path: Path, *, seed: int = 1, limit: int | None = None, stations: int = 1) -> TrafficFile:
    """Read a file of real traffic, whatever its name.

    TrafficError, with the file and the place, where it is cut short, of no known format, or without
    a single uplink that can be used; OSError where it cannot be opened. A single broken record is
    left out and told in `left_out`. `limit`: at most so many uplinks of the file. `stations`: how
    many deliver traffic that one gateway heard.
    """
    text = _text(path)
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


def _text(path: Path) -> bytes:
    data = path.read_bytes()
    if not data.startswith(_GZIP):
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, OSError, zlib.error) as error:
        place = f"after {len(data)} compressed bytes"
        raise TrafficError(path, place, f"the gzip file is cut short or broken: {error}") from error
