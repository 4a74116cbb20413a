"""What does a LoRa-E5 keep in flash, and with which values does it leave the factory?"""

from typing import Any

from bench.virtual.board.nvm import Nvm
from bench.virtual.lorawan.channel_plan import ChannelPlan, channel_plan
from bench.virtual.mac_settings import MacSettings

REGIONS = ("EU868", "US915")
_DEFAULTS: dict[str, Any] = {
    "mode": "LWABP",
    "region": "EU868",
    "dr": 0,
    "adr": True,
    "power_dbm": 14,
    "class": "A",
    "port": 8,
    "rept": 1,
    "retry": 0,
    "dc": True,
    "jdc": True,
    "net": True,
    "channels": None,
    "freqs_hz": {},
    "rx2": None,
    "delays_ms": {"RX1": 1000, "RX2": 2000, "JRX1": 5000, "JRX2": 6000},
    "DevAddr": "00000000",
    "AppEui": "0" * 16,
    "APPKEY": "0" * 32,
    "NWKSKEY": "0" * 32,
    "APPSKEY": "0" * 32,
    "dev_nonce": 0,
    "counters": None,
    "log": "",
}


class E5Memory:
    """Settings by name; `dev_eui` is what is on the label."""

    def __init__(self, nvm: Nvm, *, dev_eui: str) -> None:
        self._nvm = nvm
        self._dev_eui = dev_eui

    def get(self, name: str) -> Any:
        """A setting, or how it left the factory."""
        return self._nvm.get(name, self._dev_eui if name == "DevEui" else _DEFAULTS[name])

    def put(self, **values: Any) -> None:
        """Keep settings."""
        self._nvm.put(**values)

    def factory(self) -> None:
        """AT+FDEFAULT: all settings as they left the factory; the DevNonce counts on."""
        self._nvm.erase("boots", "dev_nonce", "DevEui")

    @property
    def plan(self) -> ChannelPlan:
        """The band plan."""
        return channel_plan(self.get("region"))

    def mac_settings(self) -> MacSettings:
        """What the MAC is to do."""
        plan, delays_ms = self.plan, self.get("delays_ms")
        rx2_hz, rx2_dr = self.get("rx2") or (plan.rx2_freq_hz, plan.rx2_dr)
        channels = self.get("channels")
        return MacSettings(
            plan=plan,
            dr=self.get("dr"),
            power_dbm=self.get("power_dbm"),
            adr=self.get("adr"),
            duty_cycle=self.get("dc"),
            class_c=self.get("class") == "C",
            public=self.get("net"),
            rx1_delay_us=delays_ms["RX1"] * 1_000,
            rx2_delay_us=delays_ms["RX2"] * 1_000,
            join1_delay_us=delays_ms["JRX1"] * 1_000,
            join2_delay_us=delays_ms["JRX2"] * 1_000,
            rx2_dr=rx2_dr,
            rx2_freq_hz=rx2_hz,
            added_channels_hz=tuple(hz for _, hz in sorted(self.get("freqs_hz").items())),
            masked=None if channels is None else frozenset(channels),
        )
