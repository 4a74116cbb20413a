"""What does RUI3 do in P2P mode: plain LoRa, without any MAC?"""

import asyncio
import re
from collections.abc import Callable

from bench.virtual.air.emission import Caught, Emission, Modulation
from bench.virtual.board.chip_radio import sleep_until
from bench.virtual.board.circuit import Circuit
from bench.virtual.rui3.rui3_values import VALUES, Rui3Memory, Rui3Version, Status

Special = tuple[
    Callable[[], str] | None, Callable[[str], Status] | None, Callable[[], Status] | None
]
PRINTED_AFTER_US = 50_000
"""How long the console may take to an `OK`: the event of a shorter frame comes before it."""
_BANDWIDTHS_HZ = (
    125_000, 250_000, 500_000, 7_810, 10_420, 15_630, 20_830, 31_250, 41_670, 62_500,
)  # fmt: skip
_IN_ONE = ("PFREQ", "PSF", "PBW", "PCR", "PPL", "PTP")
_PAYLOAD = re.compile(r"(?:[0-9A-F]{2}){1,239}", re.I)
_UNTIL_ONE, _ALWAYS, _ALWAYS_AND_SEND = 65_535, 65_534, 65_533
_TIMED_MS_MIN = 15
_ON = "P2P_RX_ON already, please disable P2P RX before setting."


class Rui3P2p:
    """P2P mode; remembers whether it sends or receives, until the next reset."""

    NAMES = frozenset(("P2P", "PSEND", "PRECV"))

    def __init__(
        self,
        circuit: Circuit,
        memory: Rui3Memory,
        version: Rui3Version,
        say: Callable[[str], None],
    ) -> None:
        self._circuit = circuit
        self._memory = memory
        self._version = version
        self._say = say
        self._unstored: dict[str, str] = {}
        self._sending = False
        self._receiving = 0
        self._receivings = 0
        circuit.raw.unasked = self._caught
        self.actions: dict[str, Special] = {
            "P2P": (lambda: ":".join(map(self.get, _IN_ONE)), self._set_all, None),
            "PSEND": (None, self._send, None),
            "PRECV": (lambda: f"P2P_RX_{'ON' if self._receiving else 'OFF'}", self._receive, None),
        }

    def get(self, name: str) -> str:
        """A setting, as it is in force."""
        return self._unstored.get(name) or self._memory.get(name)

    def set(self, name: str, argument: str) -> Status:
        """Write a setting; not while the receiver is on."""
        if VALUES[name].check(argument) is None:
            return Status.PARAM_ERROR
        refusal = self._refusal()
        if refusal is None:
            self._unstored.pop(name, None)
            return self._memory.set(name, argument)
        return refusal

    def _refusal(self) -> Status | None:
        if self._receiving:
            self._say(_ON)
            return Status.BUSY_ERROR
        return Status.BUSY_ERROR if self._sending else None

    def _set_all(self, argument: str) -> Status:
        """All in one; a seventh field of 1 says that they are not to be stored."""
        parts = argument.split(":")
        stores = parts[len(_IN_ONE) :] in ([], ["0"])
        if len(parts) < len(_IN_ONE) or not (stores or parts[len(_IN_ONE) :] == ["1"]):
            return Status.PARAM_ERROR
        kept = {
            name: text
            for name, part in zip(_IN_ONE, parts, strict=False)
            if (text := VALUES[name].check(part)) is not None
        }
        if len(kept) < len(_IN_ONE):
            return Status.PARAM_ERROR
        refusal = self._refusal()
        if refusal is None:
            self._unstored = {} if stores else kept
            if stores:
                self._memory.keep(**kept)
        return refusal or Status.OK

    def _send(self, argument: str) -> Status:
        if not _PAYLOAD.fullmatch(argument):
            return Status.PARAM_ERROR
        if self._sending or self._receiving not in (0, _ALWAYS_AND_SEND):
            return Status.BUSY_ERROR
        self._sending = True
        emission = self._circuit.raw.transmit(
            bytes.fromhex(argument),
            self._modulation(),
            power_dbm=int(self.get("PTP")),
            coding_rate=int(self.get("PCR")) + 1,
        )
        # The event comes from an interrupt: with a short frame before the OK.
        is_short = emission.airtime_us < PRINTED_AFTER_US
        self._circuit.spawn(self._sent(emission, is_short=is_short))
        return Status.NOTHING if is_short else Status.OK

    async def _sent(self, emission: Emission, *, is_short: bool) -> None:
        await sleep_until(emission.end_us)
        self._sending = False
        if self._version.tells_ends:
            self._say("+EVT:TXP2P DONE")
        if is_short:
            self._say(Status.OK)

    def _receive(self, argument: str) -> Status:
        if not argument.isdecimal() or int(argument) > _UNTIL_ONE:
            return Status.PARAM_ERROR
        wanted = int(argument)
        if 0 < wanted < _TIMED_MS_MIN:
            return Status.PARAM_ERROR
        if wanted and (self._receiving or self._sending):
            return self._refusal() or Status.BUSY_ERROR
        self._receiving = wanted
        self._receivings += 1
        if 0 < wanted < _ALWAYS_AND_SEND:
            self._circuit.spawn(self._time_out(self._receivings, wanted))
        return Status.OK

    async def _time_out(self, receiving: int, wanted_ms: int) -> None:
        await asyncio.sleep(wanted_ms / 1_000)
        if self._receivings == receiving and self._receiving:
            self._receiving = 0
            self._say("+EVT:RXP2P RECEIVE TIMEOUT")

    def _caught(self, caught: Caught) -> None:
        if not self._receiving or caught.emission.modulation != self._modulation():
            return
        if self._receiving not in (_ALWAYS, _ALWAYS_AND_SEND):
            self._receiving = 0
        if caught.error:
            self._say("+EVT:RXP2P RECEIVE ERROR")
            return
        signal = f"{caught.rssi_dbm}:{round(caught.snr_db)}"
        self._say(f"+EVT:RXP2P:{signal}:{caught.emission.phy.hex().upper()}")

    def _modulation(self) -> Modulation:
        return Modulation(
            freq_hz=int(self.get("PFREQ")),
            sf=int(self.get("PSF")),
            bw_hz=_BANDWIDTHS_HZ[int(self.get("PBW"))],
            inverted=self.get("IQINVER") == "1",
            sync_word=self.get("SYNCWORD"),
        )
