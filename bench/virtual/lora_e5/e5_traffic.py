"""How does a LoRa-E5 join and send, and what does it print meanwhile?"""

import asyncio
import re
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from bench.transmission import Transmission
from bench.virtual.board.circuit import Circuit
from bench.virtual.lora_e5.e5_settings import E5Memory, E5Refusal, Error, octets, require
from bench.virtual.lorawan.channel_plan import Lora
from bench.virtual.lorawan.ciphers import Keys
from bench.virtual.mac import Cycle, Mac, Received, Tries
from bench.virtual.mac_settings import MacSettings
from bench.virtual.session import NEVER_COUNTED, Downlink, Session, last_down
from bench.virtual.stack import LORAMAC_44
from lns.clock import now_us

RETRY_US = (3_000_000, 10_000_000)
STACK = replace(LORAMAC_44, lowers_data_rate=False, draws_dev_nonce=False)
"""The module counts its DevNonces, and repeats with the same data rate."""
SETTLING_S = 1.3
"""From the join-accept to the end of the join, which takes 6.5 to 8 s."""
_BUSY = "LoRaWAN modem is busy"
_IDENTITY = ("mode", "DevAddr", "NWKSKEY", "APPSKEY")
_TEXT = re.compile(r'"?(.*?)"?', re.S)
Say = Callable[[str, str], None]


