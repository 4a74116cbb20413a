"""What becomes of a join request, and what both sides have of it."""

import random
from dataclasses import replace

import pytest

from bench.chance import stream
from bench.virtual.lorawan.join_frames import join_request
from lns.dedup.session import Session
from lns.lorawan.crypto import SessionKeys, derive_session_keys
from lns.lorawan.frame import (
    DlSettings,
    JoinAcceptFields,
    MalformedFrame,
    open_join_accept,
)
from lns.lorawan.identifiers import DevAddr, Eui
from lns.lorawan.region import US915
from lns.station.messages import Dnmsg
from lns.store.memory import MemoryStore
from lns.uplink.registry import EndDevice, LoRaWanVersion
from tests.lns.served_network import (
    ALPHA,
    APP_KEY,
    GAMMA,
    JOIN_EUI,
    Network,
    serve,
    uplink,
    wait,
)

# JoinEUI 70B3D57ED0000000, DevEUI 70B3D57ED0000003, DevNonce 7, MIC 072F34F6; `%d` is the xtime.
JREQ = (
    '{"msgtype":"jreq","MHdr":0,"JoinEui":"70-B3-D5-7E-D0-00-00-00",'
    '"DevEui":"70-B3-D5-7E-D0-00-00-03","DevNonce":7,"MIC":-164352249,"RefTime":0.0,"DR":5,'
    '"Freq":868100000,"upinfo":{"rctx":0,"xtime":%d,"gpstime":0,"fts":-1,"rssi":-71,"snr":9.5,'
    '"rxtime":0.0}}'
)


def request(
    dev_nonce: int, *, app_key: bytes = APP_KEY, join_eui: Eui = JOIN_EUI, dev_eui: str = ""
) -> bytes:
    return join_request(
        app_key, join_eui=join_eui, dev_eui=Eui(dev_eui) or GAMMA.dev_eui, dev_nonce=dev_nonce
    )


def accepted(dnmsg: Dnmsg) -> JoinAcceptFields:
    return open_join_accept(APP_KEY, dnmsg.pdu)


def session_of(dnmsg: Dnmsg, dev_nonce: int) -> tuple[DevAddr, SessionKeys]:
    """What the device makes of a join accept."""
    fields = accepted(dnmsg)
    keys = derive_session_keys(
        APP_KEY, join_nonce=fields.join_nonce, net_id=fields.net_id, dev_nonce=dev_nonce
    )
    return fields.dev_addr, keys


def test_a_join_is_accepted_in_its_first_window() -> None:
    async def scenario(network: Network) -> None:
        await network.west.says(JREQ % network.west.xtime_now())

    network = serve(scenario, GAMMA)
    assert network.words == [("west", "NonDuplicate", "dropped", "-", "RX1")]
    outcome = network.outcomes[0]
    assert outcome.frame_id == "70B3D57ED0000000:70B3D57ED0000003:7"
    assert (outcome.dev_eui, outcome.mic) == ("70B3D57ED0000003", "072F34F6")
    assert (outcome.confirmed, outcome.dev_addr, outcome.f_cnt) == (None, None, None)
    (dnmsg,) = network.west.dnmsgs
    assert (dnmsg.rx_delay_s, dnmsg.rx1, dnmsg.rx2) == (5, (5, 868_100_000), (0, 869_525_000))
    assert dnmsg.xtime == outcome.xtime
    assert network.application.messages == []


def test_the_accept_says_what_the_device_needs() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(request(7))

    fields = accepted(serve(scenario, GAMMA).west.dnmsgs[0])
    assert fields.net_id == "000013"
    assert fields.dev_addr[:2] in ("26", "27")  # NwkID 0x13 in the upper seven bits
    assert (fields.dl_settings, fields.rx_delay, fields.cf_list) == (DlSettings(0, 0), 1, b"")


