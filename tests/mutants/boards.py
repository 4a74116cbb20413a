"""Would anybody notice a virtual board or station that is not what real ones are?

Each mutant puts back what one did otherwise than the real ones that were watched.
"""

from tests.mutants.mutant import Mutant

MAC = "bench/virtual/mac.py"
OBEDIENCE = "bench/virtual/mac.py"
COMMANDS = "bench/virtual/lorawan/air_interface.py"
SETTINGS = "bench/virtual/mac.py"
SESSION = "bench/virtual/lorawan/air_interface.py"
STACK = "bench/virtual/stacks.py"
STACKS = "tests/bench/virtual/test_stacks.py"
DEVICE = "tests/bench/virtual/test_device.py"
VECTORS = "tests/bench/virtual/test_lorawan.py"
STATION = "tests/bench/virtual/test_virtual_station.py"
CLOCK = "tests/bench/virtual/test_transmitter_clock.py"

MUTANTS = (
    Mutant(
        "a board obeys without ADR",
        OBEDIENCE,
        "        if settings.adr:\n            settings.dr",
        "        if True:\n            settings.dr",
        STACKS,
    ),
    Mutant(
        "a board judges a data rate without ADR",
        OBEDIENCE,
        "if not settings.adr or last.dr == _KEEP",
        "if last.dr == _KEEP",
        DEVICE,
    ),
    Mutant(
        "a board takes any JoinNonce",
        MAC,
        "accept.join_nonce <= self.join_nonce",
        "accept.join_nonce < 0",
        DEVICE,
    ),
    Mutant(
        "a board takes an equal JoinNonce",
        MAC,
        "accept.join_nonce <= self.join_nonce",
        "accept.join_nonce < self.join_nonce",
        DEVICE,
    ),
    Mutant(
        "a board ignores the mask",
        OBEDIENCE,
        "        settings.masked = masked\n",
        "        pass\n",
        STACKS,
    ),
    Mutant("a board keeps NbTrans 0", OBEDIENCE, "max(last.nb_trans, 1)", "last.nb_trans", STACKS),
    Mutant(
        "a board grants channels that are not there",
        COMMANDS,
        "if named <= known else None",
        "if True else None",
        STACKS,
    ),
    Mutant(
        "a board repeats unconfirmed frames like confirmed ones",
        MAC,
        "            if cycle.confirmed:\n",
        "            if True:\n",
        STACKS,
    ),
    Mutant(
        "a board changes the channel with every repetition",
        STACK,
        "    changes_channel=False,\n    gives_up_rx2=True,\n)\nLORAMAC_44",
        "    changes_channel=True,\n    gives_up_rx2=True,\n)\nLORAMAC_44",
        STACKS,
    ),
    Mutant(
        "a board listens on after a foreign frame",
        "bench/virtual/device.py",
        "listening.gave_up = content is None and listening.gives_up_rx2",
        "listening.gave_up = False",
        STACKS,
    ),
    Mutant(
        "a board waits after a foreign frame",
        MAC,
        "            if listened.gave_up:\n",
        "            if False:\n",
        STACKS,
    ),
    Mutant(
        "a board answers once",
        SESSION,
        "if answer.cid in _STICKY]",
        "if False]",
        STACKS,
    ),
    Mutant(
        "a board answers for ever",
        SESSION,
        "if answer.cid not in _STICKY]",
        "]",
        STACKS,
    ),
    Mutant(
        "a board never asks for a sign of life",
        SESSION,
        "asks, self.unheard = adr and self.wants_sign_of_life,",
        "asks, self.unheard = False,",
        STACKS,
    ),
    Mutant(
        "a board asks one frame too late",
        SESSION,
        "return self.unheard >= ADR_ACK_LIMIT",
        "return self.unheard > ADR_ACK_LIMIT",
        STACKS,
    ),
    Mutant(
        "a board never goes back to a lower data rate",
        MAC,
        "over % ADR_ACK_DELAY == 0:",
        "over % ADR_ACK_DELAY == 1 and over < 0:",
        STACKS,
    ),
    Mutant(
        "a board raises its power only with its data rate",
        MAC,
        "            if over >= 0:\n",
        "            if over >= ADR_ACK_DELAY:\n",
        STACKS,
    ),
    Mutant(
        "a board counts what it heard as unheard",
        SESSION,
        "        self.unheard = 0\n",
        "        pass\n",
        STACKS,
    ),
    Mutant(
        "LMIC begins with 1",
        STACK,
        'name="LMIC",\n    first_f_cnt=0',
        'name="LMIC",\n    first_f_cnt=1',
        STACKS,
    ),
    Mutant(
        "LMIC keeps no duty cycle",
        STACK,
        "    keeps_duty_cycle=True,\n",
        "    keeps_duty_cycle=False,\n",
        STACKS,
    ),
    Mutant(
        "a board listens where its region says, whatever it was told",
        MAC,
        "rx1_dr = plan.rx1_dr(dr, settings.rx1_dr_offset)",
        "rx1_dr = plan.rx1_dr(dr, 0)",
        DEVICE,
    ),
    Mutant(
        "a board believes a downlink twice",
        "bench/virtual/lorawan/air_interface.py",
        "    if f_cnt <= newest:\n",
        "    if f_cnt < newest:\n",
        VECTORS,
    ),
    Mutant(
        "a station keeps its frames while its server is away",
        "bench/virtual/virtual_station.py",
        "                    self._queue.take_all()\n                    await",
        "                    await",
        STATION,
    ),
    Mutant(
        "a station hears while its server is away",
        "bench/virtual/virtual_station.py",
        "                    self._switch_radio_off()\n                    self._queue",
        "                    self._queue",
        STATION,
    ),
    Mutant(
        "a station waits for its server as for its link",
        "bench/virtual/virtual_station.py",
        "wait_s = AWAY_S * min(self._failures, AWAY_MAX)",
        "wait_s = 1 << min(self._failures, 4)",
        STATION,
    ),
    Mutant(
        "a station discovers its server after every loss",
        "bench/virtual/virtual_station.py",
        "if not await self._back_off.lost() and",
        "if not (await self._back_off.lost() and False) and",
        STATION,
    ),
    Mutant(
        "a station never draws the byte of its last session",
        "bench/virtual/transmitter.py",
        "[clock._session for clock in self._apart]",
        "[clock._session for clock in (self, *self._apart)]",
        CLOCK,
    ),
    Mutant(
        "the counter of a station starts anywhere",
        "bench/virtual/transmitter.py",
        "_START_COUNTER_MAX_US = 1 << 20",
        "_START_COUNTER_MAX_US = 1 << 40",
        CLOCK,
    ),
    Mutant(
        "equal frames that wait are told each",
        "bench/virtual/virtual_station.py",
        "if queued.phy == frame.phy and queued.dr == frame.dr:",
        "if queued.phy == frame.phy and queued.dr == frame.dr"
        " and abs(queued.xtime - frame.xtime) < POLL_US:",
        STATION,
    ),
    Mutant(
        "strength is cut off at the ends",
        "bench/virtual/virtual_station.py",
        "return -(-rssi_dbm % 256),",
        "return min(rssi_dbm, 0),",
        STATION,
    ),
    Mutant(
        "RSSI is rounded",
        "bench/virtual/air.py",
        "Heard(transmission, int(rssi_dbm),",
        "Heard(transmission, round(rssi_dbm),",
        "tests/bench/virtual/test_medium.py",
    ),
    Mutant(
        "a station queues 10 000 bytes",
        "bench/virtual/virtual_station.py",
        "BYTES_MAX = 10 * 1024",
        "BYTES_MAX = 10_000",
        STATION,
    ),
    Mutant(
        "a station has no firmware",
        "bench/verdict/wire.py",
        '            "package": firmware,\n',
        '            "package": None,\n',
        STATION,
    ),
    Mutant(
        "the clock of a host in seconds",
        "bench/virtual/virtual_station.py",
        "mux_time=time_s, up_us=now_us()",
        "mux_time=time_s, up_us=now_us() // 1_000_000",
        STATION,
    ),
    Mutant(
        "GPS time without asking anybody",
        "bench/virtual/virtual_station.py",
        "self._gps_ahead_us, self._pulses = None, 0",
        "self._gps_ahead_us, self._pulses = 0, 0",
        STATION,
    ),
    Mutant(
        "GPS time is what the server says",
        "bench/virtual/virtual_station.py",
        "(ahead_us + _SECOND_US // 2) // _SECOND_US * _SECOND_US",
        "ahead_us",
        STATION,
    ),
    Mutant(
        "an answer of seconds ago is believed",
        "bench/virtual/virtual_station.py",
        "if not 0 <= now_us() - asked_us < _ROUND_TRIP_MAX_US or",
        "if",
        STATION,
    ),
)
