from pathlib import Path

import pytest

from bench.doctor import Places, conclusion, diagnosis
from bench.doctor.installed import Check, Purpose, State


def check(name: str, purpose: Purpose, state: State) -> Check:
    return Check(name, purpose, state, "")


def test_an_empty_machine_is_diagnosed_without_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("PATH", ""), ("HOME", str(tmp_path)), ("XDG_CACHE_HOME", "")):
        monkeypatch.setenv(name, value)
    checks = diagnosis(Places(tmp_path / "runs", str(tmp_path / "lake"), root=tmp_path))
    found = {(check.purpose, check.name): check.state for check in checks}
    assert found[Purpose.EMULATED, "Mosquitto"] is State.MISSING
    assert found[Purpose.HARDWARE, "serial ports"] is State.MISSING
    assert found[Purpose.NIGHTLY, "folders"] is State.OK
    assert all(bool(check.remedy) is (check.state is not State.OK) for check in checks)


@pytest.mark.parametrize(
    ("checks", "said"),
    [
        (
            [check("Java", Purpose.NIGHTLY, State.WARNING)],
            "The nightly on the simulated rig, the emulated rig and the hardware rig can run.",
        ),
        (
            [check("Java", Purpose.NIGHTLY, State.MISSING)],
            "The nightly on the simulated rig lacks Java; the emulated rig waits for that; "
            "the hardware rig waits for that.",
        ),
        (
            [
                check("Mosquitto", Purpose.EMULATED, State.MISSING),
                check("rig", Purpose.HARDWARE, State.MISSING),
                check("serial ports", Purpose.HARDWARE, State.MISSING),
            ],
            "The nightly on the simulated rig can run; the emulated rig lacks Mosquitto; "
            "the hardware rig lacks its driver in this version and serial ports.",
        ),
    ],
)
def test_the_last_sentence_says_what_works(checks: list[Check], said: str) -> None:
    assert conclusion(checks) == said
