"""Configure Basics Station on this Raspberry Pi: board, EUI, and the tap it shall connect to.

Writes station.conf, tc.uri, tc.trust, tc.crt, tc.key, rinit.sh and board.env into the station's
folder where they are not so already, and restarts the service if something changed. Needs nothing
but Python 3.11. Keys and tokens come from files and are never shown.
"""

import argparse
import json
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

TABLE = Path(__file__).with_name("gateway_boards.toml")
REFERENCE = Path(__file__).with_name("reference_station.json")
"""The values of the reference design: per dBm whether the power amplifier is on, and its index."""
DONE, FAILED, USAGE = 0, 1, 4
EXAMPLES = """examples:
  python3 configure.py --board RAK5146 --eui 0016C001F1500001 --tap ws://192.168.10.5:6090
  python3 configure.py --board RAK2287 --eui 0016C001F1500002 --tap wss://192.168.10.5:6090 \\
      --trust ca.crt --cert station.crt --key station.key
  python3 configure.py --boards                       # the table of boards
  python3 configure.py ... --no-duty-cycle            # cables or shield box only
  python3 configure.py ... --dry-run                  # what would be written
"""
_DEVICES = {"spi": "/dev/spidev0.0", "usb": "usb:/dev/ttyACM0"}
_RINIT = """#!/bin/sh
# Run by the station before each start of its radio.
exec "$(dirname "$0")/reset_lgw.sh" start
"""


class Mistake(Exception):
    """What the person who calls it has to write otherwise."""


def main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    boards = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    if arguments.boards:
        _print_boards(boards)
        return DONE
    try:
        files = _files(arguments, boards)
    except Mistake as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE
    home = Path(f"{arguments.root}{arguments.home}")
    try:
        changed = [name for name, (content, _) in files.items() if _differs(home / name, content)]
        for name, (content, mode) in files.items():
            if name not in changed:
                print(f"unchanged: {home / name}")
            elif arguments.dry_run:
                print(f"would write: {home / name}")
            else:
                _write(home / name, content, mode)
                print(f"written: {home / name}")
        stale = [name for name in ("tc.trust", "tc.crt", "tc.key") if name not in files]
        changed += _remove(home, stale, dry_run=arguments.dry_run)
    except OSError as error:
        print(f"error: {error}; run install.sh first, and this as its user", file=sys.stderr)
        return FAILED
    return _restart(changed, arguments)


def _files(
    arguments: argparse.Namespace, boards: Mapping[str, Any]
) -> dict[str, tuple[bytes, int]]:
    board = _board(arguments.board, boards)
    eui = re.sub(r"[:-]", "", arguments.eui or "").upper()
    if re.fullmatch("[0-9A-F]{16}", eui) is None:
        raise Mistake("--eui is 16 hex digits; chip_id tells that of the concentrator")
    conf = _station_conf(board, eui, duty_cycle=not arguments.no_duty_cycle)
    files = {
        "station.conf": (json.dumps(conf, indent=2).encode() + b"\n", 0o644),
        "board.env": (_board_env(board, arguments.gpio_chip).encode(), 0o644),
        "tc.uri": (_tap(arguments.tap).encode() + b"\n", 0o644),
    }
    if "reset_gpio" in board:
        files["rinit.sh"] = (_RINIT.encode(), 0o755)
    return files | _credentials(arguments)


def _board(name: str | None, boards: Mapping[str, Any]) -> Mapping[str, Any]:
    if name is None or name not in boards:
        raise Mistake(f"--board is one of {', '.join(boards)}")
    board: Mapping[str, Any] = boards[name]
    if board["chip"] == "SX1301":
        raise Mistake(
            f"{name} has an SX1301, for which no configuration is verified here; write its "
            "station.conf after the example of Basics Station, and use reset_lgw.sh"
        )
    if board["certainty"] != "source":
        print(
            f"note: the GPIO lines of {name} are not confirmed ({board['note']}); compare with its "
            "schematic, and look whether chip_id answers 0x10",
            file=sys.stderr,
        )
    return board


def _station_conf(board: Mapping[str, Any], eui: str, *, duty_cycle: bool) -> dict[str, Any]:
    conf: dict[str, Any] = json.loads(REFERENCE.read_text(encoding="utf-8"))
    conf["SX1302_conf"]["device"] = _DEVICES[board["interface"]]
    station = conf["station_conf"]
    station["routerid"] = eui
    if "reset_gpio" not in board:
        del station["radio_init"], station["RADIO_INIT_WAIT"]
    if not duty_cycle:
        station["nodc"] = True
    return conf


def _board_env(board: Mapping[str, Any], chip: str | None) -> str:
    return (
        f"RESET_GPIO={board.get('reset_gpio', '')}\nPOWER_GPIO={board.get('power_gpio', '')}\n"
        f"POWER_LEVEL={board.get('power_level', 1)}\nGPIO_CHIP={chip or ''}\n"
    )


