"""What becomes of a frame, and of a join, that several network servers hear."""

from dataclasses import replace

import pytest

from lns.dedup.session import Session
from lns.dedup.strategy import Strategy
from lns.lorawan.frame import MAX_GAP
from lns.uplink.registry import EndDevice, LoRaWanVersion
from tests.lns.served_network import ALPHA, DEV_ADDR, GAMMA, KEYS, Network, uplink
from tests.lns.several_servers import Servers, ServeTwo, serve_both
from tests.lns.uplink.test_join import request as join_request
from tests.lns.uplink.test_join import session_of

# FCnt 0 to 9, which nobody here has heard, may each have had four answers from somebody else.
MISSED = 10 * 4
BY_STRATEGY = {
    Strategy.DROP: ("dropped", "DuplicateAtOtherServer"),
    Strategy.MARK: ("marked", "-"),
    Strategy.NONE: ("forwarded", "-"),
}


def words(network: Network) -> list[tuple[str, str, str, str, str]]:
    """Of each reception: status, upstream, reason, answer, level 2; a window is a window."""
    return [
        (
            outcome.status or "-",
            outcome.upstream,
            outcome.reason or "-",
            "RX" if outcome.answer in ("RX1", "RX2") else outcome.answer,
            outcome.level2,
        )
        for outcome in network.outcomes
    ]


def counters(*networks: Network) -> list[int]:
    """The downlink counters on the air."""
    stations = [s for network in networks for s in (network.west, network.east, network.north)]
    return [answer.f_cnt for station in stations for answer in station.answers]


def device(strategy: Strategy = Strategy.NONE, **known: object) -> EndDevice:
    return replace(ALPHA, strategy=strategy, **known)  # type: ignore[arg-type]


@pytest.mark.parametrize("confirmed", [True, False], ids=["confirmed", "unconfirmed"])
@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("order", ["a first", "b first", "at once"])
def test_one_server_owns_a_frame_and_only_that_one_answers(
    serve_two: ServeTwo, order: str, strategy: Strategy, confirmed: bool
) -> None:
    async def scenario(servers: Servers) -> None:
        frame = uplink(10, confirmed=confirmed)
        heard = [(servers.a.west, frame), (servers.b.east, frame)]
        if order == "b first":
            heard.reverse()
        await (servers.hear if order == "at once" else servers.hear_in_turn)(*heard)

    servers = serve_two(scenario, device(strategy))
    owner, loser = servers.a, servers.b
    if words(owner)[0][4] != "Owner":
        owner, loser = loser, owner
    assert order == "at once" or (owner is servers.a) == (order == "a first")
    answer, withheld = ("RX", "Suppressed") if confirmed else ("NotAsked", "NotAsked")
    assert words(owner) == [("NonDuplicate", "forwarded", "-", answer, "Owner")]
    assert words(loser) == [("NonDuplicate", *BY_STRATEGY[strategy], withheld, "NotOwner")]
    assert [claim.owner for one in (owner, loser) for claim in one.claims] == [owner.lns] * 2
    [first] = owner.application.ids
    assert first == "70B3D57ED0000001-01ABCDEF-10"
    bodies = loser.bodies
    assert len(bodies) == (strategy is not Strategy.DROP)
    assert all(body.get("dupMsg", False) == (strategy is Strategy.MARK) for body in bodies)
    assert first not in loser.application.ids
    assert len(counters(owner)) == confirmed
    assert counters(loser) == []


def test_a_newer_frame_changes_the_owner_and_downlink_counters_go_on(serve_two: ServeTwo) -> None:
    async def scenario(servers: Servers) -> None:
        a, b = servers.a.west, servers.b.east
        for f_cnt, order in ((10, (a, b)), (11, (b, a)), (12, (b, a)), (13, (a, b))):
            frame = uplink(f_cnt, confirmed=True)
            await servers.hear_in_turn(*((station, frame) for station in order))

    servers = serve_two(scenario, device(Strategy.DROP))
    assert [claim.owner for claim in servers.a.claims] == ["lns-a", "lns-b", "lns-b", "lns-a"]
    assert [claim.f_cnt_down for claim in servers.a.claims] == [MISSED, None, None, MISSED + 3]
    assert sorted(counters(servers.a, servers.b)) == [MISSED + number for number in range(4)]
    assert sorted(servers.a.application.ids + servers.b.application.ids) == [
        f"70B3D57ED0000001-01ABCDEF-{f_cnt}" for f_cnt in (10, 11, 12, 13)
    ]


