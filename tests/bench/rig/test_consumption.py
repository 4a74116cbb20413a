"""Consumers on the simulated rig: what reaches them, what they say, and what becomes of it."""

from pathlib import Path

import pytest

from bench.rig.rig import Rig
from bench.verdict.case import Result
from lns.delivery import ConfigurationError
from tests.bench.rig.played import Played, play


def kinds(run: Played, *prefixes: str) -> list[str]:
    return [event["kind"] for event in run.events if event["kind"].startswith(prefixes)]


async def send_one(rig: Rig) -> None:
    rig.only("west")
    uplink = await rig.alpha.send()
    rig.expect_effects(uplink)


def test_a_message_has_its_effect_and_every_line_names_consumer_and_case(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.consumer("one")
        await send_one(rig)

    run = play(tmp_path, scenario)
    assert run.verdict.result is Result.PASS
    [published] = run.of("upstream.published")
    [accepted] = run.of("inbox.accepted", source="inbox", consumer="one", case="g/c")
    [effect] = run.of("application.effect", source="application", consumer="one", case="g/c")
    assert accepted["message_id"] == effect["message_id"] == published["body"]["messageId"]
    assert accepted["channel"] == effect["channel"] == published["topic"]
    assert (accepted["sequence_number"], accepted["position"], effect["position"]) == (1, 1, 1)


@pytest.mark.parametrize("times", [0, 2])
def test_another_number_of_effects_is_a_failure(tmp_path: Path, times: int) -> None:
    async def scenario(rig: Rig) -> None:
        rig.consumer()
        rig.only("west")
        rig.expect_effects(await rig.alpha.send(), times)

    verdict = play(tmp_path, scenario).verdict
    assert (verdict.result, verdict.owner) == (Result.FAIL, "application")
    assert f"expected {times}, observed 1" in verdict.reasons[0]


def test_what_a_server_sends_again_is_no_second_message_of_it(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.consumer()
        await rig.lose_pubacks()
        await send_one(rig)
        await rig.find_broker()

    run = play(tmp_path, scenario)
    assert run.verdict.result is Result.PASS
    assert kinds(run, "upstream.") == ["upstream.published", "upstream.repeated"]
    assert [event["by"] for event in run.of("inbox.ignored")] == ["window"]


def test_held_messages_arrive_when_the_way_is_free(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.consumer()
        await rig.hold_messages()
        await send_one(rig)
        assert not kinds_of(rig, "upstream.published")
        await rig.find_broker()
        assert kinds_of(rig, "upstream.published")

    def kinds_of(rig: Rig, kind: str) -> list[str]:
        return [event["kind"] for event in rig.case.events if event["kind"] == kind]

    assert play(tmp_path, scenario).verdict.result is Result.PASS


def test_a_broker_that_is_away_is_missed_by_nobody(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.consumer()
        await rig.stop_broker()
        await send_one(rig)
        await rig.start_broker()

    run = play(tmp_path, scenario)
    assert run.verdict.result is Result.PASS
    assert sorted(kinds(run, "upstream.", "inbox.")) == ["inbox.accepted", "upstream.published"]


@pytest.mark.parametrize(
    ("at", "decisions"),
    [
        ("effect", ["inbox.accepted"]),
        ("commit", ["inbox.accepted"]),
        ("ack", ["inbox.accepted", "inbox.ignored"]),
    ],
)
def test_a_crash_is_where_it_was_asked_for(tmp_path: Path, at: str, decisions: list[str]) -> None:
    async def scenario(rig: Rig) -> None:
        rig.consumer()
        await rig.crash_consumer(at)
        await send_one(rig)
        await rig.start_consumer()

    run = play(tmp_path, scenario)
    assert run.verdict.result is Result.PASS
    assert kinds(run, "inbox.") == decisions
    [fault] = run.of("fault.begin", seam="consumer")
    assert (fault["fault"], fault["detail"]) == ("crash", {"consumer": "application", "at": at})


def test_after_a_crash_nothing_is_taken_until_it_is_started(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.consumer()
        await rig.crash_consumer("effect")
        await send_one(rig)
        await send_one(rig)

    run = play(tmp_path, scenario)
    assert run.verdict.result is Result.FAIL
    assert not kinds(run, "inbox.", "application.")


def test_an_effect_elsewhere_is_not_taken_back(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.consumer(elsewhere=True)
        await rig.crash_consumer("commit")
        rig.only("west")
        rig.expect_effects(await rig.alpha.send(), 2)
        await rig.start_consumer()

    run = play(tmp_path, scenario)
    assert run.verdict.result is Result.PASS
    assert [event["position"] for event in run.of("application.effect")] == [1, 1]


def test_an_outbox_with_messages_in_it_is_not_wiped(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.consumer()
        await send_one(rig)
        rig.cut_upstream()
        await send_one(rig)
        with pytest.raises(RuntimeError, match="lns-a has messages in its outbox"):
            await rig.wipe_producer()
        await rig.restore_upstream()

    assert play(tmp_path, scenario, wants_broker=True).verdict.result is Result.PASS


def test_a_wiped_outbox_numbers_from_one(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.consumer()
        await send_one(rig)
        await send_one(rig)
        await rig.wipe_producer()
        await send_one(rig)

    run = play(tmp_path, scenario)
    assert run.verdict.result is Result.PASS
    numbers = [event["body"]["sequenceNumber"] for event in run.of("upstream.published")]
    assert numbers == [1, 2, 1]


def test_consumers_are_asked_for_before_the_first_act(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        with pytest.raises(ConfigurationError):
            rig.consumer(window=19_000_000)
        rig.consumer()
        await send_one(rig)
        with pytest.raises(RuntimeError, match="consumer 'late'"):
            rig.consumer("late")

    assert play(tmp_path, scenario).verdict.result is Result.PASS


def test_a_crash_at_a_place_that_is_none_is_refused(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.consumer()
        with pytest.raises(ValueError, match="'lunch' is none of effect, commit, ack"):
            await rig.crash_consumer("lunch")
        await send_one(rig)

    assert play(tmp_path, scenario).verdict.result is Result.PASS


def test_a_crash_that_never_comes_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.keep_on_disk()
        rig.consumer()
        await send_one(rig)
        await rig.crash_consumer("commit")
        rig.cut_store("application")
        await rig.inject(rig.alpha)
        with pytest.raises(TimeoutError, match="application does not come to its commit"):
            await rig.start_consumer()
        await rig.restore_store("application")
        await rig.start_consumer()

    assert play(tmp_path, scenario).verdict.result is Result.PASS


def test_a_message_that_never_comes_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.consumer()
        await send_one(rig)
        uplink = await rig.craft(rig.alpha)
        with pytest.raises(TimeoutError, match="published 0 times, not 1"):
            await rig.until_published(uplink)

    assert play(tmp_path, scenario).verdict.result is Result.PASS
