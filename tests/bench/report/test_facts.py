from bench.report.facts import facts
from bench.report.score_file import Score, Spark, Verdict

SCORE = Score(
    1,
    "20261121T020003Z-7f3a",
    (Verdict("a", "test", "PASS", begin_us=0, end_us=3_720_000_000),),
    rig="simulated",
    seed=7,
    spark=Spark("4.3.0", "local[2]", 11.53),
)


def test_the_facts_of_a_run() -> None:
    about = facts(SCORE, {"git_commit": "4f1c2d9e0aa1", "versions": {"python": "3.11.7"}})
    assert dict(about.rows) == {
        "Run": "20261121T020003Z-7f3a",
        "Rig": "simulated",
        "Seed": "7",
        "Git commit": "4f1c2d9e0aa1",
        "Duration": "1 h 02 min of the run's own clock",
        "Scored by": "Spark 4.3.0 in 11.5 s",
        "Versions": "python 3.11.7",
    }


def test_code_that_differs_from_its_commit_is_alarming() -> None:
    dut = {"name": "lns", "version": "0.1.0", "commit": "4f1c2d9e0aa1", "dirty": False}
    clean = facts(SCORE, {"dut": dut})
    assert "Uncommitted changes" not in dict(clean.rows)
    about = facts(SCORE, {"dut": {**dut, "dirty": True, "difference": "0123456789abcdef"}})
    found = dict(about.rows)
    assert found["Server under test"] == "lns 0.1.0"
    assert found["Uncommitted changes"].endswith("hash of the difference 0123456789abcdef")
    assert about.alarming == {"Uncommitted changes"}


def test_how_and_when_the_run_ended() -> None:
    ended = {"how": "stopped", "reason": "no board", "at": "2026-11-20T03:00:00Z"}
    about = dict(facts(SCORE, {"ended": ended, "host": "lab-pc"}).rows)
    assert (about["Ended"], about["Host"]) == ("2026-11-20T03:00:00Z, stopped: no board", "lab-pc")


def test_the_command_repeats_the_run_with_its_seed() -> None:
    assert facts(SCORE, {}).command == "lorabench run --rig simulated --seed 7"
    argv = ["/opt/bin/pytest", "scenarios", "--rig=simulated"]
    assert facts(SCORE, {"argv": argv}).command == "pytest scenarios --rig=simulated --seed 7"
    argv = ["/opt/bench/__main__.py", "run", "--seed=7"]
    assert facts(SCORE, {"argv": argv}).command == "lorabench run --seed=7"


def test_the_command_shows_no_key() -> None:
    argv = ["lorabench", "run", "--seed", "7", "--token", "abc", "--broker=mqtt://u:p@h"]
    assert facts(SCORE, {"argv": argv}).command == (
        "lorabench run --seed 7 --token **** '--broker=mqtt://****@h'"
    )


def test_of_the_inventory_only_names_and_firmware_are_printed() -> None:
    inventory = {
        "device": [{"name": "alpha", "firmware": "4.2.1", "app_key": "x", "port": "/dev/y"}]
    }
    inventory |= {"station": {"gw-a": {"kind": "virtual", "address": "10.0.0.1"}}}
    assert dict(facts(SCORE, {"inventory": inventory}).rows)["Inventory"] == (
        "device: alpha (4.2.1); station: gw-a (virtual)"
    )


def test_notices_may_be_texts_or_objects() -> None:
    manifest = {"notices": ["Set A, CC0", {"name": "Set B", "licence": "CC BY 4.0"}]}
    assert facts(SCORE, manifest).notices == ("Set A, CC0", "Set B — CC BY 4.0")
