"""What `lorabench scenarios --plan` says of each scenario and of the whole."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.cli.output import Refused
from bench.cli.program import main
from bench.cli.scenarios import Plan, bench_of, plan_as_json, told
from bench.night.record import ExitCode
from bench.plan import Overheads, PlannedCase, bound, lacking, schedule, usual_bench
from tests import forked
from tests.bench.plan.cases import RETRY, case, device

BENCH = usual_bench()
ROOT = Path(__file__).resolve().parents[3]
CASES = (
    case("replay/late[Drop]", 8_000_000, devices=(device(airtime_us=50_000),), verbs=("replay",)),
    case("replay/late[Mark]", 9_000_000, devices=(device(airtime_us=50_000),), verbs=("replay",)),
    case("joins/three[Drop]", 5_000_000, stations=("west", "east", "north")),
    case("wires/cut", 4_000_000, devices=(device("a", RETRY),), verbs=("west.cut",)),
    case("slow/a[Drop]", 1_000_000, requires=("slow application",)),
    case("slow/a[Mark]", 1_000_000),
)


def planned(*cases: PlannedCase, **failed: str) -> Plan:
    missing = {one.case: lacking(one, BENCH) for one in cases}
    playable = [one for one in cases if not missing[one.case]]
    return Plan(BENCH, cases, missing, failed, bound(playable, BENCH), schedule(playable, BENCH))


def test_each_scenario_has_a_line_with_what_it_takes_and_what_is_missing() -> None:
    assert told(planned(*CASES))[:4] == [
        "replay/late: 2 cases, 9.0 s, 1 board, a replayer",
        "joins/three: 1 case, 5.0 s, no boards  [missing: a third station]",
        "wires/cut: 1 case, 4.0 s, 1 board, alone",
        "slow/a: 2 cases, 1.0 s, no boards  [missing: 1 of them: slow application]",
    ]


def test_the_whole_is_summed_up() -> None:
    lines = told(planned(*CASES))
    starts = [line.split("  ")[0] for line in lines[5:]]
    assert starts == [
        *("bench", "cases", "missing", "missing", "airtime", "bound", "planned", "ratio"),
    ]
    assert lines[5] == "bench    2 rui3, 1 lora-e5, 2 stations, 1 replayer; EU868, on cables"
    assert lines[6] == "cases    4 of 6 can be played"
    assert lines[7] == "missing  a third station (1 case)"
    assert lines[9] == "airtime  0.1 s, replays included"
    # 9 s side by side with 8 s and 1 s, then 4 s alone; each with 3 s before and after it.
    assert lines[10].startswith("bound    0 min 13 s  airtime, receive windows")
    assert lines[11].startswith("planned  0 min 25 s  longest first, 3 s to set up")
    assert lines[12].startswith("ratio    1.92  planned / bound; the aim is 2 at most")


def test_a_radiated_bench_says_what_its_bound_has_besides() -> None:
    plan = replace(planned(*CASES), bench=replace(BENCH, conducted=False))
    assert any("the silence that the duty cycle demands" in line for line in told(plan))


def test_a_scenario_that_broke_is_named() -> None:
    lines = told(planned(**{"a/b": "LookupError: x"}))
    assert lines[-1] == "Could not be planned: a/b: LookupError: x"


def test_where_nothing_can_be_played_there_is_no_ratio() -> None:
    assert planned().ratio is None
    assert not any(line.startswith("ratio") for line in told(planned()))


def test_programs_get_each_case_with_its_turn() -> None:
    plan = json.loads(json.dumps(plan_as_json(planned(*CASES))))
    assert plan["planned_us"] == 25_000_000
    assert plan["bound"]["total_us"] == 13_000_000
    by_name = {one["case"]: one for one in plan["cases"]}
    assert by_name["replay/late[Mark]"]["turn"]["boards"] == {"alpha": "rui3-1"}
    assert by_name["wires/cut"]["turn"]["boards"] == {"a": "lora-e5-3"}
    assert by_name["joins/three[Drop]"]["missing"] == ["a third station"]
    assert by_name["joins/three[Drop]"]["turn"] is None
    assert plan["overheads"] == {
        "setup_us": Overheads().setup_us,
        "settle_us": Overheads().settle_us,
        "lns_start_us": Overheads().lns_start_us,
        "injected_max": Overheads().injected_max,
    }


def test_the_bench_of_a_file_is_what_it_describes(tmp_path: Path) -> None:
    file = tmp_path / "bench.toml"
    file.write_text(
        'rig = "hardware"\n[bench]\nname = "b"\nregion = "US915"\ntap = "127.0.0.1:0"\n'
        '[[device]]\nname = "e5"\ndialect = "lora-e5"\nport = "/dev/x"\n'
        'dev_eui = "AC1F09FFFE000001"\ndr = 3\npower_dbm = 10\n'
    )
    bench = bench_of(file)
    assert (bench.region, bench.devices, bench.stations, bench.replayers) == ("US915", 1, 0, 0)
    assert (bench.obeys_retries, bench.sets_counters, bench.conducted) == (1, 1, False)
    with pytest.raises(Refused, match="There is no file"):
        bench_of(tmp_path / "nowhere.toml")


def test_a_bench_without_plan_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenarios", "--bench", "bench.toml"]) == ExitCode.USAGE
    assert "add --plan" in capsys.readouterr().err


def test_real_scenarios_are_planned_without_a_bench() -> None:
    words = ["scenarios", "--plan", "test_catalogue_stations.py", "--json"]
    done = forked.run(["bench", *words])
    assert done.returncode == ExitCode.PASSED, done.stderr
    plan = json.loads(done.stdout)
    missing = {one["case"].split("[")[0]: one["missing"] for one in plan["cases"]}
    group = "catalogue_stations"
    assert missing[f"{group}/a_burst_is_cut_off_in_the_station"] == ["many radios at one moment"]
    assert missing[f"{group}/frames_heard_without_a_link_are_delivered_late"] == []
    assert "twin stations" in missing[f"{group}/two_stations_with_one_eui_look_like_one"]
    assert plan["failed"] == {}
    assert plan["ratio"] >= 1