def test_the_join_nonce_of_a_device_increases() -> None:
    other = replace(GAMMA, name="delta", dev_eui=Eui("70B3D57ED0000004"))

    async def scenario(network: Network) -> None:
        for dev_nonce in (7, 8):
            await network.west.hears(request(dev_nonce))
            await network.west.hears(request(dev_nonce, dev_eui="70B3D57ED0000004"))
        await network.restart()
        await network.west.hears(request(9))

    network = serve(scenario, GAMMA, other)
    assert [accepted(dnmsg).join_nonce for dnmsg in network.west.dnmsgs] == [1, 1, 2, 2, 3]


def test_a_device_that_has_joined_elsewhere_gets_a_greater_join_nonce() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(request(7))
        await network.west.hears(request(8))

    network = serve(scenario, replace(GAMMA, join_nonce_min=500_000))
    assert [accepted(dnmsg).join_nonce for dnmsg in network.west.dnmsgs] == [500_000, 500_001]


def test_a_device_that_has_used_up_its_join_nonces_joins_no_more() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(request(7))
        await network.west.hears(request(8))

    network = serve(scenario, replace(GAMMA, join_nonce_min=0xFFFFFF))
    assert [words[3:] for words in network.words] == [("-", "RX1"), ("DevNonceUsed", "Suppressed")]


def test_an_accept_opens_with_no_other_key() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(request(7))

    with pytest.raises(MalformedFrame):
        open_join_accept(bytes(16), serve(scenario, GAMMA).west.dnmsgs[0].pdu)


def test_us915_tells_its_own_windows() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(request(7), dr=0, freq_hz=904_100_000)

    (dnmsg,) = serve(scenario, GAMMA, region=US915).west.dnmsgs
    assert (dnmsg.rx1, dnmsg.rx2) == ((10, 923_900_000), (8, 923_300_000))
    assert accepted(dnmsg).dl_settings == DlSettings(0, 8)


def test_both_sides_have_the_same_keys() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(request(7))
        dev_addr, keys = session_of(network.west.dnmsgs[0], 7)
        await network.west.hears(uplink(0, keys=keys, dev_addr=dev_addr, confirmed=True))

    network = serve(scenario, GAMMA)
    assert network.words[1] == ("west", "NonDuplicate", "forwarded", "-", "RX1")
    assert network.bodies[0]["payload"] == "c0ffee"


@pytest.mark.parametrize(
    ("late_us", "answer"),
    [
        (0, "RX1"),
        (4_600_000, "RX1"),
        (4_600_001, "RX2"),
        (5_600_000, "RX2"),
        (5_600_001, "TooLate"),
    ],
)
def test_a_late_join_is_answered_later_or_not_at_all(late_us: int, answer: str) -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(request(7), late_us=late_us)

    network = serve(scenario, GAMMA)
    assert network.words == [("west", "NonDuplicate", "dropped", "-", answer)]
    assert len(network.west.dnmsgs) == (answer != "TooLate")


@pytest.mark.parametrize("other", ["west", "east"])
def test_a_copy_of_a_join_is_a_duplicate_of_every_strategy(other: str) -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(request(7))
        await getattr(network, other).hears(request(7))

    network = serve(scenario, GAMMA)
    assert network.words[1] == (other, "Duplicate", "dropped", "Duplicate", "Suppressed")
    assert len(network.west.dnmsgs + network.east.dnmsgs) == 1


def test_a_join_after_the_retention_has_used_its_nonce() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(request(7))
        await wait(60)
        await network.west.hears(request(7))

    assert serve(scenario, GAMMA).words[1] == (
        "west",
        "NonDuplicate",
        "dropped",
        "DevNonceUsed",
        "Suppressed",
    )


@pytest.mark.parametrize(
    ("lorawan", "dev_nonce", "reason"),
    [
        ("1.0.4", 6, "DevNonceUsed"),
        ("1.0.4", 8, "-"),
        ("1.0.3", 6, "-"),
        ("1.0.2", 6, "-"),
        ("1.0.2", 8, "-"),
    ],
)
def test_only_1_0_4_wants_growing_nonces(lorawan: str, dev_nonce: int, reason: str) -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(request(7))
        await network.west.hears(request(dev_nonce))

    network = serve(scenario, replace(GAMMA, lorawan=LoRaWanVersion(lorawan)))
    assert network.words[1][3] == reason
    assert network.words[1][4] == ("RX1" if reason == "-" else "Suppressed")


