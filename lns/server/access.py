"""Which station may connect, and what does it have to show?

Decides; nothing here is told to a station but the sentence of a `Refusal`, which never contains
what was shown. Source: Basics Station, authentication modes.
"""

import hmac
import re
from contextlib import suppress
from dataclasses import dataclass, field

from lns.lorawan.identifiers import Eui, eui

TOKEN = re.compile(r"[!-~]+( [!-~]+)*")
Tokens = dict[Eui, str]


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a client certificate says: its common name, and whether it may be a client's.

    The name is "" where there is none, or more than one.
    """

    name: str
    for_clients: bool

    @property
    def station(self) -> Eui | None:
        """The station that it names, in any spelling of an EUI; None if it names none."""
        with suppress(ValueError):
            return eui(self.name.strip(" "))
        return None


@dataclass(frozen=True, slots=True)
class Shown:
    """What came with a request: the `Authorization` header and the certificate, None for none."""

    authorization: str | None = field(default=None, repr=False)
    certificate: Certificate | None = None


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
    It is good for the station that it names and for no other; with `any_station` every certificate
    of the authority is good for every station.
    """

    stations: frozenset[Eui] | None = None
    tokens: Tokens | None = field(default=None, repr=False)
    certificates: bool = False
    any_station: bool = False

    @property
    def required(self) -> str:
        """What a station has to show, for people to read."""
        if self.certificates:
            whose = "any certificate" if self.any_station else "a certificate with its EUI"
            return f"{whose} of client_ca"
        return "nothing" if self.tokens is None else f"one of {len(self.tokens)} tokens, its own"

    def refusal_of_anybody(self, shown: Shown) -> Refusal | None:
        """Why whoever shows this may not even ask; None when it may."""
        refusal = self._refusal_of_certificate(shown.certificate)
        if refusal is not None or self.tokens is None:
            return refusal
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
        refusal = self.refusal_of_anybody(shown)
        if refusal is not None:
            return refusal
        if self.certificates and not self.any_station:
            assert shown.certificate is not None
            if shown.certificate.station != station:
                return Refusal(403, "the client certificate is another station's")
        if self.tokens is not None:
            if not _same(self.tokens.get(station, ""), shown.authorization or ""):
                return Refusal(401, "wrong token")
        return None

    def _refusal_of_certificate(self, certificate: Certificate | None) -> Refusal | None:
        if not self.certificates:
            return None
        if certificate is None:
            return Refusal(403, "no client certificate")
        if self.any_station:
            return None
        if not certificate.for_clients:
            return Refusal(403, "the client certificate is not made for clients")
        if certificate.station is None:
            return Refusal(
                403, "the client certificate names no station: it needs an EUI as its CN"
            )
        return None


def _same(token: str, shown: str) -> bool:
    return bool(token) and hmac.compare_digest(token.encode(), shown.strip().encode())
