from bench.report.excerpts import Event
from bench.report.narration import cast_of
from bench.report.stories import AIR, TAP, UPSTREAM, Kind, Party, Scene, Step, step_of

ALPHA = Party(Kind.DEVICE, "D1")
WEST = Party(Kind.STATION, "G1")
SERVER = Party(Kind.SERVER, "lns-a")

SENT = {"t_us": 10, "kind": "radio.transmit", "direction": "up", "sender": "D1", "f_cnt": 7}
HEARD = {"t_us": 20, "kind": "station.text", "station": "G1", "direction": "up"}
HEARD |= {"text": '{"msgtype":"updf","FCnt":7}'}
DECIDED = {"t_us": 30, "kind": "lns.outcome", "station": "G1", "lns": "lns-a"}
ON_AIR = {"t_us": 60, "kind": "radio.transmit", "direction": "down", "sender": "G1"}


def step(event: Event, *others: Event) -> Step | None:
    """The step of the first event, in a case of all of them."""
    events = [event, *others, SENT, HEARD, DECIDED]
    return step_of(event, Scene(events, cast_of(events)))


def stops(event: Event, *others: Event) -> tuple[Party, ...]:
    found = step(event, *others)
    assert found is not None
    return found.stops


def test_an_uplink_passes_air_station_and_tap() -> None:
    assert stops(SENT) == (ALPHA, AIR)
    assert stops(HEARD) == (AIR, WEST, TAP, SERVER)
    assert stops(HEARD | {"origin": "injected"}) == (WEST, TAP, SERVER)
    assert stops(DECIDED) == (SERVER,)
    published = {"t_us": 40, "kind": "upstream.published", "body": {"lns": "lns-a"}}
    assert stops(published) == (SERVER, UPSTREAM)


def test_a_downlink_goes_the_way_back() -> None:
    assert stops(HEARD | {"direction": "down", "text": '{"msgtype":"dnmsg"}'}) == (
        SERVER,
        TAP,
        WEST,
    )
    assert stops(ON_AIR) == (WEST, AIR, ALPHA)


def test_of_several_devices_nobody_says_which_one_hears() -> None:
    assert stops(ON_AIR, SENT | {"sender": "D2"}) == (WEST, AIR)


def test_the_clockwork_of_a_station_is_no_step() -> None:
    for word in ("timesync", "getxtime", "router_config"):
        assert step(HEARD | {"text": f'{{"msgtype":"{word}"}}'}) is None


def test_what_happens_inside_a_party_or_to_a_stranger_is_no_step() -> None:
    assert step({"t_us": 1, "kind": "case.begin"}) is None
    assert step(ON_AIR | {"sender": "G9"}) is None
    assert step({"t_us": 1, "kind": "case.lns", "lns": "lns-a", "event": "start"}) is None
