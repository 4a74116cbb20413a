"""Who may connect, as a decision."""

import pytest

from lns.lorawan.identifiers import Eui
from lns.server.access import Access, Certificate, Refusal, Shown

WEST, EAST = Eui("0016C001F1500001"), Eui("0016C001F1500002")
LISTED = Access(stations=frozenset({WEST}))
TOKENS = Access(tokens={WEST: "Bearer a", EAST: "Bearer b"})
CERTIFICATES = Access(certificates=True)
ANY_STATION = Access(certificates=True, any_station=True)
LISTED_TOKENS = Access(stations=frozenset({WEST}), tokens={WEST: "Bearer a", EAST: "Bearer b"})
NO_NAME = Refusal(403, "the client certificate names no station: it needs an EUI as its CN")
NO_CLIENT = Refusal(403, "the client certificate is not made for clients")
ANOTHER = Refusal(403, "the client certificate is another station's")


def showing(name: str, *, for_clients: bool = True) -> Shown:
    return Shown(certificate=Certificate(name, for_clients))


@pytest.mark.parametrize(
    ("access", "station", "shown", "refusal"),
    [
        (Access(), EAST, Shown(), None),
        (LISTED, WEST, Shown(), None),
        (LISTED, EAST, Shown(), Refusal(403, "not in the list of stations")),
        (Access(stations=frozenset()), WEST, Shown(), Refusal(403, "not in the list of stations")),
        (TOKENS, WEST, Shown("Bearer a"), None),
        (TOKENS, WEST, Shown(" Bearer a "), None),
        (TOKENS, WEST, Shown("bearer a"), Refusal(401, "wrong token")),
        (TOKENS, WEST, Shown("Bearer b"), Refusal(401, "wrong token")),
        (TOKENS, WEST, Shown(""), Refusal(401, "wrong token")),
        (TOKENS, WEST, Shown(), Refusal(401, "no Authorization header")),
        (TOKENS, Eui("0" * 16), Shown("Bearer a"), Refusal(401, "wrong token")),
        (TOKENS, Eui("0" * 16), Shown(""), Refusal(401, "wrong token")),
        (LISTED_TOKENS, WEST, Shown("Bearer a"), None),
        (LISTED_TOKENS, EAST, Shown("Bearer b"), Refusal(403, "not in the list of stations")),
        (Access(tokens={WEST: ""}), WEST, Shown(""), Refusal(401, "wrong token")),
        (CERTIFICATES, WEST, Shown(), Refusal(403, "no client certificate")),
        (CERTIFICATES, WEST, showing(""), NO_NAME),
        (CERTIFICATES, WEST, showing("gateway 7"), NO_NAME),
        (CERTIFICATES, WEST, showing(f"{WEST}\0"), NO_NAME),
        (CERTIFICATES, WEST, showing("\uff10016c001f1500001"), NO_NAME),
        (CERTIFICATES, WEST, showing(WEST, for_clients=False), NO_CLIENT),
        (CERTIFICATES, WEST, showing("0016c001f1500001"), None),
        (CERTIFICATES, WEST, showing("00-16-C0-01-F1-50-00-01"), None),
        (CERTIFICATES, WEST, showing("00:16:c0:01:f1:50:00:01"), None),
        (CERTIFICATES, WEST, showing("16:c001:f150:1"), None),
        (CERTIFICATES, WEST, showing(f"{WEST} "), None),
        (CERTIFICATES, WEST, showing(EAST), ANOTHER),
        (CERTIFICATES, WEST, showing("00-16-C0-01-F1-50-00-02"), ANOTHER),
        (CERTIFICATES, WEST, showing("16:c001:f150:2"), ANOTHER),
        (CERTIFICATES, WEST, showing(f" {EAST}"), ANOTHER),
        (ANY_STATION, WEST, Shown(), Refusal(403, "no client certificate")),
        (ANY_STATION, WEST, showing("gateway 7", for_clients=False), None),
        (ANY_STATION, WEST, showing(EAST), None),
    ],
)
def test_a_station_may_connect_or_not(
    access: Access, station: Eui, shown: Shown, refusal: Refusal | None
) -> None:
    assert access.refusal(station, shown) == refusal


@pytest.mark.parametrize(
    ("access", "shown", "refusal"),
    [
        (LISTED, Shown(), None),
        (TOKENS, Shown("Bearer b"), None),
        (TOKENS, Shown("Bearer c"), Refusal(401, "wrong token")),
        (TOKENS, Shown(), Refusal(401, "no Authorization header")),
        (Access(tokens={}), Shown("Bearer a"), Refusal(401, "wrong token")),
        (CERTIFICATES, Shown(), Refusal(403, "no client certificate")),
        (CERTIFICATES, showing(EAST), None),
        (CERTIFICATES, showing("gateway 7"), NO_NAME),
        (CERTIFICATES, showing(WEST, for_clients=False), NO_CLIENT),
        (ANY_STATION, showing("gateway 7"), None),
    ],
)
def test_whoever_asks_for_a_server_shows_somebodys_right(
    access: Access, shown: Shown, refusal: Refusal | None
) -> None:
    assert access.refusal_of_anybody(shown) == refusal
