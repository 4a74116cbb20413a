import pytest

from bench.inspection.log_lines import oddities
from bench.verdict.owner import Scrutiny

WEST = "0016C001F1500001"
CHECK = Scrutiny(rule="log", of="what is logged", t_us=0)
OPEN = "WARNING the devices file /a b/my devices.toml can be read by others (mode 604): chmod 600 "
WHOLE = (
    f"INFO {WEST}: station 2.0.6(linux/std)",
    f"WARNING {WEST}: TooLate (ABP:10): the frame was told too late",
    "WARNING 7 more complaints were not logged",
    "WARNING the store takes longer than 2000000 us; devices are not answered until it is back",
    f"WARNING {WEST}: internal error (reception): KeyError at data.py:7\n  File\n    x\n",
    f"{OPEN}'/a b/my devices.toml'",
)
ODD = (
    f"WARNING {WEST}: station 2.0.6(linux/std)",
    f"INFO {WEST}: station \x1b[2J",
    "WARNING 0 more complaints were not logged",
    "INFO 7 more complaints were not logged",
    f"ERROR {WEST}: the connection failed",
    "WARNING the frame is late",
    f"{OPEN}/a b/my devices.toml",
)


@pytest.mark.parametrize("line", WHOLE)
def test_a_line_that_servers_have_is_none_to_wonder_at(line: str) -> None:
    assert [*oddities([line], CHECK)] == []


@pytest.mark.parametrize("line", ODD)
def test_a_line_that_no_server_has_is_found(line: str) -> None:
    assert len([*oddities([line], CHECK)]) == 1
