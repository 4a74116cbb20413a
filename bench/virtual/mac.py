"""What does a LoRaWAN 1.0.x MAC of class A or C do between its application and its radio?

One MAC for every board that is played: on virtual time, behind a console, in a process of its own.
It is part of a `Circuit`, and plays the stack that it is told (`bench.virtual.stacks`).
"""

import json
import os
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Protocol

from bench.transmission import Transmission
from bench.virtual.air import Heard, MacRadio, Received, Window
from bench.virtual.chip_radio import Radio
from bench.virtual.lorawan.air_interface import (
    ADR_ACK_DELAY,
    ADR_ACK_LIMIT,
    Cid,
    Command,
    Downlink,
    LinkAdr,
    Session,
    dev_status_ans,
    hertz,
    link_adr,
    link_adr_ans,
    masked_by,
)
from bench.virtual.lorawan.channel_plan import (
    EU868,
    RX2_AFTER_RX1_S,
    SUB_BAND_2,
    ChannelPlan,
    Lora,
    UpChannel,
)
from bench.virtual.lorawan.join_frames import JoinAccept, join_request, joined, read_join_accept
from bench.virtual.stacks import LORAMAC_NODE, RetryFrom, Stack
from lns.clock import now_us

SECOND_US = 1_000_000
JOIN_DELAY_S = 5


@dataclass(slots=True, kw_only=True)
class MacSettings:
    """What console, join-accept and MAC commands have set.

    `power_dbm` is EIRP. `added_channels_hz`: those of the console. `masked`: numbers of the
    channels in use, None for all; added ones and those of a join-accept count on after those of
    the region. `single_channel_hz`: 0 for none.
    """

    plan: ChannelPlan = EU868
    dr: int = 0
    power_dbm: int = 16
    adr: bool = True
    duty_cycle: bool = True
    class_c: bool = False
    public: bool = True
    nb_trans: int = 1
    rx1_delay_us: int = SECOND_US
    rx2_delay_us: int = (1 + RX2_AFTER_RX1_S) * SECOND_US
    join1_delay_us: int = JOIN_DELAY_S * SECOND_US
    join2_delay_us: int = (JOIN_DELAY_S + RX2_AFTER_RX1_S) * SECOND_US
    rx1_dr_offset: int = 0
    rx2_dr: int = EU868.rx2_dr
    rx2_freq_hz: int = EU868.rx2_freq_hz
    single_channel_hz: int = 0
    added_channels_hz: tuple[int, ...] = ()
    masked: frozenset[int] | None = None

    def channels(self, session: Session | None) -> list[UpChannel | None]:
        """All channels by their numbers; None for one that is not defined."""
        if session is not None and session.more_channels:
            more: list[UpChannel | None] = list(session.more_channels)
        else:
            more = [UpChannel(hz, range(6)) for hz in self.added_channels_hz]
        return [*self.plan.default_channels, *more]

    def usable(self, session: Session | None, dr: int) -> list[int]:
        """The numbers of the channels that may be used with a data rate."""
        return [
            number
            for number, channel in enumerate(self.channels(session))
            if channel is not None
            and dr in channel.drs
            and (self.masked is None or number in self.masked)
        ]

    def receive_as_at_first(self) -> None:
        """RX1 and RX2, repetitions and power as nobody has told otherwise."""
        self.rx1_delay_us, self.rx2_delay_us = SECOND_US, (1 + RX2_AFTER_RX1_S) * SECOND_US
        self.rx1_dr_offset, self.rx2_dr = 0, self.plan.rx2_dr
        self.rx2_freq_hz, self.nb_trans = self.plan.rx2_freq_hz, 1

    def lower_data_rate(self, session: Session) -> None:
        """One step of ADR back-off: slower, and in the end all channels and one transmission."""
        if self.dr > self.plan.up_drs[0]:
            self.dr -= 1
        else:
            self.masked, self.nb_trans = own_mask(self.plan), 1


