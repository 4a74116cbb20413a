"""Where is the broker, and how does one log in?"""

import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

_PORTS = {"mqtt": 1883, "mqtts": 8883}  # IANA: mqtt, secure-mqtt


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker as its URL names it; neither `str` nor `repr` shows user or password."""

    host: str
    port: int
    tls: bool = False
    ca: Path | None = None
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'mqtts' if self.tls else 'mqtt'}://{host}:{self.port}"

    def tls_context(self) -> ssl.SSLContext | None:
        """What proves the broker's identity; None for mqtt://. ValueError for an unusable `ca`."""
        if not self.tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca)
            context.sslsocket_class = _HandshakingSocket
            return context
        except ssl.SSLError as error:
            raise ValueError(f"{self.ca} holds no certificate (PEM)") from error
        except OSError as error:
            raise ValueError(f"{self.ca} cannot be read: {error.strerror}") from error


class _HandshakingSocket(ssl.SSLSocket):
    """Closes itself when the handshake fails: paho drops it as it is."""

    def do_handshake(self, block: bool = False) -> None:
        """As in `ssl`."""
        try:
            super().do_handshake(block)
        except OSError:
            self.close()
            raise


def broker(url: str, ca: Path | None = None) -> Broker:
    """The broker of `mqtt[s]://[user[:password]@]host[:port]`; ValueError, without the password.

    `ca` is a PEM file with the certificates that may vouch for the broker, mqtts:// only;
    without it, those of the system may.
    """
    shape = "mqtt://[user:password@]host[:port], or mqtts://"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(f"not the URL of a broker; it is {shape}") from None
    if parts.scheme not in _PORTS:
        raise ValueError(f"a broker's URL begins with mqtt:// or mqtts://; it is {shape}")
    if not parts.hostname or not re.fullmatch(r"[A-Za-z0-9._:%-]{1,253}", parts.hostname):
        raise ValueError(f"the URL of the broker names no host; it is {shape}")
    if port == 0:
        raise ValueError("the port of a broker is 1 to 65535")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError(
            f"the URL of a broker ends after its port; it is {shape}"
            " (write / ? # @ in a password as %2F %3F %23 %40)"
        )
    if parts.password and not parts.username:
        raise ValueError("MQTT takes a password only with a user; write user:password@")
    tls = parts.scheme == "mqtts"
    if ca is not None and not tls:
        raise ValueError("a ca is for mqtts:// only")
    found = Broker(
        host=parts.hostname,
        port=port or _PORTS[parts.scheme],
        tls=tls,
        ca=ca,
        user=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
    )
    found.tls_context()
    return found
