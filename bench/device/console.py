"""What does a device say on its serial line? The spelling of RUI3."""

from bench.device.radio import Received
from bench.device.seam import CommandRefused
from bench.device.session import Downlink
from bench.radio.medium import Record
from lns.lorawan.identifiers import Eui
from lns.lorawan.mac_commands import DeviceTimeAns, DeviceTimeReq, LinkCheckAns, MacCommand


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

    def downlink(self, answer: Received[Downlink]) -> None:
        """The line of a downlink with application data; one without has none."""
        downlink, heard = answer.content, answer.heard
        if downlink.f_port:
            signal = f"{heard.rssi_dbm}:{round(heard.snr_db)}"
            data = f"UNICAST:{downlink.f_port}:{downlink.payload.hex()}"
            self.line(f"+EVT:RX_{answer.window.slot}:{signal}:{data}")

    def asked(self, request: MacCommand, answer: Received[Downlink] | None) -> None:
        """The line that tells what became of a LinkCheckReq or a DeviceTimeReq."""
        said = answer.content.commands if answer else ()
        if isinstance(request, DeviceTimeReq):
            is_told = any(isinstance(command, DeviceTimeAns) for command in said)
            return self.line("+EVT:TIMEREQ_OK" if is_told else "+EVT:TIMEREQ_FAILED")
        for command in said:
            if isinstance(command, LinkCheckAns) and answer is not None:
                signal = f"{answer.heard.rssi_dbm}:{round(answer.heard.snr_db)}"
                told = f"{command.margin_db}:{command.gateway_count}:{signal}"
                return self.line(f"+EVT:LINKCHECK:0:{told}")
        self.line("+EVT:LINKCHECK:1:0:0:0:0")

    def _write(self, verb: str, text: str) -> None:
        if self._dev_eui is None:
            self._record(f"replayer-{self._name}", f"replayer.{verb}", {"text": text})
            return
        fields: dict[str, object] = {"dev_eui": self._dev_eui, "text": text}
        self._record(f"device-{self._name}", f"device.{verb}", fields)
