"""A virtual device on a real serial line: commands go in and events come out as bytes."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from bench.capture import Record
from bench.device.interfaces import Joining, Sent
from bench.device.rui3 import Rui3Device
from bench.device.serial_line import SerialLine
from bench.rig.device import PAYLOAD
from bench.rig.provisioning import Provisioned
from bench.rig.virtual_device import VirtualRigDevice, firmware_of
from bench.virtual.air.medium import Medium
from bench.virtual.board.pty_board import Board


class SerialRigDevice(VirtualRigDevice):
    """One device behind a pseudo-terminal, asked by the driver that a board on USB is asked by."""

    def __init__(self, provisioned: Provisioned, start: Callable[[], Awaitable[None]]) -> None:
        super().__init__(provisioned, start)
        self._plugged = AsyncExitStack()
        self._board: Board | None = None
        self._driver: Rui3Device | None = None
        self._record: Record | None = None
        self._retries = 0

    async def start(self, medium: Medium, seed: int, record: Record) -> None:
        self._record = record
        self._board = Board(lambda say: firmware_of(self.provisioned, medium, seed, say))
        self.firmware = self._board.firmware

    async def stop(self) -> None:
        await self._plugged.aclose()

    async def send(
        self,
        payload: bytes = PAYLOAD,
        *,
        confirmed: bool = False,
        port: int = 2,
        retries: int = 0,
        transmissions: int = 1,
    ) -> Sent:
        driver, board = await self._ready()
        if retries != self._retries:
            await driver.set_retries(retries)
            self._retries = retries
        if transmissions > 1:
            board.set_nb_trans(transmissions)
        await driver.send(payload, port=port, confirmed=confirmed, transmissions=transmissions)
        assert board.last_sent is not None
        return board.last_sent

    async def join(self) -> Joining:
        driver, board = await self._ready()
        await driver.join()
        assert board.last_join is not None
        return board.last_join

    async def set_adr(self, adr: bool) -> None:
        driver, _ = await self._ready()
        await driver.set_adr(adr)

    async def ask_time(self) -> None:
        driver, _ = await self._ready()
        await driver.ask_time()

    async def ask_link(self) -> None:
        driver, _ = await self._ready()
        await driver.ask_link()

    async def restart(self, *, memory: bool) -> None:
        """A reset by command keeps the memory; a cut of the power ends it."""
        driver, board = await self._ready()
        if memory:
            await driver.restart()
        else:
            await driver.restarted_by(board.restart(memory=False))

    async def _ready(self) -> tuple[Rui3Device, Board]:
        """The driver and the board, plugged in with the first command."""
        await self._start()
        board = self._board
        assert board is not None and self._record is not None
        if self._driver is None:
            await self._plugged.enter_async_context(board)
            name, dev_eui = self.provisioned.record.name, self.provisioned.dev_eui
            driver = Rui3Device(name, dev_eui, SerialLine(board.port), self._record)
            self._driver = await self._plugged.enter_async_context(driver)
        return self._driver, board
