"""Frames for captures written by hand: their bytes, and the text in which a station tells them."""

import hashlib
import json
from dataclasses import dataclass


@dataclass(frozen=True)
class DataFrame:
    """A data uplink with an invented MIC, which nothing in the score computes."""

    dev_addr: str
    f_cnt: int
    confirmed: bool = False
    payload: str = "C0FFEE"
    f_port: int = 2
    f_ctrl: int = 0
    f_opts: str = ""

    @property
    def mic(self) -> str:
        return hashlib.blake2b(repr(self).encode(), digest_size=4).hexdigest().upper()

    @property
    def frame_id(self) -> str:
        return f"{self.dev_addr}:{self.f_cnt & 0xFFFF}:{self.mic}"

    @property
    def phy(self) -> str:
        m_hdr = "80" if self.confirmed else "40"
        f_cnt = (self.f_cnt & 0xFFFF).to_bytes(2, "little").hex().upper()
        head = m_hdr + _swapped(self.dev_addr) + f"{self.f_ctrl:02X}" + f_cnt + self.f_opts
        return head + f"{self.f_port:02X}" + self.payload + self.mic

    def text(self, xtime: int, **changed: object) -> str:
        fields = {
            "msgtype": "updf",
            "MHdr": 0x80 if self.confirmed else 0x40,
            "DevAddr": _signed(_swapped(self.dev_addr)),
            "FCtrl": self.f_ctrl,
            "FCnt": self.f_cnt & 0xFFFF,
            "FOpts": self.f_opts,
            "FPort": self.f_port,
            "FRMPayload": self.payload,
            "MIC": _signed(self.mic),
        }
        return json.dumps({**fields, **_radio(xtime), **changed}, separators=(",", ":"))


@dataclass(frozen=True)
class JoinRequest:
    """A join request with an invented MIC."""

    join_eui: str
    dev_eui: str
    dev_nonce: int

    @property
    def mic(self) -> str:
        return hashlib.blake2b(repr(self).encode(), digest_size=4).hexdigest().upper()

    @property
    def frame_id(self) -> str:
        return f"{self.join_eui}:{self.dev_eui}:{self.dev_nonce}"

    @property
    def phy(self) -> str:
        nonce = self.dev_nonce.to_bytes(2, "little").hex().upper()
        return "00" + _swapped(self.join_eui) + _swapped(self.dev_eui) + nonce + self.mic

    def text(self, xtime: int, **changed: object) -> str:
        fields = {
            "msgtype": "jreq",
            "MHdr": 0,
            "JoinEui": _dashed(self.join_eui),
            "DevEui": _dashed(self.dev_eui),
            "DevNonce": self.dev_nonce,
            "MIC": _signed(self.mic),
        }
        return json.dumps({**fields, **_radio(xtime), **changed}, separators=(",", ":"))


Frame = DataFrame | JoinRequest


def _radio(xtime: int) -> dict[str, object]:
    upinfo = {"rctx": 0, "xtime": xtime, "gpstime": 0, "fts": -1, "rssi": -51, "snr": 9.5}
    return {"RefTime": 1.5, "DR": 5, "Freq": 868100000, "upinfo": upinfo}


def _swapped(hexadecimal: str) -> str:
    return bytes.fromhex(hexadecimal)[::-1].hex().upper()


def _signed(wire: str) -> int:
    return int.from_bytes(bytes.fromhex(wire), "little", signed=True)


def _dashed(eui: str) -> str:
    return "-".join(eui[i : i + 2] for i in range(0, 16, 2))
