"""What must stand in the settings of a LoRa-E5 that is a LoRaWAN device?"""

from collections.abc import Iterator

from bench.device.activation import Abp, Otaa
from bench.device.lora_e5_board import Lineage, LoraE5Board, parse_data_rate
from bench.device.seam import NotAsWritten
from bench.device.wanted import Wanted, channels
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.region import region


class LoraE5Settings:
    """The settings of one board.

    Remembers what cannot be read from it and so is written once: keys for as long as it is not
    reset to its factory state, channels and duty cycle until `restarted`.
    """

    def __init__(self, board: LoraE5Board) -> None:
        self._board = board
        self._keys: dict[str, bytes] = {}
        self._told: dict[str, str] = {}

    async def write(self, wanted: Wanted) -> tuple[str, ...]:
        """The names of those that had to be written; NotAsWritten if an answer names another value.

        The mode comes first, and ADR before the data rate, which it would not take otherwise.
        """
        names = []
        for name, value in (
            ("MODE", "LWOTAA" if wanted.joins else "LWABP"),
            ("ADR", "ON" if wanted.adr else "OFF"),
        ):
            names += [name] * await self._board.change(f"AT+{name}", value)
        names += await self._write_identity(wanted)
        names += await self._write_data_rate(wanted)
        for name, value in (
            ("CLASS", "C" if wanted.class_c else "A"),
            ("POWER", str(wanted.power_dbm)),
            ("REPT", "1"),
            ("RETRY", "1"),
        ):
            names += [name] * await self._board.change(f"AT+{name}", value)
        for command in _untold(wanted, self._board.lineage):
            names += [command.removeprefix("AT+").split("=")[0]] * await self._write_once(command)
        return tuple(dict.fromkeys(names))

    async def restarted(self) -> None:
        """Write again what it may have forgotten in a restart."""
        told, self._told = self._told, {}
        for command in told.values():
            await self._write_once(command)

    def forget(self) -> None:
        """It was reset to its factory state."""
        self._keys.clear()
        self._told.clear()

    async def _write_identity(self, wanted: Wanted) -> list[str]:
        identifiers, keys = _identity(wanted)
        board, quoted = self._board, self._board.lineage.quoted
        names = []
        found = await board.identifiers()
        for name, digits in identifiers.items():
            if found.get(name) != digits:
                await board.answer_to(f"AT+ID={name},{quoted(digits)}")
                names.append(name)
        if names:
            found = await board.identifiers()
            wrong = [name for name, digits in identifiers.items() if found.get(name) != digits]
            if wrong:
                raise NotAsWritten(f"{board.name}: {wrong[0]} reads {found.get(wrong[0])}")
        for name, key in keys.items():
            if self._keys.get(name) != key:
                await board.answer_to(f"AT+KEY={name},{quoted(key.hex().upper())}")
                self._keys[name] = key
                names.append(name)
        return names

    async def _write_data_rate(self, wanted: Wanted) -> list[str]:
        board = self._board
        plan, dr = parse_data_rate(await board.ask("AT+DR?"))
        names = []
        if plan != wanted.region:
            await board.answer_to(f"AT+DR={wanted.region}")
            plan, dr = parse_data_rate(await board.ask("AT+DR?"))
            names.append("BAND")
        if dr != wanted.dr and not wanted.adr:
            await board.answer_to(f"AT+DR={board.lineage.dr_prefix}{wanted.dr}")
            plan, dr = parse_data_rate(await board.ask("AT+DR?"))
            names.append("DR")
        if plan != wanted.region or (dr != wanted.dr and not wanted.adr):
            due = f"{wanted.region} DR{wanted.dr}"
            raise NotAsWritten(f"{board.name}: its data rate reads {plan} DR{dr}, not {due}")
        return names

    async def _write_once(self, command: str) -> bool:
        """Write what it does not tell, unless it was written already; whether it was not."""
        subject = command.rpartition(",")[0]
        if self._told.get(subject) == command:
            return False
        await self._board.answer_to(command)
        self._told[subject] = command
        return True


def _identity(wanted: Wanted) -> tuple[dict[str, str], dict[str, bytes]]:
    """Identifiers and keys, by the names that the board has for them."""
    match wanted.activation:
        case Otaa(join_eui, app_key):
            return {"DevEui": wanted.dev_eui, "AppEui": join_eui}, {"APPKEY": app_key}
        case Abp(dev_addr, SessionKeys(nwk_s_key, app_s_key)):
            keys = {"NWKSKEY": nwk_s_key, "APPSKEY": app_s_key}
            return {"DevEui": wanted.dev_eui, "DevAddr": dev_addr}, keys


def _untold(wanted: Wanted, lineage: Lineage) -> Iterator[str]:
    """The commands for what the board does not tell when asked."""
    rules = region(wanted.region)
    known, used = rules.uplink_channels, channels(rules)
    if wanted.channel_hz:
        used = tuple(channel for channel in used if channel.freq_hz == wanted.channel_hz)
    numbers = [known.index(channel) for channel in used if channel.dr_max == used[0].dr_max]
    if not numbers:
        raise ValueError(f"{wanted.channel_hz} Hz is no channel of {rules.name}")
    for value in lineage.channel_values(known, numbers[0], numbers[-1]):
        yield f"AT+CH={value}"
    keeps = "ON" if wanted.duty_cycle else "OFF"
    yield f"AT+LW=DC,{keeps}"
    yield f"AT+LW=JDC,{keeps}"
    yield "AT+LW=NET,ON"
