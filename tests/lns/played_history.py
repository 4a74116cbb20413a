"""A random history played to real network servers in virtual time, and the laws that it must keep.

What is due is worked out from the history alone: who sent what in which life of its counter, and
who heard it. It shares nothing with the network server but the frames.
"""

import asyncio
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace

from bench.chance import stream
from bench.clock import run
from lns.clock import now_us
from lns.dedup.session import Session
from lns.dedup.strategy import Strategy
from lns.delivery.publisher import Message
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.frame import Data, MalformedFrame, parse
from lns.lorawan.identifiers import DevAddr
from lns.station.messages import UpInfo
from lns.station.spelling import frame_text
from lns.store.memory import MemoryStore
from lns.uplink.registry import EndDevice, LoRaWanVersion
from tests.lns.served_network import (
    ALPHA,
    DEV_ADDR,
    GAMMA,
    KEYS,
    START_US,
    Network,
    Station,
    uplink,
)
from tests.lns.several_servers import CountedStore, OutagedClaims
from tests.lns.uplink.test_join import request as join_request
from tests.lns.uplink.test_join import session_of
from tests.reference.histories import (
    GAP_MAX,
    Again,
    Heard,
    History,
    Join,
    Replay,
    Restart,
    Send,
    ServerRestart,
    Skip,
    SlowUpstream,
    Wait,
)

RETENTION_US = 60_000_000
STRATEGIES = {"Drop": Strategy.DROP, "Mark": Strategy.MARK, "None": Strategy.NONE}


@dataclass
class Frame:
    """One string of bytes that was sent, and whose it is; `life` as the device counts its lives."""

    phy: bytes
    session: int
    life: int
    f_cnt: int
    same: bool
    is_join: bool = False
    receptions: list[tuple[int, int, int]] = field(default_factory=list)  # number, server, when
    due: bool = False


@dataclass
class Reception:
    """One text of a station."""

    number: int
    frame: Frame
    transmission: int
    server: int
    station: int
    at_us: int
    xtime: int

    @property
    def place(self) -> tuple[int, int]:
        return self.server, self.station


@dataclass
class Played:
    """All that was to be seen of a history."""

    history: History
    device: EndDevice
    networks: list[Network]
    frames: list[Frame]
    receptions: list[Reception]
    restarts: list[tuple[int, int]]
    kept: list[tuple[Session, ...]]
    addresses: list[DevAddr]

    def messages(self) -> list[tuple[Reception, Message]]:
        found = [message for network in self.networks for message in network.application.messages]
        return [(self.receptions[round(-message.rssi_dbm)], message) for message in found]


