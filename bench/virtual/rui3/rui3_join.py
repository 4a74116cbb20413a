"""How does RUI3 join, how often, and what does it say of it?"""

import asyncio
import re
from collections.abc import Callable

from bench.device.interfaces import Joining
from bench.transmission import Eui, Transmission
from bench.virtual.board.circuit import Circuit
from bench.virtual.crafted import Identity, join
from bench.virtual.rui3.rui3_memory import Rui3Memory
from bench.virtual.rui3.rui3_status import Status
from bench.virtual.rui3.rui3_traffic import Rui3Traffic
from bench.virtual.rui3.rui3_version import Rui3Version

_JOIN = re.compile(r"([01])(?::([01])(?::(\d{1,3})(?::(\d{1,3}))?)?)?")
_PERIODS_S = range(7, 256)
_ATTEMPTS_MAX = 255
_DEFAULTS = (0, 0, 8, 0)
_JOIN_FAIL = "7"  # LoRaMacEventInfoStatus: a join-accept came, with a wrong MIC or JoinNonce


class Rui3Join:
    """Joins of one board; remembers how many attempts are left, and whether it was told to stop."""

    def __init__(
        self,
        circuit: Circuit,
        memory: Rui3Memory,
        version: Rui3Version,
        traffic: Rui3Traffic,
        say: Callable[[str], None],
    ) -> None:
        self.begin_fixed_session: Callable[[], None] = lambda: None
        self._circuit = circuit
        self._memory = memory
        self._version = version
        self._traffic = traffic
        self._say = say
        self.last_join: Joining | None = None
        self._nonces = circuit.chance("nonce")
        self._round = 0  # of the attempts that belong to one command

    def boot(self) -> None:
        """Join by itself, where that was asked for."""
        if self._parameters()[1] and self._memory.number("NJM"):
            self._start()

    def told(self) -> str:
        """AT+JOIN=?"""
        return ":".join(map(str, self._parameters()))

    def write(self, argument: str) -> Status:
        """AT+JOIN=start:auto:period:attempts; what is left out stays as it was."""
        found = _JOIN.fullmatch(argument)
        if found is None:
            return Status.PARAM_ERROR
        before = self._parameters()
        words = zip(found.groups(), before, strict=True)
        parameters = [known if text is None else int(text) for text, known in words]
        if parameters[2] not in _PERIODS_S or parameters[3] > _ATTEMPTS_MAX:
            return Status.PARAM_ERROR
        self._memory.keep(join=parameters)
        if not parameters[0]:
            self._round += 1
            return Status.OK
        return self.run()

    def run(self) -> Status:
        """AT+JOIN: begin."""
        if not self._memory.number("NJM"):
            self.begin_fixed_session()
            return Status.OK  # and no event
        if self._traffic.busy:
            return Status.BUSY_ERROR
        held_us = self._traffic.join_times.wait_us()
        if held_us:
            self._traffic.tell_restricted(held_us)
        if held_us or self._traffic.is_restricted():
            return Status.BUSY_ERROR
        self._start()
        return Status.OK

    def _parameters(self) -> tuple[int, int, int, int]:
        start, auto, period_s, attempts = self._memory.kept("join", _DEFAULTS)
        return start, auto, period_s, attempts

    def _start(self) -> None:
        self._round += 1
        self._circuit.spawn(self._attempts(self._round))

    async def _attempts(self, this_round: int) -> None:
        """One attempt, and as many more as were asked for."""
        _, _, period_s, attempts = self._parameters()
        for left in range(attempts, -1, -1):
            self._traffic.busy = True
            try:
                has_joined = await self._attempt()
            finally:
                self._traffic.busy = False
            self._say("+EVT:JOINED" if has_joined else f"+EVT:JOIN_FAILED_{self._why()}")
            if has_joined or not left or self._round != this_round:
                return
            await asyncio.sleep(period_s)
            if self._round != this_round:
                return

    def _why(self) -> str:
        return _JOIN_FAIL if self._traffic.mac.accept_was_refused else "RX_TIMEOUT"

    async def _attempt(self) -> bool:
        memory, mac = self._memory, self._traffic.mac
        if not self._circuit.keeps_session:
            mac.session = None
        mac.join_nonce = int(memory.kept("join_nonce", 0))
        dev_nonce, app_key = self._next_dev_nonce(), bytes.fromhex(memory.get("APPKEY"))
        who = Identity(Eui(memory.get("DEVEUI")), Eui(memory.get("APPEUI")), app_key)
        joining = self.last_join = join(who, dev_nonce)

        def told(sent: Transmission) -> None:
            joining.transmissions.append(sent)
            self._traffic.join_times.note(sent)
            self._traffic.tell_sent(sent)

        session = await mac.join(
            app_key,
            dev_eui=memory.get("DEVEUI"),
            join_eui=memory.get("APPEUI"),
            dev_nonce=dev_nonce,
            sent=told,
            facts={"dev_eui": who.dev_eui, "frame_id": joining.frame_id, "genuine": True},
        )
        if session is None:
            return False
        joining.accepted = True
        memory.keep(join_nonce=session.join_nonce)
        return True

    def _next_dev_nonce(self) -> int:
        """Counted and kept from 4.2 on, drawn before."""
        if self._traffic.mac.stack.draws_dev_nonce:
            return self._nonces.randrange(1 << 16)
        dev_nonce = int(self._memory.kept("dev_nonce", 0)) + 1
        self._memory.keep(dev_nonce=dev_nonce)
        return dev_nonce
