"""Which messages does the LNS protocol have, and what does a text say?

There is a value for every text: what a station may get wrong is a `Malformed`, never an exception.
Integers are exact (xtime and diid need 64 bits); EUIs may have any spelling; DevAddr and MIC may be
signed or unsigned; unknown fields of a station are ignored. A question where the server is must be
answered whatever it says, or the station hangs for ever (`/router-info`). Source: Basics Station,
LNS protocol, version 2 (lora.c, s2e.c, uj.c).
"""

import struct
from binascii import unhexlify
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from lns.lorawan.identifiers import DevAddr, Eui, Mic, dev_addr, eui, eui_id6, mic_from_signed

U8 = Annotated[int, Meta(ge=0, le=0xFF)]
U16 = Annotated[int, Meta(ge=0, le=0xFFFF)]
Word32 = Annotated[int, Meta(ge=-(1 << 31), lt=1 << 32)]
Int64 = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Xtime = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Dr = Annotated[int, Meta(ge=0, le=15)]
FreqHz = Annotated[int, Meta(ge=1, lt=1 << 32)]

RECEPTIONS = ("updf", "jreq")
"""The message types of a station that count as receptions."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """A text that cannot be read: no JSON (`msgtype` None), no object, or a field is wrong."""

    why: str
    msgtype: str | None

    @property
    def is_reception(self) -> bool:
        """Whether it stands for a frame that was heard: then it has an outcome of its own."""
        return self.msgtype is None or self.msgtype in RECEPTIONS


def json_object(text: str) -> dict[str, Any] | Malformed:
    """The JSON object in a text; never raises."""
    try:
        fields = msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        return Malformed(f"no JSON: {error}", None)
    if not isinstance(fields, dict):
        return Malformed("no JSON object", "")
    return fields


def read_eui(value: object) -> Eui:
    """An EUI as text in any spelling or as a number; ValueError for anything else."""
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise ValueError(f"not an EUI: {value!r}")
    return eui(value)


def either(fields: dict[str, Any], key: str, other: str) -> Any:
    """The value under `key`, or under its other spelling; KeyError if there is neither."""
    return fields[key] if key in fields else fields[other]


NO_PORT = -1
_HEAD = struct.Struct("<BIBH")
_MIC = struct.Struct("<I")
_JOIN = struct.Struct("<BQQHI")
_F_OPTS_LEN = 0x0F
_UNCONFIRMED_UP, _CONFIRMED_UP, _JOIN_REQUEST = 0x40, 0x80, 0x00
_PHY_BYTES_MAX = 255


class UpInfo(Struct, frozen=True, gc=False):
    """How a station heard a frame.

    `xtime`: the station's clock at the end of the frame in µs, 0 = not told; `gpstime` in µs since
    the GPS epoch, 0 = unknown; `fts` in ns, -1 = none; `rxtime`: s UTC when the text was made.
    """

    rctx: Int64 = 0
    xtime: Xtime = 0
    gpstime: Int64 = 0
    fts: Int64 = -1
    rssi_dbm: float = field(default=0.0, name="rssi")
    snr_db: float = field(default=0.0, name="snr")
    rxtime: float = 0.0


class Updf(Struct, frozen=True, kw_only=True, gc=False):
    """A data uplink, taken apart by the station. `f_port` -1 = no FPort.

    FOpts and FRMPayload stand here as they are spelled, in hexadecimal.
    """

    msgtype: Literal["updf"]
    m_hdr: U8 = field(name="MHdr")
    dev_addr_word: Word32 = field(name="DevAddr")
    f_ctrl: U8 = field(name="FCtrl")
    f_cnt: U16 = field(name="FCnt")
    f_opts: str = field(name="FOpts")
    f_port: Annotated[int, Meta(ge=-1, le=255)] = field(name="FPort")
    frm_payload: str = field(name="FRMPayload")
    mic_word: Word32 = field(name="MIC")
    dr: Dr = field(name="DR")
    freq_hz: FreqHz = field(name="Freq")
    ref_time: float = field(default=0.0, name="RefTime")
    upinfo: UpInfo = UpInfo()

    @property
    def dev_addr(self) -> DevAddr:
        """The device address."""
        return dev_addr(self.dev_addr_word)

    @property
    def mic(self) -> Mic:
        """The MIC in wire byte order."""
        return mic_from_signed(self.mic_word)

    @property
    def frame_id(self) -> str:
        """`dev_addr:f_cnt_wire:mic`."""
        return f"{self.dev_addr}:{self.f_cnt}:{self.mic}"

    def phy(self) -> bytes:
        """The PHYPayload as it was on the air."""
        port = "" if self.f_port == NO_PORT else f"{self.f_port:02X}"
        head = _HEAD.pack(self.m_hdr, self.dev_addr_word & 0xFFFFFFFF, self.f_ctrl, self.f_cnt)
        rest = unhexlify(self.f_opts + port + self.frm_payload)
        return b"%b%b%b" % (head, rest, _MIC.pack(self.mic_word & 0xFFFFFFFF))


class Jreq(Struct, frozen=True, kw_only=True):
    """A join-request, taken apart by the station."""

    m_hdr: U8 = field(name="MHdr")
    join_eui: Eui = field(name="JoinEui")
    dev_eui: Eui = field(name="DevEui")
    dev_nonce: U16 = field(name="DevNonce")
    mic_word: Word32 = field(name="MIC")
    dr: Dr = field(name="DR")
    freq_hz: FreqHz = field(name="Freq")
    ref_time: float = field(default=0.0, name="RefTime")
    upinfo: UpInfo = UpInfo()

    @property
    def frame_id(self) -> str:
        """`join_eui:dev_eui:dev_nonce`."""
        return f"{self.join_eui}:{self.dev_eui}:{self.dev_nonce}"

    def phy(self) -> bytes:
        """The PHYPayload as it was on the air."""
        euis = int(self.join_eui, 16), int(self.dev_eui, 16)
        return _JOIN.pack(self.m_hdr, *euis, self.dev_nonce, self.mic_word & 0xFFFFFFFF)


class Propdf(Struct, frozen=True, kw_only=True):
    """A proprietary frame; `phy_payload` includes its MHDR."""

    phy_payload: bytes = field(name="FRMPayload")
    dr: Dr = field(name="DR")
    freq_hz: FreqHz = field(name="Freq")
    ref_time: float = field(default=0.0, name="RefTime")
    upinfo: UpInfo = UpInfo()

    def phy(self) -> bytes:
        """The PHYPayload as it was on the air."""
        return self.phy_payload


class Version(Struct, frozen=True):
    """The first message of a station; `features` is a space separated list."""

    station: str
    firmware: str | None = None
    package: str | None = None
    model: str | None = None
    protocol: int = 2
    features: str = ""


class Dntxed(Struct, frozen=True, kw_only=True):
    """A downlink went on the air; `xtime` is its start, `txtime` the station's own seconds."""

    diid: Int64
    dev_eui: Eui = field(name="DevEui")
    dr: Dr = field(name="DR")
    freq_hz: FreqHz = field(name="Freq")
    rctx: Int64 = 0
    xtime: Xtime = 0
    txtime: float = 0.0
    gpstime: Int64 = 0


