"""How are lines of a device compared, when nobody can know everything in them?"""

import re

_SIGNAL = re.compile(r"^(\+EVT:RX_[0-9A-Z]+):-?[0-9]+:-?[0-9]+:")


def without_signal(line: str) -> str:
    """What a device says of a downlink is due without RSSI and SNR: nobody can know them before.

    `+EVT:RX_1:-71:9:UNICAST:7:c0ffee` -> `+EVT:RX_1:UNICAST:7:c0ffee`; any other line as it is.
    """
    return _SIGNAL.sub(r"\1:", line)
