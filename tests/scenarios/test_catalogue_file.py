"""Catalogues of somebody else, with all that can be wrong in one: what is played, what is named."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from scenarios.catalogue import read_catalogue
from tests import forked
from tests.reading import read

ROOT = Path(__file__).resolve().parents[2]


def case(name: object, events: object, **changed: Any) -> dict[str, Any]:
    return {
        "id": name, "title": f"Case {name}.", "events": events, "setup": {}, "l1": "N",
        "up_drop_mark_none": "1/1/1", "down_drop_mark_none": "0/0/0", **changed,
    }  # fmt: skip


PLAYED = [
    case("first", "S1@0:U10"),
    case("slides", "S1@0:U10", setup={"sliding": True}),
    case("seventeen bits", "S1@0:U65536", setup={"srv": 65535}),
    case("far", "S1@0:U70001 S2@1:U70001", setup={"srv": 70000}, l1="N D|S",
         up_drop_mark_none="1/2*1/2"),
    case("the last one", "S1@0:U4294967295", setup={"srv": 4294967294}),
    case("set back", "S1@0:U65530 restart@5=65540 S1@70:U65541", l1="N N",
         up_drop_mark_none="2/2/2"),
]  # fmt: skip
OTHERS: list[tuple[Any, str, str]] = [
    (case("prose", None), "prose", "only prose"),
    (case("step", "S1@0:Q10"), "step", "cannot read the step 'S1@0:Q10'"),
    (case("nonce", "S1@0:J65536"), "nonce", "cannot read the step"),
    (case("order", "S1@5:U10 S1@0:U11", l1="N N"), "order", "not in order of time"),
    (case("fixed", "S1@0:U10", setup={"sliding": False}), "fixed", "does not slide"),
    (case("two", "A.S1@0:U10", setup={"two": True}), "two", "second server"),
    (case("setup", "S1@0:U10", setup={"wibble": 1}), "setup", "its setup has wibble"),
    (case("too far", "S1@0:U10", setup={"srv": 1 << 32}), "too far", "a counter has 32 bits"),
    (case("text", "S1@0:U10", setup={"srv": "x"}), "text", "a counter has 32 bits"),
    (case("words", "S1@0:U10", l1="N N"), "words", "not one status for each"),
    (case("first", "S1@0:U10"), "first", "there is a case first before it"),
    ({"id": "empty"}, "empty", "title, events, l1, up_drop_mark_none, down_drop_mark_none, "),
    (5, f"case {len(PLAYED) + 13}", "cannot be read: it is no object"),
    (case(7, "S1@0:U10"), f"case {len(PLAYED) + 14}", "id is a text"),
    (case("number", 7), "number", "events is a text, such as S1@0:U10"),
    (case("letter", "S1@0:U10", l1="Q"), "letter", "l1 is a letter of N, D, S, R and x"),
    (case("sums", "S1@0:U10", up_drop_mark_none="1/1"), "sums", "up_drop_mark_none is three"),
    (case("list", "S1@0:U10", setup=[]), "list", "setup is an object"),
]  # fmt: skip


def played(folder: Path, content: str) -> subprocess.CompletedProcess[str]:
    catalogue = folder / "catalogue.json"
    catalogue.write_text(content)
    command = ["pytest", "scenarios/test_catalogue.py", "-q", *forked.IMPORTED_BEFORE]
    command += ["-p", "no:cacheprovider", "--capture-dir", str(folder / "runs")]
    command += ["--catalogue", str(catalogue)]
    return forked.run(command, env={**os.environ, "NO_COLOR": "1"})


def test_what_can_be_read_is_played_and_the_rest_is_named_and_counted(tmp_path: Path) -> None:
    ran = played(tmp_path, json.dumps({"cases": [*PLAYED, *(row for row, _, _ in OTHERS)]}))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"verdicts   {3 * len(PLAYED)} PASS" in ran.stdout
    assert f"not played {len(OTHERS)}, named above" in ran.stdout
    [run] = (tmp_path / "runs").iterdir()
    left_out = [event for event in read(run).events if event["kind"] == "case.left_out"]
    assert [event["case"] for event in left_out] == [
        f"catalogue/edge_case[{name}]" for _, name, _ in OTHERS
    ]
    for event, (_, name, why) in zip(left_out, OTHERS, strict=True):
        assert why in event["missing"][0], name
        assert f"not played catalogue/edge_case[{name}]: {event['missing'][0]}" in ran.stdout


NO_CATALOGUES = ("garbage", "[]", "{}", '{"cases": 5}', "[" * 100_000)


@pytest.mark.parametrize("content", NO_CATALOGUES)
def test_what_is_no_catalogue_is_refused(content: str, tmp_path: Path) -> None:
    catalogue = tmp_path / "catalogue.json"
    catalogue.write_text(content)
    with pytest.raises(ValueError, match=r"catalogue\.json is no catalogue"):
        read_catalogue(catalogue)


def test_the_refusal_is_told_without_a_traceback(tmp_path: Path) -> None:
    ran = played(tmp_path, NO_CATALOGUES[-1])
    assert ran.returncode == 4
    assert "catalogue.json is no catalogue" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_catalogue_of_which_nothing_can_be_played_is_refused(tmp_path: Path) -> None:
    ran = played(tmp_path, '{"cases": [{"id": "X01"}, {}]}')
    assert ran.returncode == 4
    assert "X01: it cannot be read: title, events, l1, " in ran.stderr
    assert "case 2: it cannot be read: id, title, events, l1, " in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_byte_order_mark_is_no_part_of_a_catalogue(tmp_path: Path) -> None:
    catalogue = tmp_path / "catalogue.json"
    catalogue.write_text("\ufeff" + json.dumps({"cases": PLAYED}), "utf-8")
    assert len(read_catalogue(catalogue).cases) == len(PLAYED)


def test_a_promise_that_breaks_the_rules_is_told_as_such(tmp_path: Path) -> None:
    ran = played(tmp_path, json.dumps({"cases": [case("wrong", "S1@0:U10", l1="S")]}))
    assert "the catalogue promises (['SoftDuplicate'], (1, 0, 0)), the rules say" in ran.stdout
