"""What does one version of RUI3 do otherwise than another?"""

import re
from dataclasses import dataclass

_VERSION = re.compile(r"RUI_(\d+)\.(\d+)\.(\d+)_(\w+)-?.*")
_SILENT = ((4, 0, 0), (4, 0, 1), (4, 0, 3))


@dataclass(frozen=True, slots=True)
class Rui3Version:
    """A firmware by the name it gives itself, such as RUI_4.1.0_RAK3172-H."""

    name: str

    @property
    def number(self) -> tuple[int, int, int]:
        """Major, minor, patch."""
        found = _VERSION.fullmatch(self.name)
        assert found is not None, f"{self.name} is no version of RUI3"
        return int(found[1]), int(found[2]), int(found[3])

    @property
    def tells_ends(self) -> bool:
        """Whether there are `TX_DONE`, `TXP2P DONE` and the number in `FAILED(n)`."""
        return self.number >= (4, 0, 0) and self.number not in _SILENT

    @property
    def is_new_stack(self) -> bool:
        """LoRaMac 4.7 instead of 4.4: DevNonce counts, and AT+RETY does not reach the MAC."""
        return self.number >= (4, 2, 0)

    @property
    def names_unknown_commands(self) -> bool:
        """Whether an unknown command is repeated in the answer, as up to 3.5.0."""
        return self.number <= (3, 5, 0)
