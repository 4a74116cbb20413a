"""Which dialect does the board at this port speak?"""

from at_port import AtPort, Silent
from board import Board
from ending import Failed
from lora_e5 import BAUDS, LoraE5
from rui3 import BAUD, Rui3

DIALECTS = ("rui3", "lora-e5", "seeeduino")
NATIVE_USB_VIDS = (0x239A, 0x2886)  # RAK4631, Seeeduino: they talk only while DTR is high
_SEEEDUINO_VID = 0x2886
_WAIT_S = 1.0


def baud_of(dialect: str) -> int:
    """The rate that a board of this dialect has when it comes out of its bag."""
    return BAUD if dialect == "rui3" else BAUDS[dialect]


def opened(url: str, dialect: str, *, baud: int | None, dtr: bool | None, shown: bool) -> AtPort:
    """A port for a board of this dialect, not open yet."""
    high = dialect == "seeeduino" if dtr is None else dtr
    return AtPort(url, baud or baud_of(dialect), dtr=high, shown=shown)


def board_at(port: AtPort, dialect: str) -> Board:
    """The board of this dialect at an open port."""
    return Rui3(port) if dialect == "rui3" else LoraE5(port, dialect)


def dialect_at(url: str, vid: int | None, *, shown: bool = False) -> tuple[str, int] | None:
    """The dialect and the rate at which the board answers; None if nothing is understood.

    Only `AT` is sent, at 115200 and at 9600 baud, at most twice each: the first one may meet half
    a line that somebody else has typed.
    """
    for baud in (115_200, 9_600):
        with AtPort(url, baud, dtr=vid in NATIVE_USB_VIDS, shown=shown) as port:
            for _ in range(2):
                try:
                    answer = port.ask("AT", _is_answer, _WAIT_S)[-1]
                except Silent:
                    continue
                if not answer.startswith("+AT"):
                    return "rui3", baud
                return ("seeeduino" if vid == _SEEEDUINO_VID else "lora-e5"), baud
    return None


def chosen_dialect(url: str, dialect: str | None, *, shown: bool) -> tuple[str, int | None]:
    """The dialect that was named, or the one that answers; Failed if none does."""
    if dialect is not None:
        return dialect, None
    found = dialect_at(url, None, shown=shown)
    if found is None:
        raise Failed(
            f"{url}: no board answers `AT`, neither at 115200 nor at 9600 baud. Is it powered, is "
            "this its port (identify.py)? A board with USB of its own wants --dialect and --dtr"
        )
    return found


def _is_answer(line: str) -> bool:
    return line in ("OK", "+AT: OK", "COMMAND_LOCKED") or line.startswith("AT_")
