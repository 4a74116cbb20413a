"""The flash of a board outlives its process, and nobody else reads it."""

from pathlib import Path

from bench.virtual.mac import Nvm


def test_what_was_written_is_there_after_a_power_cut(tmp_path: Path) -> None:
    file = tmp_path / "nvm.json"
    Nvm(file).put(DEVEUI="AC1F09FFFE000001", boots=3)
    assert (Nvm(file).get("DEVEUI"), Nvm(file).get("DR", "0")) == ("AC1F09FFFE000001", "0")
    assert file.stat().st_mode & 0o077 == 0  # there are keys in it


def test_erasing_keeps_what_is_named(tmp_path: Path) -> None:
    nvm = Nvm(tmp_path / "nvm.json")
    nvm.put(APPKEY="00", boots=3)
    nvm.erase("boots", "never written")
    again = Nvm(tmp_path / "nvm.json")
    assert (again.get("APPKEY"), again.get("boots")) == (None, 3)
