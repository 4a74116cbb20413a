"""What must stand in the settings of a LoRaWAN device under RUI3?"""

from bench.device.activation import Abp, Otaa
from bench.device.rui3_board import Setting
from bench.device.wanted import Wanted, channels
from lns.lorawan.region import Region, region

BANDS = {"EU868": "4", "US915": "5"}
_TXP_STEP_DB = 2
_TXP_INDEXES = {"EU868": 7, "US915": 14}  # the last one, RP002 table of TXPower
_AUTO_JOIN_OFF = "0:0:8:0"


def settings_of(wanted: Wanted) -> tuple[Setting, ...]:
    """All settings in the order in which they are written: the band resets what follows it.

    ValueError for a region or a power that RUI3 does not have.
    """
    rules = region(wanted.region)
    return (
        Setting("AT+BAND", BANDS[rules.name]),
        *_identity(wanted),
        Setting("AT+CLASS", "C" if wanted.class_c else "A"),
        Setting("AT+ADR", str(int(wanted.adr))),
        Setting("AT+DR", str(wanted.dr)),
        Setting("AT+TXP", str(power_index(rules, wanted.power_dbm))),
        Setting("AT+DCS", str(int(wanted.duty_cycle))),
        Setting("AT+JOIN", _AUTO_JOIN_OFF),
        Setting("AT+RETY", "0"),
        Setting("AT+PNM", "1", optional=True),
        Setting("AT+LPM", "0", optional=True),
        Setting("AT+LINKCHECK", "0", optional=True),
        *_channels(rules),
        single_channel(wanted),
    )


def single_channel(wanted: Wanted) -> Setting:
    """The one channel that is used, 0 for those of the region."""
    return Setting("AT+CHS", str(wanted.channel_hz), optional=not wanted.channel_hz)


def power_index(rules: Region, power_dbm: int) -> int:
    """The strongest step of AT+TXP that does not exceed an EIRP; ValueError where none is."""
    index = max(0, -((power_dbm - rules.max_eirp_dbm) // _TXP_STEP_DB))
    if index > _TXP_INDEXES[rules.name]:
        weakest = rules.max_eirp_dbm - _TXP_STEP_DB * _TXP_INDEXES[rules.name]
        raise ValueError(f"{power_dbm} dBm: {weakest} dBm is the weakest that RUI3 transmits")
    return index


def power_dbm(rules: Region, index: int) -> int:
    """The EIRP of a step of AT+TXP."""
    return rules.max_eirp_dbm - _TXP_STEP_DB * index


def _identity(wanted: Wanted) -> tuple[Setting, ...]:
    """Mode, DevEUI and the secrets of this mode alone.

    ABP secrets are never written into a device that joins: its DevNonce would begin at 0 again, and
    a strict server would refuse it for ever.
    """
    match wanted.activation:
        case Otaa(join_eui, app_key):
            return (
                Setting("AT+NJM", "1", boots=True),
                Setting("AT+DEVEUI", wanted.dev_eui),
                Setting("AT+APPEUI", join_eui),
                Setting("AT+APPKEY", app_key.hex().upper()),
            )
        case Abp(dev_addr, keys):
            return (
                Setting("AT+NJM", "0", boots=True),
                Setting("AT+DEVEUI", wanted.dev_eui),
                Setting("AT+DEVADDR", dev_addr, boots=True),
                Setting("AT+NWKSKEY", keys.nwk_s_key.hex().upper(), boots=True),
                Setting("AT+APPSKEY", keys.app_s_key.hex().upper(), boots=True),
            )


def _channels(rules: Region) -> tuple[Setting, ...]:
    """The blocks of eight channels that the bench uses; only regions with fixed channels."""
    if not rules.downlink_channels_hz:
        return ()
    first = rules.uplink_channels.index(channels(rules)[0])
    return (Setting("AT+MASK", f"{1 << (first // 8):04X}"),)
