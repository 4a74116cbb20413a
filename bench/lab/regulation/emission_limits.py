"""Does a device send as strongly as it may, and in the region of this bench?

Both are read back from the device before a night: what it was told is not what it does. Each
function gives a sentence for a person, or None when all is well.
"""

from lns.lorawan.region import Region

TXP_STEP_DB = 2


def txp_dbm(region: Region, index: int) -> int:
    """The EIRP (dBm) of an index of RUI3's AT+TXP: 0 is the most, 2 dB less for each step.

    ValueError for a negative index (LoRaWAN regional parameters: TXPower).
    """
    if index < 0:
        raise ValueError(f"there is no TX power index {index}")
    return region.max_eirp_dbm - TXP_STEP_DB * index


def check_eirp(name: str, power_dbm: int, region: Region, eirp_dbm_max: int) -> str | None:
    """What is wrong with the power that a device says it sends with, the region's cap included."""
    allowed_dbm = min(eirp_dbm_max, region.max_eirp_dbm)
    if power_dbm <= allowed_dbm:
        return None
    whose = "the bench" if eirp_dbm_max <= region.max_eirp_dbm else region.name
    return (
        f"{name} sends with {power_dbm} dBm EIRP, {whose} allows {allowed_dbm} dBm:"
        " set its power_dbm in the bench file"
    )


def check_region(name: str, told: str, region: Region) -> str | None:
    """What is wrong with the region that a device says it uses."""
    if told == region.name:
        return None
    return (
        f"{name} uses the region {told}, this bench is in {region.name}:"
        " provision it before it sends anything"
    )
