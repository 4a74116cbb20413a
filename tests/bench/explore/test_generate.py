"""Is what is left of a history as short as it can be?"""

from bench.explore.generate import shortest
from bench.explore.history import History, Restart, Send, read_history

LONG = (
    "servers=3 closed a=relaxed/Mark/from60000/16bit b=otaa/Drop c=strict/None : b join A1 B2 ;"
    " a confirm= A1 B2+10s C1+300ms ; wait 61s ; c send A1 ; a restart ; A restart ; a skip40000 ;"
    " A store 5s ; a send B1 C2+2s ; replay3 B1 ; A slow 1500ms ; c confirm C1"
)


def restarts_before_a_frame(history: History) -> bool:
    steps = list(enumerate(history.steps))
    restarted = [(n, step.device) for n, step in steps if isinstance(step, Restart)]
    sent = [(n, step.device) for n, step in steps if isinstance(step, Send) and step.heard]
    return any(first < then and one == two for first, one in restarted for then, two in sent)


def test_nothing_is_left_that_does_not_matter() -> None:
    least = shortest(read_history(LONG), restarts_before_a_frame)
    assert restarts_before_a_frame(least)
    assert (len(least.steps), least.receptions, least.servers, len(least.devices)) == (2, 1, 1, 1)
    assert str(least) == "servers=1 open a=relaxed/None : a restart ; a send A1"


def test_what_cannot_be_shortened_stays() -> None:
    history = read_history(LONG)
    assert shortest(history, lambda shorter: shorter == history) == history
