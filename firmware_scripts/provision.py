"""Write identity, keys, region, data rate and role into a board, then read everything back.

Only what differs is written. Keys come from the inventory, a file or the environment, never from
the command line, and are never shown. LoRa-E5 cannot tell its keys: they are written every time,
and the board's answer is compared.
"""

from argparse import Namespace
from pathlib import Path

from at_port import port_of
from bench_file import BenchFile, hex_digits, key_from, read_bench_file
from board import Board, Setting, Wanted
from ending import Arguments, Failed, WrongUsage, run
from who_answers import DIALECTS, board_at, chosen_dialect, opened

EXAMPLES = (
    "python3 provision.py dut --bench bench.toml --app-key-file dut.key",
    "python3 provision.py dut --bench bench.toml --dry-run",
    "python3 provision.py --port /dev/lora/dut --dev-eui AC1F09FFFE000001 \\",
    "    --join-eui AC1F09FFF8680001 --app-key-env DUT_KEY --role DUT",
    "python3 provision.py --port /dev/lora/e5 --dialect lora-e5 --dev-eui 2CF7F12000000001 \\",
    "    --dev-addr 01ABCDEF --nwk-s-key-file nwk.key --app-s-key-file app.key",
)
_KEYS = ("app_key", "nwk_s_key", "app_s_key")


def main() -> None:
    """Provision one board."""
    arguments = _arguments()
    bench = read_bench_file(Path(arguments.bench)) if arguments.bench else None
    entry = dict(bench.entry(("device",), arguments.name)) if bench else {}
    wanted = _wanted(arguments, bench, entry)
    url = arguments.port or (port_of(entry) if entry else None)
    if url is None:
        raise WrongUsage("name a device of --bench, or give --port")
    dialect, baud = chosen_dialect(
        url, arguments.dialect or entry.get("dialect"), shown=arguments.verbose
    )
    rate = arguments.baud or entry.get("baud") or baud
    dtr = arguments.dtr or entry.get("dtr")
    with opened(url, dialect, baud=rate, dtr=dtr, shown=arguments.verbose) as port:
        board = board_at(port, dialect)
        identity = board.identity()
        print(f"{url}: {identity.dialect} {identity.firmware}, DevEUI {identity.dev_eui}")
        provision(board, wanted, dry_run=arguments.dry_run)


def provision(board: Board, wanted: Wanted, *, dry_run: bool) -> None:
    """Make the board what is wanted and tell what was changed; Failed if it is not so after."""
    settings = board.settings(wanted)
    if dry_run:
        for setting in settings:
            _tell_difference(setting, _value(board, setting))
        print("nothing was written (--dry-run)")
        return
    if board.enter_lorawan():
        print("mode: raw radio -> LoRaWAN")
    changed = [setting for setting in settings if _write_if_other(board, setting)]
    if any(setting.restarts for setting in changed):
        board.restart()
        print("restarted")
    _compare(board, settings)
    print(f"{len(changed)} of {len(settings)} settings written, all compared")


def _write_if_other(board: Board, setting: Setting) -> bool:
    before = _value(board, setting)
    if setting.is_met_by(before):
        return False
    board.write(setting)
    if setting.readable:
        note = f" ({setting.note})" if setting.note else ""
        print(f"{_change(setting, before)}{note}")
    else:
        print(f"{setting.name}: written, as this board cannot tell it")
    return True


def _change(setting: Setting, before: str | None) -> str:
    if setting.secret:
        return f"{setting.name}: another one -> written"
    return f"{setting.name}: {before or 'none'} -> {setting.value}"


def _compare(board: Board, settings: list[Setting]) -> None:
    for setting in settings:
        if not setting.readable:
            continue
        after = board.read(setting)
        if not setting.is_met_by(after):
            raise Failed(
                f"{setting.name} reads {setting.shown(after)} after {setting.shown(setting.value)} "
                "was written; start once more, and if it stays so, reset it (factory_reset.py)"
            )


def _tell_difference(setting: Setting, before: str | None) -> None:
    if not setting.readable:
        print(f"would write {setting.name}: this board cannot tell it")
    elif not setting.is_met_by(before):
        print(f"would write {_change(setting, before).removesuffix(' -> written')}")


def _value(board: Board, setting: Setting) -> str | None:
    return board.read(setting) if setting.readable else None


