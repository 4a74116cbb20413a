"""With which line does RUI3 end the answer to a command?"""

from enum import StrEnum


class Status(StrEnum):
    """The last line, or what stands for it."""

    OK = "OK"
    ERROR = "AT_ERROR"
    PARAM_ERROR = "AT_PARAM_ERROR"
    BUSY_ERROR = "AT_BUSY_ERROR"
    NO_CLASS_B = "AT_NO_CLASSB_ENABLE"
    NO_NETWORK_JOINED = "AT_NO_NETWORK_JOINED"
    MODE_NO_SUPPORT = "AT_MODE_NO_SUPPORT"
    NOT_FOUND = "AT_COMMAND_NOT_FOUND"
    UNSUPPORTED_BAND = "AT_UNSUPPORTED_BAND"
    OK_WITHOUT_END = "OK, and no line end"
    NOTHING = "nothing: it resets, or answers later"
