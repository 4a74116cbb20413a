"""What does a device know of its session, and which downlinks does it believe?"""

from dataclasses import dataclass, field

from bench.radio.medium import Heard
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.frame import Data, MalformedFrame, MType, build_data, parse
from lns.lorawan.frame_counter import candidates
from lns.lorawan.identifiers import DevAddr
from lns.lorawan.mac_commands import (
    DevStatusAns,
    DevStatusReq,
    MacCommand,
    encode,
    parse_downlink,
)

F_OPTS_BYTES_MAX = 15
_BATTERY_UNKNOWN = 255
_MARGIN_DB_MAX = 31


@dataclass(frozen=True, slots=True)
class Downlink:
    """A downlink that the device believed; `payload` in clear, empty without application data."""

    ack: bool
    f_cnt: int
    f_port: int | None
    payload: bytes
    commands: tuple[MacCommand, ...]


@dataclass(slots=True, kw_only=True)
class DeviceSession:
    """One session of one device, until the next join or a reset without memory.

    Remembers both counters (`f_cnt_up` is the next to be used, `f_cnt_down` the last accepted), the
    receive parameters, what it owes the server (answers to MAC commands and an acknowledgement),
    and what it asks the network with the message under way.
    """

    number: int
    dev_addr: DevAddr
    keys: SessionKeys = field(repr=False)
    f_cnt_up: int
    receive_delay_us: int
    rx2_dr: int
    rx1_dr_offset: int = 0
    f_cnt_down: int | None = None
    answers: list[MacCommand] = field(default_factory=list)
    asked: list[MacCommand] = field(default_factory=list)
    ack_due: bool = False

    def next_uplink(self, payload: bytes, port: int, *, confirmed: bool, adr: bool) -> bytes:
        """The frame of the next message; uses up a counter and what is owed to the server."""
        f_cnt, self.f_cnt_up = self.f_cnt_up, self.f_cnt_up + 1
        f_opts = encode([*self.answers, *self.asked])
        while len(f_opts) > F_OPTS_BYTES_MAX:
            self.answers.pop()
            f_opts = encode([*self.answers, *self.asked])
        ack, self.ack_due, self.answers = self.ack_due, False, []
        return build_data(
            MType.CONFIRMED_UP if confirmed else MType.UNCONFIRMED_UP,
            dev_addr=self.dev_addr,
            f_cnt=f_cnt,
            keys=self.keys,
            f_port=port,
            payload=payload,
            f_opts=f_opts,
            ack=ack,
            adr=adr,
        )

    def hear(self, heard: Heard) -> Downlink | None:
        """The downlink in a frame from the air, as `believe`."""
        return self.believe(heard.transmission.phy)

    def believe(self, phy: bytes) -> Downlink | None:
        """The downlink in these bytes; None for another device's, a forged or a repeated one."""
        try:
            frame = parse(phy)
        except MalformedFrame:
            return None
        if not isinstance(frame, Data) or frame.is_uplink or frame.dev_addr != self.dev_addr:
            return None
        f_cnt = self._counter(frame)
        if f_cnt is None:
            return None
        self.f_cnt_down = f_cnt
        self.ack_due = self.ack_due or frame.confirmed
        payload = frame.payload(self.keys, f_cnt)
        is_mac = frame.f_port == 0
        commands = parse_downlink(payload if is_mac else frame.f_opts)
        return Downlink(frame.ack, f_cnt, frame.f_port, b"" if is_mac else payload, commands)

    def _counter(self, frame: Data) -> int | None:
        """The counter that proves the MIC, if it is higher than the last (LoRaWAN 4.3.1.5)."""
        last = self.f_cnt_down
        for f_cnt in candidates(last, frame.f_cnt):
            if (last is None or f_cnt > last) and frame.mic_is_valid(self.keys.nwk_s_key, f_cnt):
                return f_cnt
        return None

    def owe_answer(self, command: MacCommand, *, snr_db: float) -> None:
        """Keep the answer to a command of the server for the next uplink."""
        match command:
            case DevStatusReq():
                margin_db = max(-_MARGIN_DB_MAX - 1, min(_MARGIN_DB_MAX, round(snr_db)))
                self.answers.append(DevStatusAns(_BATTERY_UNKNOWN, margin_db))
            case _:
                pass
