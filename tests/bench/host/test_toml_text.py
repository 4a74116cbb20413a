import tomllib

import pytest

from bench.host.lns_files import toml_text


def test_what_was_written_is_read() -> None:
    tables = {
        "lns": {"id": "lns-a", "net_id": "000013", "stations": ["0016C001F1500001", "any"]},
        "dedup": {"retention_s": 60, "share": 0.5, "on": True, "off": False},
        "odd": {"a b": 1, "": 2, "ä": 3, "quote": 'a"b\\c\n\t\x00\x7f', "\U0001f600": "😀"},
        "device": [{"name": "alpha"}, {"name": "beta", "f_cnt_bits": 16}],
        "empty": [],
    }
    assert tomllib.loads(toml_text(tables)) == tables
    assert toml_text({"lns": {"public_uri": None}}) == "[lns]\n"


def test_what_toml_has_not_is_refused() -> None:
    with pytest.raises(TypeError, match="bytes"):
        toml_text({"lns": {"id": b"x"}})
    with pytest.raises(TypeError, match="lns is no table"):
        toml_text({"lns": "text"})
