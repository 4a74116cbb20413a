"""Send a captured PHYPayload again with a second radio, and wait for the proof that it was sent.

RUI3 boards do it in P2P mode, LoRa-E5 in its test mode; both stay in that mode. The frame, the
channel, the data rate and the power have to be within the region.
"""

import json
import struct
import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from at_port import AtPort, Silent, port_of
from bench_file import read_bench_file
from ending import Arguments, Failed, WrongUsage, run
from lora_e5 import LoraE5
from on_the_air import (
    DATA_RATES,
    POWER_DBM_MAX,
    DataRate,
    airtime_us,
    channel_hz,
    check_frame,
    quiet_after_us,
)
from rui3 import Rui3
from who_answers import DIALECTS, chosen_dialect, opened

EXAMPLES = (
    "python3 replay.py replayer --bench bench.toml --freq 868.1 --dr 5 40EFCDAB01...",
    "python3 replay.py --port /dev/lora/replay --freq 868.1 --dr 5 --dry-run 40EFCDAB01...",
    "python3 replay.py replayer --bench bench.toml --message updf.json   # one updf or jreq",
    "grep updf capture.txt | head -1 | python3 replay.py replayer --bench bench.toml --message -",
)
PUBLIC_SYNC_WORD = "3444"
_RUI3_BYTES_MAX, _E5_BYTES_MAX = 239, 250
_MARGIN_S = 2.0


def main() -> None:
    """Send one frame."""
    arguments = _arguments()
    bench = read_bench_file(Path(arguments.bench)) if arguments.bench else None
    entry = bench.entry(("replayer", "device"), arguments.name) if bench else {}
    region = arguments.region or (bench.region if bench else "EU868")
    if region not in DATA_RATES:
        raise WrongUsage(f"region {region!r} is not known here; known: {', '.join(DATA_RATES)}")
    phy, freq_hz, dr = _frame(arguments)
    if not 5 <= arguments.power_dbm <= POWER_DBM_MAX[region]:
        raise WrongUsage(f"--power-dbm: {region} allows 5 to {POWER_DBM_MAX[region]} here")
    kind = check_frame(phy, region, freq_hz, dr)
    data_rate = DATA_RATES[region][dr]
    on_air_us = airtime_us(data_rate, len(phy))
    what = (
        f"{kind} of {len(phy)} bytes at {freq_hz / 1e6:.1f} MHz, DR{dr} (SF{data_rate.sf}, "
        f"{data_rate.bw_khz} kHz), {arguments.power_dbm} dBm, {on_air_us / 1000:.1f} ms on the air"
    )
    if arguments.dry_run:
        print(f"would send: {what}")
        return
    url = arguments.port or (port_of(entry) if entry else None)
    if url is None:
        raise WrongUsage("name a replayer of --bench, or give --port")
    dialect, baud = chosen_dialect(
        url, arguments.dialect or entry.get("dialect"), shown=arguments.verbose
    )
    rate, dtr = entry.get("baud") or baud, entry.get("dtr")
    with opened(url, dialect, baud=rate, dtr=dtr, shown=arguments.verbose) as port:
        send = _by_rui3 if dialect == "rui3" else _by_lora_e5
        send(port, phy, freq_hz, data_rate, arguments.power_dbm)
    print(f"sent: {what}")
    if region == "EU868":
        quiet_s = quiet_after_us(freq_hz, on_air_us) / 1e6
        print(f"without cables, the duty cycle forbids more in this band for {quiet_s:.0f} s")


