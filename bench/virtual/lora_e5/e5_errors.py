"""With which numbers does a LoRa-E5 refuse a command?"""

from enum import IntEnum


class Error(IntEnum):
    """The number in `+X: ERROR(-n)`."""

    PARAMETERS = -1
    UNKNOWN = -10
    FORMAT = -11
    MODE = -12
    TOO_MANY = -20
    TOO_LONG = -21
    CHARACTER = -23


class E5Refusal(Exception):
    """A command that is not carried out; `error` says why."""

    def __init__(self, error: Error) -> None:
        super().__init__(error.name)
        self.error = error


def require(fine: bool, error: Error = Error.PARAMETERS) -> None:
    """E5Refusal unless it is fine."""
    if not fine:
        raise E5Refusal(error)


def whole(text: str, low: int, high: int) -> int:
    """A whole number in a range; E5Refusal for anything else."""
    digits = text.strip().removeprefix("-")
    require(digits.isascii() and digits.isdecimal())
    require(low <= int(text) <= high)
    return int(text)


def octets(text: str, count: int | None = None) -> bytes:
    """The bytes in quoted or plain hexadecimal, blanks allowed; E5Refusal for anything else."""
    digits = text.strip().strip('"').replace(" ", "").replace(":", "")
    try:
        data = bytes.fromhex(digits)
    except ValueError:
        raise E5Refusal(Error.CHARACTER) from None
    require(count is None or len(data) == count)
    return data
