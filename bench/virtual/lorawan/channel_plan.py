"""Which channels, data rates and windows has a device in a region?

Source: LoRaWAN Regional Parameters RP002-1.0.3, 2.4 (EU863-870), 2.5 (US902-928) and 2.10 (AS923).
"""

from bench.virtual.lorawan.air_interface import Band, ChannelPlan, Fsk, Lora, UpChannel

_EU_SF = (12, 11, 10, 9, 8, 7)


EU868 = ChannelPlan(
    name="EU868",
    data_rates=(*(Lora(sf, 125_000) for sf in _EU_SF), Lora(7, 250_000), Fsk()),
    up_drs=range(8),
    default_channels=tuple(UpChannel(868_100_000 + n * 200_000, range(6)) for n in range(3)),
    downlinks_hz=(),
    offsets=6,
    rx2_dr=0,
    rx2_freq_hz=869_525_000,
    payload_max=(51, 51, 51, 115, 242, 242, 242, 242),
    repeater_max=(51, 51, 51, 115, 222, 222, 222, 222),
    limits_hz=(863_000_000, 870_000_000),
    # ETSI EN 300 220 as LoRaWAN devices divide it: 10 %, 1 %, and 0.1 % elsewhere.
    bands=(
        Band(((869_400_000, 869_650_000),), 100),
        Band(((868_000_000, 868_600_000), (869_700_000, 870_000_000)), 10),
        Band(((863_000_000, 870_000_000),), 1),
    ),
    eirp_max_dbm=16,
    power_index_max=7,
    channels_max=16,
    rui3_band=4,
    e5_plan="EU868",
    station_names=("EU868", "EU863"),
    station_dbm=16,
    heard_hz=tuple(867_100_000 + n * 200_000 for n in range(8)),
    heard_single=(868_300_000, Lora(7, 250_000)),
    heard_fsk_hz=868_800_000,
)

US915 = ChannelPlan(
    name="US915",
    data_rates=(
        *(Lora(sf, 125_000) for sf in (10, 9, 8, 7)),
        Lora(8, 500_000),
        *(None,) * 3,
        *(Lora(sf, 500_000) for sf in _EU_SF),
    ),
    up_drs=range(5),
    default_channels=(
        *(UpChannel(902_300_000 + n * 200_000, range(4)) for n in range(64)),
        *(UpChannel(903_000_000 + n * 1_600_000, range(4, 5)) for n in range(8)),
    ),
    downlinks_hz=tuple(923_300_000 + n * 600_000 for n in range(8)),
    offsets=4,
    rx2_dr=8,
    rx2_freq_hz=923_300_000,
    payload_max=(11, 53, 125, 242, 242, 0, 0, 0, 53, 129, 242, 242, 242, 242),
    repeater_max=(11, 53, 125, 242, 242, 0, 0, 0, 33, 109, 222, 222, 222, 222),
    limits_hz=(902_000_000, 928_000_000),
    bands=(),
    eirp_max_dbm=30,
    power_index_max=14,
    channels_max=72,
    rui3_band=5,
    e5_plan="US915",
    station_names=("US915", "US902"),
    station_dbm=26,
    heard_hz=tuple(903_900_000 + n * 200_000 for n in range(8)),
    heard_single=(904_600_000, Lora(8, 500_000)),
)

AS923_1 = ChannelPlan(
    name="AS923-1",
    data_rates=EU868.data_rates,
    up_drs=range(8),
    default_channels=tuple(UpChannel(923_200_000 + n * 200_000, range(6)) for n in range(2)),
    downlinks_hz=(),
    offsets=8,
    rx2_dr=2,
    rx2_freq_hz=923_200_000,
    payload_max=(51, 51, 115, 115, 242, 242, 242, 242),
    repeater_max=(51, 51, 115, 115, 222, 222, 222, 222),
    limits_hz=(915_000_000, 928_000_000),
    bands=(Band(((915_000_000, 928_000_000),), 10),),
    eirp_max_dbm=16,
    power_index_max=7,
    channels_max=16,
    rui3_band=8,
    e5_plan="AS923",
    station_names=("AS923-1", "AS923JP"),
    station_dbm=13,
    heard_hz=tuple(923_200_000 + n * 200_000 for n in range(8)),
    heard_single=(924_500_000, Lora(7, 250_000)),
    heard_fsk_hz=924_800_000,
    tx_params=0x15,  # 400 ms for uplinks, 16 dBm (LoRaWAN 1.0.4, 5.8)
)

PLANS = {plan.name: plan for plan in (EU868, US915, AS923_1)}


def channel_plan(region: str) -> ChannelPlan:
    """The plan of a region by its name; KeyError for one that is not known here."""
    return PLANS[region]
