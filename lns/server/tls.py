"""How does this server prove who it is, and how does a station?

Basics Station speaks TLS 1.2 at most, and compares the host name of its URI with the DNS names of
the certificate only: a certificate for an address needs the address as a DNS name.
"""

import asyncio
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from lns.server.access import Certificate

# X509_V_ERR_… of OpenSSL, of the certificate that a station shows.
_NOT_YET_VALID, _EXPIRED, _WRONG_PURPOSE, _REVOKED = 9, 10, 26, 23
_FOREIGN = {2, 7, 18, 19, 20, 21, 24}
_CERTIFICATE = {
    _NOT_YET_VALID: "is not valid yet",
    _EXPIRED: "has expired",
    _WRONG_PURPOSE: "is not made for clients",
    _REVOKED: "was revoked",
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
        if not file.is_file():
            raise ValueError(f"there is no file {file}")
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