def _by_rui3(port: AtPort, phy: bytes, freq_hz: int, data_rate: DataRate, power_dbm: int) -> None:
    _check_size(phy, _RUI3_BYTES_MAX, "RUI3")
    board = Rui3(port)
    if board.enter_p2p():
        print(f"{port.url}: LoRaWAN -> P2P mode")
    board.tell("AT+PRECV=0")  # while it receives it takes no setting and sends nothing
    bandwidth = {125: 0, 250: 1, 500: 2}[data_rate.bw_khz]
    settings = {
        "P2P": f"{freq_hz}:{data_rate.sf}:{bandwidth}:0:8:{power_dbm}",
        "SYNCWORD": PUBLIC_SYNC_WORD,
        "IQINVER": "0",
        "ENCRY": "0",
        "CAD": "0",
        "FIXLENGTHPAYLOAD": "0",
    }
    for key, value in settings.items():
        if not _holds(board.query(key), value):
            board.tell(f"AT+{key}={value}")
            if not _holds(now := board.query(key), value):
                raise Failed(f"{port.url}: {key} reads {now} after {value} was written")
            print(f"{port.url}: {key} = {value}")
    on_air_s = airtime_us(data_rate, len(phy)) / 1e6
    command = f"AT+PSEND={phy.hex().upper()}"
    _prove(port, command, "+EVT:TXP2P DONE", on_air_s, failures=("AT_",))


def _holds(now: str, wanted: str) -> bool:
    """Whether a setting is as wanted; a firmware may tell more fields than were written."""
    fields = wanted.split(":")
    return now.lower().split(":")[: len(fields)] == fields


def _by_lora_e5(
    port: AtPort, phy: bytes, freq_hz: int, data_rate: DataRate, power_dbm: int
) -> None:
    _check_size(phy, _E5_BYTES_MAX, "LoRa-E5")
    board = LoraE5(port)
    board.tell("AT+MODE=TEST", "+MODE: TEST")
    mhz = f"{freq_hz / 1e6:.6f}".rstrip("0").rstrip(".")
    radio = f"{mhz},SF{data_rate.sf},{data_rate.bw_khz},8,8,{power_dbm},ON,OFF,ON"
    answer = board.tell(f"AT+TEST=RFCFG,{radio}", "+TEST: RFCFG")[-1]
    for part in (f"F:{freq_hz}", f"SF{data_rate.sf}", "CRC:ON", "IQ:OFF", "NET:ON"):
        if part not in answer:
            raise Failed(f"{port.url}: {answer!r} does not say {part}; nothing was sent")
    on_air_s = airtime_us(data_rate, len(phy)) / 1e6
    command = f'AT+TEST=TXLRPKT,"{phy.hex().upper()}"'
    _prove(port, command, "+TEST: TX DONE", on_air_s, failures=("+TEST: ERROR",))


def _prove(
    port: AtPort, command: str, proof: str, on_air_s: float, *, failures: tuple[str, ...]
) -> None:
    """Send, and wait for the proof: `OK` is none, and may come after it."""
    port.forget()
    try:
        last = port.ask(
            command, lambda line: line == proof or line.startswith(failures), on_air_s + _MARGIN_S
        )[-1]
    except Silent as error:
        raise Failed(
            f"{error}. Without {proof!r} nothing proves that the frame was sent; RUI3 before "
            "4.0.2, and 4.0.3, does not say it: update the firmware"
        ) from None
    if last != proof:
        raise Failed(f"{port.url}: it does not send and answers {last}")


def _check_size(phy: bytes, bytes_max: int, who: str) -> None:
    if len(phy) > bytes_max:
        raise WrongUsage(f"{len(phy)} bytes: {who} sends {bytes_max} at most")


def _frame(arguments: Namespace) -> tuple[bytes, int, int]:
    """PHYPayload, frequency and data rate, from the arguments or from a station's message."""
    freq, dr = arguments.freq, arguments.dr
    if arguments.message is not None:
        message = _read_message(arguments.message)
        phy = phy_payload(message)
        freq = freq or str(message.get("Freq", ""))
        dr = message.get("DR") if dr is None else dr
    elif arguments.phy is not None:
        try:
            phy = bytes.fromhex(arguments.phy)
        except ValueError:
            raise WrongUsage("the frame is an even number of hex digits") from None
    else:
        raise WrongUsage("give the frame as hex, or --message with an updf or jreq of a station")
    if not freq or dr is None:
        raise WrongUsage("give --freq (868.1) and --dr (5): the message does not tell them")
    return phy, channel_hz(freq), int(dr)