def _wanted(arguments: Namespace, bench: BenchFile | None, entry: dict[str, object]) -> Wanted:
    def given(field: str, default: object = None) -> object:
        value = getattr(arguments, field, None)
        return entry.get(field, default) if value is None else value

    dev_eui = given("dev_eui")
    if dev_eui is None:
        raise WrongUsage("give --dev-eui, 16 hex digits")
    keys = _keys(arguments, bench, entry)
    dev_addr, join_eui = given("dev_addr"), given("join_eui")
    if dev_addr is not None and (keys["nwk_s_key"] is None or keys["app_s_key"] is None):
        raise WrongUsage("a device with a DevAddr needs --nwk-s-key-file and --app-s-key-file")
    if dev_addr is None and (keys["app_key"] is None or join_eui is None):
        raise WrongUsage(
            "a device that joins needs --join-eui and --app-key-file or --app-key-env. Where the "
            "inventory has no key, `lorabench run` draws one and writes it by itself"
        )
    return Wanted(
        dev_eui=hex_digits(str(dev_eui), 16, "--dev-eui"),
        join_eui=None if join_eui is None else hex_digits(str(join_eui), 16, "--join-eui"),
        dev_addr=None if dev_addr is None else hex_digits(str(dev_addr), 8, "--dev-addr"),
        region=_region(arguments, bench),
        dr=int(str(given("dr", 5 if _region(arguments, bench) == "EU868" else 3))),
        power_dbm=int(str(given("power_dbm", 14))),
        adr=arguments.adr,
        duty_cycle=_duty_cycle(arguments, bench),
        device_class=arguments.device_class,
        sub_band=arguments.sub_band,
        role=(arguments.name if arguments.role is None else arguments.role) or None,
        **keys,
    )


def _region(arguments: Namespace, bench: BenchFile | None) -> str:
    region = arguments.region or (bench.region if bench else "EU868")
    if region not in ("EU868", "US915"):
        raise WrongUsage(f"region {region!r} is not known here; known: EU868, US915")
    return str(region)


def _duty_cycle(arguments: Namespace, bench: BenchFile | None) -> bool:
    if arguments.no_duty_cycle and bench is not None and not bench.conducted:
        raise WrongUsage(
            f"--no-duty-cycle is for cables and shield boxes; {bench.path} does not say "
            "`conducted = true`"
        )
    return not arguments.no_duty_cycle


def _keys(
    arguments: Namespace, bench: BenchFile | None, entry: dict[str, object]
) -> dict[str, str | None]:
    keys: dict[str, str | None] = {}
    for field in _KEYS:
        what = field.replace("_", "-")
        file, variable = getattr(arguments, f"{field}_file"), getattr(arguments, f"{field}_env")
        if file is not None:
            keys[field] = key_from(f"file:{file}", Path(), f"--{what}-file")
        elif variable is not None:
            keys[field] = key_from(f"env:{variable}", Path(), f"--{what}-env")
        elif bench is not None and field in entry:
            keys[field] = key_from(str(entry[field]), bench.path.parent, field)
        else:
            keys[field] = None
    return keys


def _arguments() -> Namespace:
    parser = Arguments(str(__doc__), EXAMPLES)
    parser.add_argument("name", nargs="?", help="the device's name in --bench")
    parser.add_argument("--bench", metavar="FILE", help="bench.toml; options come before it")
    parser.add_argument("--port", help="a device path or a URL of pyserial")
    parser.add_argument("--dialect", choices=DIALECTS, help="found out by asking, if absent")
    parser.add_argument("--baud", type=int, help="the dialect's own, if absent")
    parser.add_argument("--dtr", action="store_true", default=None, help="hold DTR high")
    for option, digits in (("dev-eui", 16), ("join-eui", 16), ("dev-addr", 8)):
        parser.add_argument(f"--{option}", metavar="HEX", help=f"{digits} hex digits")
    for field in _KEYS:
        option = field.replace("_", "-")
        parser.add_argument(f"--{option}-file", metavar="FILE", help="file with 32 hex digits")
        parser.add_argument(f"--{option}-env", metavar="NAME", help="environment variable with it")
    parser.add_argument("--region", help="EU868 or US915")
    parser.add_argument("--sub-band", type=int, default=2, choices=range(1, 9), metavar="1..8")
    parser.add_argument("--dr", type=int, help="data rate; 5 in EU868, 3 in US915 if absent")
    parser.add_argument("--power-dbm", type=int, help="14 if absent")
    parser.add_argument("--class", dest="device_class", choices=("A", "C"), default="A")
    parser.add_argument("--adr", action="store_true", help="let the server change the data rate")
    parser.add_argument("--no-duty-cycle", action="store_true", help="cables or shield box only")
    parser.add_argument("--role", help="stored in a RUI3 board; its name, if absent")
    parser.add_argument("--dry-run", action="store_true", help="read and compare, write nothing")
    parser.add_argument("--verbose", action="store_true", help="show the dialogue, keys masked")
    arguments = parser.parse_args()
    if (arguments.name is None) != (arguments.bench is None):
        parser.error("a name belongs to a --bench, and a --bench to a name")
    return arguments


if __name__ == "__main__":
    run(main)
