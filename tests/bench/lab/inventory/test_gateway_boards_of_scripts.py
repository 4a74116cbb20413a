"""The scripts for a gateway stand alone and have a copy of the table; it is the same table."""

import tomllib
from pathlib import Path

from bench.lab.inventory.sections import TABLE

ROOT = Path(__file__).resolve().parents[4]


def test_the_scripts_have_the_same_boards() -> None:
    copy = ROOT / "firmware_scripts/gateway/gateway_boards.toml"
    assert tomllib.loads(copy.read_text("utf-8")) == tomllib.loads(TABLE.read_text("utf-8"))
