"""`lorabench devices provision`, `reset`, `replay`: what is done to one board by hand.

By the drivers that a run uses, for a board of the inventory or at a port that is named.
"""

import asyncio
import os
import re
import sys
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from cyclopts import Parameter

from bench.cli.on_hardware.lab import BENCH, Bench, bench_taken, inventory_of, radio_of
from bench.cli.output import (
    BenchBroken,
    Flag,
    Refused,
    print_error,
    print_lines,
    refusing,
    region_of,
    why,
)
from bench.device.dialects import (
    Found,
    NotPermitted,
    driver_for,
    insist_on_permission,
    line_for,
    replayer_for,
    serial_ports,
    who_is_there,
)
from bench.device.interfaces import (
    Abp,
    CommandRefused,
    DeviceConfig,
    DeviceRestarted,
    DeviceSilent,
    DialectName,
    NotAsWritten,
    Otaa,
    UnknownFirmware,
)
from bench.device.serial_line import LineLost, PortUnavailable, SerialLine
from bench.lab.inventory import DeviceEntry, Inventory, PortMissing, Radio, port_of
from bench.night.record import ExitCode
from bench.rig.on_hardware.lab_board import Secrets, secrets_of
from bench.virtual.lorawan.channel_plan import channel_plan
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.identifiers import dev_addr as dev_addr_of
from lns.lorawan.identifiers import eui
from lns.lorawan.region import DataRate, Region, frame_airtime_us
from lns.station.messages import Jreq, Malformed, Updf, parse_up

T = TypeVar("T")
_TROUBLES = (
    CommandRefused,
    DeviceRestarted,
    DeviceSilent,
    LineLost,
    NotAsWritten,
    PortMissing,
    PortUnavailable,
    UnknownFirmware,
)
_KEY_DIGITS = 32
_FASTEST = DataRate(7, 125_000)
_UPLINKS = {0: "join-request", 2: "unconfirmed uplink", 4: "confirmed uplink"}
_FRAME_BYTES_MIN = 12  # MHDR 1, DevAddr 4, FCtrl 1, FCnt 2, MIC 4
_JOIN_REQUEST_BYTES = 23

Name = Annotated[str | None, Parameter(help="The board's name in --bench.")]
Port = Annotated[
    str | None, Parameter(help="A device path or a URL of pyserial, instead of a name.")
]
Speaks = Annotated[
    DialectName | None, Parameter(help="What it speaks; found out by asking, if absent.")
]
DryRun = Annotated[
    bool, Parameter(negative=(), show_default=False, help="Change nothing; say what would be done.")
]
Verbose = Annotated[
    bool, Parameter(negative=(), show_default=False, help="Show the dialogue, keys masked.")
]


@dataclass(frozen=True, slots=True)
class Place:
    url: str
    dialect: str
    baud: int | None = None
    dtr: bool | None = None
    device: DeviceEntry | None = None
    inventory: Inventory | None = None

    def line(self) -> SerialLine:
        return line_for(self.dialect, self.url, baud=self.baud, dtr=self.dtr)


