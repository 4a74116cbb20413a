"""Is what an operator is told of a mistake in his files a sentence, and a whole one?

What he has written stands in it where it is no secret; what he may write instead is all of it.
"""

import re
from collections.abc import Iterable, Iterator

from bench.verdict.owner import Found, Scrutiny

_PASSWORD = r"write / \? # @ in a password as %2F %3F %23 %40"
_REDIS = (
    r"; it is redis://\[\[user\]:password@\]host\[:port\]\[/database\], or rediss://, or redis"
    r"\+sentinel://\[\[user\]:password@\]host\[:port\]\[,host\[:port\]\.\.\.\]/service\[/database\]"
)
_BROKER = r"; it is mqtt://\[user:password@\]host\[:port\], or mqtts://"
_BY_NAME = r"(?:tc|cups): "
_NAMES = r"[a-z0-9_]+(?:, [a-z0-9_]+)*"
_WORDS = r"'[^']+'(?:, '[^']+')*(?: or '[^']+')?"
_SENTENCES = (
    # Of TOML and of pydantic.
    rf"unknown key; (?:did you mean '[a-z0-9_]+'\?|known here: {_NAMES})",
    "is missing",
    r'has to be a list, such as \["one", "two"\]',
    r"is a list of tables: write \[\[([a-z]+)\]\], in two brackets, at the head of each",
    r"is one table: write \[([a-z]+)\], in single brackets, once, and its keys below",
    r"Input should be (?:greater|less) than or equal to -?\d+",
    rf"Input should be (?:{_WORDS}|\d+ or \d+)",
    r"Input should be a valid (?:string|integer|boolean|list|dictionary)"
    r"(?:, unable to (?:parse string as an integer|interpret input))?",
    r"Input should be a valid integer, got a number with a fractional part",
    r"String should (?:match pattern '.+'|have at (?:least|most) \d+ characters?)",
    r"List should have at most 5 items after validation, not ([6-9]|\d\d+)",
    # Of values.
    r"a key is (?:text: )?32 hex digits, env:NAME or file:PATH",
    "a token is one line of text, env:NAME or file:PATH",
    "an EUI is text: 16 hex digits(?:[,;].+)?",
    "a DevAddr is text: 8 hex digits(?:[,;].+)?",
    r"the environment has no variable \S+",
    r"cannot read the key file \S+",
    r"unknown region '[^']*'; known: [A-Z0-9-]+(?:, [A-Z0-9-]+)+",
    r'either "any" or a list of station EUIs',
    "the name of a file has no NUL in it",
    r"the name of a capture ends in \.jsonl, by which scores and reports find it",
    r"an (?:otaa|abp) device needs [a-z_]+(?: and [a-z_]+)*",
    "only a join accept tells a device how to listen and where to send;"
    " leave out [a-z0-9_]+(?: and [a-z0-9_]+)*",
    "belongs to another device already; give each its own",
    r"[A-Z0-9-]+ has \d+ to \d+(?: for downlinks)?",
    "the channels of [A-Z0-9-]+ are fixed",
    r"no station listens at \d+ Hz",
    "this station has a token already",
    r'an address is "host:port", such as "127\.0\.0\.1:6090"',
    "between the dots of a host name are 1 to 63 characters",
    r"(?:tc: |cups: )?a URI for stations has scheme, host and port,"
    r" such as (?:wss|https)://lns\.example:443",
    "a URI for stations has no query",
    r"too long: a station takes 127 characters, not (12[89]|1[3-9]\d|[2-9]\d\d|\d{4,})",
    # Of what belongs together.
    r"is needed: stations cannot connect to (?:0\.0\.0\.0|::)",
    r"with \[tls\] it has to begin with wss://",
    "a station shows a certificate or a token, never both; leave out tokens or client_ca",
    "is about certificates of stations; add client_ca",
    r"keys would leave this host in clear; add \[tls\] or listen on 127\.0\.0\.1",
    r"whoever asks would get keys; add tls\.tokens or tls\.client_ca, or listen on 127\.0\.0\.1",
    "with any_station every station would get the keys of all; leave any_station out,"
    r" or listen on 127\.0\.0\.1",
    # Of other files.
    r"there is no (?:file|folder) .+",
    r".+ cannot be read: [A-Z].+",
    r"\S+ and \S+ are no PEM pair of certificate and key",
    r"\S+ is no PEM file of certificates",
    r"\S+ holds no certificate \(PEM\)",
    # Of URLs.
    r"(?:[a-z+]+:// is not served|is no URL); served are: [a-z+]+://(?:, [a-z+]+://)+",
    "names no file; it is sqlite://PATH",
    rf"(?:not the URL of a Redis server|a redis:// URL names one host; which of several is the"
    r" master the Sentinels tell|the URL of a Redis server names one of its hosts twice|user and"
    r" password stand once, before the first host|a URL of Sentinels names the service they watch,"
    rf" as in /mymaster){_REDIS}",
    rf"the URL of a Redis server ends with a database, a number{_REDIS} \({_PASSWORD}\)",
    rf"(?:not the URL of a broker|a broker's URL begins with mqtt:// or mqtts://|the URL of the"
    rf" broker names no host){_BROKER}",
    "the port of a broker is 1 to 65535",
    rf"the URL of a broker ends after its port{_BROKER} \({_PASSWORD}\)",
    "MQTT takes a password only with a user; write user:password@",
    "a ca is for mqtts:// only",
    # Of what CUPS hands out.
    r"stations/\S+: not an EUI: '[^']*'",
    r"stations/\S+: [0-9A-F]{16} has a folder already",
    rf"stations/\S+: {_BY_NAME}(?:"
    r"a station takes no path here, not even /"
    r"|a URI for stations has scheme, host and port, such as (?:wss|https)://lns\.example:443"
    r"|credentials need a \.trust file|a \.crt file needs a \.key file"
    r"|credentials of more than 65535 bytes|\.uri: longer than 255 characters"
    r"|\.(?:trust|crt): no certificate that a station can read: .+"
    r"|\.(?:trust|crt): CUPS hands out one certificate, not ([2-9]|\d\d+)"
    r"|\.key: no private key that a station can read \(P-256 or RSA\)"
    r'|\.key: without a \.crt it is a token, "Authorization: …"'
    r"|\.(?:trust|crt|key): a station cannot read \d+ bytes of DER; use P-256 or RSA)",
    r"stations/\S+: 'ascii' codec can't decode byte .+",
)
_LINES = re.compile(
    rf"[^:]+\.toml:\d+: .+?: (?:{'|'.join(_SENTENCES)})"
    r"|[^:]+\.toml:\d+: not TOML: .+"
    r"|.+: cannot be read: (?:[A-Z].+|it is not UTF-8|it has more than 64 MiB"
    r"|it is nested too deeply)"
    r"|stdout: [A-Z].+"
)


def half_told(lines: Iterable[str], check: Scrutiny) -> Iterator[Found]:
    """Lines that are no sentence, or not all of one."""
    for line in lines:
        if not _LINES.fullmatch(line):
            yield check.wrong("line", "a sentence about a mistake", line)
