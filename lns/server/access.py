"""Which station may connect, what does it have to show, and how does this server prove who it is?

Decides; nothing here is told to a station but the sentence of a `Refusal`, which never contains
what was shown. Basics Station speaks TLS 1.2 at most, and compares the host name of its URI with
the DNS names of the certificate only: a certificate for an address needs the address as a DNS name.
Source: Basics Station, authentication modes.
"""

import asyncio
import hmac
import re
import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

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


CHALLENGE = "Bearer"
"""What an answer 401 must say in WWW-Authenticate (RFC 9110, 15.5.2)."""


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


# X509_V_ERR_… of OpenSSL, of the certificate that a station shows.
_NOT_YET_VALID, _EXPIRED, _WRONG_PURPOSE = 9, 10, 26
_FOREIGN = {2, 7, 18, 19, 20, 21, 24}
_CERTIFICATE = {
    _NOT_YET_VALID: "is not valid yet",
    _EXPIRED: "has expired",
    _WRONG_PURPOSE: "is not made for clients",
    **dict.fromkeys(_FOREIGN, "is of another authority"),
}
# What a station says of the server's certificate before it leaves (RFC 8446, 6.2).
_ALERTS = {
    "TLSV1_ALERT_UNKNOWN_CA": "the station does not trust the server's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the station says that the server's certificate has expired",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the station refuses the server's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the station refuses the server's certificate",
    "HTTP_REQUEST": "speaks no TLS",
    "WRONG_VERSION_NUMBER": "speaks no TLS",
    "UNSUPPORTED_PROTOCOL": "speaks no TLS of version 1.2 or later",
    "NO_SHARED_CIPHER": "no cipher is known to both sides",
}


def refused_handshake(error: OSError) -> str:
    """Why a TLS handshake came to nothing, in a sentence; nothing of what was shown is repeated."""
    match error:
        case ssl.SSLCertVerificationError():
            said = _CERTIFICATE.get(error.verify_code, f"is not valid: {error.verify_message}")
            return f"TLS handshake: the client certificate {said}"
        case ssl.SSLError():
            reason = error.reason or str(error)
            return f"TLS handshake: {_ALERTS.get(reason, reason)}"
        case ConnectionAbortedError():
            return "TLS handshake: takes too long"
        case _:
            return "TLS handshake: left in the middle of it"


def server_context(cert: Path, key: Path, client_ca: Path | None = None) -> ssl.SSLContext:
    """TLS 1.2 and later with this certificate; ValueError says which file cannot be used.

    With `client_ca` a client certificate is asked for, and one of another CA ends the handshake.
    Whether it is missing is for `lns.server.access` to judge, so that the refusal can be told.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for file in filter(None, (cert, key, client_ca)):
        try:
            if not file.is_file():
                raise ValueError(f"there is no file {file}")
            file.open("rb").close()
        except OSError as error:
            raise ValueError(f"{file} cannot be read: {error.strerror}") from error
    try:
        # An empty password, or OpenSSL would ask for one at the terminal.
        context.load_cert_chain(cert, key, password="")
    except (ssl.SSLError, OSError) as error:
        raise ValueError(f"{cert} and {key} are no PEM pair of certificate and key") from error
    if client_ca is not None:
        try:
            context.load_verify_locations(client_ca)
        except (ssl.SSLError, OSError) as error:
            raise ValueError(f"{client_ca} is no PEM file of certificates") from error
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def dns_names(cert: Path) -> frozenset[str]:
    """The names for which a station accepts this certificate: DNS names, else the common name."""
    certificate = x509.load_pem_x509_certificate(cert.read_bytes())
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        return frozenset(names.value.get_values_for_type(x509.DNSName))
    except x509.ExtensionNotFound:
        common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return frozenset(str(name.value) for name in common)


def shown_certificate(transport: asyncio.BaseTransport) -> Certificate | None:
    """The client certificate that came over a connection; None without one."""
    tls = transport.get_extra_info("ssl_object")
    der = None if tls is None else tls.getpeercert(binary_form=True)
    return None if der is None else read_certificate(der)


def read_certificate(der: bytes) -> Certificate:
    """What a certificate says of its owner; nothing good of one that cannot be read."""
    try:
        certificate = x509.load_der_x509_certificate(der)
        names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        usages = _usages(certificate)
    except ValueError:
        return Certificate(name="", for_clients=False)
    name = str(names[0].value) if len(names) == 1 else ""
    return Certificate(name, for_clients=ExtendedKeyUsageOID.CLIENT_AUTH in usages)


def _usages(certificate: x509.Certificate) -> list[x509.ObjectIdentifier]:
    try:
        return list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        return []
