from pathlib import Path

import pytest

from bench.host.lns_files import device_tables, toml_text
from bench.rig.in_memory.written_files import DiskStore
from bench.rig.provisioning import provision
from lns.config import ConfigError, load_devices
from lns.dedup.strategy import Strategy

FACTS = [
    {},
    {"activation": "otaa"},
    {"strategy": Strategy.DROP, "relaxed_f_cnt": False, "f_cnt_bits": 16, "nb_trans": 3},
    {"device_class": "C"},
    {"activation": "otaa", "server": "lns-a", "strategy": Strategy.MARK},
]


@pytest.mark.parametrize("facts", FACTS)
def test_the_network_server_reads_the_device_that_was_written(
    tmp_path: Path, facts: dict[str, object]
) -> None:
    record = provision("alpha", 1, seed=1, **facts).record
    file = tmp_path / "devices.toml"
    file.write_text(toml_text({"device": device_tables([record])}))
    [read] = load_devices(file)
    for name in record.__dataclass_fields__:
        if name != "name":
            assert getattr(read, name) == getattr(record, name), name
    assert record.name in read.name


def test_a_mistake_in_what_a_server_reads_is_told_alike_in_every_run() -> None:
    settings = {"lns": {"id": "lns-a", "listen": "nowhere"}}
    said = []
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"^lns\.toml:3: lns\.listen: ") as found:
            DiskStore(print).configured(settings, [])
        said.append(str(found.value))
    assert said[0] == said[1]
