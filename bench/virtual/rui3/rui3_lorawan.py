"""What do the LoRaWAN settings of RUI3 do to its MAC, and what survives a boot?"""

from collections.abc import Callable

from bench.device.interfaces import Joining, Sent
from bench.virtual.board.circuit import Circuit
from bench.virtual.lorawan.channel_plan import ChannelPlan, channel_plan
from bench.virtual.lorawan.ciphers import Keys
from bench.virtual.mac import Mac
from bench.virtual.mac_settings import MacSettings
from bench.virtual.rui3.rui3_traffic import Rui3Join, Rui3Traffic
from bench.virtual.rui3.rui3_values import VALUES, Rui3Memory, Rui3Version, Status
from bench.virtual.session import NEVER_COUNTED, Session, last_down
from bench.virtual.stack import LORAMAC_44, LORAMAC_NODE

BANDS = {4: "EU868", 5: "US915", 8: "AS923-1"}
HARDWARE_DBM_MAX = 22
SUB_BAND_2_MASK = "0002"
_ZEROES_MAC = ("DEVADDR", "NWKSKEY", "APPSKEY")
_RESET_BY_BAND = ("DR", "TXP", "MASK", "CHS")
_CHANNELS_PER_BIT = 8
_WIDE = 64  # the number of the first wide channel
Special = tuple[
    Callable[[], str] | None, Callable[[str], Status] | None, Callable[[], Status] | None
]