@pytest.mark.parametrize("strategy", Strategy)
def test_a_repetition_is_answered_by_the_owner_only(
    serve_two: ServeTwo, strategy: Strategy
) -> None:
    """The loser does not, not even when nobody else hears the repetition (ADR 007, part 2)."""

    async def scenario(servers: Servers) -> None:
        frame = uplink(10, confirmed=True)
        owner, loser = servers.a.west, servers.b.east
        await servers.hear_in_turn(*((station, frame) for station in (owner, loser, loser, owner)))

    servers = serve_two(scenario, device(strategy))
    again = "DuplicateDueToResubmission"
    upstream, reason = BY_STRATEGY[strategy]
    suppressed = reason if strategy is not Strategy.DROP else "ResubmissionSuppressed"
    assert words(servers.a)[1] == (again, upstream, suppressed, "RX", "Owner")
    assert words(servers.b)[1] == (again, upstream, reason, "Suppressed", "NotOwner")
    assert counters(servers.a) == [MISSED, MISSED + 1]
    assert counters(servers.b) == []
    ids = servers.a.application.ids + servers.b.application.ids
    assert len(ids) == len(set(ids)) == (1 if strategy is Strategy.DROP else 4)


def test_a_repetition_that_only_the_loser_of_a_race_hears_does_not_spend_its_answers(
    serve_two: ServeTwo,
) -> None:
    async def scenario(servers: Servers) -> None:
        a, b = servers.a.west, servers.b.east
        frame, newer = uplink(10, confirmed=True), uplink(11, confirmed=True)
        await servers.hear_in_turn((a, frame), *[(b, frame)] * 6, (b, newer), *[(b, newer)] * 4)

    servers = serve_two(scenario, device(Strategy.DROP))
    assert {word[3] for word in words(servers.b)[:6]} == {"Suppressed"}
    assert [word[3] for word in words(servers.b)[6:]] == ["RX"] * 4 + ["Suppressed"]
    assert words(servers.b)[10][2] == "ResubmissionLimit"


@pytest.mark.parametrize("strategy", Strategy)
def test_copies_that_level_1_knows_are_nobodys_question(
    serve_two: ServeTwo, strategy: Strategy
) -> None:
    async def scenario(servers: Servers) -> None:
        frame, old = uplink(10, confirmed=True), uplink(9)
        a, b = servers.a, servers.b
        heard = [(s, frame) for s in (a.west, a.east, a.north, b.east, b.west, b.north)]
        await servers.hear_in_turn(*heard, (a.west, old), (a.east, old))

    servers = serve_two(scenario, replace(device(strategy), relaxed_f_cnt=False))
    for network in (servers.a, servers.b):
        assert len(network.claims) == 1
        assert [word[4] for word in words(network)[1:3]] == ["NotAsked"] * 2
    assert len(servers.b.application.ids) == (0 if strategy is Strategy.DROP else 3)
    assert [word[2] for word in words(servers.a)[3:]] == [
        "InvalidFrameCounter",
        "Duplicate" if strategy is Strategy.DROP else "InvalidFrameCounter",
    ]


def test_a_device_that_has_one_server_is_nobodys_question(serve_two: ServeTwo) -> None:
    async def scenario(servers: Servers) -> None:
        frame = uplink(10, confirmed=True)
        await servers.hear_in_turn((servers.b.west, frame), (servers.a.west, frame))

    servers = serve_two(scenario, replace(ALPHA, server="lns-a"))
    assert words(servers.a) == [("NonDuplicate", "forwarded", "-", "RX", "NotAsked")]
    assert words(servers.b) == [
        ("-", "dropped", "BelongsToAnotherServer", "Suppressed", "NotAsked")
    ]
    assert servers.a.claims == servers.b.claims == []