def phy_payload(message: Mapping[str, Any]) -> bytes:
    """The PHYPayload that a Basics Station `updf` or `jreq` stands for; WrongUsage for others."""
    try:
        if message["msgtype"] == "jreq":
            return _join_request(message)
        if message["msgtype"] == "updf":
            return _data_frame(message)
    except (KeyError, ValueError, TypeError, struct.error) as error:
        raise WrongUsage(f"the message is not complete: {error!r}") from None
    raise WrongUsage(f"a {message['msgtype']} holds no frame to replay; updf and jreq do")


# MHDR 1 | DevAddr 4 | FCtrl 1 | FCnt 2 | FOpts 0..15 | FPort 0..1 | FRMPayload | MIC 4
def _data_frame(message: Mapping[str, Any]) -> bytes:
    head = struct.pack(
        "<BiBH", message["MHdr"], message["DevAddr"], message["FCtrl"], message["FCnt"]
    )
    body = bytes.fromhex(message["FOpts"])
    if message["FPort"] >= 0:
        body += bytes([message["FPort"]]) + bytes.fromhex(message["FRMPayload"])
    return head + body + struct.pack("<i", message["MIC"])


# MHDR 1 | JoinEUI 8 | DevEUI 8 | DevNonce 2 | MIC 4
def _join_request(message: Mapping[str, Any]) -> bytes:
    join_eui = message["JoinEui"] if "JoinEui" in message else message["JoinEUI"]
    dev_eui = message["DevEui"] if "DevEui" in message else message["DevEUI"]
    euis = b"".join(
        bytes.fromhex(text.replace("-", "").replace(":", ""))[::-1] for text in (join_eui, dev_eui)
    )
    nonce_and_mic = struct.pack("<Hi", message["DevNonce"], message["MIC"])
    return bytes([message["MHdr"]]) + euis + nonce_and_mic


def _read_message(source: str) -> Mapping[str, Any]:
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
        message = json.loads(text)
    except (OSError, ValueError) as error:
        raise WrongUsage(f"--message {source}: no JSON message ({error})") from None
    if not isinstance(message, dict) or "msgtype" not in message:
        raise WrongUsage(f"--message {source}: no message of a station, it has no `msgtype`")
    return message


def _arguments() -> Namespace:
    parser = Arguments(str(__doc__), EXAMPLES)
    parser.add_argument("name", nargs="?", help="the replayer's name in --bench")
    parser.add_argument("phy", nargs="?", help="the PHYPayload, MHDR to MIC, in hex")
    parser.add_argument("--message", metavar="FILE", help="an updf or jreq as JSON; - is stdin")
    parser.add_argument("--bench", metavar="FILE", help="bench.toml")
    parser.add_argument("--port", help="a device path or a URL of pyserial")
    parser.add_argument("--dialect", choices=DIALECTS, help="found out by asking, if absent")
    parser.add_argument("--region", help="EU868 or US915; that of --bench, or EU868")
    parser.add_argument("--freq", help="in MHz or Hz; that of the message, if absent")
    parser.add_argument("--dr", type=int, help="data rate; that of the message, if absent")
    parser.add_argument("--power-dbm", type=int, default=14, help="14 if absent")
    parser.add_argument("--dry-run", action="store_true", help="check the frame, send nothing")
    parser.add_argument("--verbose", action="store_true", help="show the dialogue")
    arguments = parser.parse_args()
    if arguments.bench is None and arguments.phy is None:
        arguments.name, arguments.phy = None, arguments.name
    return arguments


if __name__ == "__main__":
    run(main)
