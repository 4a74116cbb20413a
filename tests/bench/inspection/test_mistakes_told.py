import pytest

from bench.inspection.mistakes_told import half_told
from bench.verdict.owner import Scrutiny

CHECK = Scrutiny(rule="configuration", of="what is said", t_us=0)
WHOLE = (
    "lns.toml:3: lns.regoin: unknown key; did you mean 'region'?",
    "lns.toml:3: lns.x: unknown key; known here: devices, id",
    "lns.toml:4: capture.path: the name of a capture ends in .jsonl, by which scores and reports"
    " find it",
    "lns.toml:3: lns.public_uri: too long: a station takes 127 characters, not 128",
    "devices.toml:7: device[0].class: Input should be 'A' or 'C'",
    "devices.toml: cannot be read: it is not UTF-8",
    "stdout: No space left on device",
)
HALF = (
    "lns.toml:3: lns.regoin: unknown key; did you mean 'region'",
    "lns.toml:3: lns.x: unknown key",
    "lns.toml:4: capture.path: the name of a capture ends in .jsonl",
    "lns.toml:3: lns.public_uri: too long: a station takes 127 characters, not 127",
    "devices.toml:7: device[0].class: Input should be",
    "lns.toml: lns.regoin: is missing",
)


@pytest.mark.parametrize("line", WHOLE)
def test_a_whole_sentence_is_one(line: str) -> None:
    assert [*half_told([line], CHECK)] == []


@pytest.mark.parametrize("line", HALF)
def test_half_a_sentence_is_found(line: str) -> None:
    assert len([*half_told([line], CHECK)]) == 1
