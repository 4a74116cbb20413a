"""Which parts of a serial line must never be written down?

Keys go over the line in clear, in commands and in the answers to `AT+APPKEY=?`. A capture holds
them neither whole nor in part, as far as a line can tell; payloads look the same and stay.
"""

import re

MASK = "***"

# AT+APPKEY=…, AT+KEY=APPKEY,"…" and +KEY: APPKEY … (LoRa-E5),
# AT+ADDMULC=class:address:key:key:… (multicast).
_NAMED = re.compile(r"(KEY\b[^A-Z0-9?]*|(?:ADDMULC|CRYPIV|PWORD)\W+)(?!\?)(?=.*\w).*", re.I)
_ABOUT_A_KEY = re.compile(r"AT\+(?:\w*KEY\b|ADDMULC|LSTMULC|CRYPIV|PWORD)", re.I)
_KEY_LONG = re.compile(r"(?:[0-9A-F]{2}[ :-]){15,}[0-9A-F]{2}|[0-9A-F]{32,}", re.I)
_REST_OF_A_LINE = re.compile(r"[0-9A-F]{8,}\"?|(?:[0-9A-F]{2}[ :-]){4,}[0-9A-F]{2}\"?", re.I)
_PAYLOAD = re.compile(
    r"(?:\+EVT:RX_[12BC]:-?\d+:-?\d+:(?:UNI|MULTI)CAST:\d+:|\+EVT:RXP2P:-?\d+:-?\d+:"
    r"|AT\+(?:SEND|RECV)=\d+:|AT\+LPSEND=\d+:[01]:|AT\+PSEND=)[0-9A-F]*"
    # LoRa-E5: messages, the raw packets of its test mode, and what it logs of the air.
    r"|AT\+C?MSG(?:HEX)?=\"?[0-9A-F ]*\"?|\+C?MSG(?:HEX)?: PORT: \d+; RX: \"[0-9A-F ]*\""
    r"|AT\+TEST=TXLRPKT,\"?[0-9A-F ]*\"?|\+TEST: (?:TXLRPKT|RX) \"[0-9A-F ]*\""
    r"|\+LOG: DEBUG [^,]*LORA [RT]X, [0-9A-F ]*",
    re.I,
)
_E5_ERROR = re.compile(r"\+KEY: ERROR\(-?\d+\)")


def masked(text: str) -> str:
    """The line with every key replaced; payloads stay."""
    if _PAYLOAD.fullmatch(text) or _E5_ERROR.fullmatch(text):
        return text
    if _REST_OF_A_LINE.fullmatch(text):  # its beginning, which would say what it is, is lost
        return MASK
    return _KEY_LONG.sub(MASK, _NAMED.sub(rf"\1{MASK}", text))


def is_about_a_key(command: str) -> bool:
    """Whether a command sets or asks for a key, so that no reply to it may be written down."""
    return _ABOUT_A_KEY.match(command) is not None