class Timesync(Struct, frozen=True):
    """A station asks for the time; `txtime` is echoed."""

    txtime: Int64


class XtimeReport(Struct, frozen=True):
    """A station's clocks, one per radio unit (0 = no such unit)."""

    xtimes: tuple[Xtime, ...]
    mux_time: float | None = field(default=None, name="MuxTime")


@dataclass(frozen=True, slots=True)
class RouterInfoRequest:
    """A station asks on `/router-info` where its network server is."""

    router: Eui


@dataclass(frozen=True, slots=True)
class Ignored:
    """A message that this program has no use for; `msgtype` is "" if there was none."""

    msgtype: str


_read_updf = msgspec.json.Decoder(Updf).decode

UpMessage = (
    Version | Updf | Jreq | Propdf | Dntxed | Timesync | XtimeReport | RouterInfoRequest
    | Ignored | Malformed
)  # fmt: skip


def parse_up(text: str) -> UpMessage:
    """The message of a station; never raises."""
    if '"updf"' in text:
        try:
            # Nearly every message is a good `updf`: read at once it costs half.
            return _checked(_read_updf(text))
        except (ValueError, RecursionError):
            pass  # what is wrong with it, the slow way says
    return _parse_up(text)


def _parse_up(text: str) -> UpMessage:
    fields = json_object(text)
    if isinstance(fields, Malformed):
        return fields
    msgtype = fields.get("msgtype", "")
    if not isinstance(msgtype, str):
        return Ignored("")
    try:
        if "msgtype" not in fields and "router" in fields:
            return RouterInfoRequest(read_eui(fields["router"]))
        reader = _UP_READERS.get(msgtype)
        return Ignored(msgtype) if reader is None else reader(fields)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        return Malformed(f"{msgtype}: {error}", msgtype)