def test_what_the_owner_could_not_deliver_another_server_may(serve_two: ServeTwo) -> None:
    async def scenario(servers: Servers) -> None:
        servers.a.application.refusals = 1
        frame = uplink(10, confirmed=True)
        await servers.hear_in_turn((servers.a.west, frame), (servers.b.east, frame))

    servers = serve_two(scenario, device(Strategy.DROP))
    assert words(servers.a)[0][:3] == ("NonDuplicate", "dropped", "UpstreamUnavailable")
    assert words(servers.b) == [("NonDuplicate", "forwarded", "-", "RX", "Owner")]
    assert servers.b.application.ids == ["70B3D57ED0000001-01ABCDEF-10"]
    assert counters(servers.b) == [MISSED + 1]  # one went to a, for an answer that never left


def test_a_counter_rolls_over_at_another_server(serve_two: ServeTwo) -> None:
    async def scenario(servers: Servers) -> None:
        a, b = servers.a.west, servers.b.east
        for f_cnt in (0x3FFE, 0x7FFE, 0xBFFE, 0xFFFE, 0xFFFF):
            frame = uplink(f_cnt)
            await servers.hear_in_turn((a, frame), (b, frame))
        await servers.hear_in_turn((b, uplink(0x10000)), (a, uplink(0x10000)), (a, uplink(0x10001)))

    servers = serve_two(scenario, device(Strategy.DROP))
    assert [word[4] for word in words(servers.b)[-2:]] == ["NotOwner", "Owner"]
    assert [word[4] for word in words(servers.a)[-2:]] == ["NotOwner", "Owner"]


def test_a_restart_that_one_server_heard_is_known_to_the_other(serve_two: ServeTwo) -> None:
    """The counter begins a new life, and no message of it has the id of an older one."""

    async def scenario(servers: Servers) -> None:
        a, b = servers.a.west, servers.b.east
        heard = [(a, uplink(f_cnt)) for f_cnt in (0, 1, 2, 3, 4, 5)]
        again = [(b, uplink(0, payload=b"again")), (a, uplink(1, payload=b"again"))]
        await servers.hear_in_turn(*heard, *again, (b, uplink(2, payload=b"again")))

    servers = serve_two(scenario, device(Strategy.DROP))
    assert {word[1] for network in (servers.a, servers.b) for word in words(network)} == {
        "forwarded"
    }
    assert servers.a.application.ids[-1] == "70B3D57ED0000001-01ABCDEF.1-1"
    assert servers.b.application.ids == [f"70B3D57ED0000001-01ABCDEF.1-{n}" for n in (0, 2)]


def test_a_server_that_missed_the_restart_learns_of_it(serve_two: ServeTwo) -> None:
    async def scenario(servers: Servers) -> None:
        a, b = servers.a.west, servers.b.east
        heard = [(a, uplink(f_cnt)) for f_cnt in (8, 9)]
        again = [(b, uplink(f_cnt)) for f_cnt in (0, 1, 2)]
        await servers.hear_in_turn(*heard, *again, (a, uplink(3)))

    servers = serve_two(scenario, device(Strategy.DROP))
    assert servers.a.application.ids[-1] == "70B3D57ED0000001-01ABCDEF.1-3"


def test_a_late_copy_of_a_first_message_is_no_restart(serve_two: ServeTwo) -> None:
    async def scenario(servers: Servers) -> None:
        a, b = servers.a.west, servers.b.east
        await servers.hear_in_turn((a, uplink(0)), (a, uplink(1)), (b, uplink(0)), (b, uplink(1)))
        await servers.hear_in_turn((a, uplink(2)), (b, uplink(2)))

    servers = serve_two(scenario, device(Strategy.DROP))
    assert {word[2] for word in words(servers.b)} == {"DuplicateAtOtherServer"}
    assert servers.b.application.ids == []


