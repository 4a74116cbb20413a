from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from bench.device.at_session import RUI3
from bench.device.dialects import DIALECTS, driver_for, line_for
from bench.device.lora_e5 import E5, LORA_E5, SEEEDUINO, LoraE5Device
from bench.device.rui3 import Rui3Device
from bench.device.serial_line import SerialLine
from bench.lab.inventory.sections import RadioSection
from lns.lorawan.identifiers import Eui
from tests.bench.device.far_end import FarEnd, Rui3Settings
from tests.bench.device.test_lora_e5 import E5Settings
from tests.bench.device.wired import on_wires

DEV_EUI = Eui("70B3D57ED0000001")


def test_each_dialect_has_its_driver_its_radio_and_its_line() -> None:
    lines = {name: (dialect.baud, dialect.dtr) for name, dialect in DIALECTS.items()}
    assert lines == {
        "rui3": (115_200, False), "lora-e5": (9_600, False), "seeeduino": (115_200, True)
    }  # fmt: skip
    assert {name: dialect.grammar for name, dialect in DIALECTS.items()} == {
        "rui3": RUI3,
        "lora-e5": E5,
        "seeeduino": E5,
    }


def test_an_inventory_names_the_dialects_that_somebody_speaks() -> None:
    assert get_args(get_type_hints(RadioSection)["dialect"]) == tuple(DIALECTS)


def test_the_driver_of_a_dialect() -> None:
    def driver(dialect: str) -> object:
        return driver_for(dialect, "alpha", DEV_EUI, SerialLine("x"), lambda *told: None)

    assert isinstance(driver("rui3"), Rui3Device)
    e5, seeeduino = driver("lora-e5"), driver("seeeduino")
    assert isinstance(e5, LoraE5Device)
    assert isinstance(seeeduino, LoraE5Device)
    assert (e5.lineage, seeeduino.lineage) == (LORA_E5, SEEEDUINO)
    with pytest.raises(ValueError, match="'rui4'; known: rui3, lora-e5, seeeduino"):
        driver("rui4")


def test_the_inventory_may_say_otherwise_how_a_line_is_opened() -> None:
    assert vars(line_for("lora-e5", "x"))["_baud"] == 9_600
    changed = vars(line_for("lora-e5", "x", baud=115_200, dtr=True))
    assert (changed["_baud"], changed["_dtr"]) == (115_200, True)


@pytest.mark.parametrize(
    ("dialect", "dev_eui", "firmware"),
    [("rui3", "70B3D57ED0000001", "RUI_4.1.0_RAK3172-H"),
     ("lora-e5", "2CF7F12000000001", "4.0.11"), ("seeeduino", "2CF7F12000000001", "4.0.11")],
)  # fmt: skip
@on_wires
async def test_all_of_them_are_used_in_the_same_way(
    tmp_path: Path, dialect: str, dev_eui: str, firmware: str
) -> None:
    board = Rui3Settings() if dialect == "rui3" else E5Settings()
    async with FarEnd(board, tmp_path / "port") as far:
        line = line_for(dialect, far.port)
        async with driver_for(dialect, "alpha", Eui(dev_eui), line, far.record) as device:
            assert await device.identify() == firmware
            assert (device.name, device.firmware) == ("alpha", firmware)
            assert device.traits.sets_counters is (dialect != "rui3")
            assert (await device.radiation()).region == "EU868"
            await device.returned(1_000_000)
            await device.silence()
