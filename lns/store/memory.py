"""The store that lives as long as the process that owns it.

A network server that restarts with the same `MemoryStore` finds its sessions and the used
DevNonces again, as it would in a shared store; level 1 it does not find.
"""

from collections import defaultdict

from lns.end_device import Session
from lns.lorawan.identifiers import DevAddr, Eui


class MemoryStore:
    """Sessions (the current one and one waiting for its first frame) and used DevNonces."""

    def __init__(self) -> None:
        self._sessions: dict[Eui, tuple[Session, ...]] = {}
        self._dev_nonces: defaultdict[Eui, set[int]] = defaultdict(set)

    def sessions(self, dev_eui: Eui) -> tuple[Session, ...]:
        """The sessions of a device, newest first."""
        return _as_they_are(self._sessions.get(dev_eui, ()))

    def preset(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        """Put sessions in place before a server starts; a join would replace them."""
        self._sessions[dev_eui] = sessions

    async def keep_sessions(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        """Replace the sessions of a device by these, as they are now; this store never fails."""
        self._sessions[dev_eui] = _as_they_are(sessions)

    def dev_nonces(self, dev_eui: Eui) -> frozenset[int]:
        """Every DevNonce that was ever accepted of a device."""
        return frozenset(self._dev_nonces[dev_eui])

    async def refresh(self, dev_eui: Eui) -> None:
        """What another server of this process kept here is here already."""

    async def devices_with(self, dev_addr: DevAddr) -> tuple[Eui, ...]:
        """The devices that have a session with this DevAddr."""
        return tuple(
            dev_eui
            for dev_eui, sessions in sorted(self._sessions.items())
            if any(session.dev_addr == dev_addr for session in sessions)
        )

    async def keep_join(
        self, dev_eui: Eui, dev_nonce: int, sessions: tuple[Session, ...]
    ) -> bool:
        """Use a DevNonce and replace the sessions, both or none; False when it was used before."""
        used = self._dev_nonces[dev_eui]
        if dev_nonce in used:
            return False
        used.add(dev_nonce)
        self._sessions[dev_eui] = _as_they_are(sessions)
        return True


def _as_they_are(sessions: tuple[Session, ...]) -> tuple[Session, ...]:
    return tuple(map(Session.snapshot, sessions))
