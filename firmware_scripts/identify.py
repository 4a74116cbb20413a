"""Who is at the serial ports? Prints inventory entries to paste into bench.toml."""

import json
import sys
from argparse import Namespace
from collections.abc import Sequence

from at_port import Plug, usb_ports
from board import Identity
from ending import Arguments, Failed, run
from who_answers import NATIVE_USB_VIDS, baud_of, board_at, dialect_at, opened

EXAMPLES = (
    "python3 identify.py                          # every USB serial port",
    "python3 identify.py /dev/ttyUSB0             # this port only",
    "python3 identify.py socket://10.0.0.7:4001   # a serial server",
    "python3 identify.py > boards.toml            # entries to paste, what was found on stderr",
)
_COMMON_SERIALS = frozenset({"", "0", "0001", "0000", "00000000", "123456", "1234567890"})


def main() -> None:
    """Ask every port and print what answers."""
    arguments = _arguments()
    plugs = _named(arguments.port) if arguments.port else usb_ports()
    if not plugs:
        raise Failed(
            "no USB serial port is there. Plug a board in; `ls -l /dev/serial/by-path` shows it. "
            "If it is plugged in: `lsusb`, and remove brltty, which takes CH340 bridges"
        )
    if arguments.dry_run:
        for plug in plugs:
            print(f"would send `AT` to {plug.url}")
        return
    serials = [plug.serial_number for plug in plugs]
    found: list[dict[str, object]] = []
    for plug in plugs:
        answer = _ask(plug, shown=arguments.verbose)
        if answer is not None:
            identity, baud = answer
            unique = serials.count(plug.serial_number) == 1
            entry = _entry(plug, identity, baud, len(found) + 1, serial_is_unique=unique)
            if entry["name"] in [other["name"] for other in found]:
                entry["name"] = f"{entry['name']}-{len(found) + 1}"
            found.append(entry)
    if not found:
        raise Failed(f"no board answers at {', '.join(plug.url for plug in plugs)}")
    if arguments.json:
        print(json.dumps(found, indent=2))
    else:
        print("\n\n".join(_as_toml(entry) for entry in found))


def _arguments() -> Namespace:
    parser = Arguments(str(__doc__), EXAMPLES)
    parser.add_argument("port", nargs="*", help="a device path or a URL of pyserial")
    parser.add_argument("--json", action="store_true", help="print JSON instead of TOML")
    parser.add_argument("--dry-run", action="store_true", help="only list what would be asked")
    parser.add_argument("--verbose", action="store_true", help="show the dialogue, keys masked")
    return parser.parse_args()


def _named(urls: Sequence[str]) -> list[Plug]:
    known = {plug.url: plug for plug in usb_ports()}
    return [known.get(url, Plug(url)) for url in urls]


def _ask(plug: Plug, *, shown: bool) -> tuple[Identity, int] | None:
    """Who is there and at which rate; None, told on stderr, if nobody is understood."""
    try:
        answer = dialect_at(plug.url, plug.vid, shown=shown)
        if answer is None:
            print(f"{plug.url}: nobody answers `AT`", file=sys.stderr)
            return None
        dialect, baud = answer
        dtr = plug.vid in NATIVE_USB_VIDS
        with opened(plug.url, dialect, baud=baud, dtr=dtr, shown=shown) as port:
            identity = board_at(port, dialect).identity()
    except Failed as error:
        print(str(error), file=sys.stderr)
        return None
    print(
        f"{plug.url}: {identity.dialect} {identity.firmware}, DevEUI "
        f"{identity.dev_eui or 'unknown'}, role {identity.role or 'none'}, mode {identity.mode}",
        file=sys.stderr,
    )
    return identity, baud


def _entry(
    plug: Plug, identity: Identity, baud: int, number: int, *, serial_is_unique: bool
) -> dict[str, object]:
    raw_radio = identity.mode in ("P2P", "TEST") or (identity.role or "").upper() == "REPLAY"
    entry: dict[str, object] = {
        "table": "replayer" if raw_radio else "device",
        "name": (identity.role or f"board-{number}").lower().replace(" ", "-"),
        "dialect": identity.dialect,
    }
    if plug.serial_number and plug.serial_number not in _COMMON_SERIALS and serial_is_unique:
        entry["usb_serial"] = plug.serial_number
    elif plug.path:
        entry["usb_path"] = plug.path
    else:
        entry["port"] = plug.url
    if baud != baud_of(identity.dialect):
        entry["baud"] = baud
    if plug.vid in NATIVE_USB_VIDS and identity.dialect == "rui3":
        entry["dtr"] = True
    if not raw_radio:
        entry |= {"dev_eui": identity.dev_eui or "", "dr": 5, "power_dbm": 14}
    return entry | {"firmware": identity.firmware}


def _as_toml(entry: dict[str, object]) -> str:
    lines = [f"[[{entry['table']}]]  # {entry['firmware']}"]
    for key, value in entry.items():
        if key not in ("table", "firmware"):
            lines.append(f"{key} = {json.dumps(value)}")
    return "\n".join(lines)


if __name__ == "__main__":
    run(main)
