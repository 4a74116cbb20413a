"""What is due: the verbs with which a scenario says what it expects."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.device.interfaces import Joining, Sent
from bench.rig.case_setup import CaseSetup
from bench.rig.interfaces import Devices, Frame, RigDevice
from bench.verdict.expectation import Due, Table
from bench.verdict.owner import Owner

REPLIES = {True: "+EVT:SEND_CONFIRMED_OK", False: "+EVT:TX_DONE"}


@dataclass(frozen=True, slots=True)
class Injected:
    """One message of the bench, by its id; the same id may be published several times."""

    message_id: str


Named = Sent | Injected
"""An uplink with all its messages, or one message of the bench."""


class Expectations:
    """Writes into the case what is due of a frame, a device or a message."""

    def __init__(self, setup: CaseSetup, devices: Devices) -> None:
        self.setup = setup
        self._devices = devices

    def expect(self, frame: Frame, table: Table, **stations: str | tuple[str, ...]) -> None:
        """Expect the receptions of a frame to become what the table says for this strategy."""
        for due in table.row(self.setup.strategy, _kind_of(frame), stations):
            self.expect_due(frame, due)

    def expect_due(self, frame: Frame, due: Due) -> None:
        """Expect the words of the next reception of a frame."""
        station = self.setup.station(due.station)
        self.setup.case.expect_outcome(frame.frame_id, station.eui, due)

    def expect_race(self, frame: Frame, table: Table, *, between: Sequence[str]) -> None:
        """Expect stations to deliver a frame at one moment, each column of the table for one.

        Any of them may get the words of any column, and exactly one each.
        """
        due = table.race(self.setup.strategy, _kind_of(frame), between)
        by_station = {self.setup.station(one.station).eui: one for one in due}
        self.setup.case.expect_race(frame.frame_id, by_station)

    def expect_reply(self, frame: Frame, line: str | None = None) -> None:
        """Expect the device to say a line; by default what a successful `frame` ends in."""
        if line is None:
            joined = isinstance(frame, Joining)
            line = "+EVT:JOINED" if joined else REPLIES[frame.confirmed]  # type: ignore[union-attr]
        own = self._devices.line_of(frame.dev_eui, line)
        if own is not None:
            self.setup.case.expect_line(frame.dev_eui, own)

    def expect_downlink(
        self, device: RigDevice, payload: bytes, *, port: int = 2, window: str = "1"
    ) -> None:
        """Expect the device to print what the application sent, heard in window 1, 2 or C."""
        line = f"+EVT:RX_{window}:UNICAST:{port}:{payload.hex()}"
        self.setup.case.expect_line(device.dev_eui, line)

    def expect_status(self, device: RigDevice, *, times: int = 1) -> None:
        """Expect the application to be told so often what a device says of itself."""
        self.setup.case.expect_status(device.dev_eui, times)

    def expect_evictions(self, times: int) -> None:
        """Expect network servers to tell so often that level 1 was full, and forgot too early."""
        self.setup.case.expect_evictions(times)

    def expect_finding(self, rule: str, *, owner: str, about: str) -> None:
        """Expect the report to have a finding about a station: it is there on purpose.

        It is not counted among those to be read; without it the case fails.
        """
        self.setup.case.expect_finding(Owner(owner), rule, self.setup.station(about).eui)

    def expect_upstream(self, uplink: Sent, *, through: str, **body: object) -> None:
        """Expect these fields in every message that the application gets of an uplink by a station.

        How many messages it gets is a matter of `expect`.
        """
        station = self.setup.station(through).eui
        self.setup.case.expect_upstream(uplink.dev_eui, uplink.f_cnt, station, body)

    def expect_answer(self, frame: Frame, **said: int | bool | None) -> None:
        """Expect the next answer to a frame to say this as it leaves the network server.

        Of the frame: `f_cnt` as on the wire, `ack`, `f_pending`, `f_opts_bytes`, `f_port` (None:
        there is none) and `confirmed`; of the message to the station: `rctx`, `rx_delay_s`,
        `rx1_dr`, `rx1_freq_hz`, `rx2_dr`, `rx2_freq_hz`. What is not named may be anything.
        """
        self.setup.case.expect_answer(frame.frame_id, said)

    def expect_on_air(self, frame: Frame, *windows: str) -> None:
        """Expect the answers to a frame that stations report on the air to use these windows."""
        self.setup.case.expect_on_air(frame.frame_id, windows)

    def expect_effects(
        self, message: Named, times: int = 1, *, consumer: str | None = None
    ) -> None:
        """Expect the messages of an uplink to have so many effects, at one consumer or all.

        Copies are messages of their own.
        """
        self.setup.case.expect_effects(times, which(message), consumer=consumer)

    def expect_ignored(
        self, message: Named, *, by: str, times: int = 1, consumer: str | None = None
    ) -> None:
        """Expect so many to be ignored as duplicates, by "window", "sequence" or "key"."""
        self.setup.case.expect_effects(times, which(message), consumer=consumer, by=by)


def which(message: Named) -> dict[str, object]:
    """How a message is named in an expectation."""
    if isinstance(message, Injected):
        return {"message_id": message.message_id}
    dev_addr = message.frame_id.split(":")[0]
    return {"dev_eui": message.dev_eui, "dev_addr": dev_addr, "f_cnt": message.f_cnt}


def _kind_of(frame: Frame) -> str:
    if isinstance(frame, Joining):
        return "join"
    return "confirmed" if frame.confirmed else "unconfirmed"
