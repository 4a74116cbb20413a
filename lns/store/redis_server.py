"""Which Redis does a URL name?"""

import re
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

_PORT = 6379
_SENTINEL_PORT = 26379
_SHAPE = (
    "redis://[[user]:password@]host[:port][/database], or rediss://, or"
    " redis+sentinel://[[user]:password@]host[:port][,host[:port]...]/service[/database]"
)
_URL = re.compile(
    r"redis(?P<tls>s)?(?P<sentinel>\+sentinel)?://"
    r"(?:(?P<login>[^/?#]*)@)?(?P<hosts>[^/?#@]*)(?P<rest>.*)",
    re.DOTALL,
)
_SERVICE = re.compile(r"[A-Za-z0-9._-]{1,100}")

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class RedisServer:
    """A server as its URL names it; neither `str` nor `repr` shows user or password.

    With a `service` it is whichever server the `sentinels` call the master of that name; user and
    password are those of the server, the Sentinels are asked without.
    """

    host: str = ""
    port: int = _PORT
    database: int = 0
    tls: bool = False
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    sentinels: tuple[Address, ...] = ()
    service: str = ""

    def __str__(self) -> str:
        scheme = "rediss" if self.tls else "redis"
        if not self.service:
            return f"{scheme}://{spelled((self.host, self.port))}/{self.database}"
        hosts = ",".join(map(spelled, self.sentinels))
        return f"{scheme}+sentinel://{hosts}/{self.service}/{self.database}"


def spelled(address: Address) -> str:
    """`host:port`, with brackets where an IPv6 address needs them."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def redis_server(url: str) -> RedisServer:
    """The server of a `redis[s]://` or `redis[s]+sentinel://` URL; ValueError, without password."""
    parts = _URL.fullmatch(url)
    if parts is None:
        raise _mistake("not the URL of a Redis server")
    by_sentinel = parts["sentinel"] is not None
    hosts = parts["hosts"].split(",")
    addresses = [_address(text, _SENTINEL_PORT if by_sentinel else _PORT) for text in hosts]
    if len(addresses) > 1 and not by_sentinel:
        raise _mistake(
            "a redis:// URL names one host; which of several is the master the Sentinels tell"
        )
    if len(set(addresses)) < len(addresses):
        raise _mistake("the URL of a Redis server names one of its hosts twice")
    user, _, password = (parts["login"] or "").partition(":")
    if "@" in password and "," in password:
        raise _mistake("user and password stand once, before the first host")
    service, database = "", parts["rest"].strip("/")
    if by_sentinel:
        service, _, database = database.partition("/")
        if not _SERVICE.fullmatch(service):
            raise _mistake("a URL of Sentinels names the service they watch, as in /mymaster")
    if not re.fullmatch("[0-9]*", database):
        raise _mistake(
            "the URL of a Redis server ends with a database, a number",
            " (write / ? # @ in a password as %2F %3F %23 %40)",
        )
    host, port = ("", 0) if by_sentinel else addresses[0]
    return RedisServer(
        host=host,
        port=port,
        database=int(database or 0),
        tls=parts["tls"] is not None,
        user=unquote(user) or None,
        password=unquote(password) or None,
        sentinels=tuple(addresses) if by_sentinel else (),
        service=service,
    )


def _address(text: str, usual_port: int) -> Address:
    try:
        parts = urlsplit(f"//{text}")
        port = parts.port
    except ValueError:
        port = 0
    if port == 0 or not parts.hostname:
        raise _mistake("not the URL of a Redis server")
    return parts.hostname, usual_port if port is None else port


def _mistake(said: str, advice: str = "") -> ValueError:
    return ValueError(f"{said}; it is {_SHAPE}{advice}")
