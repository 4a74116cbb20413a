"""Every kind of switch: its keys complete, one missing, one too many."""

import pytest

from bench.lab.inventory.entries import PowerKind
from bench.lab.inventory.sections import KEYS, mistake_in_switch

COMPLETE: dict[PowerKind, dict[str, object]] = {
    PowerKind.UHUBCTL: {"location": "1-1.2", "port": 2},
    PowerKind.RELAY: {"port": "/dev/relay", "on": "A00101A2", "off": "A00100A1", "baud": 9600},
    PowerKind.SHELLY: {"url": "http://192.0.2.7", "generation": 2, "channel": 0},
    PowerKind.TASMOTA: {"url": "http://192.0.2.7", "channel": 1},
    PowerKind.COMMAND: {"on": ("sw", "on"), "off": ("sw", "off"), "cycle": ("sw", "cycle")},
    PowerKind.PERSON: {"what": "the plug of the DUT"},
}


def test_every_kind_is_known() -> None:
    assert set(KEYS) == set(PowerKind) == set(COMPLETE)


@pytest.mark.parametrize("kind", PowerKind)
def test_complete_keys_are_right(kind: PowerKind) -> None:
    assert mistake_in_switch(kind, COMPLETE[kind]) == ""


@pytest.mark.parametrize("kind", PowerKind)
def test_a_needed_key_that_is_missing_is_named(kind: PowerKind) -> None:
    for key in KEYS[kind].needed:
        rest = {k: v for k, v in COMPLETE[kind].items() if k != key}
        assert mistake_in_switch(kind, rest) == f"a switch of kind {kind} needs {key}"


@pytest.mark.parametrize("kind", PowerKind)
def test_a_key_of_another_kind_is_a_mistake(kind: PowerKind) -> None:
    known = {key for keys in KEYS.values() for key in (*keys.needed, *keys.optional)}
    for key in sorted(known - {*KEYS[kind].needed, *KEYS[kind].optional}):
        assert f"takes no {key};" in mistake_in_switch(kind, {**COMPLETE[kind], key: "x"})


@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [
        (PowerKind.UHUBCTL, {"location": "hub", "port": 2}, "location is one of the hubs"),
        (PowerKind.UHUBCTL, {"location": (), "port": 2}, "location is one of the hubs"),
        (PowerKind.UHUBCTL, {"location": "1-1", "port": "2"}, "port is the number"),
        (PowerKind.RELAY, {"port": 1, "on": "00", "off": "01"}, "port is the serial port"),
        (PowerKind.RELAY, {"port": "x", "on": ("00",), "off": "01"}, "in hex"),
        (PowerKind.COMMAND, {"on": ("sw",)}, "on and off go together"),
        (PowerKind.COMMAND, {"on": "sw on", "off": "sw off"}, "a command is a list of words"),
        (PowerKind.COMMAND, {}, "needs on and off, or cycle"),
        (PowerKind.TASMOTA, {"url": "http://u:p@host"}, "no login in url"),
    ],
)
def test_a_wrong_value_is_answered(kind: PowerKind, settings: dict[str, object], said: str) -> None:
    assert said in mistake_in_switch(kind, settings)
