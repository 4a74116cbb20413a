from importlib import metadata
from pathlib import Path

import pytest

from bench.doctor.check import State
from bench.doctor.packages import (
    look_at_packages,
    look_at_python,
    look_at_rig,
    module_folder,
    pinned,
    project_folder,
)

LOCK = """
# At run time
Typing_Extensions==4.16.0
# For development
ruff==0.17.5   # style
"""


def test_a_lock_file_has_two_parts() -> None:
    assert pinned(LOCK) == ({"typing-extensions": "4.16.0"}, {"ruff": "0.17.5"})


@pytest.mark.parametrize(
    ("line", "state", "said"),
    [
        ("pytest=={}", State.OK, "all 1 as in requirements.lock"),
        ("pytest==0.0.1 # {}", State.WARNING, "1 of 1 differ from requirements.lock: pytest {}"),
        ("nothing-like-it==1", State.MISSING, "not installed: nothing-like-it"),
        ("# For development\nnothing-like-it==1", State.WARNING, "nothing-like-it not installed"),
    ],
)
def test_packages_are_compared_with_the_lock(
    tmp_path: Path, line: str, state: State, said: str
) -> None:
    version = metadata.version("pytest")
    lock = tmp_path / "requirements.lock"
    lock.write_text(line.format(version))
    looked = look_at_packages(lock)
    assert looked.state is state
    assert said.format(version) in looked.found


def test_without_a_lock_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    assert look_at_packages(tmp_path / "requirements.lock").state is State.WARNING


def test_this_python_is_new_enough() -> None:
    assert look_at_python().state in (State.OK, State.WARNING)


def test_modules_are_found_without_an_import() -> None:
    assert module_folder("bench") == project_folder() / "bench"
    assert module_folder("nothing_like_it") is None


def test_a_rig_is_a_module_of_this_version() -> None:
    assert look_at_rig("simulated").state is State.OK
    assert look_at_rig("cardboard").state is State.MISSING
