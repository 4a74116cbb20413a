"""In which orders may two servers with two stations each hear a frame, and what is due then?

A reception meets two policies (ADR 007): level 1 in the server whose station heard it, and level 2
between the servers. Their words stand in `scenarios.words`; here is only who meets which of them.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

from bench.verdict.expectation import Due, Table, Words
from lns.dedup.strategy import Strategy
from scenarios.words import ELSEWHERE, LEVEL_1

SERVERS = {"west": "lns-a", "east": "lns-a", "north": "lns-b", "south": "lns-b"}
STATIONS = tuple(SERVERS)
ANSWERED = ("RX1", "RX2")

Order = tuple[str, ...]
"""The stations that hear one transmission, the first to deliver it first."""


def every_order() -> list[Order]:
    """Every way in which a transmission reaches at least one station, fewest stations first."""
    return [o for n in range(1, len(STATIONS) + 1) for o in permutations(STATIONS, n)]


def orders() -> list[Order]:
    """One of each kind: every other order is one of these under other names."""
    return [order for order in every_order() if order == canonical(order)]


def canonical(order: Order) -> Order:
    """The first of all orders that differ from this one in names only.

    The stations of a server may change places, and so may the servers.
    """
    renamed = (tuple(names[station] for station in order) for names in renamings())
    return min(renamed, key=lambda one: [STATIONS.index(station) for station in one])


def renamings() -> list[dict[str, str]]:
    """Every other way to name the stations that keeps those of a server together."""
    ways = (dict(zip(STATIONS, names, strict=True)) for names in permutations(STATIONS))
    return [way for way in ways if _keeps_servers_together(way)]


def _keeps_servers_together(way: dict[str, str]) -> bool:
    pairs = {(SERVERS[old], SERVERS[new]) for old, new in way.items()}
    return len(pairs) == len(set(SERVERS.values()))


def due(receptions: Sequence[str], strategy: Strategy, kind: str) -> list[Due]:
    """What is due of each reception of a frame that is newer than all before it.

    `receptions` names the station of each, whatever transmission it was of; `kind` is confirmed
    or unconfirmed. No silence between them is as long as the retention.
    """
    owner = SERVERS[receptions[0]]  # whoever hears it first asks first, and nobody was before
    firsts: dict[str, str] = {}
    rows = []
    for station in receptions:
        lns = SERVERS[station]
        role = _role(station, firsts.get(lns))
        firsts.setdefault(lns, station)
        words = _cell(LEVEL_1.only(role), strategy, kind, role)
        if lns != owner and _asks(role, words):
            left = _cell(ELSEWHERE, strategy, kind, "elsewhere")
            words = replace(left, status=words.status)
        rows.append(Due(station, words))
    return rows


def _role(station: str, first: str | None) -> str:
    """Level 1: the first station of a server is never replaced."""
    if first is None:
        return "first"
    return "again" if station == first else "copy"


def _asks(role: str, words: Words) -> bool:
    """Level 2 is asked of what would go up or be answered, and never of a copy."""
    return role != "copy" and (words.upstream != "dropped" or words.answer in ANSWERED)


def _cell(table: Table, strategy: Strategy, kind: str, role: str) -> Words:
    [one] = table.row(strategy, kind, {role: "any"})
    return one.words
