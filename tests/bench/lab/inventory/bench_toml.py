"""A `bench.toml` for tests: complete, and with one thing changed."""

from pathlib import Path

BENCH = """\
rig = "hardware"
[bench]
name = "lab-1"
region = "EU868"
tap = "127.0.0.1:6090"
[limits]
eirp_dbm_max = 14
[[device]]
name = "dut"
dialect = "rui3"
port = "/dev/lora/dut"
dev_eui = "AC1F09FFFE000001"
dr = 5
power_dbm = 14
power = "dut-usb"
reset = "dut-nrst"
[[device]]
name = "second"
dialect = "lora-e5"
usb_serial = "0123ABCD"
dev_eui = "AC1F09FFFE000002"
[[replayer]]
name = "replayer"
dialect = "rui3"
usb_path = "1-1.2.1"
[[gateway]]
name = "west"
eui = "0016C001F1500001"
kind = "raspberry-pi"
board = "RAK5146"
ssh = "pi@192.168.10.11"
attenuator = "step-a"
[[power]]
name = "dut-usb"
kind = "uhubctl"
location = ["1-1.2", "2-1.2"]
port = 2
[[power]]
name = "dut-nrst"
kind = "relay"
port = "/dev/lora/relay"
on = "A0 01 01 A2"
off = "A0 01 00 A1"
[[attenuator]]
name = "step-a"
kind = "command"
set = ["rcdat", "--db", "{db}"]
db = 20
"""


def bench_toml(folder: Path, old: str = "", new: str = "") -> Path:
    """The file, with `old` replaced by `new`; both have to be there."""
    assert old in BENCH, f"{old!r} is not in it"
    path = folder / "bench.toml"
    path.write_text(BENCH.replace(old, new, 1) if old else BENCH + new)
    return path
