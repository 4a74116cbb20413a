"""How strong does one radio hear another?"""

import math

from bench.chance import stream
from bench.transmission import Eui
from bench.virtual.lorawan.channel_plan import Lora, Modulated

ATTENUATION_DB = 100
NOISE_FIGURE_DB = 6
SNR_CAP_DB = 12.0
_THERMAL_NOISE_DBM_HZ = -174
_FSK_BANDWIDTH_HZ = 100_000
_FSK_SNR_DB = 9.0
_SNR_SF7_DB = -7.5
_SNR_STEP_DB = 2.5


class Links:
    """What lies between each two radios, the same both ways, until it is changed.

    `attenuation_db` for every pair that nobody set; `fading_sigma_db`: standard deviation of a
    random loss or gain per frame and receiver, 0 for a rig on which nothing is left to chance.
    """

    def __init__(
        self,
        *,
        attenuation_db: int = ATTENUATION_DB,
        fading_sigma_db: float = 0.0,
        seed: int = 0,
    ) -> None:
        self._default_db = attenuation_db
        self._sigma_db = fading_sigma_db
        self._seed = seed
        self._attenuations_db: dict[tuple[Eui, Eui], int] = {}
        self._cuts: dict[tuple[Eui, Eui], None] = {}

    def set_attenuation(self, a: Eui, b: Eui, attenuation_db: int) -> None:
        """Put this much between two radios."""
        self._attenuations_db[_pair(a, b)] = attenuation_db

    def cut(self, a: Eui, b: Eui) -> None:
        """Let two radios hear nothing of each other, until `restore`."""
        self._cuts[_pair(a, b)] = None

    def restore(self, a: Eui, b: Eui) -> None:
        """Undo `cut`."""
        self._cuts.pop(_pair(a, b), None)

    def is_cut(self, a: Eui, b: Eui) -> bool:
        """Whether two radios hear nothing of each other."""
        return _pair(a, b) in self._cuts

    def attenuation_db(self, a: Eui, b: Eui) -> int:
        """What lies between two radios, without fading."""
        return self._attenuations_db.get(_pair(a, b), self._default_db)

    def rssi_dbm(self, sender: Eui, receiver: Eui, power_dbm: int, frame: int) -> float:
        """The strength of one frame (numbered `frame`) at one receiver."""
        rssi_dbm = float(power_dbm - self.attenuation_db(sender, receiver))
        if self._sigma_db:
            fading = stream(self._seed, "fading", str(frame), receiver)
            rssi_dbm -= fading.gauss(0.0, self._sigma_db)
        return rssi_dbm


def snr_db(rssi_dbm: float, data_rate: Modulated) -> float:
    """Signal to noise as a concentrator reports it: steps of 0.25 dB, capped at 12."""
    return math.trunc(min(rssi_dbm - noise_dbm(data_rate), SNR_CAP_DB) * 4) / 4


def noise_dbm(data_rate: Modulated) -> float:
    """The noise in the bandwidth of a data rate: -117 dBm in 125 kHz."""
    bandwidth_hz = data_rate.bw_hz if isinstance(data_rate, Lora) else _FSK_BANDWIDTH_HZ
    return _THERMAL_NOISE_DBM_HZ + round(10 * math.log10(bandwidth_hz)) + NOISE_FIGURE_DB


def sensitivity_dbm(data_rate: Modulated) -> float:
    """The weakest frame that is received: -124.5 dBm with SF7, -137 dBm with SF12 in 125 kHz."""
    if isinstance(data_rate, Lora):
        return noise_dbm(data_rate) + _SNR_SF7_DB - (data_rate.sf - 7) * _SNR_STEP_DB
    return noise_dbm(data_rate) + _FSK_SNR_DB


def _pair(a: Eui, b: Eui) -> tuple[Eui, Eui]:
    return (a, b) if a <= b else (b, a)
