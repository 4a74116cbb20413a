"""Which device sent this frame, in which session, with which 32-bit counter?

LoRaWAN data frames name their sender by DevAddr only, which is not unique: whoever shares it is
told apart by the MIC. Devices are tried in order of DevEUI, so that every copy of a frame finds
the same one.
"""

import logging
from collections import defaultdict
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct

from lns.clock import Patience
from lns.dedup.session import AS_REGION_SAYS, Listening, Session
from lns.dedup.strategy import Reason, Strategy
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.frame import Data, candidates
from lns.lorawan.identifiers import DevAddr, Eui


class Activation(StrEnum):
    """How a device gets its session: over the air, or by personalisation."""

    OTAA = "otaa"
    ABP = "abp"


_ABP = Activation.ABP


class LoRaWanVersion(StrEnum):
    """The LoRaWAN version of a device; 1.0.4 made the DevNonce a counter."""

    V1_0_2 = "1.0.2"
    V1_0_3 = "1.0.3"
    V1_0_4 = "1.0.4"


class DeviceClass(StrEnum):
    """When a device listens: after its own uplinks (A), or always (C)."""

    A = "A"
    C = "C"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndDevice:
    """The record of one device, as provisioned; keys never show in its repr.

    OTAA devices have `join_eui` and `app_key`, ABP devices `dev_addr` and `session_keys`.
    `server` pins the device to one LNS; `relaxed_f_cnt` lets an ABP device restart its counter.
    No join accept of it has a JoinNonce below `join_nonce_min`. It is asked for its status every
    `dev_status_s` seconds, None: only when an application wants it. `listening` is what its join
    accepts say of its receive windows, `more_channels_hz` on which it may send besides the channels
    of its region.
    """

    name: str
    dev_eui: Eui
    activation: Activation
    join_eui: Eui | None = None
    app_key: bytes | None = field(default=None, repr=False)
    dev_addr: DevAddr | None = None
    session_keys: SessionKeys | None = field(default=None, repr=False)
    lorawan: LoRaWanVersion = LoRaWanVersion.V1_0_4
    strategy: Strategy = Strategy.NONE
    server: str | None = None
    relaxed_f_cnt: bool = True
    f_cnt_bits: int = 32
    nb_trans: int = 1
    device_class: DeviceClass = DeviceClass.A
    join_nonce_min: int = 1
    dev_status_s: int | None = None
    listening: Listening = AS_REGION_SAYS
    more_channels_hz: tuple[int, ...] = ()

    @property
    def may_restart_counter(self) -> bool:
        """Only a relaxed ABP device restarts its counter without a new session."""
        return self.activation is _ABP and self.relaxed_f_cnt


log = logging.getLogger(__name__)

# A store that takes longer is away: RX2 of a data uplink is over by then.
KEEP_US = 2_000_000
PENDING_MAX = 8


