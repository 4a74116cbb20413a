"""Whose matter is it, when something is not as it should be?"""

from enum import StrEnum


class Owner(StrEnum):
    """The closed list of those who can own a finding; the value is what captures and tables have.

    `shown` is the word for people.
    """

    LNS = "LNS"
    GATEWAY = "gateway"
    DEVICE = "device"
    AIR = "air"
    APPLICATION = "application"
    STORE = "store"
    BROKER = "broker"
    BENCH = "bench"

    @property
    def shown(self) -> str:
        return "network server" if self is Owner.LNS else self.value
