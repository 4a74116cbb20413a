"""Which messages does the LNS protocol have, what does a text say, and how is each spelled?

There is a value for every text: what a station may get wrong is a `Malformed`, never an exception.
Integers are exact (xtime and diid need 64 bits); EUIs may have any spelling; DevAddr and MIC may be
signed or unsigned; unknown fields of a station are ignored. A question where the server is must be
answered whatever it says, or the station hangs for ever (`/router-info`). Source: Basics Station,
LNS protocol, version 2 (lora.c, s2e.c, uj.c).

Key order and types of what a server says are those that were recorded with Basics Station 2.0.6;
the JSON is compact. What a station has to be told before its radio runs: explicit channels, never
together with `upchannels`; data rates and frequency range always, or the station drops every uplink
or downlink without a word. Source: Basics Station, `router_config`.
"""

import struct
from binascii import unhexlify
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from lns.lorawan.identifiers import Eui, eui, eui_dashed, eui_id6
from lns.lorawan.region import DataRate, FskDataRate, Region, StationRadio

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


class Heard(Struct, frozen=True, kw_only=True, gc=False):
    """What a station tells of every frame that it has heard: where, how strong and when."""

    dr: Dr = field(name="DR")
    freq_hz: FreqHz = field(name="Freq")
    ref_time: float = field(default=0.0, name="RefTime")
    upinfo: UpInfo = UpInfo()


class Updf(Heard, frozen=True, kw_only=True, gc=False):
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

    def phy(self) -> bytes:
        """The PHYPayload as it was on the air."""
        port = "" if self.f_port == NO_PORT else f"{self.f_port:02X}"
        head = _HEAD.pack(self.m_hdr, self.dev_addr_word & 0xFFFFFFFF, self.f_ctrl, self.f_cnt)
        rest = unhexlify(self.f_opts + port + self.frm_payload)
        return b"%b%b%b" % (head, rest, _MIC.pack(self.mic_word & 0xFFFFFFFF))


class Jreq(Heard, frozen=True, kw_only=True):
    """A join-request, taken apart by the station."""

    m_hdr: U8 = field(name="MHdr")
    join_eui: Eui = field(name="JoinEui")
    dev_eui: Eui = field(name="DevEui")
    dev_nonce: U16 = field(name="DevNonce")
    mic_word: Word32 = field(name="MIC")

    def phy(self) -> bytes:
        """The PHYPayload as it was on the air."""
        euis = int(self.join_eui, 16), int(self.dev_eui, 16)
        return _JOIN.pack(self.m_hdr, *euis, self.dev_nonce, self.mic_word & 0xFFFFFFFF)


class Propdf(Heard, frozen=True, kw_only=True):
    """A proprietary frame; `phy_payload` includes its MHDR."""

    phy_payload: bytes = field(name="FRMPayload")

    def phy(self) -> bytes:
        """The PHYPayload as it was on the air."""
        return self.phy_payload


class Version(Struct, frozen=True):
    """The first message of a station; what else it says of itself makes no difference."""

    station: str


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


_encode = msgspec.json.Encoder().encode


def router_info_text(router: Eui) -> str:
    """A station's question on `/router-info`."""
    return _text({"router": eui_id6(router)})


def router_info_answer_text(router: Eui, uri: str) -> str:
    """The answer on `/router-info`; `uri` has a port and a path, 127 characters at most."""
    return _text({"router": eui_id6(router), "muxs": "muxs-::0", "uri": uri})