class Player:
    """Plays one history; the device and the air are here, the servers are real."""

    def __init__(self, history: History) -> None:
        self.history = history
        strategy = STRATEGIES[history.strategy]
        if history.kind == "otaa":
            self.device = replace(GAMMA, strategy=strategy, lorawan=LoRaWanVersion.V1_0_3)
        else:
            self.device = replace(ALPHA, strategy=strategy, relaxed_f_cnt=history.kind == "relaxed")
        self.stores = [CountedStore()]
        self.stores += [CountedStore(self.stores[0]) for _ in range(history.servers - 1)]
        self.viewer = MemoryStore(self.stores[0]) if history.servers > 1 else self.stores[0]
        claims = OutagedClaims() if history.servers > 1 else None
        if history.kind != "otaa" and history.begins_at:
            begun = Session(
                dev_eui=ALPHA.dev_eui, dev_addr=DEV_ADDR, keys=KEYS, f_cnt_up=history.begins_at - 1
            )
            self.stores[0].preset(ALPHA.dev_eui, (begun,))
        self.networks = [
            Network(
                self.device,
                lns=f"lns-{'abc'[number]}",
                store=store,
                claims=claims,
                shared=store if claims else None,
                entropy=stream(1, "lns", str(number)),
            )
            for number, store in enumerate(self.stores)
        ]
        self.keys: SessionKeys | None = None if history.kind == "otaa" else KEYS
        self.dev_addr = DEV_ADDR
        self.f_cnt = 0 if history.kind == "otaa" else history.begins_at
        self.session = self.life = self.nonce = 0
        self.frames: list[Frame] = []
        self.receptions: list[Reception] = []
        self.transmissions = 0
        self.restarts: list[tuple[int, int]] = []
        self.kept: list[tuple[Session, ...]] = []
        self.addresses = [DEV_ADDR]
        self.late: set[asyncio.Task[None]] = set()
        self.truth = Truth(history)

    def play(self) -> Played:
        run(self._connected(0), start_us=START_US)
        return Played(
            self.history, self.device, self.networks, self.frames, self.receptions,
            self.restarts, self.kept, self.addresses,
        )  # fmt: skip

    async def _connected(self, number: int) -> None:
        if number == len(self.networks):
            return await self._play()

        async def inside(_: Network) -> None:
            await self._connected(number + 1)

        await self.networks[number].play(inside)

    async def _play(self) -> None:
        for act in self.history.acts:
            await self._do(act)
            self.kept.append(self.viewer.sessions(self.device.dev_eui))
        if self.late:
            await asyncio.wait(self.late)
        await asyncio.sleep(5)
        self.kept.append(self.viewer.sessions(self.device.dev_eui))

    async def _do(self, act: object) -> None:
        match act:
            case Send():
                await self._send(act)
            case Again(heard):
                if self.frames and not self.frames[-1].is_join:
                    await self._air(self.frames[-1], heard, genuine=True)
            case Replay(back, heard):
                if back < len(self.frames):
                    await self._air(self.frames[-1 - back], heard, genuine=False)
            case Join():
                await self._join(act)
            case Restart(memory):
                await self._restart(memory=memory)
            case Skip(number):
                self.f_cnt += number
            case ServerRestart(server):
                await asyncio.sleep(4)
                await self.networks[server].restart()
                self.restarts.append((server, now_us()))
            case SlowUpstream(server, us):
                self.networks[server].application.delays_us = [us]
            case Wait(us):
                await asyncio.sleep(us / 1_000_000)

    async def _send(self, act: Send) -> None:
        if self.keys is None:
            return
        payload = b"same" if act.same else len(self.frames).to_bytes(3, "big")
        phy = uplink(
            self.f_cnt, confirmed=act.confirmed, payload=payload, keys=self.keys,
            dev_addr=self.dev_addr,
        )  # fmt: skip
        known = next((frame for frame in self.frames if frame.phy == phy), None)
        frame = Frame(phy, self.session, self.life, self.f_cnt, act.same)
        if known is not None:
            known.same = True
            frame = known
            self.frames.remove(known)
        self.frames.append(frame)
        self.f_cnt += 1
        await self._air(frame, act.heard, genuine=True)

    async def _restart(self, *, memory: bool) -> None:
        if memory:
            return
        if self.history.kind == "otaa":
            self.keys = None
        else:
            self.f_cnt = 0
            self.life += 1

    async def _join(self, act: Join) -> None:
        if self.history.kind != "otaa":
            return
        self.nonce += 1
        nonce = self.nonce
        frame = Frame(join_request(nonce), self.session, 0, nonce, False, is_join=True)
        self.frames.append(frame)
        before = [len(station.dnmsgs) for station in self._stations()]
        await self._air(frame, act.heard, genuine=True)
        await asyncio.sleep(0.4)
        for station, number in zip(self._stations(), before, strict=True):
            for dnmsg in station.dnmsgs[number:]:
                try:
                    dev_addr, keys = session_of(dnmsg, nonce)
                except MalformedFrame:
                    continue
                if not act.deaf:
                    self.dev_addr, self.keys = dev_addr, keys
                    self.addresses.append(dev_addr)
                    self.session = len(self.addresses) - 1
                    self.f_cnt = 0
                    self.truth.joined(self.session)

    def _stations(self) -> list[Station]:
        return [station for network in self.networks for station in (network.west, network.east)]

    async def _air(self, frame: Frame, heard: tuple[Heard, ...], *, genuine: bool) -> None:
        self.transmissions += 1
        transmission, ended_us = self.transmissions, now_us()
        for one in heard:
            task = asyncio.create_task(self._tell(frame, one, transmission, ended_us, genuine))
            self.late.add(task)
            task.add_done_callback(self.late.discard)
        await asyncio.sleep(0.06)

    async def _tell(
        self, frame: Frame, heard: Heard, transmission: int, ended_us: int, genuine: bool
    ) -> None:
        if heard.late_us:
            await asyncio.sleep(heard.late_us / 1_000_000)
        network = self.networks[heard.server]
        station = (network.west, network.east)[heard.station]
        number, now = len(self.receptions), now_us()
        xtime = station.xtime_now() - (now - ended_us)
        info = UpInfo(rctx=0, xtime=xtime, rssi_dbm=-number, snr_db=9.5)
        text = frame_text(frame.phy, dr=5, freq_hz=868_100_000, upinfo=info)
        assert text is not None
        if not frame.is_join:
            is_first = not frame.receptions
            due = self.truth.hears(frame, is_new=genuine and is_first and not frame.same)
            frame.due = frame.due or due
        frame.receptions.append((number, heard.server, now))
        self.receptions.append(
            Reception(number, frame, transmission, heard.server, heard.station, now, xtime)
        )
        await station.link.send(text)


