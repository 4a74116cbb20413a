from pathlib import Path

import pytest

from bench.doctor.installed import State, look_at_archive, look_at_java, look_at_spark
from tests.bench.test_spark import no_java_of_the_user, some_java

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
