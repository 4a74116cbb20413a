"""What does a network server say to a device, as it leaves for the station?

Read from the `dnmsg` at the tap byte by byte, not with the codec of the server that wrote it:

    | MHDR 1 | DevAddr 4 | FCtrl 1 | FCnt 2 | FOpts 0..15 | FPort 0/1 | FRMPayload 0.. | MIC 4 |
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.capture.reading import Event

Said = dict[str, int | bool | None]

_OF_THE_MESSAGE = {
    "rctx": "rctx",
    "rx_delay_s": "RxDelay",
    "rx1_dr": "RX1DR",
    "rx1_freq_hz": "RX1Freq",
    "rx2_dr": "RX2DR",
    "rx2_freq_hz": "RX2Freq",
}
_OF_THE_FRAME = ("f_cnt", "ack", "f_pending", "f_port", "confirmed")
ANSWER_FIELDS = (*_OF_THE_FRAME, *_OF_THE_MESSAGE)

_UNCONFIRMED_DOWN, _CONFIRMED_DOWN = 3, 5
_ACK, _F_PENDING, _F_OPTS_LEN = 0x20, 0x10, 0x0F


def answer_of(dnmsg: dict[str, Any]) -> Said:
    """What a `dnmsg` says, by the names of `ANSWER_FIELDS`; of a join accept only the windows."""
    said: Said = {name: dnmsg.get(key) for name, key in _OF_THE_MESSAGE.items()}
    try:
        pdu = bytes.fromhex(dnmsg.get("pdu", ""))
    except (TypeError, ValueError):
        return said
    if len(pdu) < 12 or pdu[0] >> 5 not in (_UNCONFIRMED_DOWN, _CONFIRMED_DOWN):
        return said
    port_at = 8 + (pdu[5] & _F_OPTS_LEN)
    return said | {
        "f_cnt": int.from_bytes(pdu[6:8], "little"),
        "ack": bool(pdu[5] & _ACK),
        "f_pending": bool(pdu[5] & _F_PENDING),
        "f_port": pdu[port_at] if len(pdu) > port_at + 4 else None,
        "confirmed": pdu[0] >> 5 == _CONFIRMED_DOWN,
    }


@dataclass(slots=True)
class Answers:
    """What was due in answer to the frames of one case, and what was said, in order.

    `uplinks`: which frame a station told of at which `xtime`.
    """

    due: list[tuple[str, int, Said]] = field(default_factory=list)
    said: list[tuple[str, int, Said]] = field(default_factory=list)
    uplinks: dict[tuple[str, int | None], str] = field(default_factory=dict)

    def expect(self, event: Event) -> None:
        """Read a `case.expect` of an answer."""
        self.due.append((event["frame_id"], event["n"], event["body"]))

    def read(self, station: str, dnmsg: dict[str, Any]) -> None:
        """Read a downlink on its way to a station."""
        if isinstance(dnmsg.get("xtime"), int):
            self.said.append((station, dnmsg["xtime"], answer_of(dnmsg)))

    def wrong(self) -> list[str]:
        """What is due and was not said."""
        answers: defaultdict[str, list[Said]] = defaultdict(list)
        for station, xtime, said in self.said:
            frame_id = self.uplinks.get((station, xtime))
            if frame_id is not None:
                answers[frame_id].append(said)
        return [
            f"answer {n} to {frame_id}: {told}"
            for frame_id, n, due in self.due
            for told in _differences(due, answers[frame_id][n : n + 1])
        ]


def _differences(due: Said, answer: Sequence[Said]) -> list[str]:
    if not answer:
        return ["none was sent"]
    [said] = answer
    return [
        f"expected {name} {_word(value)}, observed {_word(said.get(name))}"
        for name, value in due.items()
        if said.get(name) != value
    ]


def _word(value: int | bool | None) -> str:
    """As JSON has it."""
    return "null" if value is None else str(value).lower()
