"""What does a LoRaWAN device know of its session, and which downlinks does it believe?"""

from dataclasses import dataclass, field
from typing import Any

from lns.lorawan.crypto import SessionKeys, derive_session_keys
from lns.lorawan.frame import (
    Data,
    JoinAcceptFields,
    MalformedFrame,
    MType,
    build_data,
    parse,
)
from lns.lorawan.frame_counter import candidates
from lns.lorawan.identifiers import DevAddr
from lns.lorawan.join_accept import cf_list_frequencies_hz
from lns.lorawan.mac_commands import MacCommand, parse_downlink

FIRST_F_CNT = 1
"""LoRaMac counts before it uses the counter."""
F_OPTS_BYTES_MAX = 15


@dataclass(frozen=True, slots=True)
class Downlink:
    """A downlink that the device believed; `payload` in clear."""

    ack: bool
    confirmed: bool
    f_pending: bool
    f_cnt: int
    f_port: int | None
    payload: bytes
    commands: tuple[MacCommand, ...]


@dataclass(slots=True, kw_only=True)
class Session:
    """One session.

    Remembers both counters (`f_cnt_up`: the next to be used, `f_cnt_down`: the last accepted, -1
    for none), what the join-accept told, and what it owes the server.
    """

    dev_addr: DevAddr
    keys: SessionKeys = field(repr=False)
    f_cnt_up: int = FIRST_F_CNT
    f_cnt_down: int = -1
    rx1_dr_offset: int = 0
    net_id: str = "000000"
    join_nonce: int = 0
    more_channels_hz: tuple[int, ...] = ()
    ack_due: bool = False
    answers: bytes = b""

    def uplink(self, payload: bytes, port: int | None, *, confirmed: bool, adr: bool) -> bytes:
        """The frame of the next message; uses up a counter and what is owed to the server."""
        f_cnt, self.f_cnt_up = self.f_cnt_up, self.f_cnt_up + 1
        ack, self.ack_due = self.ack_due, False
        f_opts, self.answers = self.answers[:F_OPTS_BYTES_MAX], b""
        return build_data(
            MType.CONFIRMED_UP if confirmed else MType.UNCONFIRMED_UP,
            dev_addr=self.dev_addr,
            f_cnt=f_cnt,
            keys=self.keys,
            f_port=port,
            payload=payload,
            f_opts=f_opts,
            ack=ack,
            adr=adr,
        )

    def believe(self, phy: bytes) -> Downlink | None:
        """The downlink in these bytes; None for another device's, a forged or a repeated one."""
        try:
            frame = parse(phy)
        except MalformedFrame:
            return None
        if not isinstance(frame, Data) or frame.is_uplink or frame.dev_addr != self.dev_addr:
            return None
        last = None if self.f_cnt_down < 0 else self.f_cnt_down
        for f_cnt in candidates(last, frame.f_cnt):
            if f_cnt > self.f_cnt_down and frame.mic_is_valid(self.keys.nwk_s_key, f_cnt):
                return self._taken(frame, f_cnt)
        return None

    def _taken(self, frame: Data, f_cnt: int) -> Downlink:
        self.f_cnt_down = f_cnt
        self.ack_due = self.ack_due or frame.confirmed
        payload = frame.payload(self.keys, f_cnt)
        is_mac = frame.f_port == 0
        return Downlink(
            ack=frame.ack,
            confirmed=frame.confirmed,
            f_pending=frame.f_pending,
            f_cnt=f_cnt,
            f_port=frame.f_port,
            payload=b"" if is_mac else payload,
            commands=parse_downlink(payload if is_mac else frame.f_opts),
        )

    def counters(self) -> dict[str, Any]:
        """What is written into the flash of a device with a fixed session."""
        return {"up": self.f_cnt_up, "down": self.f_cnt_down}


def joined(app_key: bytes, accept: JoinAcceptFields, dev_nonce: int) -> Session:
    """The session that a join-accept opens."""
    keys = derive_session_keys(
        app_key, join_nonce=accept.join_nonce, net_id=accept.net_id, dev_nonce=dev_nonce
    )
    return Session(
        dev_addr=accept.dev_addr,
        keys=keys,
        rx1_dr_offset=accept.dl_settings.rx1_dr_offset,
        net_id=accept.net_id,
        join_nonce=accept.join_nonce,
        more_channels_hz=cf_list_frequencies_hz(accept.cf_list),
    )