def _tap(uri: str | None) -> str:
    found = re.fullmatch(r"wss?://[^/:\s]+:([0-9]{1,5})/?", uri or "")
    if uri is None or found is None or not 0 < int(found[1]) < 65_536:
        raise Mistake("--tap is ws://host:port or wss://host:port, as the bench prints it")
    return uri.rstrip("/")


def _credentials(arguments: argparse.Namespace) -> dict[str, tuple[bytes, int]]:
    secure = arguments.tap.startswith("wss://")
    if secure and arguments.trust is None:
        raise Mistake("wss:// needs --trust, the certificate of the authority")
    if not secure and (arguments.trust or arguments.cert or arguments.key or arguments.token_file):
        raise Mistake("certificates and tokens belong to wss://")
    if arguments.token_file and (arguments.cert or arguments.key):
        raise Mistake("a station shows a certificate (--cert and --key) or a token, not both")
    if bool(arguments.cert) != bool(arguments.key):
        raise Mistake("--cert and --key go together")
    files = {}
    given = {"tc.trust": arguments.trust, "tc.crt": arguments.cert, "tc.key": arguments.key}
    for name, source in given.items():
        if source is not None:
            files[name] = (_read(source), 0o600 if name == "tc.key" else 0o644)
    if arguments.token_file is not None:
        token = _read(arguments.token_file).decode("ascii", errors="replace").strip()
        # The tc.key of a station is its header already.
        token = token.removeprefix("Authorization:").strip().removeprefix("Bearer ").strip()
        files["tc.key"] = (f"Authorization: Bearer {token}\r\n".encode(), 0o600)
    return files


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise Mistake(f"{path} cannot be read: {error.strerror}") from None


def _differs(path: Path, content: bytes) -> bool:
    return not path.exists() or path.read_bytes() != content


def _write(path: Path, content: bytes, mode: int) -> None:
    fresh = path.with_name(f"{path.name}.new")
    fresh.touch(mode=mode)
    fresh.chmod(mode)
    fresh.write_bytes(content)
    fresh.replace(path)


def _remove(home: Path, names: list[str], *, dry_run: bool) -> list[str]:
    there = [name for name in names if (home / name).exists()]
    for name in there:
        if dry_run:
            print(f"would rename: {home / name} to {name}.unused")
        else:
            (home / name).replace(home / f"{name}.unused")
            print(f"renamed: {home / name} to {name}.unused")
    return there


def _restart(changed: list[str], arguments: argparse.Namespace) -> int:
    if not changed:
        print("nothing to do")
        return DONE
    command = [*([] if arguments.root else ["sudo", "-n"]), "systemctl", "restart", "basicstation"]
    if arguments.dry_run or arguments.no_restart:
        print(f"{'would run' if arguments.dry_run else 'now run'}: {' '.join(command)}")
        return DONE
    if shutil.which("systemctl") is None or subprocess.run(command, check=False).returncode != 0:
        print(f"error: this did not work: {' '.join(command)}", file=sys.stderr)
        return FAILED
    print("restarted; ready within 30 s: journalctl -u basicstation | grep 'Concentrator started'")
    return DONE


def _print_boards(boards: Mapping[str, Any]) -> None:
    print(f"{'board':18}{'chip':8}{'interface':10}{'reset':>6}{'power':>6}  certainty  note")
    for name, board in boards.items():
        power = board.get("power_gpio", "-")
        print(
            f"{name:18}{board['chip']:8}{board['interface']:10}{board.get('reset_gpio', '-'):>6}"
            f"{power:>6}  {board['certainty']:10} {board['note']}"
        )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message}; --help shows examples", file=sys.stderr)
        raise SystemExit(USAGE)


def _parser() -> argparse.ArgumentParser:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = _Parser(description=__doc__, epilog=EXAMPLES, formatter_class=formatter)
    parser.add_argument("--boards", action="store_true", help="print the table of boards")
    parser.add_argument("--board", metavar="NAME", help="a row of that table")
    parser.add_argument("--eui", metavar="HEX", help="the gateway's EUI; two never share one")
    parser.add_argument("--tap", metavar="URI", help="ws://host:port of the bench")
    parser.add_argument("--trust", metavar="FILE", help="certificate of the authority (tc.trust)")
    parser.add_argument("--cert", metavar="FILE", help="client certificate (tc.crt)")
    parser.add_argument("--key", metavar="FILE", help="its private key (tc.key)")
    parser.add_argument("--token-file", metavar="FILE", help="a token instead of a certificate")
    parser.add_argument("--no-duty-cycle", action="store_true", help="cables or shield box only")
    parser.add_argument("--gpio-chip", metavar="NAME", help="if reset_lgw.sh does not find it")
    parser.add_argument("--home", default="/opt/basicstation", help="/opt/basicstation if absent")
    parser.add_argument("--root", default="", help="write below this folder instead of /")
    parser.add_argument("--no-restart", action="store_true", help="leave the service alone")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be written")
    return parser


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # whoever reads the table may have seen enough
    sys.exit(main())
