"""Whatever order the copies of frames come in, the server keeps its promises.

Random frames of one device over three stations: copies at any distance, lost, late and refused.
What must hold is written down without the tables of the server.
"""

from collections import Counter
from dataclasses import dataclass, replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from bench.chance import stream
from lns.dedup.strategy import Reason, Status, Strategy, Upstream
from lns.lorawan.identifiers import DevAddr, Eui
from lns.lorawan.region import Answer
from lns.uplink.registry import EndDevice
from tests.lns.served_network import ALPHA, Network, serve, uplink, wait
from tests.sizes import size

RETENTION_US = 60_000_000
EDGES_US = (0, 1_000, 400_000, 2_000_000, RETENTION_US - 1_000, RETENTION_US)


@dataclass(frozen=True)
class Heard:
    """One copy of one frame: who heard it, how long after the one before, how late it is told."""

    f_cnt: int
    confirmed: bool
    station: str
    after_us: int
    late_us: int
    upstream_us: int
    refused: bool


HISTORIES = st.lists(
    st.builds(
        Heard,
        f_cnt=st.integers(0, 4) | st.sampled_from([40, 41]),
        confirmed=st.booleans(),
        station=st.sampled_from(["west", "east", "north"]),
        after_us=st.sampled_from(EDGES_US) | st.integers(0, 3_000_000),
        late_us=st.sampled_from([0, 599_000, 700_000, 1_700_000]),
        upstream_us=st.sampled_from([0, 0, 0, 5_000, 1_000_000]),
        refused=st.sampled_from([False, False, False, True]),
    ),
    max_size=25,
)
DEVICES = st.builds(
    lambda strategy, relaxed: replace(ALPHA, strategy=strategy, relaxed_f_cnt=relaxed),
    st.sampled_from(Strategy),
    st.booleans(),
)


def play(device: EndDevice, history: list[Heard]) -> Network:
    async def scenario(network: Network) -> None:
        for heard in history:
            await wait(heard.after_us / 1_000_000)
            network.application.refusals += heard.refused
            if heard.upstream_us:
                network.application.delays_us.append(heard.upstream_us)
            station = getattr(network, heard.station)
            phy = uplink(heard.f_cnt, confirmed=heard.confirmed)
            await station.hears(phy, late_us=heard.late_us)
        await wait(30)

    return serve(scenario, device)


def at_once(confirmed: bool, *, upstream_us: int = 0, refused: bool = False) -> Heard:
    return Heard(
        f_cnt=0,
        confirmed=confirmed,
        station="west",
        after_us=0,
        late_us=0,
        upstream_us=upstream_us,
        refused=refused,
    )


@given(DEVICES, HISTORIES)
@example(
    # Other bytes with the newest counter are on their way up, and lost, when they come again.
    device=replace(ALPHA, strategy=Strategy.DROP, relaxed_f_cnt=False),
    history=[at_once(False), at_once(True, upstream_us=5_000, refused=True), at_once(True)],
)
@settings(max_examples=size(75, 5_000), deadline=None)
def test_every_interleaving_keeps_the_promises(device: EndDevice, history: list[Heard]) -> None:
    network = play(device, history)
    stations = {"west": network.west, "east": network.east, "north": network.north}

    # One reception, one outcome, at the station that heard it.
    told = Counter(outcome.station for outcome in network.outcomes)
    assert told == Counter(stations[heard.station].eui for heard in history)

    # At most one answer for a reception, exactly one downlink for each that says so.
    answered = Counter((dnmsg.xtime, s.eui) for s in stations.values() for dnmsg in s.dnmsgs)
    said = Counter(
        (outcome.xtime, outcome.station)
        for outcome in network.outcomes
        if outcome.answer in (Answer.RX1, Answer.RX2)
    )
    assert answered == said
    assert set(answered.values()) <= {1}

    # FCntDown: handed out once each and growing.
    taken = [event.f_cnt_down for event in network.downlinks]
    assert taken == list(range(len(taken)))

    # No acknowledged loss: what was answered is with the application.
    delivered = {(message.f_cnt, message.confirmed) for message in network.application.messages}
    refused = {o.frame_id for o in network.outcomes if o.reason is Reason.INVALID_FRAME_COUNTER}
    for outcome in network.outcomes:
        # One that was refused by its counter, and is newer in the life that has begun since, is a
        # resubmission all the same (ADR 007): under Drop it is answered only.
        if outcome.answer in (Answer.RX1, Answer.RX2) and outcome.frame_id not in refused:
            assert outcome.f_cnt is not None
            assert (outcome.f_cnt, outcome.confirmed) in delivered

    # Every message has its own id; every forwarded or marked outcome its message.
    ids = network.application.ids
    assert len(ids) == len(set(ids))
    assert len(ids) == sum(o.upstream is not Upstream.DROPPED for o in network.outcomes)