class SessionStore(Protocol):
    """What outlives this process: sessions, used DevNonces and JoinNonces; see `lns.store`."""

    def sessions(self, dev_eui: Eui) -> tuple[Session, ...]:
        """The sessions of a device, newest first."""

    async def keep_sessions(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        """Make the sessions of a device durable; StoreUnavailable when that fails."""

    def dev_nonces(self, dev_eui: Eui) -> frozenset[int]:
        """Every DevNonce that was ever accepted of a device."""

    async def keep_join(self, dev_eui: Eui, dev_nonce: int, sessions: tuple[Session, ...]) -> bool:
        """Use a DevNonce for ever and make the sessions durable, both or none; StoreUnavailable.

        False, and nothing is kept, when the DevNonce was used before. After StoreUnavailable this
        server may try the same DevNonce again.
        """

    async def next_join_nonce(self, dev_eui: Eui, least: int) -> int:
        """A JoinNonce greater than any that was handed out for the device, and at least `least`.

        Whoever uses the store gets another one, however often it is opened (LoRaWAN 1.0.4, 6.2.3).
        StoreUnavailable when it cannot be made durable.
        """


class Match(Struct, frozen=True, gc=False):
    """The sender of a frame, proven by its MIC, and the full counter that proved it."""

    device: EndDevice
    session: Session
    f_cnt: int

    @property
    def is_first_message(self) -> bool:
        """FCnt 0 or 1 of a relaxed ABP device: it may have restarted (ADR 007)."""
        return self.f_cnt <= 1 and self.device.may_restart_counter


class Registry:
    """The devices of this server and their sessions, by DevEUI and by DevAddr.

    After a join the session in use stays valid, and so do sessions of earlier joins that no frame
    came of yet: the device may not have heard the accept, or never have asked for it, because
    somebody replayed a join request that nobody had heard. A frame that is accepted ends all
    sessions older than its own (`settle`). At most `PENDING_MAX` wait for their first frame.
    Remembers which station heard each device last.
    """

    def __init__(
        self,
        devices: Iterable[EndDevice],
        store: SessionStore,
        *,
        lns: str = "",
        alone: bool = True,
    ) -> None:
        self._store = store
        self._lns = lns
        self._alone = alone
        self._devices = {device.dev_eui: device for device in devices}
        self._sessions: dict[Eui, tuple[Session, ...]] = {}
        self._by_dev_addr: dict[DevAddr, list[tuple[EndDevice, Session]]] = {}
        self._joining: list[Session] = []
        self._nonces_under_way: defaultdict[Eui, list[int]] = defaultdict(list)
        self._last_heard: dict[Eui, Eui] = {}
        silence = "devices are not answered until it is back"
        self._patience = Patience("the store", KEEP_US, silence, log)
        for device in self._devices.values():
            remembered = _still_valid(device, store.sessions(device.dev_eui))
            for session in remembered:
                session.hear_all()
            self._set_sessions(device, remembered or _personalised(device))

    def device(self, dev_eui: Eui) -> EndDevice | None:
        """The device with this DevEUI, if it is provisioned here."""
        return self._devices.get(dev_eui)

    def shares(self, device: EndDevice) -> bool:
        """Whether another server may own what this device sends; not if this one is `alone`."""
        return not self._alone and device.server is None

    def last_heard(self, dev_eui: Eui) -> Eui | None:
        """The station through which the newest frame of a device was accepted."""
        return self._last_heard.get(dev_eui)

    def session_heard(self, dev_eui: Eui) -> Session | None:
        """The newest session of a device that a frame was accepted in: it can be spoken to."""
        sessions = self._sessions.get(dev_eui, ())
        return next((session for session in sessions if session.f_cnt_up is not None), None)

    def knows(self, dev_addr: DevAddr) -> bool:
        """Whether some session has this DevAddr."""
        return dev_addr in self._by_dev_addr

    def devices_with(self, dev_addr: DevAddr) -> tuple[Eui, ...]:
        """The devices whose sessions have this DevAddr."""
        return tuple(device.dev_eui for device, _ in self._by_dev_addr.get(dev_addr, ()))

    def catch_up(self, dev_eui: Eui) -> None:
        """Take over what the store knows of a device by now: sessions and newer counters.

        A session that is not there any more was replaced at another server.
        """
        device, known = self._devices[dev_eui], self._sessions[dev_eui]
        stored = _still_valid(device, self._store.sessions(dev_eui))
        if not stored:
            return
        sessions = [session for session in known if session in self._joining]
        for theirs in stored:
            proof = theirs.dev_addr, theirs.keys
            ours = next((s for s in known if (s.dev_addr, s.keys) == proof), None)
            if ours is not None:
                ours.catch_up(theirs)
                if ours.f_cnt_up == theirs.f_cnt_up and ours.owner not in (None, self._lns):
                    ours.agree(theirs)
            if ours is None or ours not in self._joining:
                sessions.append(ours or theirs)
        self._set_sessions(device, tuple(sessions))

    def agree(self, match: Match) -> None:
        """Take over what the store says that another server has agreed with a device."""
        session = match.session
        for theirs in self._store.sessions(match.device.dev_eui):
            if (theirs.dev_addr, theirs.keys) == (session.dev_addr, session.keys):
                session.agree(theirs)

    def dev_nonces(self, dev_eui: Eui) -> frozenset[int]:
        """Every DevNonce that was ever accepted of a device, or is about to be."""
        return self._store.dev_nonces(dev_eui).union(self._nonces_under_way[dev_eui])

    def match(self, frame: Data, body: bytes | None = None) -> Match | Reason:
        """The sender of a data frame; `UnknownDevice` or `MicMismatch` where there is none.

        `body` is `frame.body()`, for whoever has it already.
        """
        sharers = self._by_dev_addr.get(frame.dev_addr)
        if not sharers:
            return Reason.UNKNOWN_DEVICE
        mic_is_valid = frame.mic_check(body)
        for device, session in sharers:
            for f_cnt in _candidates(device, session, frame):
                if mic_is_valid(session.keys.nwk_s_key, f_cnt):
                    return Match(device, session, f_cnt)
        return Reason.MIC_MISMATCH

    async def next_join_nonce(self, device: EndDevice) -> int:
        """The JoinNonce of a device's next join accept, handed out once; StoreUnavailable."""
        asked = self._store.next_join_nonce(device.dev_eui, device.join_nonce_min)
        return await self._patience.wait_for(asked)

    async def join(self, device: EndDevice, session: Session, dev_nonce: int) -> bool:
        """Use a DevNonce and add the session that it opens; durable when this returns True.

        Those before stay until `settle`. Nothing is changed after False (the DevNonce was used
        before) and after StoreUnavailable.
        """
        before = self._sessions[device.dev_eui]
        joined = (session, *_bounded(before))
        self._set_sessions(device, joined)
        self._joining.append(session)
        self._nonces_under_way[device.dev_eui].append(dev_nonce)
        kept = False
        try:
            kept = await self._patience.wait_for(
                self._store.keep_join(device.dev_eui, dev_nonce, joined)
            )
        finally:
            self._joining = [other for other in self._joining if other is not session]
            self._nonces_under_way[device.dev_eui].remove(dev_nonce)
            if not kept:
                now = self._sessions[device.dev_eui]
                others = tuple(other for other in now if other is not session)
                self._set_sessions(device, before if now is joined else others)
        return kept

    def elders(self, match: Match) -> tuple[DevAddr, ...]:
        """The sessions that a frame of this one brings to an end."""
        sessions = self._sessions[match.device.dev_eui]
        if len(sessions) == 1 or match.session not in sessions:
            return ()
        return tuple(old.dev_addr for old in sessions[sessions.index(match.session) + 1 :])

    def settle(self, match: Match, station: Eui) -> None:
        """A new frame was accepted through `station`: forget older sessions than the one of it.

        A newer one may have been opened since the frame was sent.
        """
        self._last_heard[match.device.dev_eui] = station
        elders = self.elders(match)
        if elders:
            sessions = self._sessions[match.device.dev_eui]
            self._set_sessions(match.device, sessions[: -len(elders)])

    def end(self, match: Match) -> None:
        """Forget a session that another server has seen the end of."""
        sessions = self._sessions[match.device.dev_eui]
        left = tuple(other for other in sessions if other is not match.session)
        self._set_sessions(match.device, left)

    def keep(self, dev_eui: Eui) -> Coroutine[Any, Any, None]:
        """Make counters and sessions of a device durable; StoreUnavailable when that fails."""
        return self._patience.wait_for(self._store.keep_sessions(dev_eui, self._sessions[dev_eui]))

    def _set_sessions(self, device: EndDevice, sessions: tuple[Session, ...]) -> None:
        for old in self._sessions.get(device.dev_eui, ()):
            others = [c for c in self._by_dev_addr[old.dev_addr] if c[1] is not old]
            if others:
                self._by_dev_addr[old.dev_addr] = others
            else:
                del self._by_dev_addr[old.dev_addr]
        self._sessions[device.dev_eui] = sessions
        for session in sessions:
            sharers = self._by_dev_addr.setdefault(session.dev_addr, [])
            sharers.append((device, session))
            sharers.sort(key=lambda sharer: sharer[0].dev_eui)


def _bounded(before: tuple[Session, ...]) -> tuple[Session, ...]:
    waiting = [session for session in before if session.f_cnt_up is None][: PENDING_MAX - 1]
    in_use = next((session for session in before if session.f_cnt_up is not None), None)
    return tuple(s for s in before if s is in_use or any(s is other for other in waiting))


def _candidates(device: EndDevice, session: Session, frame: Data) -> tuple[int, ...]:
    """The counters to be tried: those near the newest one, and near where former lives ended."""
    tries = candidates(session.f_cnt_up, frame.f_cnt, bits=device.f_cnt_bits)
    for f_cnt_up in session.former.values():
        tries += candidates(f_cnt_up, frame.f_cnt, bits=device.f_cnt_bits)
    return tuple(dict.fromkeys(tries)) if session.former else tries


def _still_valid(device: EndDevice, sessions: tuple[Session, ...]) -> tuple[Session, ...]:
    if device.activation is not Activation.ABP:
        return sessions
    personal = device.dev_addr, device.session_keys
    return tuple(known for known in sessions if (known.dev_addr, known.keys) == personal)


def _personalised(device: EndDevice) -> tuple[Session, ...]:
    if device.activation is not Activation.ABP:
        return ()
    assert device.dev_addr is not None and device.session_keys is not None
    return (Session(dev_eui=device.dev_eui, dev_addr=device.dev_addr, keys=device.session_keys),)