def dnmsg_text(dnmsg: Dnmsg) -> str:
    """A downlink for a station; numbers are integers throughout (but MuxTime)."""
    fields: dict[str, Any] = {
        "msgtype": "dnmsg",
        "DevEui": eui_dashed(dnmsg.dev_eui),
        "dC": dnmsg.device_class,
        "diid": dnmsg.diid,
        "pdu": dnmsg.pdu.hex(),
        "RxDelay": dnmsg.rx_delay_s,
        "priority": dnmsg.priority,
    }
    if dnmsg.xtime:
        fields |= {"xtime": dnmsg.xtime, "rctx": dnmsg.rctx}
    if dnmsg.mux_time is not None:
        fields["MuxTime"] = dnmsg.mux_time
    if dnmsg.rx1 is not None:
        fields["RX1DR"], fields["RX1Freq"] = dnmsg.rx1
    if dnmsg.rx2 is not None:
        fields["RX2DR"], fields["RX2Freq"] = dnmsg.rx2
    return _text(fields)


def getxtime_text(mux_time: float | None = None) -> str:
    """A server asks a station for its clocks."""
    return _text({"msgtype": "getxtime"} | _mux_time(mux_time))


def timesync_answer_text(txtime: int, *, gpstime: int, mux_time: float) -> str:
    """A server tells a station the GPS time (µs since 1980-01-06)."""
    fields = {"msgtype": "timesync", "txtime": txtime, "gpstime": gpstime}
    return _text(fields | _mux_time(mux_time))


def router_config_text(region: Region, mux_time: float | None) -> str:
    """The `router_config` of a region as one message."""
    text = _router_config_text(region)
    return text if mux_time is None else f'{text[:-1]},"MuxTime":{_encode(mux_time).decode()}}}'


@cache  # there are a few regions, and none ever changes
def _router_config_text(region: Region) -> str:
    return _text(router_config(region))


def _mux_time(mux_time: float | None) -> dict[str, Any]:
    return {} if mux_time is None else {"MuxTime": mux_time}


def _text(fields: dict[str, Any]) -> str:
    return _encode(fields).decode()


_DRS = 16
_UNDEFINED = (-1, 0, 0)
_FSK = (0, 0, 0)


def router_config(region: Region, *, mux_time: float | None = None) -> dict[str, Any]:
    """The `router_config` message for a region, as a JSON object.

    `mux_time`: seconds UTC as on the wire, None to leave it out.
    """
    config: dict[str, Any] = {
        "msgtype": "router_config",
        "region": region.name,
        "hwspec": "sx1301/1",
        "NetID": None,
        "JoinEui": None,
        "freq_range": list(region.freq_range_hz),
        "DRs": [list(row) for row in _data_rates(region)],
        "sx1301_conf": [_radio(region.station_radio)],
    }
    if mux_time is not None:
        config["MuxTime"] = mux_time
    return config


def _data_rates(region: Region) -> list[tuple[int, int, int]]:
    rows = [
        _row(data_rate, only_down=dr in region.downlink_only_drs)
        for dr, data_rate in enumerate(region.data_rates)
    ]
    return rows + [_UNDEFINED] * (_DRS - len(rows))


def _row(data_rate: DataRate | FskDataRate | None, *, only_down: bool) -> tuple[int, int, int]:
    if data_rate is None:
        return _UNDEFINED
    if isinstance(data_rate, FskDataRate):
        return _FSK
    return data_rate.sf, data_rate.bw_hz // 1000, int(only_down)


def _radio(radio: StationRadio) -> dict[str, Any]:
    number, offset_hz, data_rate = radio.standard
    return {
        "radio_0": {"enable": True, "freq": radio.centres_hz[0]},
        "radio_1": {"enable": True, "freq": radio.centres_hz[1]},
        "chan_FSK": {"enable": False} if radio.fsk is None else _modem(*radio.fsk),
        "chan_Lora_std": {
            **_modem(number, offset_hz),
            "bandwidth": data_rate.bw_hz,
            "spread_factor": data_rate.sf,
        },
        **{f"chan_multiSF_{n}": _modem(*modem) for n, modem in enumerate(radio.multi_sf)},
    }


def _modem(radio: int, offset_hz: int) -> dict[str, Any]:
    return {"enable": True, "radio": radio, "if": offset_hz}