def provision(
    name: Name = None,
    /,
    *,
    bench: Bench = BENCH,
    port: Port = None,
    dialect: Speaks = None,
    baud: int | None = None,
    dtr: Annotated[bool | None, Parameter(negative=())] = None,
    dev_eui: str | None = None,
    join_eui: str | None = None,
    dev_addr: str | None = None,
    app_key_file: Path | None = None,
    app_key_env: str | None = None,
    nwk_s_key_file: Path | None = None,
    nwk_s_key_env: str | None = None,
    app_s_key_file: Path | None = None,
    app_s_key_env: str | None = None,
    region: str | None = None,
    sub_band: int = 2,
    dr: int | None = None,
    power_dbm: int | None = None,
    device_class: Annotated[Literal["A", "C"], Parameter(name="--class")] = "A",
    adr: Flag = False,
    no_duty_cycle: Flag = False,
    role: str | None = None,
    dry_run: DryRun = False,
    verbose: Verbose = False,
) -> int:
    """Write identity, keys, region, data rate and role into a board, and read them back.

    Only what differs is written. Keys come from the inventory, a file or the environment, never
    from the command line, and are never shown. A LoRa-E5 cannot tell its keys: they are written
    every time. A device of the inventory gets what a run gives it.

    :param baud: The dialect's own, if absent.
    :param dtr: Hold DTR high.
    :param dev_eui: 16 hex digits.
    :param join_eui: 16 hex digits.
    :param dev_addr: 8 hex digits: an ABP device.
    :param app_key_file: File with 32 hex digits.
    :param app_key_env: Environment variable with it.
    :param nwk_s_key_file: File with 32 hex digits.
    :param nwk_s_key_env: Environment variable with it.
    :param app_s_key_file: File with 32 hex digits.
    :param app_s_key_env: Environment variable with it.
    :param region: That of --bench, or EU868.
    :param sub_band: US915: which eight channels, 1 to 8.
    :param dr: Data rate; SF7 in 125 kHz, if absent.
    :param power_dbm: EIRP that is not exceeded; 14.
    :param device_class: Class.
    :param adr: Let the server set its data rate.
    :param no_duty_cycle: For cables and shield boxes only.
    :param role: Kept in a RUI3 board; its name, if absent.
    """
    inventory, entry = _named(name, bench)
    device = entry if isinstance(entry, DeviceEntry) else None
    if name is not None and device is None:
        raise Refused(f"{name} is a replayer; provision is for devices.")
    if no_duty_cycle and inventory is not None and not inventory.conducted:
        raise Refused(
            f"--no-duty-cycle is for cables and shield boxes; {bench} does not say "
            "`conducted = true`."
        )
    rules = _region(region, inventory)
    keys = {
        "app_key": _key("app-key", app_key_file, app_key_env),
        "nwk_s_key": _key("nwk-s-key", nwk_s_key_file, nwk_s_key_env),
        "app_s_key": _key("app-s-key", app_s_key_file, app_s_key_env),
    }
    known = None if device is None or inventory is None else secrets_of(device, inventory.name)
    if dev_addr is None:
        activation: Otaa | Abp = _otaa(join_eui, keys["app_key"], known)
    else:
        activation = _abp(dev_addr, keys["nwk_s_key"], keys["app_s_key"], device)
    if dev_eui is not None:
        its_eui = _hex(eui, dev_eui, "--dev-eui")
    elif device is not None:
        its_eui = device.dev_eui
    else:
        raise Refused("Give --dev-eui, 16 hex digits.")
    if not 1 <= sub_band <= 8:
        raise Refused("--sub-band is 1 to 8.")
    fastest = rules.uplink_dr(_FASTEST)
    wanted = DeviceConfig(
        dev_eui=its_eui,
        activation=activation,
        region=rules.name,
        dr=dr if dr is not None else (device.dr if device else fastest),
        power_dbm=power_dbm if power_dbm is not None else (device.power_dbm if device else 14),
        class_c=device_class == "C",
        adr=adr,
        duty_cycle=not no_duty_cycle,
        sub_band=sub_band,
        role=(name or "") if role is None else role,
    )
    place = _placed(port, dialect, entry, inventory, baud=baud, dtr=dtr)
    return _in_turn(place, lambda at: _provisioned(at, wanted, dry_run=dry_run, shown=verbose))


def _otaa(join_eui: str | None, app_key: bytes | None, known: Secrets | None) -> Otaa:
    its_join_eui = known.otaa.join_eui if known else None
    if join_eui is not None:
        its_join_eui = _hex(eui, join_eui, "--join-eui")
    key = app_key or (known.otaa.app_key if known else None)
    if its_join_eui is None or key is None:
        raise Refused(
            "A device that joins needs --join-eui and --app-key-file or --app-key-env. A device of"
            " the inventory without a key has the one that a run gives it."
        )
    return Otaa(its_join_eui, key)


def _abp(
    dev_addr: str, nwk_s_key: bytes | None, app_s_key: bytes | None, device: DeviceEntry | None
) -> Abp:
    keys = device.keys if device else None
    if nwk_s_key is not None and app_s_key is not None:
        keys = SessionKeys(nwk_s_key, app_s_key)
    if keys is None:
        raise Refused("A device with a DevAddr needs --nwk-s-key-file and --app-s-key-file.")
    return Abp(_hex(dev_addr_of, dev_addr, "--dev-addr"), keys)


def reset(
    name: Name = None,
    /,
    *,
    bench: Bench = BENCH,
    port: Port = None,
    dialect: Speaks = None,
    yes: Flag = False,
    dry_run: DryRun = False,
    verbose: Verbose = False,
) -> int:
    """Let a board forget everything: keys, session, counters and settings.

    :param yes: Do not ask first.
    """
    inventory, entry = _named(name, bench)
    place = _placed(port, dialect, entry, inventory)
    return _in_turn(place, lambda at: _reset(at, yes=yes, dry_run=dry_run, shown=verbose))