def own_mask(plan: ChannelPlan) -> frozenset[int] | None:
    """The channels that a device of this bench uses at first, None for all."""
    return frozenset(SUB_BAND_2) if plan.downlinks_hz else None


_BATTERY_UNKNOWN = 255
_KEEP = 15


def obey(
    commands: Sequence[Command], session: Session, settings: MacSettings, snr_db: float
) -> None:
    """Carry out the commands of one downlink; the session owes their answers."""
    at = 0
    while at < len(commands):
        command = commands[at]
        if command.cid is Cid.LINK_ADR:
            block = [command]
            while at + len(block) < len(commands) and commands[at + len(block)].cid is command.cid:
                block.append(commands[at + len(block)])
            answer = _link_adr([link_adr(one) for one in block], session, settings)
            session.answers += [answer] * len(block)
            at += len(block)
            continue
        reply = _answer(command, session, settings, snr_db)
        if reply is not None:
            session.answers.append(Command(command.cid, reply))
        at += 1


def _answer(
    command: Command, session: Session, settings: MacSettings, snr_db: float
) -> bytes | None:
    body = command.told
    match command.cid:
        case Cid.DEV_STATUS:
            return dev_status_ans(_BATTERY_UNKNOWN, round(snr_db)).told
        case Cid.RX_PARAM_SETUP:
            return _rx_param_setup(body, settings)
        case Cid.NEW_CHANNEL:
            return _new_channel(body, session, settings)
        case Cid.DL_CHANNEL:
            return _dl_channel(body, session, settings)
        case Cid.RX_TIMING_SETUP:
            settings.rx1_delay_us = (body[0] % 16 or 1) * SECOND_US
            settings.rx2_delay_us = settings.rx1_delay_us + SECOND_US
            return b""
        case Cid.DUTY_CYCLE:
            return b""
        case Cid.TX_PARAM_SETUP if settings.plan.tx_params is not None:
            return b""
        case _:
            return None


def _link_adr(block: Sequence[LinkAdr], session: Session, settings: MacSettings) -> Command:
    """All of a block or nothing: its masks one after the other, the rest as the last one has it.

    With ADR off only the mask is looked at, and done: everything else is granted and stays.
    """
    plan, channels = settings.plan, settings.channels(session)
    known = frozenset(number for number, channel in enumerate(channels) if channel is not None)
    masked: frozenset[int] | None = (
        frozenset(range(len(channels))) if settings.masked is None else settings.masked
    )
    for one in block:
        if masked is not None:
            masked = masked_by(one, masked, known, has_sub_bands=bool(plan.downlinks_hz))
    last = block[-1]
    dr = settings.dr if not settings.adr or last.dr == _KEEP else last.dr
    has_dr = any(
        (channel := channels[number]) is not None and dr in channel.drs for number in masked or ()
    )
    has_power = not settings.adr or last.power in (*range(plan.power_index_max + 1), _KEEP)
    answer = link_adr_ans(power=has_power, dr=has_dr, mask=bool(masked))
    if answer == link_adr_ans(power=True, dr=True, mask=True):
        settings.masked = masked
        if settings.adr:
            settings.dr, settings.nb_trans = dr, max(last.nb_trans, 1)
            if last.power != _KEEP:
                settings.power_dbm = plan.power_dbm(last.power)
    return answer


def _rx_param_setup(body: bytes, settings: MacSettings) -> bytes:
    """Bit 2: RX1DROffset, bit 1: RX2 data rate, bit 0: RX2 frequency; all or nothing."""
    plan = settings.plan
    offset, dr, freq_hz = body[0] >> 4 & 7, body[0] % 16, hertz(body[1:4])
    has_dr = dr < len(plan.data_rates) and plan.data_rates[dr] is not None
    is_within = plan.limits_hz[0] <= freq_hz <= plan.limits_hz[1]
    if offset < plan.offsets and has_dr and is_within:
        settings.rx1_dr_offset, settings.rx2_dr, settings.rx2_freq_hz = offset, dr, freq_hz
    return bytes([4 * (offset < plan.offsets) + 2 * has_dr + is_within])


