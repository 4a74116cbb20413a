"""What a relaxed device may do that begins its counter again, and what becomes of its frames.

The shortest histories of each kind; `lorabench explore` looks for others.
"""

from dataclasses import replace

import pytest

from lns.dedup.session import Session
from lns.dedup.strategy import Strategy
from lns.store.memory import MemoryStore
from tests.lns.served_network import ALPHA, DEV_ADDR, KEYS, Network, serve, uplink, wait
from tests.lns.several_servers import Servers, ServeTwo
from tests.lns.test_several_servers import BY_STRATEGY, words

ID = "70B3D57ED0000001-01ABCDEF"
COPY_WORDS = {Strategy.MARK: "marked", Strategy.NONE: "forwarded"}


def again(f_cnt: int, *, confirmed: bool = False) -> bytes:
    """A frame of the next life."""
    return uplink(f_cnt, payload=b"again", confirmed=confirmed)


def begun_at(f_cnt_up: int) -> Session:
    return Session(dev_eui=ALPHA.dev_eui, dev_addr=DEV_ADDR, keys=KEYS, f_cnt_up=f_cnt_up)


def keys_of(*networks: Network) -> list[str]:
    messages = [message for network in networks for message in network.application.messages]
    return [message.remove_duplicates_key for message in messages]


@pytest.mark.parametrize("strategy", Strategy)
def test_a_counter_that_both_had_may_be_of_a_life_that_only_the_other_heard_begin(
    serve_two: ServeTwo, strategy: Strategy
) -> None:
    """It is equal to the newest one here, and new for all servers together."""

    async def scenario(servers: Servers) -> None:
        a, b = servers.a.west, servers.b.east
        for f_cnt in (1, 2):
            await servers.hear_in_turn((a, uplink(f_cnt)), (b, uplink(f_cnt)))
        await servers.hear_in_turn((a, again(1)), (b, again(2)), (b, again(3)))

    servers = serve_two(scenario, replace(ALPHA, strategy=strategy))
    taken = ("NonDuplicate", "forwarded", "-", "NotAsked", "Owner")
    assert words(servers.a)[-1] == taken
    assert words(servers.b)[-2:] == [taken, taken]
    assert servers.b.application.ids[-2] == f"{ID}.1-2"


@pytest.mark.parametrize("strategy", Strategy)
def test_a_copy_of_a_restart_is_a_copy_at_the_other_server(
    serve_two: ServeTwo, strategy: Strategy
) -> None:
    async def scenario(servers: Servers) -> None:
        a, b = servers.a.west, servers.b.east
        for f_cnt in (1, 2):
            await servers.hear_in_turn((a, uplink(f_cnt)), (b, uplink(f_cnt)))
        for f_cnt in (0, 1, 2):
            await servers.hear_in_turn((a, again(f_cnt)), (b, again(f_cnt)))

    servers = serve_two(scenario, replace(ALPHA, strategy=strategy))
    elsewhere = ("NonDuplicate", *BY_STRATEGY[strategy], "NotAsked", "NotOwner")
    assert words(servers.b) == [elsewhere] * 5


@pytest.mark.parametrize("strategy", [Strategy.MARK, Strategy.NONE])
def test_all_copies_of_a_frame_have_one_key_and_lie_in_one_life(
    serve_two: ServeTwo, strategy: Strategy
) -> None:
    """Whoever heard of the restart first; and the next life has keys of its own."""

    async def scenario(servers: Servers) -> None:
        a, b = servers.a.west, servers.b.east
        await servers.hear_in_turn((a, uplink(5)), (b, uplink(5)))
        await servers.hear_in_turn((b, again(1)), (a, again(1)))
        third = uplink(1, payload=b"third")
        await servers.hear_in_turn((a, third), (b, third))

    servers = serve_two(scenario, replace(ALPHA, strategy=strategy))
    assert keys_of(servers.a) == keys_of(servers.b) == [f"{ID}-5", f"{ID}.1-1", f"{ID}.2-1"]
    ids = servers.a.application.ids + servers.b.application.ids
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("strategy", [Strategy.MARK, Strategy.NONE])
def test_a_late_copy_lies_in_the_life_of_its_frame(serve_two: ServeTwo, strategy: Strategy) -> None:
    """The device has begun again since; its next frames are new all the same."""

    async def scenario(servers: Servers) -> None:
        a, b = servers.a.west, servers.b.east
        await servers.hear((a, uplink(3)))
        await servers.hear_in_turn((a, again(0)), (b, uplink(3)), (servers.a.east, uplink(3)))
        await servers.hear_in_turn((a, again(1)), (a, again(2)), (b, again(3)))

    servers = serve_two(scenario, replace(ALPHA, strategy=strategy))
    late = COPY_WORDS[strategy]
    assert words(servers.b)[0] == ("NonDuplicate", late, "-", "NotAsked", "NotOwner")
    assert words(servers.a)[2] == ("SoftDuplicate", late, "-", "NotAsked", "NotAsked")
    assert keys_of(servers.a) == [f"{ID}-3", f"{ID}.1-0", f"{ID}-3", f"{ID}.1-1", f"{ID}.1-2"]
    assert keys_of(servers.b) == [f"{ID}-3", f"{ID}.1-3"]