class Rui3Network:
    """LoRaWAN mode; remembers what the MAC does until the next reset."""

    NAMES = frozenset(("JOIN", "SEND", "RECV", "NJS", "CFS", "NETID", "RSSI", "SNR"))

    def __init__(
        self,
        circuit: Circuit,
        memory: Rui3Memory,
        version: Rui3Version,
        say: Callable[[str], None],
    ) -> None:
        self._memory = memory
        stack = circuit.stack or (LORAMAC_NODE if version.is_new_stack else LORAMAC_44)
        self._never_counted = {**NEVER_COUNTED, "up": stack.first_f_cnt}
        self._forget_what_must_be()
        self._radio = circuit.radio
        self._radio.hear_always()
        self._mac = Mac(
            self._radio,
            _mac_settings(memory),
            channel_chance=circuit.chance("channel"),
            retry_chance=circuit.chance("retry"),
            stack=stack,
        )
        self._mac.join_nonce = int(memory.kept("join_nonce", 0))
        self._tune()
        if not memory.number("NJM"):
            self._begin_fixed_session()
        self._traffic = Rui3Traffic(circuit, memory, version, self._mac, say)
        self._join = Rui3Join(circuit, memory, version, self._traffic, say)
        self._join.begin_fixed_session = self._begin_fixed_session
        traffic = self._traffic
        self.actions: dict[str, Special] = {
            "JOIN": (self._join.told, self._join.write, self._join.run),
            "SEND": (None, traffic.send, None),
            "RECV": (traffic.take_received, None, None),
            "NJS": (lambda: str(int(self._mac.session is not None)), None, None),
            "CFS": (lambda: str(int(traffic.acknowledged)), None, None),
            "NETID": (lambda: self._mac.session.net_id if self._mac.session else "000000", None,
                      None),
            "RSSI": (lambda: str(traffic.last_rssi_dbm), None, None),
            "SNR": (lambda: str(traffic.last_snr_db), None, None),
        }  # fmt: skip

    @property
    def mac(self) -> Mac:
        """What it sets and asks."""
        return self._mac

    def send(self, payload: bytes, port: int, *, confirmed: bool) -> Status:
        """Begin with a message, also to a port that the console would not take."""
        return self._traffic.take(payload, port, confirmed=confirmed)

    @property
    def last_sent(self) -> Sent | None:
        """The message that it took last; complete once its MAC cycle is over."""
        return self._traffic.last_sent

    @property
    def last_join(self) -> Joining | None:
        """The last attempt to join; complete once it is over."""
        return self._join.last_join

    def forget_session(self) -> None:
        """Lose what is not in the flash: a fixed session begins anew, another is gone."""
        self._mac.session = None
        self._memory.keep(counters=self._never_counted)
        if not self._memory.number("NJM"):
            self._begin_fixed_session()
        settings = self._mac.settings
        settings.receive_as_at_first()
        settings.masked = _masked(self._memory.get("MASK"), settings.plan)

    def forget_nonces(self) -> None:
        """Begin at 0 with them, as after a change of the flash."""
        self._memory.keep(dev_nonce=0, join_nonce=0)
        self._mac.join_nonce = 0

    @property
    def busy(self) -> bool:
        """Whether the MAC is in the middle of something."""
        return self._traffic.busy

    def boot(self) -> None:
        """Join by itself, where it was told to."""
        self._join.boot()

    def get(self, name: str) -> str:
        """A setting, the live value where the MAC has one."""
        mac, session = self._mac, self._mac.session
        is_joining = self._memory.number("NJM") == 1
        match name:
            case "DEVADDR" if is_joining:
                return session.dev_addr if session else VALUES[name].default
            case "NWKSKEY" if is_joining:
                return session.keys.nwk_s_key.hex().upper() if session else VALUES[name].default
            case "APPSKEY" if is_joining:
                return session.keys.app_s_key.hex().upper() if session else VALUES[name].default
            case "RX1DL":
                return str(mac.settings.rx1_delay_us // 1_000_000)
            case "RX2DL":
                return str(mac.settings.rx2_delay_us // 1_000_000)
            case "RX2DR":
                return str(mac.settings.rx2_dr)
            case "RX2FQ":
                return str(mac.settings.rx2_freq_hz)
            case "DR":
                return str(mac.settings.dr)
            case "CHS":
                return str(mac.settings.single_channel_hz)
            case "CLASS" if self._memory.get(name) == "B":
                return "B:S0"  # there is no beacon on this air
            case _:
                return self._memory.get(name)

    def set(self, name: str, argument: str) -> Status:
        """Write a setting; it is in force at once, what concerns the MAC's memory at next boot."""
        refusal = self._refusal(name, argument)
        if refusal is not None:
            return refusal
        before = self._memory.get(name)
        status = self._memory.set(name, argument)
        if status is not Status.OK:
            return status
        changed = self._memory.get(name) != before
        if name in _ZEROES_MAC or (name == "NJM" and changed):
            self._memory.keep(zero_mac=True)
        if name == "NJM" and changed:
            self._mac.session = None
        elif name in _ZEROES_MAC and not self._memory.number("NJM"):
            self._begin_fixed_session()
        elif name == "BAND" and changed:
            self._change_band()
        elif name == "RX1DL":
            self._memory.set("RX2DL", str(self._memory.number("RX1DL") + 1))
        self._apply(name)
        return Status.OK

    def _refusal(self, name: str, argument: str) -> Status | None:
        settings = self._mac.settings
        if name == "BAND" and argument.isdecimal() and int(argument) <= 12:
            if self.busy:
                return Status.BUSY_ERROR
            return None if int(argument) in BANDS else Status.UNSUPPORTED_BAND
        if name == "DR" and argument.isdecimal() and int(argument) not in settings.plan.up_drs:
            return Status.PARAM_ERROR
        if name == "MASK" and settings.plan.name != "US915":
            return Status.ERROR
        return None

    def _change_band(self) -> None:
        new = BANDS[self._memory.number("BAND")]
        plan = channel_plan(new)
        rx2 = {"RX2DR": str(plan.rx2_dr), "RX2FQ": str(plan.rx2_freq_hz)}
        self._memory.keep(**{name: VALUES[name].default for name in _RESET_BY_BAND}, **rx2)
        for name in (*_RESET_BY_BAND, *rx2):
            self._apply(name)

    def _apply(self, name: str) -> None:
        """Hand a setting to the MAC."""
        made, settings = _mac_settings(self._memory), self._mac.settings
        for field in _FIELDS.get(name, ()):
            setattr(settings, field, getattr(made, field))
        if name == "CHS":
            settings.single_channel_hz = self._memory.number("CHS")
        self._tune()

    def _tune(self) -> None:
        """Let the radio send and hear as the MAC is set."""
        settings = self._mac.settings
        self._radio.tune(settings.plan, public=settings.public)

    def _begin_fixed_session(self) -> None:
        """The session of ABP, its counters as they were written when the MAC was idle last."""
        memory = self._memory
        counters = memory.kept("counters", self._never_counted)
        running = self._mac.session
        self._mac.session = Session(
            dev_addr=memory.get("DEVADDR"),
            keys=Keys(bytes.fromhex(memory.get("NWKSKEY")), bytes.fromhex(memory.get("APPSKEY"))),
            f_cnt_up=running.f_cnt_up if running else counters["up"],
            f_cnt_down=running.f_cnt_down if running else last_down(counters),
        )

    def _forget_what_must_be(self) -> None:
        """The MAC's memory is zeroed at the boot after its identity was written."""
        if self._memory.kept("zero_mac", False):
            self._memory.keep(zero_mac=False, dev_nonce=0, counters=self._never_counted)


_FIELDS: dict[str, tuple[str, ...]] = {
    "BAND": ("plan",),
    "DR": ("dr",),
    "ADR": ("adr",),
    "TXP": ("power_dbm",),
    "DCS": ("duty_cycle",),
    "CLASS": ("class_c",),
    "PNM": ("public",),
    "RX1DL": ("rx1_delay_us", "rx2_delay_us"),
    "RX2DL": ("rx2_delay_us",),
    "JN1DL": ("join1_delay_us",),
    "JN2DL": ("join2_delay_us",),
    "RX2DR": ("rx2_dr",),
    "RX2FQ": ("rx2_freq_hz",),
    "MASK": ("masked",),
}
"""Which settings of the MAC hang on which command."""


def _mac_settings(memory: Rui3Memory) -> MacSettings:
    """What the MAC has after a boot; in EU868 the single channel is not kept."""
    plan = channel_plan(BANDS[memory.number("BAND")])
    power_dbm = plan.power_dbm(memory.number("TXP"))
    return MacSettings(
        plan=plan,
        dr=memory.number("DR"),
        power_dbm=min(power_dbm, HARDWARE_DBM_MAX),
        adr=memory.get("ADR") == "1",
        duty_cycle=memory.get("DCS") == "1",
        class_c=memory.get("CLASS") == "C",
        public=memory.get("PNM") == "1",
        rx1_delay_us=memory.number("RX1DL") * 1_000_000,
        rx2_delay_us=memory.number("RX2DL") * 1_000_000,
        join1_delay_us=memory.number("JN1DL") * 1_000_000,
        join2_delay_us=memory.number("JN2DL") * 1_000_000,
        rx2_dr=memory.number("RX2DR"),
        rx2_freq_hz=memory.number("RX2FQ"),
        single_channel_hz=0 if plan.name == "EU868" else memory.number("CHS"),
        masked=_masked(memory.get("MASK"), plan),
    )


def _masked(mask: str, plan: ChannelPlan) -> frozenset[int] | None:
    """The channels of US915 that AT+MASK leaves, a bit for eight of them and the wide one."""
    if plan.name != "US915" or mask == VALUES["MASK"].default:
        return None
    bits = [bit for bit in range(_CHANNELS_PER_BIT) if int(mask, 16) >> bit & 1]
    narrow = [_CHANNELS_PER_BIT * bit + number for bit in bits for number in range(8)]
    return frozenset((*narrow, *(_WIDE + bit for bit in bits)))
