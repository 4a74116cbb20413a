"""How does this server prove who it is, and how does a station?

Basics Station speaks TLS 1.2 at most, and compares the host name of its URI with the DNS names of
the certificate only: a certificate for an address needs the address as a DNS name.
"""

import logging
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.x509.oid import NameOID

from lns.complaints import Complaints

log = logging.getLogger(__name__)


def _told_handshake(complaints: Complaints) -> type[ssl.SSLObject]:
    """TLS connections whose failed handshake is told; nobody else would hear of it."""

    class ToldHandshake(ssl.SSLObject):
        def do_handshake(self) -> None:
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as error:
                complaints.complain("TLS handshake refused: %s", error.reason or error)
                raise

    return ToldHandshake


def server_context(cert: Path, key: Path, client_ca: Path | None = None) -> ssl.SSLContext:
    """TLS 1.2 and later with this certificate; ValueError says which file cannot be used.

    With `client_ca` a client certificate is asked for, and one of another CA ends the handshake.
    Whether it is missing is for `lns.access` to judge, so that the refusal can be told.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.sslobject_class = _told_handshake(Complaints(log))
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


def common_name(peer_certificate: Mapping[str, Any] | None) -> str | None:
    """The common name in what `getpeercert` returned; None without a certificate."""
    if not peer_certificate:
        return None
    pairs = (pair for group in peer_certificate.get("subject", ()) for pair in group)
    return next((str(value) for name, value in pairs if name == "commonName"), "")
