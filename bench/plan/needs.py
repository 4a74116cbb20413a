"""What does a bench lack for a case, in words?

Every verb of a scenario stands in one of three tables: with the thing that it takes, or None where
any bench can do it. What is disturbed between stations and application, or told at the tap of a
station, needs nothing but the bench itself.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum

from bench.plan.abilities import Abilities
from bench.plan.assignment import assignments
from bench.plan.planned_case import PlannedCase


class Item(StrEnum):
    """What a verb may take."""

    REPLAYER = "a replayer"
    ATTENUATOR = "an attenuator"
    GPS = "a GPS receiver"
    ANTENNA = "a second antenna"
    DUTY_CYCLE = "a station that keeps its duty cycle"
    SILENT = "a station that can be kept from introducing itself"
    CLOCK = "a station whose clock can be broken"
    SESSION = "a station whose session byte can be chosen"
    TWIN = "many radios on one EUI"
    BURST = "many radios at one moment"
    APPLICATION = "slow application"
    WALL_CLOCK = "wall clock"


DEVICE_VERBS: Mapping[str, Item | None] = dict.fromkeys(
    ("send", "join", "set_adr", "ask_time", "ask_link", "restart")
)

STATION_VERBS: Mapping[str, Item | None] = {
    **dict.fromkeys(("delay_uplinks", "drop_uplinks", "repeat_uplinks", "clone_uplinks_to")),
    **dict.fromkeys(("suppress_downlinks", "delay_downlinks")),
    **dict.fromkeys(("cut", "restore", "leave_half_open", "restart")),
    "reconnect_without_version": Item.SILENT,
    "repeat_session": Item.SESSION,
    "break_clock": Item.CLOCK,
    "weaken": Item.ATTENUATOR,
    "add_antenna": Item.ANTENNA,
    "fit_gps": Item.GPS,
    "keep_duty_cycle": Item.DUTY_CYCLE,
}

RIG_VERBS: Mapping[str, Item | None] = {
    # what there is
    **dict.fromkeys(("west", "east", "north", "alpha", "bravo", "charlie")),
    **dict.fromkeys(("strategy", "capabilities", "station", "device", "provision", "stranger")),
    **dict.fromkeys(("in_region", "put_on", "only", "heard_by", "dedup")),
    "impersonate": Item.TWIN,
    # frames that no device sends now
    "replay": Item.REPLAYER,
    "flood": Item.BURST,
    **dict.fromkeys(("hear", "craft", "craft_join", "told", "say", "forge", "forge_join")),
    **dict.fromkeys(
        ("announce", "deliver", "sessions_opened", "queue_downlink", "queue_status", "post_request")
    ),
    # time
    **dict.fromkeys(("wait", "wait_until", "meanwhile", "settle", "start", "pause")),
    # network servers, their store, the application
    **dict.fromkeys(("on_outage", "restart_lns", "kill_lns", "start_lns")),
    **dict.fromkeys(("orphan_next_frame", "pause_lns_in_mid_claim", "pause_lns", "resume_lns")),
    **dict.fromkeys(("cut_upstream", "restore_upstream")),
    **dict.fromkeys(("cut_store", "slow_store", "restore_store", "restart_store")),
    **dict.fromkeys(("pause_store", "resume_store", "spoil_store", "mend_store")),
    **dict.fromkeys(("fill_disk", "free_disk", "park_after", "release_parked")),
    "delay_upstream": Item.APPLICATION,
    "refuse_upstream": Item.APPLICATION,
    "step_wall_clock": Item.WALL_CLOCK,
    # consumers and broker
    **dict.fromkeys(("consumer", "kill_consumer", "start_consumer", "crash_consumer")),
    **dict.fromkeys(("lose_acks", "redeliver", "stop_broker", "start_broker")),
    **dict.fromkeys(("lose_pubacks", "hold_messages", "find_broker", "wipe_producer")),
    **dict.fromkeys(("share_client_id", "until_published", "republish", "inject")),
    # what is due
    **dict.fromkeys(("expect", "expect_due", "expect_race", "expect_reply", "expect_downlink")),
    **dict.fromkeys(
        ("expect_status", "expect_upstream", "expect_on_air", "expect_effects", "expect_ignored")
    ),
    **dict.fromkeys(("expect_answer", "expect_evictions")),
}

_ORDINALS = ("", "a", "a second", "a third", "a fourth", "a fifth", "a sixth")


def needs(planned: PlannedCase, bench: Abilities) -> tuple[str, ...]:
    """What is missing for a case on this bench, in words, each once; nothing where it can be."""
    return tuple(dict.fromkeys(_missing(planned, bench)))


def _missing(planned: PlannedCase, bench: Abilities) -> Iterator[str]:
    if planned.region != bench.region:
        yield f"region {planned.region}"
    yield from _missing_boards(planned, bench)
    if len(planned.stations) > bench.stations:
        yield f"{_ordinal(len(planned.stations))} station"
    if planned.weakened > bench.attenuators:
        yield Item.ATTENUATOR.value
    called = [
        *(RIG_VERBS[verb] for verb in sorted(planned.rig_verbs)),
        *(STATION_VERBS[verb] for verb in sorted(planned.station_verbs)),
    ]
    yield from (item.value for item in called if item is not None and not _has(item, bench))
    yield from (word for word in planned.requires if word not in bench.capabilities)


def _missing_boards(planned: PlannedCase, bench: Abilities) -> Iterator[str]:
    named = list(_named_boards(planned, bench))
    yield from named
    if not named and not any(True for _ in assignments(planned, bench.boards)):
        yield "a board that can do all of what one device needs"


def _named_boards(planned: PlannedCase, bench: Abilities) -> Iterator[str]:
    on_air = planned.on_air
    if len(on_air) > bench.devices:
        yield f"{_ordinal(len(on_air))} board"
    if sum(device.wants_retries for device in on_air) > bench.obeys_retries:
        yield "a board that repeats as often as it is told (LoRa-E5)"
    if sum(bench.must_set_counter(device) for device in on_air) > bench.sets_counters:
        yield "a board that can set its counters (LoRa-E5)"
    if any(device.crafted for device in on_air):
        yield "a device that gives up its counters"


def _has(item: Item, bench: Abilities) -> bool:
    if item is Item.REPLAYER:
        return bench.replayers > 0
    if item is Item.ATTENUATOR:
        return True  # as many as stations are weakened; they have been counted
    if item is Item.DUTY_CYCLE:
        return not bench.conducted
    return item.value in bench.extras | bench.capabilities


def _ordinal(number: int) -> str:
    return _ORDINALS[number] if number < len(_ORDINALS) else f"a {number}th"
