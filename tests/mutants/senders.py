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
        "a device does not say that it is done",
        TRAFFIC,
        'self._circuit.say("+EVT:TX_DONE")',
        "pass",
        ANSWERS,
        says="did not say '.EVT:TX_DONE'",
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
