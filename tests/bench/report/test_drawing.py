import pytest

from bench.report.excerpts import Event
from bench.report.narration import cast_of
from bench.report.stories import Scene
from bench.report.timeline import Comparison, Divergence, Drawing, cells, rows
from tests.bench.report.test_rows import DEVICE, HEARD, SENT

DECIDED = {"t_us": 30, "kind": "lns.outcome", "station": "G1", "lns": "lns-a", "answer": "RX1"}
DECIDED |= {"status": "NonDuplicate", "upstream": "forwarded"}
DOWN = HEARD | {"t_us": 50, "direction": "down", "text": '{"msgtype":"dnmsg","RX1Freq":1}'}


def drawn(*events: Event, width: int = 80, comparison: Comparison | None = None) -> list[str]:
    scene = Scene(events, cast_of(events))
    told = rows(events, scene, comparison or Comparison(), range(len(events)))
    drawing = Drawing(scene, width, 8)
    return [str(line) for line in [*drawing.head(), *drawing.lines(told, 0)]]


def test_arrows_stand_between_the_lanes() -> None:
    head = 2
    sent, heard, decided, dropped, down = drawn(
        DEVICE, SENT, HEARD, DECIDED, DOWN | {"dropped": True}, DOWN | {"t_us": 51}
    )[head:]
    assert sent.split() == ["0.000010", "├───►│", *"││││", *"FCnt 7, DR5 868.1 MHz".split()]
    assert heard.split()[:5] == ["0.000020", "│", "├────●────●───►│", "│", "updf"]
    assert decided.split()[:7] == ["0.000030", *"││││●│"]
    assert dropped.split()[4:6] == ["✗────┤", "│"]
    assert down.split()[3:5] == ["│◄───●────┤", "│"]


def test_a_fault_goes_across_and_a_loss_is_a_cross() -> None:
    fault, lost = drawn(
        {"t_us": 1, "kind": "fault.begin", "seam": "tap", "fault": "cut", "station": "G1"},
        {"t_us": 2, "kind": "radio.lost", "receiver": "G1", "cause": "faded"},
    )[-2:]
    assert "═══╪═══" in fault
    assert lost.count("✗") == 1


@pytest.mark.parametrize("width", [80, 100, 133, 200])
def test_every_line_fits(width: int) -> None:
    crowd = [
        HEARD | {"t_us": n, "station": f"B827EBFFFE{n:06}", "lns": f"lns-{n % 5}"}
        for n in range(12)
    ]
    long = DECIDED | {"reason": "InvalidFrameCounter", "upstream": "dropped", "lns": "Ω" * 40}
    chinese = {"t_us": 60, "kind": "device.line", "dev_eui": "D1", "text": "+EVT:" + "早" * 99}
    expected = {"t_us": 70, "kind": "case.expect", "expect": "device", "line": "x" * 400}
    lines = drawn(DEVICE, SENT, *crowd, long, chinese, expected, width=width)
    assert max(map(cells, lines)) <= width


def test_parties_beyond_the_room_share_a_lane() -> None:
    crowd = [HEARD | {"t_us": n, "station": f"G{n:02}"} for n in range(12)]
    head = "".join(drawn(DEVICE, SENT, *crowd)[:2])
    assert "others" in head
    assert "tap" in head


def test_the_first_divergence_is_marked_in_the_margin_and_in_words() -> None:
    comparison = Comparison({}, [Divergence(1, 10, "due: silence")])
    (line, *_) = drawn(DEVICE, SENT, comparison=comparison, width=120)[1:]
    assert line.startswith("▶ 0.000010")
    assert "FIRST DIVERGENCE" in line


def test_the_time_stands_where_it_has_gone_on() -> None:
    lines = drawn(DEVICE, SENT, HEARD | {"t_us": 10})
    assert ["0.000010" in line for line in lines[-2:]] == [True, False]