class Truth:
    """What of the frames of a device must be accepted: never more than any server could know."""

    def __init__(self, history: History) -> None:
        self._relaxed = history.kind == "relaxed"
        begun = history.begins_at - 1 if history.kind != "otaa" else -1
        self._newest: dict[tuple[int, int], int] = {(0, 0): begun}
        self._opened = {(0, 0)}
        self._foreign: dict[tuple[int, int], int] = {}
        self._life = (0, 0)
        self._heard_session = 0

    def joined(self, session: int) -> None:
        self._newest[session, 0] = -1
        self._opened.add((session, 0))

    def hears(self, frame: Frame, *, is_new: bool) -> bool:
        """Note one reception; whether its frame must be delivered."""
        life = (frame.session, frame.life if self._relaxed else 0)
        if frame.session < self._heard_session:
            return False
        if is_new and self._relaxed:
            self._life = life
        self._heard_session = frame.session
        if life not in self._opened:
            if frame.f_cnt > 1 or not is_new:
                for known in self._newest:
                    self._foreign[known] = max(self._foreign.get(known, -1), frame.f_cnt)
                return False
            self._opened.add(life)
            self._newest[life] = -1
        newest, foreign = self._newest[life], self._foreign.get(life, -1)
        for other in self._newest:
            if other != life and other[0] == life[0]:
                self._foreign[other] = max(self._foreign.get(other, -1), frame.f_cnt)
        fits = frame.f_cnt > newest and frame.f_cnt - max(newest, 0) <= GAP_MAX
        if fits:
            self._newest[life] = frame.f_cnt
        first = self._relaxed and frame.f_cnt <= 1
        return is_new and fits and (first or frame.f_cnt > foreign)


def broken_laws(played: Played) -> list[str]:
    """The laws that this history broke, in words."""
    return [
        *_outcomes(played),
        *_answers(played),
        *_identities(played),
        *_deliveries(played),
        *_words(played),
        *_counters(played),
        *_sessions(played),
    ]


def _outcomes(played: Played) -> list[str]:
    told = sum(len(network.outcomes) for network in played.networks)
    if told != len(played.receptions):
        return [f"{len(played.receptions)} receptions have {told} outcomes"]
    return []


def _answers(played: Played) -> list[str]:
    by_xtime = {(r.server, r.xtime): r.transmission for r in played.receptions}
    answered: Counter[int] = Counter()
    downlinks: Counter[tuple[str, int]] = Counter()
    for server, network in enumerate(played.networks):
        for station in (network.west, network.east):
            for dnmsg in station.dnmsgs:
                assert dnmsg.xtime is not None
                answered[by_xtime[server, dnmsg.xtime]] += 1
                try:
                    frame = parse(dnmsg.pdu)
                except MalformedFrame:
                    continue
                if isinstance(frame, Data):
                    downlinks[frame.dev_addr, frame.f_cnt] += 1
    broken = [f"transmission {t} is answered {n} times" for t, n in answered.items() if n > 1]
    return broken + [
        f"downlink counter {d} is used {n} times" for d, n in downlinks.items() if n > 1
    ]


def _identities(played: Played) -> list[str]:
    frames_of_key: defaultdict[str, set[bytes]] = defaultdict(set)
    frames_of_id: defaultdict[str, set[bytes]] = defaultdict(set)
    times: Counter[tuple[int, str]] = Counter()
    keys: defaultdict[tuple[bytes, int], set[str]] = defaultdict(set)
    for reception, message in played.messages():
        phy = reception.frame.phy
        frames_of_key[message.remove_duplicates_key].add(phy)
        frames_of_id[message.message_id].add(phy)
        if reception.server not in {server for server, _ in played.restarts}:
            times[reception.server, message.message_id] += 1
        group = _group(reception.frame, reception.at_us)
        if group is not None and not _restarted_in(played, reception.frame):
            keys[phy, group].add(message.remove_duplicates_key)
    broken = [
        f"key {k} is shared by {len(p)} frames" for k, p in frames_of_key.items() if len(p) > 1
    ]
    broken += [f"id {i} is used {n} times" for i, n in times.items() if n > 1]
    broken += [
        f"id {i} is shared by {len(p)} frames" for i, p in frames_of_id.items() if len(p) > 1
    ]
    return broken + [
        f"one frame has the keys {sorted(found)}" for found in keys.values() if len(found) > 1
    ]