@pytest.mark.parametrize("lorawan", LoRaWanVersion)
def test_a_nonce_stays_used_over_a_restart(lorawan: LoRaWanVersion) -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(request(7))
        await network.restart()
        await network.west.hears(request(7))

    network = serve(scenario, replace(GAMMA, lorawan=lorawan))
    assert network.words[1][1:4] == ("NonDuplicate", "dropped", "DevNonceUsed")


def test_the_nonces_of_two_devices_are_apart() -> None:
    other = replace(GAMMA, name="delta", dev_eui=Eui("70B3D57ED0000004"))

    async def scenario(network: Network) -> None:
        await network.west.hears(request(7))
        await network.west.hears(request(7, dev_eui="70B3D57ED0000004"))

    assert [words[4] for words in serve(scenario, GAMMA, other).words] == ["RX1", "RX1"]


REFUSED = ("-", "dropped")


@pytest.mark.parametrize(
    ("device", "phy", "words"),
    [
        (ALPHA, request(7), (*REFUSED, "UnknownDevice", "NotAsked")),
        (
            replace(ALPHA, app_key=APP_KEY, join_eui=JOIN_EUI),
            request(7, dev_eui="70B3D57ED0000001"),
            (*REFUSED, "UnknownDevice", "NotAsked"),
        ),
        (GAMMA, request(7, app_key=bytes(16)), (*REFUSED, "MicMismatch", "NotAsked")),
        (
            GAMMA,
            request(7, join_eui=Eui("70B3D57ED00000FF")),
            ("NonDuplicate", "dropped", "UnknownDevice", "Suppressed"),
        ),
        (
            replace(GAMMA, server="lns-b"),
            request(7),
            (*REFUSED, "BelongsToAnotherServer", "Suppressed"),
        ),
    ],
    ids=["unknown DevEUI", "ABP device", "forged", "other JoinEUI", "other server"],
)
def test_what_is_refused(device: EndDevice, phy: bytes, words: tuple[str, ...]) -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(phy)

    network = serve(scenario, device)
    assert network.words == [("west", *words)]
    assert network.west.dnmsgs == []


def test_a_device_of_this_server_joins() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(request(7))

    assert serve(scenario, replace(GAMMA, server="lns-a")).words[0][4] == "RX1"


@pytest.mark.parametrize(
    "phy", [request(7, app_key=bytes(16)), request(7, dev_eui="70B3D57ED00000AA")]
)
def test_who_is_not_proven_is_not_named(phy: bytes) -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(phy)

    outcome = serve(scenario, GAMMA).outcomes[0]
    assert (outcome.dev_eui, outcome.strategy) == (None, None)


def test_a_forged_join_does_not_block_the_genuine_one() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(request(7, app_key=bytes(16)))
        await network.west.hears(request(7))

    assert serve(scenario, GAMMA).words[1][4] == "RX1"


def test_a_refused_join_eui_uses_no_nonce() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(request(7, join_eui=Eui("70B3D57ED00000FF")))
        await network.west.hears(request(7))

    assert serve(scenario, GAMMA).words[1][4] == "RX1"


class Scripted(random.Random):
    """Draws what it was told to draw."""

    def __init__(self, *draws: int) -> None:
        super().__init__(0)
        self._draws = list(draws)

    def getrandbits(self, k: int, /) -> int:
        return self._draws.pop(0)


def test_a_dev_addr_in_use_is_never_given_again() -> None:
    taken = replace(ALPHA, dev_addr=DevAddr("26000005"))
    entropy = Scripted(5, 6, 5, 6, 7)  # until one is free

    async def scenario(network: Network) -> None:
        await network.west.hears(request(7))
        dev_addr, keys = session_of(network.west.dnmsgs[0], 7)
        await network.west.hears(uplink(0, keys=keys, dev_addr=dev_addr))
        await network.west.hears(request(8))

    network = serve(scenario, taken, GAMMA, entropy=entropy)
    addresses = [accepted(dnmsg).dev_addr for dnmsg in network.west.dnmsgs]
    assert addresses == ["26000006", "26000007"]


