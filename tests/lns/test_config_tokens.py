"""`tokens.toml`: who has to send which `Authorization`."""

from pathlib import Path

import pytest

from lns.config import ConfigError, load_tokens

WEST, EAST = "0016C001F1500001", "B827EBFFFE123456"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens.toml"


def test_a_token_is_written_out_or_in_the_environment_or_in_a_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN_OF_EAST", "Bearer east")
    (file.parent / "tc.key").write_bytes(b"authorization: Bearer third\r\n")
    file.write_text(
        '"16:c001:f150:1" = "Bearer west"\n'
        'B827EBFFFE123456 = "env:TOKEN_OF_EAST"\n'
        '"::3" = "file:tc.key"\n'
    )
    assert load_tokens(file) == {
        WEST: "Bearer west",
        EAST: "Bearer east",
        "0000000000000003": "Bearer third",
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('\nB827 = "a"\n', ":2: B827: an EUI is text: 16 hex digits"),
        (f'{WEST} = ""\n', f":1: {WEST}: a token is one line of text"),
        (f"{WEST} = 7\n", f":1: {WEST}: a token is one line of text"),
        (f'{WEST} = "geheim\\u00e9"\n', f":1: {WEST}: a token is one line of text"),
        (f'{WEST} = "geheim\\nx: y"\n', f":1: {WEST}: a token is one line of text"),
        (f'{WEST} = "env:NO_SUCH_TOKEN"\n', f":1: {WEST}: the environment has no variable"),
        (f'{WEST} = "file:nowhere"\n', f":1: {WEST}: cannot read the key file"),
        (f'{WEST} = "a"\n"16:c001:f150:1" = "b"\n', ":2: 16:c001:f150:1: this station has a token"),
        ("a b\n", ":1: not TOML"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_without_the_token(
    file: Path, text: str, sentence: str
) -> None:
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_tokens(file)
    assert str(caught.value).startswith(f"{file}{sentence}")
    assert "geheim" not in str(caught.value)
