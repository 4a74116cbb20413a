"""Is what a network server says to a person a whole sentence, and does it agree with the capture?

A line of the log is one that a server or a consumer has, at its level; what it says of others is
printable, and what a person may type into a shell means what it says there. Nothing is logged as an
error: that would be a mistake of the program itself. Of what is in the capture as well, the line
names whom it is about, and why, in the same words. The log may leave lines out, of which so many
are written in a minute; it never has one of its own.

Of a mistake in a file an operator is told the whole: what he has written, where it is no secret,
and what he may write instead.
"""

import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from bench.capture.reading import Event
from bench.verdict.owner import Found, Scrutiny

_PARKED = re.compile(r"WARNING (\d+) messages are parked: they wait for longer than (\d+) s")
_TOO_LONG = re.compile(r"WARNING (.+) takes longer than (\d+) us;")
_WAITED_US = {"the store of the claims": 250_000, "the store": 2_000_000}


def _too_late(one: Event) -> str | None:
    if one.get("answer") != "TooLate":
        return None
    return f"WARNING {one['station']}: TooLate ({one.get('frame_id')}): "


def _in_a_row(one: Event) -> str:
    if one["stage"] == "over":
        return f"WARNING {one['station']}: answers again, after {one['n']} TooLate"
    said = f"WARNING {one['station']}: cannot answer: {one['n']} TooLate in a row, at last because"
    return f"{said} {one['cause']}; what it hears first stays unanswered"


_TOLD_TWICE: tuple[tuple[re.Pattern[str], str, Callable[[Event], str | None]], ...] = (
    (
        re.compile(r"WARNING \S+: internal error \(.*"),
        "lns.failure",
        lambda one: f"WARNING {one['station']}: internal error ({one['during']}): {one['error']}",
    ),
    (
        re.compile(r"WARNING [0-9A-F]{16}: TooLate \("),
        "lns.outcome",
        _too_late,
    ),
    (
        re.compile(r"WARNING [0-9A-F]{16}: (answers again|cannot answer)"),
        "lns.too_late",
        _in_a_row,
    ),
    (
        re.compile(r"WARNING [0-9A-F]{16}: unreadable message: (?!no JSON|updf|jreq)"),
        "lns.unreadable",
        lambda one: f"WARNING {one['station']}: unreadable message: {one['why']}",
    ),
)
"""Which lines, the kind of event, and how the line of an event begins; None: it has none."""


def disagreements(
    lines: Sequence[str], events: Sequence[Event], retry_s: Collection[int], check: Scrutiny
) -> Iterator[Found]:
    """Lines that no event stands for; a message may wait for one of `retry_s`."""
    for shape, kind, said_of in _TOLD_TWICE:
        if of_kind := [line for line in lines if shape.match(line)]:
            told = {said_of(one) for one in events if one["kind"] == kind} - {None}
            yield from _alone(of_kind, told, check)
    for one in filter(None, map(_TOO_LONG.match, lines)):
        yield from check.same(
            f"how long {one[1]} may take (us)", _WAITED_US.get(one[1]), int(one[2])
        )
    parked = [found for found in map(_PARKED.match, lines) if found]
    due = sum(1 for one in events if one["kind"] == "upstream.parked")
    yield from check.same("messages put aside", due, sum(int(found[1]) for found in parked))
    for found in parked:
        if int(found[2]) not in retry_s:
            yield check.wrong("how long they wait (s)", [*retry_s][-1], found[2])


def _alone(lines: Iterable[str], told: set[str | None], check: Scrutiny) -> Iterator[Found]:
    for line in Counter(lines):
        if not any(one and line.partition("\n")[0].startswith(one) for one in told):
            yield check.wrong("line", "what the capture tells", line)