def _new_channel(body: bytes, session: Session, settings: MacSettings) -> bytes | None:
    """Bit 1: data rates, bit 0: frequency. The channels of the region stay as they are."""
    plan = settings.plan
    if plan.downlinks_hz:
        return None  # RP002, 2.5.2: a device in US915 does not answer
    number, freq_hz, drs = body[0], hertz(body[1:4]), range(body[4] % 16, (body[4] >> 4) + 1)
    first = len(plan.default_channels)
    is_within = not freq_hz or plan.limits_hz[0] <= freq_hz <= plan.limits_hz[1]
    if not first <= number < plan.channels_max:
        return bytes([0])
    has_drs = bool(drs) and drs[-1] in plan.up_drs
    if is_within and has_drs:
        more = settings.channels(session)[first:]
        more += [None] * (number - first + 1 - len(more))
        more[number - first] = UpChannel(freq_hz, drs) if freq_hz else None
        session.more_channels = tuple(more)
        if settings.masked is not None and freq_hz:
            settings.masked |= {number}
    return bytes([2 * has_drs + is_within])


def _dl_channel(body: bytes, session: Session, settings: MacSettings) -> bytes:
    """Bit 1: the channel is there, bit 0: the frequency can be used."""
    number, freq_hz = body[0], hertz(body[1:4])
    channels = settings.channels(session)
    is_there = number < len(channels) and channels[number] is not None
    is_within = settings.plan.limits_hz[0] <= freq_hz <= settings.plan.limits_hz[1]
    if is_there and is_within:
        session.downlinks_hz[number] = freq_hz
    return bytes([2 * is_there + is_within])