def replay(
    *words: str,
    bench: Bench = BENCH,
    port: Port = None,
    dialect: Speaks = None,
    message: str | None = None,
    region: str | None = None,
    freq: str | None = None,
    dr: int | None = None,
    power_dbm: int = 14,
    dry_run: DryRun = False,
    verbose: Verbose = False,
) -> int:
    """Send a captured frame again with a second radio, and wait for the proof that it was sent.

    RUI3 boards do it in P2P mode, LoRa-E5 in its test mode; both stay in that mode. The frame, the
    channel, the data rate and the power have to be within the region.

    :param words: The replayer's name in --bench, and the PHYPayload in hex.
    :param message: An updf or jreq of a station as JSON; - is stdin.
    :param region: That of --bench, or EU868.
    :param freq: In MHz or Hz; that of the message, if absent.
    :param dr: Data rate; that of the message.
    :param power_dbm: EIRP.
    """
    rest = list(words)
    name = rest.pop(0) if rest and port is None else None
    inventory, entry = _named(name, bench)
    rules = _region(region, inventory)
    phy, freq_hz, its_dr = _frame(rest, message, freq, dr)
    kind = _kind(phy)
    data_rate = rules.data_rates[its_dr] if 0 <= its_dr < len(rules.data_rates) else None
    if not isinstance(data_rate, DataRate):
        raise Refused(f"DR{its_dr} is no LoRa uplink of {rules.name}.")
    with refusing(NotPermitted, said="{}."):
        insist_on_permission(phy, rules, freq_hz=freq_hz, data_rate=data_rate, power_dbm=power_dbm)
    airtime_us = frame_airtime_us(data_rate, len(phy), crc=True)
    what = (
        f"{kind} of {len(phy)} bytes at {freq_hz / 1e6:.1f} MHz, DR{its_dr} ({data_rate}), "
        f"{power_dbm} dBm, {airtime_us / 1000:.1f} ms on the air"
    )
    if dry_run:
        print_lines([f"would send: {what}"])
        return ExitCode.PASSED

    async def send(place: Place) -> int:
        replayer = replayer_for(
            place.dialect, name or place.url, place.line(), rules, dialogue(verbose)
        )
        async with replayer:
            await replayer.radio.identify()
            await replayer.transmit(phy, freq_hz=freq_hz, data_rate=data_rate, power_dbm=power_dbm)
        print_lines([f"sent: {what}"])
        band = channel_plan(rules.name).band(freq_hz)
        if band is not None:
            quiet_s = airtime_us * (1000 - band.per_mille) / band.per_mille / 1e6
            print_lines(
                [f"without cables, the duty cycle forbids more in this band for {quiet_s:.0f} s"]
            )
        return ExitCode.PASSED

    return _in_turn(_placed(port, dialect, entry, inventory), send)


async def _provisioned(place: Place, wanted: DeviceConfig, *, dry_run: bool, shown: bool) -> int:
    driver = driver_for(place.dialect, place.url, wanted.dev_eui, place.line(), dialogue(shown))
    async with driver:
        missing = await driver.missing(wanted)
        print_lines([f"{place.url}: {place.dialect} {driver.firmware}"])
        if dry_run:
            print_lines([f"would write {change}" for change in missing])
            print_lines(["nothing was written (--dry-run)"])
            return ExitCode.PASSED
        written = await driver.provision(wanted)
        for name in written:
            # What a new band or a restart has reset besides was as wanted before.
            changed = [str(change) for change in missing if change.name == name]
            print_lines([f"written: {change}" for change in changed or [name]])
        print_lines([f"{len(written)} settings written, all compared"])
    return ExitCode.PASSED


async def _reset(place: Place, *, yes: bool, dry_run: bool, shown: bool) -> int:
    before = await who_is_there(place.url)
    if before is None:
        raise DeviceSilent(f"{place.url}: no board answers `AT`")
    who = f"{place.url}: {before.dialect} {before.firmware}, DevEUI {before.dev_eui or 'unknown'}"
    if dry_run:
        print_lines([f"would reset {who}"])
        return ExitCode.PASSED
    if not yes:
        _confirm(who)
    its_eui = before.dev_eui or eui(0)
    driver = driver_for(place.dialect, place.url, its_eui, place.line(), dialogue(shown))
    async with driver:
        await driver.factory_reset()
    after = await who_is_there(place.url)
    print_lines([f"reset: {who} -> DevEUI {(after and after.dev_eui) or 'unknown'}"])
    return ExitCode.PASSED


def _confirm(who: str) -> None:
    if not sys.stdin.isatty():
        raise Refused("It would ask first, and nobody is at the terminal; say --yes.")
    print(f"{who}\nIts keys, session, counters and settings will be lost. Type `reset`: ", end="")
    sys.stdout.flush()
    if sys.stdin.readline().strip() != "reset":
        raise Refused("Nothing was done.")


def _in_turn(place: Place, act: Callable[[Place], Coroutine[Any, Any, int]]) -> int:
    with bench_taken(place.inventory) if place.inventory else nullcontext():
        with (
            refusing(*_TROUBLES, ValueError, said="{}.", by=BenchBroken),
            refusing(NotPermitted, said="{}."),
        ):
            return asyncio.run(_recognised(place, act))


