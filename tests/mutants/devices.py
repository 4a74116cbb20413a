"""Would anybody notice a network server that misunderstands what real devices do?"""

from tests.mutants.mutant import Mutant

MAC = "scenarios/test_mac_commands.py"
LAYER = "tests/lns/uplink/test_mac_layer.py"
STATUS = "tests/lns/downlink/test_device_status.py"
UPLINK = "tests/lns/uplink/test_data.py"

MUTANTS = (
    Mutant(
        "LinkADRReq without the ADR bit",
        "lns/uplink/mac_layer.py",
        "return asked.adr and session.nb_trans != device.nb_trans",
        "return session.nb_trans != device.nb_trans",
        MAC,
    ),
    Mutant(
        "LinkADRReq granted before it is answered",
        "lns/uplink/mac_layer.py",
        "    session.nb_trans_asked = device.nb_trans\n",
        "    session.nb_trans_asked = session.nb_trans = device.nb_trans\n",
        MAC,
    ),
    Mutant(
        "DeviceTimeReq wants no answer",
        "lns/uplink/mac_layer.py",
        "return self.ack or self.link_check or self.device_time or self.any_downlink",
        "return self.ack or self.link_check or self.any_downlink",
        UPLINK,
    ),
    Mutant(
        "DeviceTimeReq is not answered",
        "lns/uplink/mac_layer.py",
        "        elif isinstance(command, DeviceTimeReq):\n",
        "        elif False:\n",
        MAC,
    ),
    Mutant(
        "time in 255ths of a second",
        "lns/uplink/mac_layer.py",
        "rest_us * 256 // 1_000_000",
        "rest_us * 255 // 1_000_000",
        LAYER,
    ),
    Mutant(
        "time of the Unix epoch",
        "lns/uplink/mac_layer.py",
        "return gps_time_us(utc()) - (now_us() - ended_us)",
        "return round(utc().timestamp() * 1e6) - (now_us() - ended_us)",
        UPLINK,
    ),
    Mutant(
        "time of the answer instead of the frame",
        "lns/uplink/mac_layer.py",
        "return gps_time_us(utc()) - (now_us() - ended_us)",
        "return gps_time_us(utc())",
        UPLINK,
    ),
    Mutant(
        "time of the server where a station has GPS",
        "lns/uplink/mac_layer.py",
        "    if reception.gps_us > 0:\n",
        "    if False:\n",
        UPLINK,
    ),
    Mutant(
        "status is not told",
        "lns/uplink/data.py",
        "if status is not None and facts.is_first:",
        "if False:",
        MAC,
    ),
    Mutant(
        "status told by every copy",
        "lns/uplink/data.py",
        "if status is not None and facts.is_first:",
        "if status is not None:",
        STATUS,
    ),
    Mutant(
        "status asked for without end",
        "lns/uplink/mac_layer.py",
        "wanted.askings >= ASKED_MAX",
        "False",
        STATUS,
    ),
    Mutant(
        "status asked for although it is told",
        "lns/uplink/data.py",
        "            self._downlinks.statuses.answered(device.dev_eui)\n",
        "            pass\n",
        MAC,
    ),
    Mutant(
        "status asked for with every answer",
        "lns/uplink/mac_layer.py",
        "return over_us is None or now_us() - over_us >= device.dev_status_s * 1_000_000",
        "return True",
        MAC,
    ),
    Mutant(
        "a dialect of its own in the plan",
        "bench/plan.py",
        "return Board(name=name, dialect=dialect, traits=dialect_of(dialect).traits)",
        "from dataclasses import replace\n\n"
        "    traits = replace(dialect_of(dialect).traits, sets_counters=dialect == 'lora-e5')\n"
        "    return Board(name=name, dialect=dialect, traits=traits)",
        "tests/bench/plan/test_needs.py",
    ),
    Mutant(
        "any board begins with FCnt 0",
        "bench/plan.py",
        "return says and self.next_f_cnt != first_f_cnt",
        "return says and bool(self.next_f_cnt)",
        "tests/bench/plan/test_needs.py",
    ),
    Mutant(
        "whatever a gateway sends has to be heard",
        "bench/rig/provisioning.py",
        "        if in_rx1 or in_rx2:\n",
        "        if True:\n",
        "tests/bench/rig/test_device_book.py",
    ),
    Mutant(
        "an answer on the air is never missed",
        "bench/rig/provisioning.py",
        "            self.on_air.append(answer)\n",
        "            pass\n",
        "tests/bench/rig/test_device_book.py",
    ),
)
