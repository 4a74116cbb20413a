"""Would anybody notice a virtual board that is not what real ones are?

Each mutant puts back what a virtual board did otherwise than the stacks that were seen on the air.
"""

from tests.mutants.mutant import Mutant

MAC = "bench/virtual/mac.py"
OBEDIENCE = "bench/virtual/obedience.py"
SETTINGS = "bench/virtual/mac_settings.py"
SESSION = "bench/virtual/session.py"
STACK = "bench/virtual/stack.py"
STACKS = "tests/bench/virtual/test_stacks.py"
DEVICE = "tests/bench/virtual/test_device.py"
VECTORS = "tests/bench/virtual/test_lorawan.py"

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
        SETTINGS,
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
        "bench/virtual/class_a_radio.py",
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
        "bench/virtual/lorawan/frames.py",
        "    if f_cnt <= newest:\n",
        "    if f_cnt < newest:\n",
        VECTORS,
    ),
)
