"""Which Redis does a URL name?"""

import re
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

_PORT = 6379
_SHAPE = "redis://[[user]:password@]host[:port][,host[:port]...][/database], or rediss://"
_URL = re.compile(
    r"(?P<scheme>rediss?)://(?:(?P<login>[^/?#]*)@)?(?P<hosts>[^/?#@]*)(?P<rest>.*)", re.DOTALL
)

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class RedisServer:
    """A server as its URL names it; neither `str` nor `repr` shows user or password.

    `others`: host and port of further servers with the same data, user and password, of which one
    is the master and all others are its replicas (https://redis.io/docs/latest/commands/role/).
    """

    host: str
    port: int = _PORT
    database: int = 0
    tls: bool = False
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    others: tuple[Address, ...] = ()

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Host and port of every server, in the order of the URL."""
        return ((self.host, self.port), *self.others)

    def __str__(self) -> str:
        hosts = ",".join(spelled(address) for address in self.addresses)
        return f"{'rediss' if self.tls else 'redis'}://{hosts}/{self.database}"


def spelled(address: Address) -> str:
    """`host:port`, with brackets where an IPv6 address needs them."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def redis_server(url: str) -> RedisServer:
    """The server of `redis[s]://[[user]:password@]host[:port][,host[:port]...][/database]`.

    ValueError, without the password.
    """
    parts = _URL.fullmatch(url)
    if parts is None:
        raise _mistake("not the URL of a Redis server")
    addresses = [_address(text) for text in parts["hosts"].split(",")]
    if len(set(addresses)) < len(addresses):
        raise _mistake("the URL of a Redis server names one of its hosts twice")
    user, _, password = (parts["login"] or "").partition(":")
    if "@" in password and "," in password:
        raise _mistake("user and password stand once, before the first host")
    database = parts["rest"].strip("/") or "0"
    if not (database.isascii() and database.isdecimal()):
        raise _mistake(
            "the URL of a Redis server ends with a database, a number",
            " (write / ? # @ in a password as %2F %3F %23 %40)",
        )
    (host, port), *others = addresses
    return RedisServer(
        host=host,
        port=port,
        database=int(database),
        tls=parts["scheme"] == "rediss",
        user=unquote(user) or None,
        password=unquote(password) or None,
        others=tuple(others),
    )


def _address(text: str) -> Address:
    try:
        parts = urlsplit(f"//{text}")
        port = parts.port
    except ValueError:
        port = 0
    if port == 0 or not parts.hostname:
        raise _mistake("not the URL of a Redis server")
    return parts.hostname, _PORT if port is None else port


def _mistake(said: str, advice: str = "") -> ValueError:
    return ValueError(f"{said}; it is {_SHAPE}{advice}")