@pytest.mark.parametrize("strategy", Strategy)
def test_an_equal_frame_of_the_next_life_is_a_first_message_again(strategy: Strategy) -> None:
    async def scenario(network: Network) -> None:
        for phy in (uplink(3), again(1), uplink(3), uplink(3)):
            await network.west.hears(phy)

    network = serve(scenario, replace(ALPHA, strategy=strategy))
    first = {
        Strategy.DROP: ("dropped", "ResubmissionSuppressed"),
        Strategy.MARK: ("marked", "-"),
        Strategy.NONE: ("forwarded", "-"),
    }
    status = "DuplicateDueToResubmission"
    assert network.words[2] == ("west", status, *first[strategy], "NotAsked")
    assert network.words[3] == ("west", status, "dropped", "InvalidFrameCounter", "NotAsked")
    if strategy is not Strategy.DROP:
        assert keys_of(network)[-1] == f"{ID}.1-3"


@pytest.mark.parametrize("by", ["a", "b"])
@pytest.mark.parametrize("f_cnt", [5_001, 20_001, 200_001])
def test_a_replayed_first_message_mutes_nobody(serve_two: ServeTwo, f_cnt: int, by: str) -> None:
    """The frame after it takes the session back, whoever hears it, with the keys of its life."""

    async def scenario(servers: Servers) -> None:
        a, b = servers.a.west, servers.b.east
        for newest in range(f_cnt % 16_000, f_cnt + 1, 16_000):
            await servers.hear_in_turn((a, uplink(newest)), (b, uplink(newest)))
        await servers.hear((b if by == "b" else a, uplink(0)))
        for newer in (f_cnt + 1, f_cnt + 2):
            heard = [(b, uplink(newer)), (a, uplink(newer))]
            await servers.hear_in_turn(*(heard if by == "a" else heard[::-1]))

    servers = serve_two(scenario, replace(ALPHA, strategy=Strategy.MARK))
    assert {word[1] for n in (servers.a, servers.b) for word in words(n)} == {"forwarded", "marked"}
    firsts = sorted(i for n in (servers.a, servers.b) for i in n.application.ids if i in keys_of(n))
    assert f"{ID}.1-0" in firsts
    assert {f"{ID}-{f_cnt + 1}", f"{ID}-{f_cnt + 2}"} < set(firsts)


@pytest.mark.parametrize("f_cnt", [5_001, 20_001, 200_001])
def test_a_replayed_first_message_mutes_nobody_at_one_server(f_cnt: int) -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(f_cnt + 1))
        await wait(61)
        await network.west.hears(uplink(0))
        await network.restart()
        for newer in (f_cnt + 2, f_cnt + 3):
            await network.west.hears(uplink(newer, confirmed=True))

    store = MemoryStore()
    store.preset(ALPHA.dev_eui, (begun_at(f_cnt),))
    network = serve(scenario, store=store)
    assert [word[2] for word in network.words] == ["forwarded"] * 4
    assert network.application.ids == [
        f"{ID}-{f_cnt + 1}", f"{ID}.1-0", f"{ID}-{f_cnt + 2}", f"{ID}-{f_cnt + 3}"
    ]  # fmt: skip
    assert [frame.f_cnt for frame in network.west.answers] == [0, 1]


def test_a_device_that_did_begin_again_outlives_a_replay_too() -> None:
    """It was far in its first life, less far in its second one, which is the one that counts."""

    async def scenario(network: Network) -> None:
        for phy in (uplink(16_000), uplink(32_000), again(0), again(16_384)):
            await network.west.hears(phy)
        await wait(61)
        for phy in (uplink(0), again(16_385), again(16_386)):
            await network.west.hears(phy)

    network = serve(scenario)
    assert network.application.ids[-3:] == [f"{ID}.2-0", f"{ID}.1-16385", f"{ID}.1-16386"]


def test_other_bytes_with_a_used_counter_have_a_key_of_their_own() -> None:
    """A strict device that forgot its counter is no retry for whoever removes duplicates."""

    async def scenario(network: Network) -> None:
        await network.west.hears(uplink(0, confirmed=True))
        await network.west.hears(again(0, confirmed=True))
        await network.east.hears(again(0, confirmed=True))

    network = serve(scenario, replace(ALPHA, relaxed_f_cnt=False))
    mic = again(0, confirmed=True)[-4:].hex().upper()
    assert keys_of(network) == [f"{ID}-0", f"{ID}-0.{mic}", f"{ID}-0.{mic}"]
