"""Which line ends each reply of a LoRa-E5, which has no common last line?

Source: serial logs of modules with AT firmware 4.0.11 and Seeed's AT command specification 1.0.
Replies name their command: `+CMD: text`. A query (`AT+CMD?`) and a change have the same last line.
"""

import re

from bench.device.at import LineSpelling
from bench.device.grammar import NOTHING, Grammar, Reply

_COMMAND = re.compile(r"AT(?:\+(\w+))?(?:=?\?|=(.*))?", re.I)
_ERROR = r"\+\w+: ERROR\(.*\)|\+INFO: Input timeout"
_WORD = re.compile(r"[A-Z]\w*", re.I)

# What comes after Start, so that what is left of an earlier message is no refusal of this one.
_AMID_A_MESSAGE = "FPENDING|PORT: |RXWIN|LINK|Wait ACK|ACK Received|MULTICAST|Done"
_AMID_A_JOIN = "NORMAL|FORCE|Network joined|NetID|Join failed|Done"
_MESSAGES = ("MSG", "MSGHEX", "CMSG", "CMSGHEX", "PMSG", "PMSGHEX")

E5_LINES = LineSpelling(
    interjection=re.compile(r"\+LOG: "),
    event=re.compile(r"\+LOG: |\+LOWPOWER: "),
    boot=re.compile(r"\+RESET: OK"),
    status=NOTHING,
)


def reply_to(command: str) -> Reply:
    """The lines that end the reply to this command."""
    found = _COMMAND.fullmatch(command)
    name = (found[1] or "AT").upper() if found else "AT"
    value = (found[2] or "").strip() if found else ""
    if name in _MESSAGES:
        return _begins(name, "Start", _AMID_A_MESSAGE)
    if name == "JOIN":
        return _begins(name, "Start.*", _AMID_A_JOIN)
    if name == "DR" and not _is_plan(value):  # its last line names the modulation, if it comes
        return _ends(r"\+DR: .*SF.*", perhaps=r"\+DR: .*")
    if name in ("AT", "RESET", "FDEFAULT"):
        return _ends(rf"\+{name}: OK")
    if name == "ID" and not value:
        return _ends(r"\+ID: AppEui\b.*")
    subject = _WORD.match(value)
    if subject and name in ("ID", "KEY", "LW", "TEST", "CH", "DELAY"):
        return _ends(rf"\+{name}: (?i:{subject[0]})\b.*")
    return _ends(rf"\+{name}: (?!ERROR).*")


def _is_plan(value: str) -> bool:
    """Whether AT+DR sets a channel plan, such as EU868, and not DR5 or 5."""
    return re.fullmatch(r"(?!DR\d)[A-Z].*", value, re.I) is not None


def _begins(name: str, start: str, amid: str) -> Reply:
    """A reply that is the start of something longer; anything unknown in its place refuses."""
    refused = rf"\+{name}: (?!{start}|{amid}).*|{_ERROR}"
    return Reply(accepted=re.compile(rf"\+{name}: {start}"), refused=re.compile(refused))


def _ends(last: str, *, perhaps: str | None = None) -> Reply:
    return Reply(
        accepted=re.compile(last),
        refused=re.compile(_ERROR),
        perhaps=NOTHING if perhaps is None else re.compile(rf"(?!{_ERROR}){perhaps}"),
    )


# Continuous carriers, a sleep that only a character ends, another baud rate.
E5 = Grammar(
    lines=E5_LINES,
    reply_to=reply_to,
    question="AT+VER",
    answer="+VER:",
    forbidden=re.compile(r"AT\+TEST=TX(?:CW|CLORA)\b.*|AT\+LOWPOWER\b.*|AT\+UART=BR.*", re.I),
)