class E5Traffic:
    """Joins and messages of one module from a boot to the next."""

    def __init__(self, circuit: Circuit, memory: E5Memory, say: Say) -> None:
        self._circuit = circuit
        self._memory = memory
        self._say = say
        self._busy = False
        settings = memory.mac_settings()
        self._radio = circuit.radio
        self._mac: Mac = Mac(
            self._radio,
            settings,
            channel_chance=circuit.chance("channel"),
            retry_chance=circuit.chance("retry"),
            stack=STACK,
        )
        self._use(settings)
        self._mac.heard_unasked = lambda received: self._tell_downlink("MSG", received)

    def apply(self, name: str) -> None:
        """A setting was written: hand it to the MAC."""
        mac, made = self._mac, self._memory.mac_settings()
        made.nb_trans = mac.settings.nb_trans
        if mac.session is not None and name != "delays":
            made.rx1_delay_us = mac.settings.rx1_delay_us
            made.rx2_delay_us = mac.settings.rx2_delay_us
            made.rx2_dr = mac.settings.rx2_dr if name != "rx2" else made.rx2_dr
        self._use(made)
        if name not in _IDENTITY:
            return
        if self._memory.get("mode") == "LWABP":
            self._begin_fixed_session(anew=name != "mode")
        elif name == "mode":
            mac.session = None
        self._radio.hear_always()

    def _use(self, settings: MacSettings) -> None:
        """Let MAC and radio work with these."""
        self._mac.settings = settings
        self._radio.tune(settings.plan, public=settings.public)

    def dev_addr(self) -> str:
        """The address in use."""
        session = self._mac.session
        return str(session.dev_addr if session else self._memory.get("DevAddr"))

    def counters(self) -> tuple[int, int]:
        """The counter of the next uplink, and of the next downlink."""
        session = self._mac.session
        return (session.f_cnt_up, session.counters()["down"] + 1) if session else (0, 0)

    def set_counters(self, up: int, down: int) -> None:
        """Count on from here."""
        session = self._mac.session
        if session is None:
            raise E5Refusal(Error.MODE)
        session.f_cnt_up, session.f_cnt_down = up, down - 1 if down else None
        self._keep_counters()

    def max_payload(self) -> int:
        """How many bytes fit a frame."""
        return self._mac.max_payload(self._mac.settings.dr)

    def join(self, text: str) -> list[str]:
        """AT+JOIN, AT+JOIN=FORCE."""
        mode = self._memory.get("mode")
        require(mode != "TEST", Error.MODE)
        if mode != "LWOTAA":
            return ["Not in OTAA mode"]
        if self._busy:
            return [_BUSY]
        forced = text.upper().startswith("FORCE")
        if self._mac.session is not None and not forced:
            return ["Joined already"]
        if self._memory.get("jdc") and self._mac.restricted_us(self._mac.settings.dr):
            return ["No free channel"]
        self._begin(self._join())
        return ["Start", "FORCE" if forced else "NORMAL"]

    def send(self, command: str, text: str) -> list[str]:
        """AT+MSG, AT+CMSG, AT+MSGHEX, AT+CMSGHEX; without text an empty frame."""
        require(self._memory.get("mode") != "TEST", Error.MODE)
        found = _TEXT.fullmatch(text)
        assert found is not None
        payload = octets(text) if command.endswith("HEX") else found[1].encode("latin-1")
        if self._busy:
            return [_BUSY]
        if self._mac.session is None:
            return ["Please join network first"]
        wait_us = self._mac.restricted_us(self._mac.settings.dr)
        if wait_us:
            return [f"No band in {wait_us // 1000}ms"]
        if len(payload) > self.max_payload():
            return [f"Length error {self.max_payload()}"]
        self._begin(self._cycle(command, payload))
        return ["Start"]

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._busy = True
        self._circuit.spawn(self._occupied(work))

    async def _occupied(self, work: Coroutine[Any, Any, None]) -> None:
        await work
        self._busy = False

    async def _join(self) -> None:
        memory, mac = self._memory, self._mac
        mac.session = None
        self._use(memory.mac_settings())
        dev_nonce = memory.get("dev_nonce") + 1
        memory.put(dev_nonce=dev_nonce)
        session = await mac.join(
            bytes.fromhex(memory.get("APPKEY")),
            dev_eui=memory.get("DevEui"),
            join_eui=memory.get("AppEui"),
            dev_nonce=dev_nonce,
            sent=self._log_sent,
        )
        if session is None:
            self._say("JOIN", "Join failed")
        else:
            await asyncio.sleep(SETTLING_S)
            self._say("JOIN", "Network joined")
            address = ":".join(session.dev_addr[at : at + 2] for at in range(0, 8, 2))
            self._say("JOIN", f"NetID {session.net_id} DevAddr {address}")
        self._say("JOIN", "Done")

    async def _cycle(self, command: str, payload: bytes) -> None:
        session, confirmed = self._mac.session, command.startswith("C")
        assert session is not None
        port = self._memory.get("port") if payload else None
        phy = self._mac.uplink(payload, port, confirmed=confirmed)
        cycle: Cycle = Cycle(confirmed)
        await self._mac.deliver(phy, cycle, self._tries(command, confirmed=confirmed))
        self._keep_counters()
        if cycle.acknowledged:
            self._say(command, "ACK Received")
        if cycle.downlink is not None:
            self._tell_downlink(command, cycle.downlink)
        self._say(command, "Done")

    def _tries(self, command: str, *, confirmed: bool) -> Tries:
        memory, settings = self._memory, self._mac.settings
        number = max(memory.get("retry"), 1) if confirmed else memory.get("rept")

        def told(this: int, sent: Transmission) -> None:
            self._log_sent(sent)
            if confirmed:
                self._say(command, "Wait ACK")

        return Tries(number=max(number, settings.nb_trans), wait_us=RETRY_US, told=told)

    def _tell_downlink(self, command: str, received: Received[Downlink]) -> None:
        downlink, caught = received.content, received.heard
        self._log_received(received)
        if downlink.f_pending:
            self._say(command, "FPENDING")
        if downlink.f_port and downlink.payload:
            self._say(command, f'PORT: {downlink.f_port}; RX: "{downlink.payload.hex().upper()}"')
        slot = received.slot if received.slot in ("1", "2") else "2"
        self._say(command, f"RXWIN{slot}, RSSI {caught.rssi_dbm}, SNR {caught.snr_db:.1f}")

    def _log_sent(self, sent: Transmission) -> None:
        if self._memory.get("log") == "DEBUG":
            self._log(f"LORA TX, {_described(sent)}, 8, {sent.power_dbm}")
            self._log(f"LORA TX, {sent.phy.hex().upper()}")

    def _log_received(self, received: Received[Downlink]) -> None:
        if self._memory.get("log") == "DEBUG":
            caught = received.heard
            phy = caught.phy.hex().upper()
            self._log(f"LORA RX, {phy}, {caught.rssi_dbm}, {caught.snr_db:.1f}")

    def _log(self, text: str) -> None:
        self._say("LOG", f"DEBUG {now_us() // 1000} {text}")

    def _begin_fixed_session(self, *, anew: bool) -> None:
        memory = self._memory
        counters = memory.get("counters")
        if counters is None or anew:
            counters = NEVER_COUNTED
        self._mac.session = Session(
            dev_addr=memory.get("DevAddr"),
            keys=Keys(bytes.fromhex(memory.get("NWKSKEY")), bytes.fromhex(memory.get("APPSKEY"))),
            f_cnt_up=counters["up"],
            f_cnt_down=last_down(counters),
        )

    def _keep_counters(self) -> None:
        if self._mac.session is not None and self._memory.get("mode") == "LWABP":
            self._memory.put(counters=self._mac.session.counters())


def _described(sent: Transmission) -> str:
    rate = sent.data_rate
    sf, bw_hz = (rate.sf, rate.bw_hz) if isinstance(rate, Lora) else (0, 0)
    return f"{sent.freq_hz}, SF{sf}, {bw_hz // 1000}KHz"