async def _recognised(place: Place, act: Callable[[Place], Coroutine[Any, Any, int]]) -> int:
    if place.dialect:
        return await act(place)
    found: Found | None = await who_is_there(place.url)
    if found is None or found.dialect is None:
        raise DeviceSilent(
            f"{place.url}: no board answers `AT`, neither at 115200 nor at 9600 baud. Is it"
            " powered, is this its port (`lorabench devices --discover`)?"
        )
    baud, dtr = place.baud or found.baud, found.dtr if place.dtr is None else place.dtr
    return await act(replace(place, dialect=found.dialect, baud=baud, dtr=dtr))


def _named(name: str | None, bench: Path) -> tuple[Inventory | None, DeviceEntry | Radio | None]:
    if name is None:
        return None, None
    inventory = inventory_of(bench)
    radio = radio_of(inventory, name)
    return inventory, next((one for one in inventory.devices if one.name == name), radio)


def _placed(
    port: str | None,
    dialect: str | None,
    entry: DeviceEntry | Radio | None,
    inventory: Inventory | None,
    *,
    baud: int | None = None,
    dtr: bool | None = None,
) -> Place:
    radio = entry.radio if isinstance(entry, DeviceEntry) else entry
    if port is None and radio is None:
        raise Refused("Name a board of --bench, or give --port.")
    with refusing(PortMissing, by=BenchBroken):
        url = port if port is not None else port_of(radio, serial_ports())  # type: ignore[arg-type]
    return Place(
        url,
        dialect or (radio.dialect if radio else ""),
        baud or (radio.baud if radio else None),
        dtr if dtr is not None else (radio.dtr if radio else None),
        entry if isinstance(entry, DeviceEntry) else None,
        inventory,
    )


def _region(name: str | None, inventory: Inventory | None) -> Region:
    return region_of(name or (inventory.region if inventory else "EU868"))


def _hex(read: Callable[[str], T], text: str, what: str) -> T:
    try:
        return read(text)
    except ValueError as error:
        raise Refused(f"{what}: {error}.") from None


def _key(what: str, file: Path | None, variable: str | None) -> bytes | None:
    """The key in a file or in the environment; never shown, whatever is wrong with it."""
    if file is not None:
        try:
            text = file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise Refused(f"--{what}-file: {file} cannot be read: {why(error)}.") from None
    elif variable is not None:
        if variable not in os.environ:
            raise Refused(f"--{what}-env: the environment has no {variable}.")
        text = os.environ[variable]
    else:
        return None
    digits = re.sub(r"[\s:-]", "", text)
    if re.fullmatch(rf"[0-9A-Fa-f]{{{_KEY_DIGITS}}}", digits) is None:
        raise Refused(f"--{what}: it is {_KEY_DIGITS} hex digits, not {len(digits)} characters.")
    return bytes.fromhex(digits)


def dialogue(verbose: bool) -> Callable[[str, str, dict[str, object]], None]:
    def record(source: str, kind: str, fields: dict[str, object]) -> None:
        if verbose and "text" in fields:
            print_error(f"{'>' if kind.endswith('.command') else '<'} {fields['text']}")

    return record


def _frame(
    words: list[str], message: str | None, freq: str | None, dr: int | None
) -> tuple[bytes, int, int]:
    if message is not None:
        heard = _heard(message)
        phy, freq, dr = heard.phy(), freq or str(heard.freq_hz), heard.dr if dr is None else dr
    elif len(words) == 1:
        try:
            phy = bytes.fromhex(words[0])
        except ValueError:
            raise Refused("The frame is an even number of hex digits.") from None
    else:
        raise Refused("Give the frame as hex, or --message with an updf or jreq of a station.")
    if not freq or dr is None:
        raise Refused("Give --freq (868.1) and --dr (5).")
    try:
        value = float(freq)
    except ValueError:
        raise Refused(f"--freq {freq!r} is no frequency; write 868.1 or 868100000.") from None
    return phy, round(value * 1_000_000) if value < 10_000 else round(value), int(dr)


def _kind(phy: bytes) -> str:
    kind = _UPLINKS.get(phy[0] >> 5) if phy else None
    if kind is None:
        raise Refused("This is no LoRaWAN uplink; a replayer repeats what a device has sent.")
    if kind == "join-request" and len(phy) != _JOIN_REQUEST_BYTES:
        raise Refused(f"A join-request has {_JOIN_REQUEST_BYTES} bytes, this has {len(phy)}.")
    if len(phy) < _FRAME_BYTES_MIN:
        raise Refused(f"{len(phy)} bytes: an uplink has {_FRAME_BYTES_MIN} at least.")
    return kind


def _heard(source: str) -> Updf | Jreq:
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"--message {source} cannot be read: {why(error)}.") from None
    heard = parse_up(text)
    if isinstance(heard, Malformed):
        raise Refused(f"--message {source}: {heard.why}.")
    if not isinstance(heard, Updf | Jreq):
        raise Refused(f"--message {source} holds no frame to replay; updf and jreq do.")
    return heard
