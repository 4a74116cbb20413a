"""What does a station trust and show when it connects over TLS?

Its home has up to four files a category ("tc" or "cups"): `.uri`, `.trust`, `.crt`, `.key`.
"""

import ssl
from collections.abc import Iterable
from pathlib import Path

Headers = Iterable[tuple[str, str]]


class StationTls:
    """What a station trusts and shows: a CA, and a client certificate or a token, or neither.

    `token` is the value of the `Authorization` header. `newest` is TLS 1.2, the most a station
    speaks. OSError (ssl.SSLError too) if a file cannot be used.
    """

    def __init__(
        self,
        trust: Path,
        crt: Path | None = None,
        key: Path | None = None,
        *,
        token: str | None = None,
        newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2,
    ) -> None:
        self.headers: Headers = () if token is None else (("Authorization", token),)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.maximum_version = newest
        self.context.load_verify_locations(trust)
        if crt is not None:
            # An empty password, or OpenSSL would ask for one at the terminal.
            self.context.load_cert_chain(crt, key, password="")


def station_files(folder: Path, category: str = "tc") -> tuple[str, StationTls | None]:
    """The URI in a station's home, and what `.trust`, `.crt` and `.key` beside it make of TLS.

    Without `.crt` the `.key` is a token: header lines. OSError if the URI's file is not there.
    """
    uri = (folder / f"{category}.uri").read_text(encoding="ascii").strip()
    trust, crt, key = (folder / f"{category}.{suffix}" for suffix in ("trust", "crt", "key"))
    if not trust.exists():
        return uri, None
    if crt.exists():
        return uri, StationTls(trust, crt, key)
    lines = key.read_text(encoding="ascii").splitlines() if key.exists() else []
    header = next((line for line in lines if line.startswith("Authorization: ")), None)
    return uri, StationTls(trust, token=header and header.partition(": ")[2].strip())
