"""Which device sent this frame, in which session, with which 32-bit counter?

LoRaWAN data frames name their sender by DevAddr only, which is not unique: whoever shares it is
told apart by the MIC. Devices are tried in order of DevEUI, so that every copy of a frame finds
the same one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from lns.dedup.strategy import Reason
from lns.end_device import Activation, EndDevice, Session
from lns.lorawan.frame import Data
from lns.lorawan.frame_counter import candidates
from lns.lorawan.identifiers import DevAddr, Eui


class SessionStore(Protocol):
    """What outlives this process: sessions and used DevNonces; see `lns.store`."""

    def sessions(self, dev_eui: Eui) -> tuple[Session, ...]:
        """The sessions of a device, newest first."""

    async def keep_sessions(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        """Make the sessions of a device durable; StoreUnavailable when that fails."""

    def dev_nonces(self, dev_eui: Eui) -> frozenset[int]:
        """Every DevNonce that was ever accepted of a device."""

    async def use_dev_nonce(self, dev_eui: Eui, dev_nonce: int) -> bool:
        """Remember a DevNonce for ever; False when it was used before."""


@dataclass(frozen=True, slots=True)
class Match:
    """The sender of a frame, proven by its MIC, and the full counter that proved it."""

    device: EndDevice
    session: Session
    f_cnt: int


class Registry:
    """The devices of this server and their sessions, by DevEUI and by DevAddr.

    A device has at most two sessions: after a join the old one stays valid until the first frame
    of the new one is accepted (`settle`), because the device may not have heard the join accept.
    """

    def __init__(self, devices: Iterable[EndDevice], store: SessionStore) -> None:
        self._store = store
        self._devices = {device.dev_eui: device for device in devices}
        self._sessions: dict[Eui, tuple[Session, ...]] = {}
        self._by_dev_addr: dict[DevAddr, list[tuple[EndDevice, Session]]] = {}
        for device in self._devices.values():
            remembered = _still_valid(device, store.sessions(device.dev_eui))
            self._set_sessions(device, remembered or _personalised(device))

    def device(self, dev_eui: Eui) -> EndDevice | None:
        """The device with this DevEUI, if it is provisioned here."""
        return self._devices.get(dev_eui)

    def knows(self, dev_addr: DevAddr) -> bool:
        """Whether some session has this DevAddr."""
        return dev_addr in self._by_dev_addr

    def dev_nonces(self, dev_eui: Eui) -> frozenset[int]:
        """Every DevNonce that was ever accepted of a device."""
        return self._store.dev_nonces(dev_eui)

    def match(self, frame: Data) -> Match | Reason:
        """The sender of a data frame; `UnknownDevice` or `MicMismatch` where there is none."""
        sharers = self._by_dev_addr.get(frame.dev_addr)
        if not sharers:
            return Reason.UNKNOWN_DEVICE
        for device, session in sharers:
            for f_cnt in candidates(session.f_cnt_up, frame.f_cnt, bits=device.f_cnt_bits):
                if frame.mic_is_valid(session.keys.nwk_s_key, f_cnt):
                    return Match(device, session, f_cnt)
        return Reason.MIC_MISMATCH

    async def use_dev_nonce(self, dev_eui: Eui, dev_nonce: int) -> bool:
        """Remember a DevNonce for ever, before the join is answered; False when it was used."""
        return await self._store.use_dev_nonce(dev_eui, dev_nonce)

    async def join(self, device: EndDevice, session: Session) -> None:
        """Add the session of an accepted join; the one in use before stays until `settle`."""
        in_use = [old for old in self._sessions[device.dev_eui] if old.f_cnt_up is not None]
        self._set_sessions(device, (session, *in_use[:1]))
        await self.keep(device.dev_eui)

    def settle(self, match: Match) -> None:
        """Forget older sessions than the one a frame was just accepted in."""
        sessions = self._sessions[match.device.dev_eui]
        if len(sessions) > 1 and sessions[0] is match.session:
            self._set_sessions(match.device, sessions[:1])

    async def keep(self, dev_eui: Eui) -> None:
        """Make counters and sessions of a device durable."""
        await self._store.keep_sessions(dev_eui, self._sessions[dev_eui])

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


def _still_valid(device: EndDevice, sessions: tuple[Session, ...]) -> tuple[Session, ...]:
    """The remembered sessions but those of an ABP device that was personalised anew since."""
    if device.activation is not Activation.ABP:
        return sessions
    personal = device.dev_addr, device.session_keys
    return tuple(known for known in sessions if (known.dev_addr, known.keys) == personal)


def _personalised(device: EndDevice) -> tuple[Session, ...]:
    if device.activation is not Activation.ABP:
        return ()
    assert device.dev_addr is not None and device.session_keys is not None
    return (Session(dev_eui=device.dev_eui, dev_addr=device.dev_addr, keys=device.session_keys),)
