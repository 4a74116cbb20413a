"""Where does a server listen, and where do stations find it?

A station accepts a URI only with an explicit port, and at most 127 characters of it (Basics
Station, `/router-info`).
"""

import ipaddress
import re
from urllib.parse import SplitResult, urlsplit

from lns.lorawan.identifiers import Eui

STATION_URI_MAX = 127
DISCOVERY_PATH = "/router-info"
STATION_PATH = "/router/"
_EUI_DIGITS = 16
_LOGIN = re.compile(r"(?<=:)//[^/@\s]*@")


def host_and_port(text: str) -> tuple[str, int]:
    """The parts of "127.0.0.1:6090" or "[::1]:6090"; ValueError if it is neither."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not (colon and host and port.isascii() and port.isdigit() and int(port) <= 65_535):
        raise ValueError('an address is "host:port", such as "127.0.0.1:6090"')
    try:
        host.encode("idna")  # as whoever looks the name up does
    except UnicodeError:
        raise ValueError("between the dots of a host name are 1 to 63 characters") from None
    return host, int(port)


def address(text: str) -> str:
    """An address as it was written; ValueError if it is none."""
    host_and_port(text)
    return text


def uri(scheme: str, host: str, port: int) -> str:
    """A URI without a path, with brackets where an IPv6 address needs them."""
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def is_everywhere(host: str) -> bool:
    """Whether this address means every address of the host: nobody can connect to it by name."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Whether only this host itself can connect."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def public_uri(text: str) -> str:
    """A URI to hand to stations, without a slash at its end; ValueError says what is wrong."""
    parts = _split(text, ("ws", "wss"))
    if parts.query or parts.fragment:
        raise ValueError("a URI for stations has no query")
    longest = len(station_uri(text.rstrip("/"), Eui("0" * _EUI_DIGITS)))
    if longest > STATION_URI_MAX:
        raise ValueError(f"too long: a station takes {STATION_URI_MAX} characters, not {longest}")
    return text.rstrip("/")


FILE_SCHEMES = {"tc": ("ws", "wss"), "cups": ("http", "https")}


def file_uri(text: str, file: str) -> str:
    """A URI as `tc.uri` or `cups.uri` (`file`) has it, without any path; ValueError otherwise.

    Basics Station ends at its start when there is a path, even "/".
    """
    parts = _split(text, FILE_SCHEMES[file])
    if parts.path or parts.query or parts.fragment:
        raise ValueError("a station takes no path here, not even /")
    return text


def without_path(text: str) -> str:
    """Scheme, host and port of a URI."""
    parts = urlsplit(text)
    return f"{parts.scheme}://{parts.netloc}"


def station_uri(public: str, station: Eui) -> str:
    """Where the data connection of a station goes."""
    return f"{public}{STATION_PATH}{station}"


def _split(text: str, schemes: tuple[str, ...]) -> SplitResult:
    try:
        parts = urlsplit(text)
        complete = parts.scheme in schemes and parts.hostname and parts.port
    except ValueError:
        complete = None
    if not complete or parts.username is not None or not text.isascii() or " " in text:
        example = f"{schemes[-1]}://lns.example:443"
        raise ValueError(f"a URI for stations has scheme, host and port, such as {example}")
    return parts


def without_login(text: str) -> str:
    """A text in which the user and the password of every URL are left out."""
    return _LOGIN.sub("//", text)