def _deliveries(played: Played) -> list[str]:
    broken = []
    firsts: Counter[bytes] = Counter()
    unmarked: Counter[tuple[bytes, int]] = Counter()
    delivered = {reception.frame.phy for reception, _ in played.messages()}
    for reception, message in played.messages():
        group = _group(reception.frame, reception.at_us)
        if group is None or _restarted_in(played, reception.frame):
            continue
        if message.message_id == message.remove_duplicates_key:
            firsts[reception.frame.phy] += group == 0
        if not message.dup_msg and played.history.strategy != "None":
            unmarked[reception.frame.phy, group] += 1
    for frame in played.frames:
        if frame.is_join or not frame.receptions:
            continue
        what = f"frame {frame.f_cnt} of life {frame.life}, session {frame.session}"
        if frame.due and not frame.same:
            if frame.phy not in delivered:
                broken.append(f"{what} is lost")
            elif firsts[frame.phy] != 1 and _group(frame, frame.receptions[0][2]) is not None:
                if not _restarted_in(played, frame):
                    broken.append(f"{what} is delivered {firsts[frame.phy]} times as the first")
    return broken + [f"delivered {n} times unmarked" for n in unmarked.values() if n > 1]


def _words(played: Played) -> list[str]:
    """A copy that no newer frame overtook is never called an old frame, wherever it is heard."""
    words = {
        (number, outcome.xtime): outcome
        for number, network in enumerate(played.networks)
        for outcome in network.outcomes
    }
    broken = []
    for number, reception in enumerate(played.receptions):
        frame = reception.frame
        before = played.receptions[:number]
        since = [r for r in before if r.at_us >= frame.receptions[0][2]]
        overtaken = any(r.frame is not frame for r in since)
        again = any(r.place == reception.place and r.frame is frame for r in before)
        if frame.is_join or not frame.due or overtaken or again or _restarted_in(played, frame):
            continue
        if reception.at_us - frame.receptions[0][2] >= RETENTION_US:
            continue
        reason = words[reception.server, reception.xtime].reason
        if reason not in (None, "Duplicate", "DuplicateAtOtherServer", "ResubmissionSuppressed"):
            broken.append(f"a copy of a frame is {reason}")
    return broken


def _counters(played: Played) -> list[str]:
    newest: dict[tuple[str, int], int] = {}
    for sessions in played.kept:
        for session in sessions:
            if session.f_cnt_up is None:
                continue
            life = session.dev_addr, session.life
            if session.f_cnt_up < newest.get(life, -1):
                return [f"counter {newest[life]} of life {life} went back to {session.f_cnt_up}"]
            newest[life] = session.f_cnt_up
    return []


def _sessions(played: Played) -> list[str]:
    """No frame of a session is taken when one of a later session was accepted a second before."""
    if played.history.kind != "otaa":
        return []
    taken = sorted((r.frame.receptions[0][2], r.frame.session) for r, _ in played.messages())
    newest, since_us = 0, 0
    for at_us, session in taken:
        if session < newest and at_us - since_us > 5_000_000:
            return [f"session {session} is taken after session {newest}"]
        if session > newest:
            newest, since_us = session, at_us
    last = {session.dev_addr for session in played.kept[-1]}
    # A message says that a session is the one in use: those before it are gone.
    gone = set(played.addresses[:newest]) - {played.addresses[newest]}
    return [f"session {addr} is still kept" for addr in sorted(gone & last)]


def _group(frame: Frame, at_us: int) -> int | None:
    """Which hearing of a frame this is, copies a retention apart; None where one cannot tell."""
    group, first_us, last_us = 0, frame.receptions[0][2], frame.receptions[0][2]
    for _, _, when_us in sorted(frame.receptions, key=lambda one: one[2]):
        if when_us - last_us >= RETENTION_US:
            group, first_us = group + 1, when_us
        elif when_us - first_us >= RETENTION_US - 1_000_000:
            return None
        if when_us == at_us:
            return group
        last_us = when_us
    return None


def _restarted_in(played: Played, frame: Frame) -> bool:
    """Whether nobody can tell if a copy of this frame is one.

    A server forgot its level 1 meanwhile; or a station heard it again after the device began a new
    life, or seemed to with a first message that nobody had heard: by the rules that life may have
    sent an equal frame.
    """
    began, ended = frame.receptions[0][2], max(when for _, _, when in frame.receptions)
    if frame.same or any(began <= at_us <= ended for _, at_us in played.restarts):
        return True
    mine = [r for r in played.receptions if r.frame is frame]
    again = [r for n, r in enumerate(mine) if any(o.place == r.place for o in mine[:n])]
    return any(
        other.at_us <= r.at_us and (other.frame.life > frame.life or _seems_to_begin(played, other))
        for r in again
        for other in played.receptions
        if other.at_us >= began and other.frame is not frame
    )


def _seems_to_begin(played: Played, reception: Reception) -> bool:
    """Whether a server takes this for the first message of a new life, whoever sent it."""
    frame = reception.frame
    before = [at_us for number, _, at_us in frame.receptions if number < reception.number]
    is_first = all(reception.at_us - at_us >= RETENTION_US for at_us in before)
    return played.history.kind == "relaxed" and frame.f_cnt <= 1 and is_first


def laws_broken_by(history: History) -> list[str]:
    """Play a history; the laws that it broke."""
    return broken_laws(Player(history).play())
