"""What may a page print of a text that somebody else wrote?

Stations, devices and captures are hostile until proven otherwise: their texts may hold keys,
control characters, half characters (lone surrogates), text that runs backwards, or megabytes.
Escaping for HTML and XML is the writer's business; this file is about the rest.
"""

import re
from functools import lru_cache

TEXT_MAX = 600  # characters

_MASK = "****"

# A key is 16 bytes: as one word of 32 hex digits, or as 16 pairs, the way AT consoles print them.
_KEY_WORD = re.compile(r"(?<![0-9A-Za-z])[0-9A-Fa-f]{32}(?![0-9A-Za-z])")
_KEY_PAIRS = re.compile(
    r"(?<![0-9A-Za-z])(?:[0-9A-Fa-f]{2}[ :,-]){15}[0-9A-Fa-f]{2}(?![0-9A-Za-z])"
)
_KEY_NAMED = re.compile(
    r"((?:S_?KEY|APP_?KEY|NWK_?KEY|TOKEN|PASSWORD|PASSWD|SECRET)[\"']?\s*[=:,]\s*)"
    r"(\"[^\"]*\"|'[^']*'|[^\s,;}]+)",
    re.IGNORECASE,
)
_URL_USER = re.compile(r"://[^\s/@]+@")

# Control characters, half characters, and what turns the direction of writing (Trojan Source).
_INVISIBLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    r"\ufff0-\uffff\ud800-\udfff]"
)
_TOKEN_FLAG = re.compile(r"--?[\w-]*(?:key|token|password|secret)[\w-]*", re.IGNORECASE)


@lru_cache(maxsize=8192)
def shown(text: str, text_max: int = TEXT_MAX) -> str:
    """The text with keys masked, invisible characters made visible, and at most `text_max` long."""
    return visible(without_keys(text[: 4 * text_max]), text_max)


def visible(text: str, text_max: int = TEXT_MAX) -> str:
    """The text without a character that hides or breaks something, at most `text_max` long."""
    cut = text if len(text) <= text_max else text[: text_max - 1] + "…"
    return _INVISIBLE.sub(_picture, cut)


def without_keys(text: str) -> str:
    """The text with everything that looks like a key, token or password replaced by ****."""
    masked = _URL_USER.sub(f"://{_MASK}@", text)
    masked = _KEY_NAMED.sub(rf"\1{_MASK}", masked)
    return _KEY_PAIRS.sub(_MASK, _KEY_WORD.sub(_MASK, masked))


def shown_arguments(arguments: list[str]) -> list[str]:
    """Command-line arguments; the one after `--key` and the like is masked too."""
    previous = ["", *arguments]
    return [
        _MASK if _TOKEN_FLAG.fullmatch(before) else shown(argument)
        for before, argument in zip(previous, arguments, strict=False)
    ]


def decode(content: bytes) -> str:
    """UTF-8, with what is not UTF-8 replaced."""
    return content.decode("utf-8", errors="replace")


def _picture(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)  # the control pictures of Unicode: ␀ ␁ …
    return "�"
