"""Would a network server be blamed for a device or a station that does not say what it should?

Each mutant has a fault of its own, and must be named, it and nobody else.
"""

from functools import partial

from tests.mutants.mutant import Mutant

SESSION = "bench/virtual/lorawan/air_interface.py"
MAC = "bench/virtual/mac.py"
TRAFFIC = "bench/virtual/rui3_traffic.py"
COMMANDS = "bench/virtual/lorawan/commands.py"

ANSWERS = "scenarios/test_answers.py"
MISSED_WINDOW = "scenarios/test_missed_confirm_window.py"
MAC_COMMANDS = "scenarios/test_mac_commands.py"
JOINS = "scenarios/test_joins.py"

STATION = "bench/virtual/virtual_station.py"
CLOCK = "bench/virtual/transmitter.py"

device_fault = partial(Mutant, owner="device")
station_fault = partial(Mutant, owner="gateway")

MUTANTS = (
    device_fault(
        "a device acknowledges nothing",
        SESSION,
        "            ack=ack,\n        )\n",
        "            ack=False,\n        )\n",
        ANSWERS,
        says="ACK: expected yes, observed no",
    ),
    device_fault(
        "a device acknowledges once for all",
        SESSION,
        "ack, self.ack_due = self.ack_due, False",
        "ack = self.ack_due",
        ANSWERS,
        says="ACK: expected no, observed yes",
    ),
    device_fault(
        "a device keeps its answers to itself",
        SESSION,
        "            octets += answer.octets\n",
        '            octets += b""\n',
        MISSED_WINDOW,
        says="answer to LINK_ADR: expected one, observed none",
    ),
    device_fault(
        "a device does not ask what it is to ask",
        SESSION,
        "        return octets + asked\n",
        "        return octets\n",
        MAC_COMMANDS,
        says="asked for at the console, observed none",
    ),
    device_fault(
        "a device refuses what its region allows",
        MAC,
        "answer = link_adr_ans(power=has_power,",
        "answer = link_adr_ans(power=False,",
        MISSED_WINDOW,
        says="LinkADRAns: expected 07, observed 03",
    ),
    device_fault(
        "a device tells half of its state",
        COMMANDS,
        "bytes([battery, margin_db % 64])",
        "bytes([battery])",
        MAC_COMMANDS,
        says="FOpts: expected whole commands of a device",
    ),
    device_fault(
        "a device that is not heard never asks",
        SESSION,
        "            bit_6=asks,\n",
        "            bit_6=False,\n",
        MAC_COMMANDS,
        says="ADRACKReq: expected yes: 64 frames unheard",
    ),
    device_fault(
        "a device of an older version asks at its lowest data rate",
        MAC,
        "if settings.dr == self.plan.up_drs[0] and not self.stack.asks_at_lowest_dr:",
        "if False:",
        MAC_COMMANDS,
        says="ADRACKReq: expected no: 0 frames unheard",
    ),
    device_fault(
        "a device does not say that it is done",
        TRAFFIC,
        'self._circuit.say("+EVT:TX_DONE")',
        "pass",
        ANSWERS,
        says="did not say '.EVT:TX_DONE'",
    ),
    device_fault(
        "a device asks for no acknowledgement",
        SESSION,
        "Kind.CONFIRMED_UP if confirmed else Kind.UNCONFIRMED_UP",
        "Kind.UNCONFIRMED_UP",
        ANSWERS,
        says="confirmed: expected yes, observed no",
    ),
    device_fault(
        "a device wants to be acknowledged whatever it sends",
        SESSION,
        "Kind.CONFIRMED_UP if confirmed else Kind.UNCONFIRMED_UP",
        "Kind.CONFIRMED_UP",
        MAC_COMMANDS,
        says="confirmed: expected no, observed yes",
    ),
    device_fault(
        "a device leaves out that it obeys",
        SESSION,
        "            adr=adr,\n            bit_6=asks",
        "            adr=False,\n            bit_6=asks",
        MAC_COMMANDS,
        says="ADR: expected yes, observed no",
    ),
    device_fault(
        "a device answers twice in one frame",
        SESSION,
        "            octets += answer.octets\n",
        "            octets += answer.octets * 2\n",
        MAC_COMMANDS,
        says="answers to LINK_ADR: expected 1 in all, observed 2",
    ),
    device_fault(
        "a device answers once more in the next frame",
        SESSION,
        "self.answers = [answer for answer in self.answers if answer.cid in _STICKY]\n        asks",
        "self.answers = self.answers[-1:]\n        asks",
        MAC_COMMANDS,
        says="answers to DEV_STATUS: expected 1 in all, observed 2",
    ),
    device_fault(
        "a device gives every other message the counter of the one before",
        SESSION,
        "self.f_cnt_up, self.f_cnt_up + 1\n",
        "self.f_cnt_up, self.f_cnt_up + self.f_cnt_up % 2\n",
        ANSWERS,
        says="FCnt: expected 11, observed 10",
    ),
    device_fault(
        "a device skips counters",
        SESSION,
        "self.f_cnt_up, self.f_cnt_up + 1\n",
        "self.f_cnt_up, self.f_cnt_up + 2\n",
        ANSWERS,
        says="FCnt: expected 11, observed 12",
    ),
    device_fault(
        "a device does not begin to count as its stack does",
        MAC,
        "first_f_cnt=self.stack.first_f_cnt,",
        "first_f_cnt=1 - self.stack.first_f_cnt,",
        JOINS,
        says="FCnt: expected 1, observed 0",
    ),
    device_fault(
        "a device asks for a sign of life too soon",
        SESSION,
        "return self.unheard >= ADR_ACK_LIMIT",
        "return self.unheard >= 1",
        MAC_COMMANDS,
        says="ADRACKReq: expected no: 1 frames unheard",
    ),
    device_fault(
        "a device misses every other acknowledgement",
        SESSION,
        "        if f_cnt is None or (frame.f_port == 0 and frame.f_opts):",
        "        if f_cnt is None or (frame.ack and f_cnt % 2 == 0):",
        ANSWERS,
        says="downlink in its window: expected one that it hears",
    ),
    device_fault(
        "a device uses each DevNonce twice",
        TRAFFIC,
        'int(self._memory.kept("dev_nonce", 0)) + 1',
        'int(self._memory.kept("dev_nonce", 0)) // 2 * 2 + 1',
        JOINS,
        says="DevNonce: expected more than 1, observed 1",
    ),
    device_fault(
        "a device counts its DevNonces backwards",
        TRAFFIC,
        "        return dev_nonce\n",
        "        return 60_000 - dev_nonce\n",
        JOINS,
        says="DevNonce: expected more than 59999, observed 59998",
    ),
    device_fault(
        "a device signs what it asks to join with by another key",
        MAC,
        "phy = join_request(app_key,",
        "phy = join_request(app_key[::-1],",
        JOINS,
        says="MIC: expected",
    ),
    device_fault(
        "a device opens RX1 half a second late",
        MAC,
        "uplink.end_us + settings.rx1_delay_us, rx1_dr, rx1_freq_hz)",
        "uplink.end_us + settings.rx1_delay_us + 500_000, rx1_dr, rx1_freq_hz)",
        ANSWERS,
        says="downlink in its window: expected one that it hears",
    ),
    station_fault(
        "a station makes up how strong it hears",
        STATION,
        "rssi_dbm, snr_db = as_stored(rssi_dbm, snr_db)",
        "rssi_dbm, snr_db = as_stored(rssi_dbm - 3, snr_db)",
        ANSWERS,
        says="rssi: expected -86.0, observed -89.0",
    ),
    station_fault(
        "a station makes up how clear it hears",
        STATION,
        "rssi_dbm, snr_db = as_stored(rssi_dbm, snr_db)",
        "rssi_dbm, snr_db = as_stored(rssi_dbm, snr_db - 2)",
        ANSWERS,
        says="snr: expected 12.0, observed 10.0",
    ),
    station_fault(
        "a station does not tell what it has sent",
        STATION,
        "    def _emitted(self, job: Job) -> None:\n",
        "    def _emitted(self, job: Job) -> None:\n        return\n",
        ANSWERS,
        says="dntxed of what it has sent: expected one, observed none",
    ),
    station_fault(
        "a station does not come again",
        STATION,
        "                await self._serve(link)\n                if not",
        "                await self._serve(link)\n                await asyncio.Event().wait()\n"
        "                if not",
        "scenarios/test_station_clock.py::"
        "test_a_session_that_nobody_reports_runs_after_ten_seconds",
        says="new connection: expected one, observed none",
    ),
    device_fault(
        "a device has another address",
        SESSION,
        "            self.dev_addr,\n            self.keys,\n            f_cnt,",
        '            self.dev_addr[:-1] + "F",\n            self.keys,\n            f_cnt,',
        ANSWERS,
        says="DevAddr: expected",
    ),
    station_fault(
        "a station sends 300 ms late",
        CLOCK,
        "        self._at(job.start_us, self._send, job)\n\n    def _is_blocked",
        "        self._at(job.start_us + 300_000, self._send, job)\n\n    def _is_blocked",
        ANSWERS,
        says="time: expected when its window opens",
    ),
    station_fault(
        "a station sends with another data rate",
        STATION,
        "            dr=job.dr,\n            power_dbm",
        "            dr=max(job.dr - 1, 0),\n            power_dbm",
        ANSWERS,
        says="data rate and frequency: expected",
    ),
    station_fault(
        "a station sends other octets",
        STATION,
        "            job.wanted.pdu,\n            direction",
        "            job.wanted.pdu[:-1] + bytes(1),\n            direction",
        ANSWERS,
        says="octets: expected some that it was handed",
    ),
    station_fault(
        "a station tells of each frame twice",
        STATION,
        "for frame in self._queue.take_all():",
        "for frame in self._queue.take_all() * 2:",
        ANSWERS,
        says="times: expected once, observed again",
    ),
    station_fault(
        "a station tells of frames when it is too late",
        STATION,
        "told_us = poll_us + self._latency",
        "told_us = poll_us + 700_000 + self._latency",
        ANSWERS,
        says="time: expected when it has ended",
    ),
    station_fault(
        "a station tells of another downlink than it has sent",
        "bench/verdict/wire.py",
        '            "diid": wanted.diid,\n',
        '            "diid": wanted.diid + 1,\n',
        ANSWERS,
        says="diid: expected one that it was handed",
    ),
    station_fault(
        "a station tells of another channel",
        STATION,
        "frame.phy, dr=frame.dr, freq_hz=frame.freq_hz,",
        "frame.phy, dr=frame.dr, freq_hz=frame.freq_hz + 200_000,",
        ANSWERS,
        says="Freq: expected 86",
    ),
    station_fault(
        "a station tells of another data rate",
        STATION,
        "frame.phy, dr=frame.dr, freq_hz=frame.freq_hz,",
        "frame.phy, dr=max(0, frame.dr - 1), freq_hz=frame.freq_hz,",
        ANSWERS,
        says="DR: expected 5, observed 4",
    ),
    station_fault(
        "the clock of a station goes a thousandth too fast",
        CLOCK,
        "self._counter_us + elapsed_us + elapsed_us * self._ppm // _PPM",
        "self._counter_us + elapsed_us + elapsed_us // 1000",
        MISSED_WINDOW,
        says="xtime: expected",
    ),
)