def test_the_same_entropy_gives_the_same_session() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(request(7))

    first, second = (serve(scenario, GAMMA, entropy=stream(5, "lns")) for _ in range(2))
    assert first.west.texts == second.west.texts


def test_the_old_session_lives_until_the_new_one_is_used() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(request(7))
        old_addr, old_keys = session_of(network.west.dnmsgs[0], 7)
        await network.west.hears(uplink(0, keys=old_keys, dev_addr=old_addr))
        await network.west.hears(request(8))
        new_addr, new_keys = session_of(network.west.dnmsgs[1], 8)
        await network.west.hears(uplink(1, keys=old_keys, dev_addr=old_addr))
        await network.west.hears(uplink(0, keys=new_keys, dev_addr=new_addr))
        await network.west.hears(uplink(2, keys=old_keys, dev_addr=old_addr))

    network = serve(scenario, GAMMA)
    assert [words[2:4] for words in network.words] == [
        ("dropped", "-"),
        ("forwarded", "-"),
        ("dropped", "-"),
        ("forwarded", "-"),
        ("forwarded", "-"),
        ("dropped", "UnknownDevice"),
    ]


def test_the_new_session_is_not_settled_by_a_frame_that_was_refused_upstream() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(request(7))
        old_addr, old_keys = session_of(network.west.dnmsgs[0], 7)
        await network.west.hears(uplink(0, keys=old_keys, dev_addr=old_addr))
        await network.west.hears(request(8))
        new_addr, new_keys = session_of(network.west.dnmsgs[1], 8)
        network.application.refusals = 1
        await network.west.hears(uplink(0, keys=new_keys, dev_addr=new_addr))
        await network.west.hears(uplink(1, keys=old_keys, dev_addr=old_addr))

    assert serve(scenario, GAMMA).words[-1][2] == "forwarded"


def test_a_session_is_found_again_after_a_restart() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(request(7))
        dev_addr, keys = session_of(network.west.dnmsgs[0], 7)
        await network.restart()
        await network.west.hears(uplink(0, keys=keys, dev_addr=dev_addr))

    assert serve(scenario, GAMMA, store=MemoryStore()).words[1][2] == "forwarded"


def test_an_evicted_join_is_told() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(request(7))
        await network.west.hears(request(8))

    (evicted,) = serve(scenario, GAMMA, entries_max=1).evictions
    assert (evicted.key, evicted.silent_us) == ("70B3D57ED0000000:70B3D57ED0000003:7", 1_000)


class ContendedStore(MemoryStore):
    """A store in which another server uses every DevNonce a moment earlier."""

    async def keep_join(self, dev_eui: Eui, dev_nonce: int, sessions: tuple[Session, ...]) -> bool:
        await super().keep_join(dev_eui, dev_nonce, ())
        return await super().keep_join(dev_eui, dev_nonce, sessions)


def test_a_nonce_that_another_server_used_a_moment_ago_is_used() -> None:
    async def scenario(network: Network) -> None:
        await network.west.hears(request(7))

    network = serve(scenario, GAMMA, store=ContendedStore())
    assert network.words == [("west", "NonDuplicate", "dropped", "DevNonceUsed", "Suppressed")]


@pytest.mark.parametrize("version", [LoRaWanVersion.V1_0_2, LoRaWanVersion.V1_0_3])
def test_a_replayed_join_request_that_nobody_heard_ends_no_session(version: LoRaWanVersion) -> None:
    """Recorded, never heard, replayed after the real join and before its first uplink."""

    async def scenario(network: Network) -> None:
        await network.west.hears(request(9))
        dev_addr, keys = session_of(network.west.dnmsgs[-1], 9)
        for dev_nonce in (5, 6, 7):
            await network.west.hears(request(dev_nonce))
        for f_cnt in (0, 1):
            await network.west.hears(uplink(f_cnt, keys=keys, dev_addr=dev_addr, confirmed=True))

    network = serve(scenario, replace(GAMMA, lorawan=version))
    assert [words[2:] for words in network.words[-2:]] == [("forwarded", "-", "RX1")] * 2