def _checked(updf: Updf) -> Updf:
    f_opts, payload = len(unhexlify(updf.f_opts)), len(unhexlify(updf.frm_payload))
    if updf.m_hdr not in (_UNCONFIRMED_UP, _CONFIRMED_UP):
        raise ValueError(f"MHdr {updf.m_hdr} is no data uplink")
    if f_opts != updf.f_ctrl & _F_OPTS_LEN:
        raise ValueError(f"FCtrl {updf.f_ctrl} does not fit {f_opts} bytes of FOpts")
    if updf.f_port == NO_PORT and payload:
        raise ValueError("FRMPayload without FPort")
    if updf.f_port == 0 and f_opts:  # LoRaWAN 1.0.3, 4.3.1.6: whoever gets it ignores the frame
        raise ValueError("MAC commands in FOpts and on FPort 0")
    if payload + f_opts + 13 > _PHY_BYTES_MAX:
        raise ValueError("longer than a frame can be")
    return updf


def _jreq(fields: dict[str, Any]) -> Jreq:
    join_eui = read_eui(either(fields, "JoinEui", "JoinEUI"))
    dev_eui = read_eui(either(fields, "DevEui", "DevEUI"))
    jreq = msgspec.convert({**fields, "JoinEui": join_eui, "DevEui": dev_eui}, Jreq)
    if jreq.m_hdr != _JOIN_REQUEST:
        raise ValueError(f"MHdr {jreq.m_hdr} is no join-request")
    return jreq


def _propdf(fields: dict[str, Any]) -> Propdf:
    return msgspec.convert({**fields, "FRMPayload": unhexlify(fields["FRMPayload"])}, Propdf)


def _dntxed(fields: dict[str, Any]) -> Dntxed:
    dev_eui = read_eui(either(fields, "DevEui", "DevEUI"))
    diid = either(fields, "diid", "seqno")
    return msgspec.convert({**fields, "diid": diid, "DevEui": dev_eui}, Dntxed)


_UP_READERS: dict[str, Callable[[dict[str, Any]], UpMessage]] = {
    "updf": lambda fields: _checked(msgspec.convert(fields, Updf)),
    "jreq": _jreq,
    "propdf": _propdf,
    "dntxed": _dntxed,
    "version": lambda fields: msgspec.convert(fields, Version),
    "timesync": lambda fields: msgspec.convert(fields, Timesync),
    "getxtime": lambda fields: msgspec.convert(fields, XtimeReport),
}


RxDelay = Annotated[int, Meta(ge=0, le=15)]
CLASS_A, CLASS_B, CLASS_C = 0, 1, 2


class Dnmsg(Struct, frozen=True, kw_only=True):
    """A downlink for a station to send.

    `device_class` 0 = A, 1 = B, 2 = C. RX1 starts `rx_delay_s` after `xtime` (the value of the
    uplink, unchanged), RX2 one second later. Each window is a pair of data rate and frequency, both
    or none. `diid` comes back in `dntxed`; nothing else tells that it was sent.
    """

    dev_eui: Eui = field(name="DevEui")
    device_class: Annotated[int, Meta(ge=0, le=2)] = field(default=CLASS_A, name="dC")
    diid: Int64
    pdu: bytes
    rx_delay_s: RxDelay = field(default=1, name="RxDelay")
    rx1_dr: Dr | None = field(default=None, name="RX1DR")
    rx1_freq_hz: FreqHz | None = field(default=None, name="RX1Freq")
    rx2_dr: Dr | None = field(default=None, name="RX2DR")
    rx2_freq_hz: FreqHz | None = field(default=None, name="RX2Freq")
    priority: U8 = 0
    xtime: Xtime = 0
    rctx: Int64 = 0
    mux_time: float | None = field(default=None, name="MuxTime")

    @property
    def rx1(self) -> tuple[int, int] | None:
        """Data rate and frequency (Hz) of RX1, None without one."""
        return _pair(self.rx1_dr, self.rx1_freq_hz)

    @property
    def rx2(self) -> tuple[int, int] | None:
        """Data rate and frequency (Hz) of RX2, None without one."""
        return _pair(self.rx2_dr, self.rx2_freq_hz)


def _pair(dr: int | None, freq_hz: int | None) -> tuple[int, int] | None:
    """Both or none; ValueError for half a pair."""
    if dr is None and freq_hz is None:
        return None
    if dr is None or freq_hz is None:
        raise ValueError("a receive window needs both its data rate and its frequency")
    return dr, freq_hz


def router_asked_for(message: str | bytes) -> Eui | None:
    """The station that asks; None if the question cannot be read."""
    if isinstance(message, bytes):
        return None
    request = parse_up(message)
    return request.router if isinstance(request, RouterInfoRequest) else None


def refusal_text(router: Eui | None, error: str) -> str:
    """The answer that names no server."""
    fields = {"error": error} if router is None else {"router": eui_id6(router), "error": error}
    return msgspec.json.encode(fields).decode()
