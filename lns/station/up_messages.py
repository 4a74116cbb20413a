"""What does a text message from a station say?

There is a value for every text: what a station may get wrong is a `Malformed`, never an exception.
Integers are exact (xtime and diid need 64 bits); EUIs may have any spelling; DevAddr and MIC may be
signed or unsigned; unknown fields are ignored. Source: Basics Station, LNS protocol (lora.c).
"""

import struct
from binascii import unhexlify
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from lns.lorawan.identifiers import DevAddr, Eui, Mic, dev_addr, mic_from_signed
from lns.station.json_fields import (
    U8,
    U16,
    Dr,
    FreqHz,
    Int64,
    Malformed,
    Word32,
    Xtime,
    either,
    json_object,
    read_eui,
)

NO_PORT = -1
_HEAD = struct.Struct("<BIBH")
_MIC = struct.Struct("<I")
_JOIN = struct.Struct("<BQQHI")
_F_OPTS_LEN = 0x0F
_UNCONFIRMED_UP, _CONFIRMED_UP, _JOIN_REQUEST = 0x40, 0x80, 0x00
_PHY_BYTES_MAX = 255


class UpInfo(Struct, frozen=True):
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


class _UpdfText(Struct, frozen=True, kw_only=True):
    """A data uplink as it is spelled; without its `msgtype` the same fields are none."""

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


class Updf(Struct, frozen=True, kw_only=True):
    """A data uplink, taken apart by the station. `f_port` -1 = no FPort."""

    m_hdr: int
    dev_addr_word: int
    f_ctrl: int
    f_cnt: int
    f_opts: bytes
    f_port: int
    frm_payload: bytes
    mic_word: int
    dr: int
    freq_hz: int
    ref_time: float
    upinfo: UpInfo

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
        port = b"" if self.f_port == NO_PORT else bytes([self.f_port])
        head = _HEAD.pack(self.m_hdr, self.dev_addr_word & 0xFFFFFFFF, self.f_ctrl, self.f_cnt)
        mic = _MIC.pack(self.mic_word & 0xFFFFFFFF)
        return head + self.f_opts + port + self.frm_payload + mic


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


_read_updf = msgspec.json.Decoder(_UpdfText).decode

UpMessage = (
    Version | Updf | Jreq | Propdf | Dntxed | Timesync | XtimeReport | RouterInfoRequest
    | Ignored | Malformed
)  # fmt: skip


def parse_up(text: str) -> UpMessage:
    """The message of a station; never raises."""
    try:
        # Nearly every message is a good `updf`: read at once it costs half.
        return _updf(_read_updf(text))
    except (ValueError, RecursionError):
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
        reader = _READERS.get(msgtype)
        return Ignored(msgtype) if reader is None else reader(fields)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        return Malformed(f"{msgtype}: {error}", msgtype)


def _updf(text: _UpdfText) -> Updf:
    f_opts, payload = unhexlify(text.f_opts), unhexlify(text.frm_payload)
    if text.m_hdr not in (_UNCONFIRMED_UP, _CONFIRMED_UP):
        raise ValueError(f"MHdr {text.m_hdr} is no data uplink")
    if len(f_opts) != text.f_ctrl & _F_OPTS_LEN:
        raise ValueError(f"FCtrl {text.f_ctrl} does not fit {len(f_opts)} bytes of FOpts")
    if text.f_port == NO_PORT and payload:
        raise ValueError("FRMPayload without FPort")
    if text.f_port == 0 and f_opts:  # LoRaWAN 1.0.3, 4.3.1.6: whoever gets it ignores the frame
        raise ValueError("MAC commands in FOpts and on FPort 0")
    if len(payload) + len(f_opts) + 13 > _PHY_BYTES_MAX:
        raise ValueError("longer than a frame can be")
    return Updf(
        m_hdr=text.m_hdr,
        dev_addr_word=text.dev_addr_word,
        f_ctrl=text.f_ctrl,
        f_cnt=text.f_cnt,
        f_opts=f_opts,
        f_port=text.f_port,
        frm_payload=payload,
        mic_word=text.mic_word,
        dr=text.dr,
        freq_hz=text.freq_hz,
        ref_time=text.ref_time,
        upinfo=text.upinfo,
    )


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


_READERS: dict[str, Callable[[dict[str, Any]], UpMessage]] = {
    "updf": lambda fields: _updf(msgspec.convert(fields, _UpdfText)),
    "jreq": _jreq,
    "propdf": _propdf,
    "dntxed": _dntxed,
    "version": lambda fields: msgspec.convert(fields, Version),
    "timesync": lambda fields: msgspec.convert(fields, Timesync),
    "getxtime": lambda fields: msgspec.convert(fields, XtimeReport),
}
