"""The store that lives as long as the process that owns it.

A network server that restarts with the same `MemoryStore` finds its sessions and the used
DevNonces again, as it would in a shared store; level 1 it does not find.
"""

from collections import defaultdict

from lns.lorawan.identifiers import DevAddr, Eui
from lns.uplink.end_device import Session


class MemoryStore:
    """Sessions (the one in use and those waiting for their first frame) and used DevNonces.

    `beside`: what another server of this process keeps is kept here too, and the other way round;
    neither undoes what it has not met, nor brings back what the other has ended.
    """

    def __init__(self, beside: "MemoryStore | None" = None) -> None:
        self._sessions: dict[Eui, tuple[Session, ...]] = {}
        self._dev_nonces: defaultdict[Eui, set[int]] = defaultdict(set)
        self._join_nonces: dict[Eui, int] = {}
        self._known: dict[Eui, tuple[Session, ...]] = {}
        self._is_shared = beside is not None
        if beside is not None:
            self._sessions, self._dev_nonces = beside._sessions, beside._dev_nonces
            self._join_nonces = beside._join_nonces
            beside._is_shared = True

    def sessions(self, dev_eui: Eui) -> tuple[Session, ...]:
        """The sessions of a device, newest first."""
        sessions = self._known[dev_eui] = self._sessions.get(dev_eui, ())
        return _as_they_are(sessions)

    def preset(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        """Put sessions in place before a server starts; a join would replace them."""
        self._sessions[dev_eui] = sessions

    async def keep_sessions(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        """Replace the sessions of a device by these, as they are now; this store never fails."""
        self._replace(dev_eui, sessions)

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

    async def keep_join(self, dev_eui: Eui, dev_nonce: int, sessions: tuple[Session, ...]) -> bool:
        """Use a DevNonce and replace the sessions, both or none; False when it was used before."""
        used = self._dev_nonces[dev_eui]
        if dev_nonce in used:
            return False
        used.add(dev_nonce)
        self._replace(dev_eui, sessions)
        return True

    async def next_join_nonce(self, dev_eui: Eui, least: int) -> int:
        """A JoinNonce greater than any before, at least `least`."""
        self._join_nonces[dev_eui] = max(self._join_nonces.get(dev_eui, 0) + 1, least)
        return self._join_nonces[dev_eui]

    def _replace(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        kept = _as_they_are(sessions)
        if self._is_shared:
            there, known = self._sessions.get(dev_eui, ()), self._known.get(dev_eui, ())
            self._known[dev_eui] = kept
            kept = _beside(there, known, kept) if there else kept
        self._sessions[dev_eui] = kept


def _beside(
    there: tuple[Session, ...], known: tuple[Session, ...], ours: tuple[Session, ...]
) -> tuple[Session, ...]:
    """Our sessions, with the newer counters of others, those that they added, without those that
    they ended; `known` is what we knew to be there.
    """
    added = [theirs for theirs in there if not _same(theirs, known) and not _same(theirs, ours)]
    stay = []
    for session in ours:
        theirs = _same(session, there)
        if theirs is not None:
            session.catch_up(theirs)
        if theirs is not None or not _same(session, known):
            stay.append(session)
    return (*added, *stay)


def _same(session: Session, others: tuple[Session, ...]) -> Session | None:
    proof = session.dev_addr, session.keys
    return next((other for other in others if (other.dev_addr, other.keys) == proof), None)


def _as_they_are(sessions: tuple[Session, ...]) -> tuple[Session, ...]:
    return tuple(map(Session.snapshot, sessions))