class Nvm:
    """The flash of one board: named values, in a file that is whole at every moment.

    Without a file it is gone with the process.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._values: dict[str, Any] = {}
        if file is not None and file.exists():
            self._values = json.loads(file.read_text())

    def get(self, name: str, default: Any = None) -> Any:
        return self._values.get(name, default)

    def put(self, **values: Any) -> None:
        """Write values; on the disk once this returns."""
        self._values.update(values)
        self._write()

    def erase(self, *kept: str) -> None:
        self._values = {name: self._values[name] for name in kept if name in self._values}
        self._write()

    def _write(self) -> None:
        if self._file is None:
            return
        made = self._file.with_suffix(".new")
        made.touch(mode=0o600)  # there are keys in it
        made.write_text(json.dumps(self._values, indent=1))
        os.replace(made, self._file)


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """Flash, radio, chance, and the serial port (`write`).

    `raw` is the radio without its MAC, which no air has that knows LoRaWAN only. `chance` has a
    stream for each purpose. `spawn` begins something that ends with the next reset at the latest;
    `reset` is that. `stack` is played instead of the one that the firmware has. `sends_unasked`: an
    empty frame follows by itself, where the firmware does so. `keeps_session`: a join ends the
    session before it only by a new one.
    """

    name: str
    nvm: Nvm
    radio: MacRadio
    chance: Callable[[str], Random]
    write: Callable[[bytes], None]
    spawn: Callable[[Coroutine[Any, Any, None]], None]
    reset: Callable[[], None]
    stack: Stack | None = None
    sends_unasked: bool = True
    keeps_session: bool = False

    @property
    def raw(self) -> Radio:
        assert isinstance(self.radio, Radio), f"{self.name}: nothing but LoRaWAN is on this air"
        return self.radio

    @property
    def has_raw(self) -> bool:
        return isinstance(self.radio, Radio)

    def say(self, line: str) -> None:
        self.write(line.encode("latin-1") + b"\r\n")


class Firmware(Protocol):
    """What runs on a board from one boot to the next reset."""

    def boot(self) -> None:
        """Begin; say what there is to say."""

    def hear(self, data: bytes) -> None:
        """Take bytes from the serial port."""


_PREAMBLE_SYMBOLS = 6
_CLOSING_US = 31_400
"""A window without a preamble closes after 6 symbols and this: RX2 at SF12, opened 2 s after the
transmission, was seen to close after 2.228 s."""


@dataclass(slots=True)
class Cycle:
    """One message on its way: its tries, and what came back."""

    confirmed: bool
    tries: list[Transmission] = field(default_factory=list)
    downlink: Received[Downlink] | None = None

    @property
    def acknowledged(self) -> bool:
        return self.downlink is not None and self.downlink.content.ack


@dataclass(frozen=True, slots=True, kw_only=True)
class Tries:
    """How a message is repeated: how often, and how long after RX2 its repetition follows.

    `wait_us` (µs from, to, drawn evenly) is None where the stack decides. `on_sent` is given the
    number of each try, from 1, and what went out; `facts` go with each transmission. `heard` is
    told a downlink that does not end the message.
    """

    number: int
    wait_us: tuple[int, int] | None = None
    on_sent: Callable[[int, Transmission], None] = lambda number, sent: None
    facts: Callable[[int], dict[str, object]] = lambda number: {}
    heard: Callable[[Received[Downlink]], None] = lambda received: None


class Mac:
    """The MAC of one device.

    Remembers its session, its settings, the newest JoinNonce, the last channel, and until when each
    band is used up. `heard_unasked` is told what class C heard.
    """

    def __init__(
        self, circuit: Circuit, settings: MacSettings, *, stack: Stack = LORAMAC_NODE
    ) -> None:
        self.settings = settings
        self.stack = stack
        self.session: Session | None = None
        self.join_nonce = -1
        self.accept_was_refused = False
        self.heard_unasked: Callable[[Received[Downlink]], None] = lambda received: None
        self.free_us: dict[int, int] = {}
        self._radio = circuit.radio
        self._radio.unasked = self.hear_unasked
        self._channel_chance = circuit.chance("channel")
        self._retry_chance = circuit.chance("retry")
        self._last_freq_hz = 0
        self._sessions = 0

    @property
    def plan(self) -> ChannelPlan:
        return self.settings.plan

    def restricted_us(self, dr: int) -> int:
        """How long the duty cycle forbids to send with this data rate; 0 for not at all."""
        if not self.settings.duty_cycle:
            return 0
        return min((self._wait_us(hz) for hz in self._channels_hz(dr)), default=0)

    def max_payload(self, dr: int) -> int:
        return self.plan.payload_max[dr] - (self.session.owed() if self.session else 0)

    async def join(
        self,
        app_key: bytes,
        *,
        dev_eui: str,
        join_eui: str,
        dev_nonce: int,
        sent: Callable[[Transmission], None] = lambda uplink: None,
        facts: dict[str, object] | None = None,
    ) -> Session | None:
        """Ask once for a session; it is in force if one was given, its first number by the stack.

        `accept_was_refused`: there was a join-accept that is not for this device, or, with a stack
        that looks, whose JoinNonce is not greater than `join_nonce`.
        """
        settings, self.accept_was_refused = self.settings, False
        phy = join_request(app_key, join_eui=join_eui, dev_eui=dev_eui, dev_nonce=dev_nonce)
        uplink = self._transmit(phy, settings.dr, facts or {})
        sent(uplink)
        rx1 = self.plan.rx1_dr(settings.dr, 0), self.plan.rx1_freq_hz(uplink.freq_hz)
        rx2 = self.plan.rx2_dr, self.plan.rx2_freq_hz
        windows = (
            self._window("1", uplink.end_us + settings.join1_delay_us, *rx1),
            self._window("2", uplink.end_us + settings.join2_delay_us, *rx2),
        )

        def believe(heard: Heard) -> JoinAccept | None:
            accept = read_join_accept(app_key, heard.phy)
            self.accept_was_refused = self.accept_was_refused or (
                accept is None and heard.phy[:1] == b"\x20"
            )
            return accept

        gives_up = self.stack.gives_up_rx2
        answer = (await self._radio.listen(windows, believe, gives_up_rx2=gives_up)).answer
        if answer is None:
            return None
        accept = answer.content
        if self.stack.checks_join_nonce and accept.join_nonce <= self.join_nonce:
            self.accept_was_refused = True
            return None
        return self._enter(app_key, accept, dev_nonce)

    def _enter(self, app_key: bytes, accept: JoinAccept, dev_nonce: int) -> Session:
        settings = self.settings
        number, self._sessions = self._sessions, self._sessions + 1
        self.join_nonce = accept.join_nonce
        self.session = joined(
            app_key,
            accept,
            dev_nonce=dev_nonce,
            first_f_cnt=self.stack.first_f_cnt,
            number=number,
        )
        settings.rx1_delay_us = accept.rx_delay_s * SECOND_US
        settings.rx2_delay_us = settings.rx1_delay_us + SECOND_US
        settings.rx1_dr_offset, settings.rx2_dr = accept.rx1_dr_offset, accept.rx2_dr
        settings.rx2_freq_hz = self.plan.rx2_freq_hz
        settings.nb_trans = 1
        if accept.channel_masks:
            masks = enumerate(accept.channel_masks)
            bits = ((16 * bank + bit, mask >> bit & 1) for bank, mask in masks for bit in range(16))
            settings.masked = frozenset(number for number, is_used in bits if is_used)
        return self.session

    def uplink(self, payload: bytes, port: int | None, *, confirmed: bool) -> bytes:
        """The frame of the next message; without a sign of the network ADR goes back step by step.

        From the 65th uplink on it has ADRACKReq (`Stack.asks_at_lowest_dr`); power is raised with
        the 97th, and the data rate goes down with the 129th, the 161st and so on.
        """
        session, settings = self.session, self.settings
        assert session is not None, "only a device with a session sends data"
        if settings.adr:
            over = session.unheard - ADR_ACK_LIMIT - ADR_ACK_DELAY
            if over >= 0:
                settings.power_dbm = max(settings.power_dbm, self.plan.power_dbm(0))
            if over >= ADR_ACK_DELAY and over % ADR_ACK_DELAY == 0:
                settings.lower_data_rate(session)
        if settings.dr == self.plan.up_drs[0] and not self.stack.asks_at_lowest_dr:
            session.unheard = 0
        return session.uplink(payload, port, confirmed=confirmed, adr=settings.adr)

    async def deliver(self, phy: bytes, cycle: Cycle, tries: Tries) -> Cycle:
        """Send one frame as often as it takes; what the server wants of the MAC is done then."""
        session, dr = self.session, self.settings.dr
        assert session is not None
        for number in range(1, tries.number + 1):
            this_dr = self._dr(dr, number) if cycle.confirmed else dr
            uplink = self._transmit(phy, this_dr, tries.facts(number))
            cycle.tries.append(uplink)
            tries.on_sent(number, uplink)
            windows = self._windows(uplink, this_dr, session)
            listened = await self._radio.listen(
                windows,
                lambda heard: session.believe(heard.phy),
                gives_up_rx2=self.stack.gives_up_rx2,
            )
            if listened.answer is not None:
                self._take(listened.answer, session)
                cycle.downlink = listened.answer
                if cycle.acknowledged or not cycle.confirmed:
                    return cycle
                tries.heard(listened.answer)
            if listened.gave_up:
                continue
            if listened.answer is None:
                await self._sleep_until(windows[1].closes_us)
            is_last = number == tries.number
            if is_last and (tries.wait_us or not cycle.confirmed):
                continue
            if cycle.confirmed:
                await self._sleep_until(self._due_us(windows[1], tries.wait_us))
            if self.stack.keeps_duty_cycle and not is_last:
                await self._sleep_until(now_us() + self._wait_us(uplink.freq_hz))
        return cycle

    def _dr(self, dr: int, attempt: int) -> int:
        """The data rate of a try (from 1) that was begun with `dr`."""
        return max(dr - (attempt - 1) // 2, 0) if self.stack.lowers_data_rate else dr

    async def _sleep_until(self, when_us: int) -> None:
        if when_us > now_us():
            await self._radio.sleep_until(when_us)

    def _due_us(self, rx2: Window, wait_us: tuple[int, int] | None) -> int:
        stack = self.stack
        low_us, high_us = wait_us or (stack.retry_min_us, stack.retry_max_us)
        from_opening = wait_us is None and stack.retry_from is RetryFrom.RX2_OPENING
        from_us = rx2.opens_us if from_opening else now_us()
        return from_us + self._retry_chance.randint(low_us, high_us)

    def _transmit(self, phy: bytes, dr: int, facts: dict[str, object]) -> Transmission:
        usable = self._channels_hz(dr)
        if self.settings.duty_cycle:
            usable = [hz for hz in usable if not self._wait_us(hz)] or usable
        if self.stack.changes_channel:
            usable = [hz for hz in usable if hz != self._last_freq_hz] or usable
        freq_hz = self._last_freq_hz = self._channel_chance.choice(usable)
        uplink = self._radio.send(
            phy, dr=dr, freq_hz=freq_hz, power_dbm=self.settings.power_dbm, facts=facts
        )
        band = self.plan.band(freq_hz)
        if band is not None:
            silence_us = uplink.airtime_us * (1000 - band.per_mille) // band.per_mille
            self.free_us[band.per_mille] = uplink.end_us + silence_us
        return uplink

    def _wait_us(self, freq_hz: int) -> int:
        band = self.plan.band(freq_hz)
        return 0 if band is None else max(self.free_us.get(band.per_mille, 0) - now_us(), 0)

    def _channels_hz(self, dr: int) -> list[int]:
        settings = self.settings
        if settings.single_channel_hz:
            return [settings.single_channel_hz]
        channels = settings.channels(self.session)
        found = [channels[number] for number in settings.usable(self.session, dr)]
        known = [channel.freq_hz for channel in found if channel is not None]
        return known or [self.plan.default_channels[0].freq_hz]

    def _windows(self, uplink: Transmission, dr: int, session: Session) -> tuple[Window, Window]:
        settings, plan = self.settings, self.plan
        channels = [c.freq_hz if c else 0 for c in settings.channels(session)]
        number = channels.index(uplink.freq_hz) if uplink.freq_hz in channels else -1
        if number in session.downlinks_hz:
            rx1_freq_hz = session.downlinks_hz[number]
        else:
            rx1_freq_hz = plan.rx1_freq_hz(uplink.freq_hz)
        rx1_dr = plan.rx1_dr(dr, settings.rx1_dr_offset)
        rx2 = settings.rx2_dr, settings.rx2_freq_hz
        return (
            self._window("1", uplink.end_us + settings.rx1_delay_us, rx1_dr, rx1_freq_hz),
            self._window("2", uplink.end_us + settings.rx2_delay_us, *rx2),
        )

    def _window(self, slot: str, opens_us: int, dr: int, freq_hz: int) -> Window:
        modulated = self.plan.data_rates[dr] if dr < len(self.plan.data_rates) else None
        symbol_us = 0
        if isinstance(modulated, Lora):
            symbol_us = (1_000_000 << modulated.sf) // modulated.bw_hz
        closes_us = opens_us + _PREAMBLE_SYMBOLS * symbol_us + _CLOSING_US
        return Window(slot, opens_us, closes_us, dr, freq_hz)

    def hear_unasked(self, heard: Heard, dr: int, freq_hz: int) -> None:
        """Take a frame that no window takes: in class C RX2 is open all the time."""
        session, settings = self.session, self.settings
        if session is None or not settings.class_c:
            return
        if (dr, freq_hz) != (settings.rx2_dr, settings.rx2_freq_hz):
            return
        downlink = session.believe(heard.phy)
        if downlink is not None:
            received = Received(downlink, "C", heard)
            self._take(received, session)
            self.heard_unasked(received)

    def _take(self, received: Received[Downlink], session: Session) -> None:
        obey(received.content.commands, session, self.settings, received.heard.snr_db)
