"""What goes over the serial line of a device, and into the capture?"""

from bench.capture import Record
from bench.device.seam import CommandRefused
from lns.lorawan.identifiers import Eui


class Console:
    """The console of one device: every command and every line goes into the capture.

    Without a DevEUI it is the console of a radio that is no device of the network, a replayer.
    """

    def __init__(self, name: str, dev_eui: Eui | None, record: Record) -> None:
        self._name = name
        self._dev_eui = dev_eui
        self._record = record

    def command(self, text: str) -> None:
        """What was written to the device."""
        self._write("command", text)

    def line(self, text: str) -> None:
        """What the device printed."""
        self._write("line", text)

    def refuse(self, line: str) -> CommandRefused:
        """Print a refusal; the exception is for the caller to raise."""
        self.line(line)
        return CommandRefused(f"{self._name}: {line}")

    def _write(self, verb: str, text: str) -> None:
        if self._dev_eui is None:
            self._record(f"replayer-{self._name}", f"replayer.{verb}", {"text": text})
            return
        fields: dict[str, object] = {"dev_eui": self._dev_eui, "text": text}
        self._record(f"device-{self._name}", f"device.{verb}", fields)
