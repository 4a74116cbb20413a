"""Who may connect, as a decision."""

import pytest

from lns.access import Access, Refusal, Shown
from lns.lorawan.identifiers import Eui

WEST, EAST = Eui("0016C001F1500001"), Eui("0016C001F1500002")
LISTED = Access(stations=frozenset({WEST}))
TOKENS = Access(tokens={WEST: "Bearer a", EAST: "Bearer b"})
CERTIFICATES = Access(certificates=True)


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
        (CERTIFICATES, WEST, Shown(), Refusal(403, "no client certificate")),
        (CERTIFICATES, WEST, Shown(certificate=""), None),
        (CERTIFICATES, WEST, Shown(certificate="gateway 7"), None),
        (CERTIFICATES, WEST, Shown(certificate="0016c001f1500001"), None),
        (
            CERTIFICATES,
            WEST,
            Shown(certificate=EAST),
            Refusal(403, "the client certificate is another station's"),
        ),
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
    ],
)
def test_whoever_asks_for_a_server_shows_somebodys_right(
    access: Access, shown: Shown, refusal: Refusal | None
) -> None:
    assert access.refusal_of_anybody(shown) == refusal
