"""What can be known of a device on the air by whoever has its keys: sessions, counters, nonces?

No board can be asked for its counters, or not reliably; but every frame it sends passes the taps.
"""

from dataclasses import dataclass

from bench.device.activation import Otaa
from bench.device.session import DeviceSession
from lns.lorawan.crypto import SessionKeys, derive_session_keys
from lns.lorawan.frame import Data, JoinRequest, MalformedFrame, open_join_accept, parse
from lns.lorawan.frame_counter import candidates
from lns.lorawan.identifiers import DevAddr, Eui
from lns.station.messages import Dnmsg, Jreq, Updf, parse_down, parse_up

_REQUESTS_MAX = 100
_RECEIVE_DELAY_US = 1_000_000
_RX2_DR = 0


@dataclass(frozen=True, slots=True)
class Known:
    """A frame of this device: which session (data) or DevNonce (join), and its 32-bit counter."""

    phy: bytes
    frame: Data | JoinRequest
    frame_id: str
    session: DeviceSession | None = None
    f_cnt: int = 0

    @property
    def payload(self) -> bytes | None:
        """The application payload in clear; None of a join request."""
        if self.session is None or not isinstance(self.frame, Data):
            return None
        return self.frame.payload(self.session.keys, self.f_cnt)


class DeviceBook:
    """One identity of one board.

    Remembers every session it may have had (the newest last), their counters as seen on the air,
    its last DevNonce, the newest JoinNonce it may know, and the join requests that may still be
    answered. `first_f_cnt`: with what it begins to count in a session.
    """

    def __init__(self, dev_eui: Eui, otaa: Otaa | None = None) -> None:
        self.dev_eui = dev_eui
        self.otaa = otaa
        self.sessions: list[DeviceSession] = []
        self.dev_nonce = 0
        self.join_nonce = 0
        self.first_f_cnt = 0
        self._requests: dict[int, int] = {}  # xtime -> DevNonce

    @property
    def session(self) -> DeviceSession | None:
        """The newest session."""
        return self.sessions[-1] if self.sessions else None

    def begin(
        self, dev_addr: DevAddr, keys: SessionKeys, *, f_cnt_up: int, f_cnt_down: int | None = None
    ) -> DeviceSession:
        """A session that is written into the device; `f_cnt_up` is what it will send next.

        With the keys of the last one it is the same session, which counts anew.
        """
        last = self.session
        number = 0 if last is None else last.number + (keys != last.keys)
        self.sessions.append(
            DeviceSession(
                number=number,
                dev_addr=dev_addr,
                keys=keys,
                f_cnt_up=f_cnt_up,
                f_cnt_down=f_cnt_down,
                receive_delay_us=_RECEIVE_DELAY_US,
                rx2_dr=_RX2_DR,
            )
        )
        return self.sessions[-1]

    def recognise(self, text: str) -> Known | None:
        """The frame of this device in a station's text; None if it is another's, or forged."""
        message = parse_up(text)
        match message:
            case Jreq() if message.dev_eui == self.dev_eui:
                frame = parse(message.phy())
                assert isinstance(frame, JoinRequest)
                return Known(message.phy(), frame, message.frame_id)
            case Updf():
                return self._data(message)
        return None

    def _data(self, message: Updf) -> Known | None:
        if all(session.dev_addr != message.dev_addr for session in self.sessions):
            return None
        try:
            frame = parse(message.phy())
        except MalformedFrame:
            return None
        if not isinstance(frame, Data) or not frame.is_uplink:
            return None
        for session in reversed(self.sessions):
            if session.dev_addr != frame.dev_addr:
                continue
            for f_cnt in candidates(session.f_cnt_up, frame.f_cnt):
                if frame.mic_is_valid(session.keys.nwk_s_key, f_cnt):
                    return Known(message.phy(), frame, message.frame_id, session, f_cnt)
        return None

    def sent(self, known: Known) -> None:
        """Take note that the device has sent this frame."""
        if known.session is not None:
            known.session.f_cnt_up = known.f_cnt + 1
        elif isinstance(known.frame, JoinRequest):
            self.dev_nonce = known.frame.dev_nonce

    def asked_to_join(self, text: str) -> None:
        """Remember what a join accept to this request will be derived from."""
        message = parse_up(text)
        if isinstance(message, Jreq) and message.dev_eui == self.dev_eui:
            self._requests[message.upinfo.xtime] = message.dev_nonce
            while len(self._requests) > _REQUESTS_MAX:
                del self._requests[next(iter(self._requests))]

    def hear_down(self, text: str) -> None:
        """Take a downlink on its way: a new session, or a counter that may be used up."""
        message = parse_down(text)
        if not isinstance(message, Dnmsg):
            return
        if message.xtime in self._requests and self._accepts(message):
            return
        self._count_down(message.pdu)

    def _accepts(self, message: Dnmsg) -> bool:
        assert message.xtime is not None
        if self.otaa is None:
            return False
        try:
            accept = open_join_accept(self.otaa.app_key, message.pdu)
        except MalformedFrame:
            return False
        self.join_nonce = max(self.join_nonce, accept.join_nonce)
        keys = derive_session_keys(
            self.otaa.app_key,
            join_nonce=accept.join_nonce,
            net_id=accept.net_id,
            dev_nonce=self._requests[message.xtime],
        )
        if all(keys != session.keys for session in self.sessions):
            self.begin(accept.dev_addr, keys, f_cnt_up=self.first_f_cnt)
        return True

    def _count_down(self, pdu: bytes) -> None:
        try:
            frame = parse(pdu)
        except MalformedFrame:
            return
        if not isinstance(frame, Data) or frame.is_uplink:
            return
        for session in reversed(self.sessions):
            if session.dev_addr != frame.dev_addr:
                continue
            for f_cnt in candidates(session.f_cnt_down, frame.f_cnt):
                if frame.mic_is_valid(session.keys.nwk_s_key, f_cnt):
                    session.f_cnt_down = max(f_cnt, session.f_cnt_down or 0)
                    return
