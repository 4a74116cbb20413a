"""What does this version of RUI3 do otherwise than the others?"""

import re
from dataclasses import dataclass

from bench.device.seam import UnknownFirmware
from bench.device.traits import Traits

_VERSION = re.compile(r"RUI_(\d+)\.(\d+)\.(\d+)(.*)")
_WITHOUT_TX_DONE = ((4, 0, 0), (4, 0, 1), (4, 0, 3))


@dataclass(frozen=True, slots=True)
class Rui3Version:
    """A version as `AT+VER=?` tells it, `text` in full."""

    text: str
    number: tuple[int, int, int]

    @property
    def tells_tx_done(self) -> bool:
        """Whether `+EVT:TX_DONE` ends an unconfirmed message; not in 3.x, 4.0.0, 4.0.1, 4.0.3."""
        return self.number >= (4, 0, 0) and self.number not in _WITHOUT_TX_DONE

    @property
    def obeys_retries(self) -> bool:
        """Whether `AT+RETY` reaches the MAC; from 4.2 on only LinkADRReq makes it repeat."""
        return self.number < (4, 2, 0)

    @property
    def counts_dev_nonces(self) -> bool:
        """Whether DevNonces count up (from 4.2, LoRaMac-node 4.7) instead of being drawn."""
        return self.number >= (4, 2, 0)

    @property
    def traits(self) -> Traits:
        """What follows from the version for those who do not speak the dialect."""
        return Traits(
            obeys_retries=self.obeys_retries,
            sets_counters=False,
            tells_windows=True,
            counts_dev_nonces=self.counts_dev_nonces,
            first_f_cnt=1,
        )


def rui3_version(text: str) -> Rui3Version:
    """The version in an answer such as `RUI_4.1.0_RAK3172-H`; UnknownFirmware in any other."""
    found = _VERSION.fullmatch(text.strip())
    if found is None:
        raise UnknownFirmware(f"{text!r} is no version of RUI3")
    major, minor, patch = (int(digits) for digits in found.groups()[:3])
    return Rui3Version(text.strip(), (major, minor, patch))
