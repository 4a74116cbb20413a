import json
from pathlib import Path

from bench.capture.reading import CaptureFollower, Event


def test_lines_are_handed_over_once_each_and_whole(tmp_path: Path) -> None:
    path, taken = tmp_path / "lns-a.jsonl", list[Event]()
    collector = CaptureFollower(path, taken.append)
    collector.read()
    assert not taken
    with path.open("w") as file:
        file.write(json.dumps({"seq": 0}) + "\n" + '{"seq"')
        file.flush()
        collector.read()
        assert taken == [{"seq": 0}]
        file.write(": 1}\n")
    collector.read()
    collector.read()
    assert taken == [{"seq": 0}, {"seq": 1}]
    assert collector.torn == 0


def test_a_line_torn_by_a_kill_is_counted_and_the_next_one_read(tmp_path: Path) -> None:
    path, taken = tmp_path / "lns-a.jsonl", list[Event]()
    collector = CaptureFollower(path, taken.append)
    path.write_text('{"seq": 0}\n{"se\n{"seq": 2}\n')
    collector.read()
    assert [event["seq"] for event in taken] == [0, 2]
    assert collector.torn == 1