@given(DEVICES, HISTORIES)
@settings(max_examples=size(50, 3_000), deadline=None)
def test_every_interleaving_has_one_first_copy_within_the_retention(
    device: EndDevice, history: list[Heard]
) -> None:
    history = [replace(heard, late_us=0, upstream_us=0, refused=False) for heard in history]
    outcomes = play(device, history).outcomes
    assert len(outcomes) == len(history)
    heard_us: dict[str, int] = {}
    first: dict[str, str] = {}
    now_us = 0
    for heard, outcome in zip(history, outcomes, strict=True):
        now_us += heard.after_us
        frame = outcome.frame_id or ""
        silent = frame not in heard_us or now_us - heard_us[frame] >= RETENTION_US
        if silent:
            first[frame] = heard.station
        same = first[frame] == heard.station
        assert (outcome.status is Status.NON_DUPLICATE) == silent
        assert (outcome.status is Status.RESUBMISSION) == (same and not silent)
        heard_us[frame] = now_us
        now_us += 1_000


@given(DEVICES, HISTORIES)
@settings(max_examples=size(50, 3_000), deadline=None)
def test_the_counter_never_goes_back_within_a_life(device: EndDevice, history: list[Heard]) -> None:
    kept: list[tuple[int, int, int]] = []

    async def scenario(network: Network) -> None:
        for heard in history:
            await wait(heard.after_us / 1_000_000)
            if heard.upstream_us:
                network.application.delays_us.append(heard.upstream_us)
            phy = uplink(heard.f_cnt, confirmed=heard.confirmed)
            await getattr(network, heard.station).hears(phy)
            for session in network.store.sessions(device.dev_eui):
                assert session.f_cnt_up is not None
                kept.append((session.lives, -session.life, session.f_cnt_up))
        await wait(30)

    network = serve(scenario, device)
    assert kept == sorted(kept)
    assert device.relaxed_f_cnt or {lives for lives, _, _ in kept} <= {0}
    firsts = [message_id.split("-") for message_id in network.application.ids]
    accepted = [(life, f_cnt) for _, life, f_cnt, *copy in firsts if not copy]
    assert len(accepted) == len(set(accepted))


def test_a_thousand_frames_in_every_order_have_one_first_copy_each() -> None:
    chance = stream(7, "copies")
    devices = [
        replace(
            ALPHA,
            name=f"d{n}",
            dev_eui=Eui(f"70B3D57ED00001{n:02X}"),
            dev_addr=DevAddr(f"0000{n:04X}"),
        )
        for n in range(10)
    ]
    copies = []
    for n in range(10):
        for f_cnt in range(100):
            heard_us = f_cnt * 10_000_000 + n
            hearers = chance.sample(["west", "east", "north"], chance.randint(1, 3))
            copies += [(heard_us + chance.randrange(3_000_000), n, f_cnt, s) for s in hearers]
    copies.sort()

    async def scenario(network: Network) -> None:
        now_us = 0
        for at_us, n, f_cnt, station in copies:
            if at_us > now_us:
                await wait((at_us - now_us) / 1_000_000)
                now_us = at_us
            here = getattr(network, station)
            phy = uplink(f_cnt, confirmed=True, dev_addr=DevAddr(f"0000{n:04X}"))
            await here.link.send(here.text(phy))

    network = serve(scenario, *devices, entries_max=10_000)
    assert len(network.outcomes) == len(copies)
    firsts = Counter(o.frame_id for o in network.outcomes if o.status is Status.NON_DUPLICATE)
    assert len(firsts) == 1000
    assert set(firsts.values()) == {1}
    answers = Counter(event.frame_id for event in network.downlinks)
    assert answers == firsts
