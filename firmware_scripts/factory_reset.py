"""Set a board back to what it was in its bag: identity, keys, session and settings are lost.

RUI3: `ATR`. LoRa-E5: `AT+FDEFAULT`; it is an ABP device after that. The DevNonces of a RUI3 board
begin anew, so the network server has to forget the device's used ones too.
"""

import sys
from argparse import Namespace
from pathlib import Path

from at_port import port_of
from bench_file import read_bench_file
from board import Board
from ending import Arguments, WrongUsage, run
from rui3 import Rui3
from who_answers import DIALECTS, board_at, chosen_dialect, opened

EXAMPLES = (
    "python3 factory_reset.py --port /dev/ttyUSB0           # asks before it does it",
    "python3 factory_reset.py dut --bench bench.toml --yes",
    "python3 factory_reset.py dut --bench bench.toml --dry-run",
)
_RUI3_DEFAULTS = {"NJM": "1", "ADR": "1", "DR": "0", "CFM": "0"}


def main() -> None:
    """Reset one board."""
    arguments = _arguments()
    bench = read_bench_file(Path(arguments.bench)) if arguments.bench else None
    entry = bench.entry(("device", "replayer"), arguments.name) if bench else {}
    url = arguments.port or (port_of(entry) if entry else None)
    if url is None:
        raise WrongUsage("name a board of --bench, or give --port")
    dialect, baud = chosen_dialect(
        url, arguments.dialect or entry.get("dialect"), shown=arguments.verbose
    )
    rate, dtr = entry.get("baud") or baud, entry.get("dtr")
    with opened(url, dialect, baud=rate, dtr=dtr, shown=arguments.verbose) as port:
        board = board_at(port, dialect)
        identity = board.identity()
        who = f"{url}: {identity.dialect} {identity.firmware}, DevEUI {identity.dev_eui}"
        if arguments.dry_run:
            print(f"would reset {who}")
            return
        if not arguments.yes:
            _confirm(who)
        board.factory_reset()
        after = board.identity()
        print(f"reset: {who} -> DevEUI {after.dev_eui}, mode {after.mode}")
        _tell_what_is_no_default(board)


def _tell_what_is_no_default(board: Board) -> None:
    if not isinstance(board, Rui3):
        return
    for key, default in _RUI3_DEFAULTS.items():
        if (value := board.query(key)) != default:
            print(f"note: {key} is {value}, not {default} as expected after a reset")


def _confirm(who: str) -> None:
    if not sys.stdin.isatty():
        raise WrongUsage("it would ask first, and nobody is at the terminal; say --yes")
    print(f"{who}\nIts keys, session, counters and settings will be lost. Type `reset`: ", end="")
    sys.stdout.flush()
    if sys.stdin.readline().strip() != "reset":
        raise WrongUsage("nothing was done")


def _arguments() -> Namespace:
    parser = Arguments(str(__doc__), EXAMPLES)
    parser.add_argument("name", nargs="?", help="the board's name in --bench")
    parser.add_argument("--bench", metavar="FILE", help="bench.toml")
    parser.add_argument("--port", help="a device path or a URL of pyserial")
    parser.add_argument("--dialect", choices=DIALECTS, help="found out by asking, if absent")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be reset")
    parser.add_argument("--verbose", action="store_true", help="show the dialogue, keys masked")
    arguments = parser.parse_args()
    if (arguments.name is None) != (arguments.bench is None):
        parser.error("a name belongs to a --bench, and a --bench to a name")
    return arguments


if __name__ == "__main__":
    run(main)
