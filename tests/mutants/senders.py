"""Would a network server be blamed for a device that does not send what it owes?

Each mutant is a device with a fault of its own; the device must be named, and nobody else.
"""

from functools import partial

from tests.mutants.mutant import Mutant

SESSION = "bench/virtual/lorawan/air_interface.py"
MAC = "bench/virtual/mac.py"
COMMANDS = "bench/virtual/lorawan/commands.py"

ANSWERS = "scenarios/test_answers.py"
MISSED_WINDOW = "scenarios/test_missed_confirm_window.py"
MAC_COMMANDS = "scenarios/test_mac_commands.py"

device_fault = partial(Mutant, owner="device")

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
)
