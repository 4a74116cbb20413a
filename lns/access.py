"""Which station may connect, and what does it have to show?

Decides; nothing here is told to a station but the sentence of a `Refusal`, which never contains
what was shown. Source: Basics Station, authentication modes.
"""

import hmac
import re
from dataclasses import dataclass, field

from lns.lorawan.identifiers import Eui

TOKEN = re.compile(r"[!-~]+( [!-~]+)*")
Tokens = dict[Eui, str]

_EUI = re.compile(r"[0-9A-Fa-f]{16}")


@dataclass(frozen=True, slots=True)
class Shown:
    """What came with a request: the `Authorization` header and the name in the certificate.

    None where there was none. The name is "" for a certificate without a common name.
    """

    authorization: str | None = field(default=None, repr=False)
    certificate: str | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not served, and the HTTP status that says so."""

    status: int
    why: str


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of one server; by default any station may connect.

    `stations`: the only ones that may, None for any. `tokens`: the `Authorization` that each
    station has to send, None for none. `certificates`: whether a client certificate is required.
    A certificate whose common name is an EUI is good for that station only.
    """

    stations: frozenset[Eui] | None = None
    tokens: Tokens | None = field(default=None, repr=False)
    certificates: bool = False

    def refusal_of_anybody(self, shown: Shown) -> Refusal | None:
        """Why whoever shows this may not even ask; None when it may."""
        if self.certificates and shown.certificate is None:
            return Refusal(403, "no client certificate")
        if self.tokens is None:
            return None
        if shown.authorization is None:
            return Refusal(401, "no Authorization header")
        # Every token is compared, so that the time does not tell which one was right.
        if not sum(_same(token, shown.authorization) for token in self.tokens.values()):
            return Refusal(401, "wrong token")
        return None

    def refusal(self, station: Eui, shown: Shown) -> Refusal | None:
        """Why this station may not connect with what it shows; None when it may."""
        if self.stations is not None and station not in self.stations:
            return Refusal(403, "not in the list of stations")
        name = shown.certificate or ""
        if _EUI.fullmatch(name) and name.upper() != station:
            return Refusal(403, "the client certificate is another station's")
        refusal = self.refusal_of_anybody(shown)
        if refusal is not None or self.tokens is None:
            return refusal
        if not _same(self.tokens.get(station, ""), shown.authorization or ""):
            return Refusal(401, "wrong token")
        return None


def _same(token: str, shown: str) -> bool:
    return bool(token) and hmac.compare_digest(token.encode(), shown.strip().encode())