def test_counters_that_went_on_elsewhere_are_no_gap(serve_two: ServeTwo) -> None:
    async def scenario(servers: Servers) -> None:
        a, b = servers.a.west, servers.b.east
        for f_cnt in (16_000, 32_000, 48_000, 64_000, 80_000):
            await servers.hear((a, uplink(f_cnt, confirmed=True)))
        await servers.hear((b, uplink(80_001, confirmed=True)))

    servers = serve_two(scenario, device())
    assert words(servers.b) == [("NonDuplicate", "forwarded", "-", "RX", "Owner")]
    assert counters(servers.b) == [MAX_GAP // 4 + 5]


def test_a_device_takes_an_answer_after_more_than_one_loss_of_the_store(
    serve_two: ServeTwo,
) -> None:
    """It may have heard none of the answers before (LoRaWAN 1.0.3, 4.3.1.5)."""

    async def scenario(servers: Servers) -> None:
        for f_cnt in (16_000, 32_000, 48_000):
            await servers.hear((servers.a.west, uplink(f_cnt, confirmed=True)))
            await servers.forget_everything()

    servers = serve_two(scenario, device())
    assert counters(servers.a) == [(MAX_GAP // 4 + 1) * n - 1 for n in (1, 2, 3)]


@pytest.mark.parametrize("version", LoRaWanVersion)
def test_a_device_that_joined_through_one_server_is_known_to_the_other(
    serve_two: ServeTwo, version: LoRaWanVersion
) -> None:
    async def scenario(servers: Servers) -> None:
        a, b = servers.a.west, servers.b.east
        await servers.hear((a, join_request(7)))
        dev_addr, keys = session_of(a.dnmsgs[-1], 7)
        for f_cnt, station in ((0, b), (1, a), (2, b)):
            frame = uplink(f_cnt, keys=keys, dev_addr=dev_addr, confirmed=True)
            await servers.hear((station, frame))

    servers = serve_two(scenario, replace(GAMMA, lorawan=version, strategy=Strategy.DROP))
    owned = ("NonDuplicate", "forwarded", "-", "RX", "Owner")
    assert words(servers.b) == [owned, owned]
    assert words(servers.a)[1:] == [owned]
    assert counters(servers.b) == [0, 2]


@pytest.mark.parametrize("order", ["a first", "at once"])
def test_a_join_that_both_hear_is_accepted_once(serve_two: ServeTwo, order: str) -> None:
    async def scenario(servers: Servers) -> None:
        heard = [(servers.a.west, join_request(7)), (servers.b.east, join_request(7))]
        await (servers.hear if order == "at once" else servers.hear_in_turn)(*heard)
        accepts = servers.a.west.dnmsgs + servers.b.east.dnmsgs
        assert len(accepts) == 1
        dev_addr, keys = session_of(accepts[0], 7)
        frame = uplink(0, keys=keys, dev_addr=dev_addr)
        await servers.hear((servers.a.west, frame), (servers.b.east, frame))

    servers = serve_two(scenario, replace(GAMMA, strategy=Strategy.DROP))
    joins = sorted(words(network)[0][2:4] for network in (servers.a, servers.b))
    assert joins == [("-", "RX"), ("DevNonceUsed", "Suppressed")]
    data = sorted(words(network)[1][1:3] for network in (servers.a, servers.b))
    assert data == [("dropped", "DuplicateAtOtherServer"), ("forwarded", "-")]


@pytest.mark.parametrize("version", LoRaWanVersion)
def test_a_dev_nonce_is_used_once_whoever_heard_it(
    serve_two: ServeTwo, version: LoRaWanVersion
) -> None:
    async def scenario(servers: Servers) -> None:
        a, b = servers.a, servers.b
        await servers.hear_in_turn((a.west, join_request(7)), (b.west, join_request(8)))
        for dev_nonce in (7, 8):
            for station in (a.east, b.east):
                await servers.hear((station, join_request(dev_nonce)))

    servers = serve_two(scenario, replace(GAMMA, lorawan=version))
    assert words(servers.a)[0][3] == words(servers.b)[0][3] == "RX"
    refused = [word[2] for network in (servers.a, servers.b) for word in words(network)[1:]]
    assert sorted(refused) == ["DevNonceUsed"] * 2 + ["Duplicate"] * 2


def test_a_dev_nonce_below_one_that_another_server_accepted_is_refused(serve_two: ServeTwo) -> None:
    async def scenario(servers: Servers) -> None:
        heard = [(servers.a.west, join_request(8)), (servers.b.west, join_request(7))]
        await servers.hear_in_turn(*heard)

    servers = serve_two(scenario, replace(GAMMA, lorawan=LoRaWanVersion.V1_0_4))
    assert words(servers.b)[0][2:4] == ("DevNonceUsed", "Suppressed")


def test_the_session_in_use_survives_a_join_at_another_server(serve_two: ServeTwo) -> None:
    """The device may not have heard the accept, and goes on with what it had."""

    async def scenario(servers: Servers) -> None:
        a, b = servers.a.west, servers.b.east
        await servers.hear((a, join_request(7)))
        old_addr, old_keys = session_of(a.dnmsgs[-1], 7)
        await servers.hear((a, uplink(0, keys=old_keys, dev_addr=old_addr)))
        await servers.hear((b, join_request(8)))
        new_addr, new_keys = session_of(b.dnmsgs[-1], 8)
        for station, f_cnt in ((a, 1), (b, 2), (a, 3)):
            await servers.hear((station, uplink(f_cnt, keys=old_keys, dev_addr=old_addr)))
        for station, f_cnt in ((a, 0), (b, 1)):
            await servers.hear((station, uplink(f_cnt, keys=new_keys, dev_addr=new_addr)))

    servers = serve_two(scenario, GAMMA)
    assert [word[1] for word in words(servers.a)[1:]] == ["forwarded"] * 4
    assert [word[1] for word in words(servers.b)[1:]] == ["forwarded"] * 2


def test_frames_of_strangers_are_asked_for_now_and_then_only() -> None:
    asked: list[int] = []

    async def scenario(servers: Servers) -> None:
        assert servers.store is not None
        forged = uplink(10)[:-1] + b"\x00"
        for _ in range(20):
            await servers.hear((servers.a.west, uplink(1, dev_addr=type(DEV_ADDR)("26000001"))))
            await servers.hear((servers.a.west, forged), (servers.a.east, forged))
        asked.append(servers.store.asked)

    servers = serve_both(scenario, ALPHA)
    assert {word[2] for word in words(servers.a)} == {"UnknownDevice", "MicMismatch"}
    assert asked == [3]  # who has the one, who has the other, and what is known of that


def test_the_owner_writes_and_the_loser_reads(serve_two: ServeTwo) -> None:
    """A session is stored with the newest counters of all, whoever writes last."""
    kept: list[tuple[Session, ...]] = []

    async def scenario(servers: Servers) -> None:
        a, b = servers.a.west, servers.b.east
        for f_cnt in range(10, 16):
            frame = uplink(f_cnt, confirmed=True)
            await servers.hear_in_turn(*((s, frame) for s in ((a, b) if f_cnt % 2 else (b, a))))
        for network in (servers.a, servers.b):
            await network.store.refresh(ALPHA.dev_eui)  # type: ignore[attr-defined]
            kept.append(network.store.sessions(ALPHA.dev_eui))

    serve_two(scenario, device(Strategy.DROP))
    for [session] in kept:
        assert (session.f_cnt_up, session.f_cnt_down, session.keys) == (15, MISSED + 6, KEYS)


def test_a_store_that_forgot_lets_no_server_answer_with_a_used_counter(serve_two: ServeTwo) -> None:
    async def scenario(servers: Servers) -> None:
        a, b = servers.a.west, servers.b.east
        for f_cnt in (10, 11, 12):
            await servers.hear((a, uplink(f_cnt, confirmed=True)))
        await servers.forget_everything()
        await servers.hear((b, uplink(13, confirmed=True)))

    servers = serve_two(scenario, device())
    assert max(counters(servers.a)) < min(counters(servers.b))


def test_a_store_that_forgot_is_told_again_who_has_joined(serve_two: ServeTwo) -> None:
    async def scenario(servers: Servers) -> None:
        a, b = servers.a.west, servers.b.east
        await servers.hear((a, join_request(7)))
        dev_addr, keys = session_of(a.dnmsgs[-1], 7)
        await servers.forget_everything()
        for station, f_cnt in ((a, 0), (b, 1)):
            frame = uplink(f_cnt, keys=keys, dev_addr=dev_addr, confirmed=True)
            await servers.hear((station, frame))

    servers = serve_two(scenario, GAMMA)
    assert words(servers.b) == [("NonDuplicate", "forwarded", "-", "RX", "Owner")]


@pytest.mark.parametrize("confirmed", [True, False], ids=["confirmed", "unconfirmed"])
@pytest.mark.parametrize("strategy", Strategy)
def test_a_first_copy_of_a_session_that_was_learnt_is_asked_about(
    serve_two: ServeTwo, strategy: Strategy, confirmed: bool
) -> None:
    """What the other server has told makes no copy an old frame."""

    async def scenario(servers: Servers) -> None:
        a, b = servers.a.west, servers.b.east
        await servers.hear((a, join_request(7)))
        dev_addr, keys = session_of(a.dnmsgs[-1], 7)
        for f_cnt in (0, 1):
            frame = uplink(f_cnt, keys=keys, dev_addr=dev_addr, confirmed=confirmed)
            await servers.hear_in_turn((a, frame), (b, frame))

    servers = serve_two(scenario, replace(GAMMA, strategy=strategy))
    withheld = "Suppressed" if confirmed else "NotAsked"
    assert words(servers.b) == [("NonDuplicate", *BY_STRATEGY[strategy], withheld, "NotOwner")] * 2


def test_the_answers_of_another_server_are_none_of_this_one(serve_two: ServeTwo) -> None:
    async def scenario(servers: Servers) -> None:
        a, b = servers.a.west, servers.b.east
        await servers.hear((a, join_request(7)))
        dev_addr, keys = session_of(a.dnmsgs[-1], 7)
        frame = uplink(0, keys=keys, dev_addr=dev_addr, confirmed=True)
        await servers.hear_in_turn(*[(a, frame)] * 4, (b, frame), (b, frame))

    servers = serve_two(scenario, replace(GAMMA, strategy=Strategy.DROP))
    assert [word[2] for word in words(servers.b)] == ["DuplicateAtOtherServer"] * 2


@pytest.mark.parametrize("server", ["a", "b"])
def test_a_session_that_a_later_one_has_ended_is_over_for_every_server(
    serve_two: ServeTwo, server: str
) -> None:
    """It is not taken, not written back, and nobody speaks to the device in it."""
    kept: list[set[str]] = []
    addrs: list[str] = []

    async def scenario(servers: Servers) -> None:
        a, b = servers.a.west, servers.b.east
        await servers.hear((a, join_request(7)))
        old_addr, old_keys = session_of(a.dnmsgs[-1], 7)
        for station, f_cnt in ((a, 0), (b, 1)):
            await servers.hear((station, uplink(f_cnt, keys=old_keys, dev_addr=old_addr)))
        await servers.hear((a, join_request(8)))
        new_addr, new_keys = session_of(a.dnmsgs[-1], 8)
        await servers.hear((a, uplink(0, keys=new_keys, dev_addr=new_addr)))
        addrs.append(new_addr)
        at, heard = (servers.a, a) if server == "a" else (servers.b, b)
        for f_cnt in (2, 3):
            await servers.hear((heard, uplink(f_cnt, keys=old_keys, dev_addr=old_addr)))
        await at.store.refresh(GAMMA.dev_eui)  # type: ignore[attr-defined]
        kept.append({session.dev_addr for session in at.store.sessions(GAMMA.dev_eui)})
        await servers.hear((b, uplink(1, keys=new_keys, dev_addr=new_addr)))

    servers = serve_two(scenario, GAMMA)
    refused = words(servers.a if server == "a" else servers.b)
    refused = [word for word in refused if word[2] != "-"]
    assert refused == [("-", "dropped", "UnknownDevice", "NotAsked", "NotAsked")] * 2
    assert kept == [set(addrs)]
    assert words(servers.b)[-1][1] == "forwarded"
    ids = servers.a.application.ids + servers.b.application.ids
    assert len(ids) == 4


def test_a_join_request_that_nobody_heard_ends_no_session_when_it_is_replayed(
    serve_two: ServeTwo,
) -> None:
    """Recorded, never heard, replayed to the other server after the real join."""

    async def scenario(servers: Servers) -> None:
        a, b = servers.a.west, servers.b.east
        await servers.hear((a, join_request(9)))
        dev_addr, keys = session_of(a.dnmsgs[-1], 9)
        for station, dev_nonce in ((b, 5), (a, 6), (b, 7)):
            await servers.hear((station, join_request(dev_nonce)))
        for station, f_cnt in ((b, 0), (a, 1), (b, 2)):
            frame = uplink(f_cnt, keys=keys, dev_addr=dev_addr, confirmed=True)
            await servers.hear((station, frame))

    servers = serve_two(scenario, replace(GAMMA, lorawan=LoRaWanVersion.V1_0_3))
    owned = ("NonDuplicate", "forwarded", "-", "RX", "Owner")
    assert words(servers.b)[-2:] == [owned, owned]
    assert words(servers.a)[-1] == owned