_EUI, _SAID, _N = r"[0-9A-F]{16}", r"[ -~]{1,200}", r"\d+"
_MANY, _PEER = r"[1-9]\d*", rf"(?:{_EUI}|[0-9a-f.:]+|-)"
_LATE = "|".join(
    (
        "the clock of the station is not known",
        "the frame is of a radio session that does not run",
        "the frame was told too late",
    )
)
_REFUSED = "(?:QueueFull|TooLong|UnknownDevice|BelongsToAnotherServer)"
_OPEN = r"the (?:devices|store|outbox|tokens|key) file (?P<file>.+) can be"
_SHAPES = {
    "INFO": (
        rf"{_EUI}: station [ -~]{{0,200}}",
        rf"{_PEER}: connected from \S+",
        rf"{_PEER}: disconnected \({_SAID}\); {_N} texts, {_N} binary",
        rf"{_EUI}: CUPS: [A-Za-z, ]+",
        r"CUPS: listening https?://\S+:\d+/update-info",
        rf"{_MANY} more lines were not logged",
        "the store(?: of the claims)? is back",
        rf".+ is written again; {_MANY} events are missing",
        r".+ is full; it goes on in a new file, this one is .+\.1 now",
        r".+ takes messages on \S+ again",
        rf".+ is (?:connected|back); {_N} messages wait",
        r"\S+ brings \S+",
        "stopping",
        r"listening wss?://\S+ \(nobody can be told: .+\)",
    ),
    "WARNING": (
        rf"{_EUI}: unreadable message: {_SAID}",
        rf"{_EUI}: TooLate \([^()]+\): (?:{_LATE})",
        rf"{_EUI}: cannot answer: {_MANY} TooLate in a row, at last because (?:{_LATE});"
        " what it hears first stays unanswered",
        rf"{_EUI}: answers again, after {_MANY} TooLate",
        rf"{_EUI}: internal error \((?:reception|message|downlink)\): \w+(?: at \S+\.py:\d+)?\n"
        r"(?:.+\n)*",
        rf"{_SAID}: the downlink is refused: {_REFUSED}",
        rf"{_SAID}: (?:the topic does not name a DevEUI|more than {_MANY} bytes)",
        rf"{_SAID}: not a downlink: {_SAID}",
        rf"{_PEER}: (?:CUPS: )?refused: {_SAID}",
        rf"{_MANY} more complaints were not logged",
        r".+; nobody can say who owns a frame until it is back",
        r".+; devices are not answered until it is back",
        rf".+ cannot be written: .+; {_MANY} events are missing by now",
        rf"{_OPEN} (?:read|written|read and written) by others \(mode [0-7]{{3}}\): (?P<does>.+)",
        r".+ has no DNS name \S+ \(it has: .+\): stations will refuse it",
        rf"{_MANY} messages are parked: they wait for longer than {_MANY} s",
        r".+ refuses messages on \S+: .+",
        rf".+; {_N} messages wait",
        r".+; \S+ is not heard",
        r".+ lets nobody read \S+: .+",
        "the (?:outbox|inbox|store) .+",
        rf"{_EUI}: frame {_N} stays claimed",
        rf"{_EUI}: nothing is sent: .+",
    ),
}  # fmt: skip
_LOGGED = re.compile(
    "|".join(f"{level} (?:{one})" for level, shapes in _SHAPES.items() for one in shapes)
)

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def oddities(lines: Iterable[str], check: Scrutiny) -> Iterator[Found]:
    """What no server says, or says in other words."""
    for line in dict.fromkeys(lines):
        found = _LOGGED.fullmatch(line)
        if found is None or _CONTROL.search(line):
            yield check.wrong("line", "one that a network server has", line)
        elif does := found["does"]:
            yield from check.same("what to do", shlex.join(["chmod", "600", found["file"]]), does)


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
_MISTAKES = re.compile(
    rf"[^:]+\.toml:\d+: .+?: (?:{'|'.join(_SENTENCES)})"
    r"|[^:]+\.toml:\d+: not TOML: .+"
    r"|.+: cannot be read: (?:[A-Z].+|it is not UTF-8|it has more than 64 MiB"
    r"|it is nested too deeply)"
    r"|stdout: [A-Z].+"
)


def half_told(lines: Iterable[str], check: Scrutiny) -> Iterator[Found]:
    """Lines that are no sentence, or not all of one."""
    for line in lines:
        if not _MISTAKES.fullmatch(line):
            yield check.wrong("line", "a sentence about a mistake", line)
