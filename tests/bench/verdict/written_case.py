"""One case written by hand: a confirmed frame under Drop, heard by two stations, all well."""

from typing import Any

Event = dict[str, Any]

WEST, EAST = "B827EBFFFE000001", "B827EBFFFE000002"
ALPHA = "70B3D57ED0000001"
FRAME = "49BE7DF1:2:2B11FF0D"
NEXT_FRAME = "49BE7DF1:3:2B11FF0D"
JOIN = "AA13693363343639:3331383274356905:35076"

_UPDF = (
    '{"msgtype":"updf","MHdr":128,"DevAddr":1237220849,"FCtrl":0,"FCnt":%d,"FOpts":"","FPort":1,'
    '"FRMPayload":"95437876","MIC":234819883,"RefTime":1795191219.883825,"DR":5,"Freq":868100000,'
    '"upinfo":{"rctx":0,"xtime":%d,"gpstime":0,"fts":-1,"rssi":-51,"snr":9.5}}'
)
_JREQ = (
    '{"msgtype":"jreq","MHdr":0,"JoinEui":"AA-13-69-33-63-34-36-39","DevEui":'
    '"33-31-38-32-74-35-69-05","DevNonce":35076,"MIC":68377542,"RefTime":1795191228.294736,"DR":5,'
    '"Freq":868100000,"upinfo":{"rctx":0,"xtime":%d,"gpstime":0,"fts":-1,"rssi":-60,"snr":7}}'
)
_DNMSG = (
    '{"msgtype":"dnmsg","DevEui":"70-B3-D5-7E-D0-00-00-01","dC":0,"diid":%d,'
    '"pdu":"6001000000A001000312345678","RxDelay":1,"priority":0,"xtime":%d,"rctx":0,'
    '"MuxTime":1795191219.8,"RX1DR":5,"RX1Freq":868100000,"RX2DR":0,"RX2Freq":869525000}'
)


def in_order(*events: Event) -> list[Event]:
    """The events as they stand in a capture: 10 µs apart, `seq` counted per source."""
    seqs: dict[str, int] = {}
    written = []
    for place, event in enumerate(events):
        seq = seqs.get(event["source"], -1) + 1
        seqs[event["source"]] = seq
        written.append({"schema": 1, "run_id": "r", "seq": seq, "t_us": 10 * place, **event})
    return written


def begin(case: str = "c") -> Event:
    return {"source": "bench", "kind": "case.begin", "case": case, "rig": "simulated"}


def end(case: str = "c", verdict: str = "PASS", *reasons: str) -> Event:
    return {
        "source": "bench", "kind": "case.end", "case": case, "verdict": verdict,
        "reasons": list(reasons),
    }  # fmt: skip


def station(eui: str, name: str) -> Event:
    return {"source": "bench", "kind": "case.station", "case": "c", "eui": eui, "name": name}


def restart() -> Event:
    return {"source": "bench", "kind": "case.lns", "case": "c", "lns": "a", "event": "restart"}


def transmit(frame_id: str = FRAME, *, genuine: bool = True) -> Event:
    return {
        "source": "air", "kind": "radio.transmit", "direction": "up", "frame_id": frame_id,
        "genuine": genuine,
    }  # fmt: skip


def text(eui: str, said: str, direction: str = "up", *, dropped: bool = False) -> Event:
    fields: Event = {
        "source": f"tap-{eui}", "kind": "station.text", "station": eui, "direction": direction,
        "text": said,
    }  # fmt: skip
    return fields | {"dropped": True} if dropped else fields


def heard(eui: str, xtime: int, f_cnt: int = 2, *, dropped: bool = False) -> Event:
    return text(eui, _UPDF % (f_cnt, xtime), dropped=dropped)


def heard_join(eui: str, xtime: int) -> Event:
    return text(eui, _JREQ % xtime)


def dnmsg(eui: str, xtime: int, *, dropped: bool = False) -> Event:
    return text(eui, _DNMSG % (xtime, xtime), "down", dropped=dropped)


def outcome(eui: str, xtime: int | None, words: str, frame_id: str | None = FRAME) -> Event:
    """`words`: status, upstream, reason, answer; "-" is left out."""
    status, upstream, reason, answer = words.split()
    fields = {
        "source": "lns-a", "kind": "lns.outcome", "station": eui, "lns": "lns-a",
        "frame_id": frame_id, "dev_eui": ALPHA if frame_id else None,
        "f_cnt": {FRAME: 2, NEXT_FRAME: 3}.get(frame_id or ""),
        "status": status, "upstream": upstream, "reason": reason, "answer": answer, "xtime": xtime,
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value not in (None, "-")}


def scheduled(eui: str, xtime: int, f_cnt_down: int = 0, frame_id: str = FRAME) -> Event:
    return {
        "source": "lns-a", "kind": "lns.downlink", "stage": "scheduled", "station": eui,
        "dev_eui": ALPHA, "dev_addr": "49BE7DF1", "xtime": xtime, "f_cnt_down": f_cnt_down,
        "diid": xtime, "window": "RX1", "frame_id": frame_id,
    }  # fmt: skip


def at_once(eui: str, diid: int) -> Event:
    """What a server says of a downlink that answers no uplink."""
    return {
        "source": "lns-a", "kind": "lns.downlink", "stage": "scheduled", "station": eui,
        "dev_eui": ALPHA, "dev_addr": "49BE7DF1", "diid": diid, "window": "RX2",
    }  # fmt: skip


def dnmsg_at_once(eui: str, diid: int) -> Event:
    said = (
        '{"msgtype":"dnmsg","DevEui":"70-B3-D5-7E-D0-00-00-01","dC":2,"diid":%d,'
        '"pdu":"6001000000A001000312345678","priority":0,"RX2DR":0,"RX2Freq":869525000}'
    )
    return text(eui, said % diid, "down")


def link_lost(eui: str) -> Event:
    fields = {"source": f"tap-{eui}", "kind": "station.link", "station": eui, "event": "closed"}
    return fields


def published(eui: str, message_id: str = "m-2", f_cnt: int = 2, **more: object) -> Event:
    body = {"messageId": message_id, "devEui": ALPHA, "station": eui, "fCnt": f_cnt, **more}
    return {"source": "upstream", "kind": "upstream.published", "topic": "t", "body": body}


def said(line: str) -> Event:
    return {"source": "device-a", "kind": "device.line", "dev_eui": ALPHA, "text": line}


def due(eui: str, n: int, words: str, frame_id: str = FRAME) -> Event:
    status, upstream, reason, answer = words.split()
    return {
        "source": "bench", "kind": "case.expect", "case": "c", "expect": "outcome",
        "frame_id": frame_id, "n": n, "station": eui, "status": status, "upstream": upstream,
        "reason": reason, "answer": answer,
    }  # fmt: skip


def due_line(line: str) -> Event:
    return {
        "source": "bench", "kind": "case.expect", "case": "c", "expect": "device",
        "dev_eui": ALPHA, "line": line,
    }  # fmt: skip


FIRST = "NonDuplicate forwarded - RX1"
COPY = "Duplicate dropped Duplicate Suppressed"
ACKED = "+EVT:SEND_CONFIRMED_OK"

GOOD: dict[str, Event] = {
    "begin": begin(),
    "west": station(WEST, "west"),
    "east": station(EAST, "east"),
    "transmit": transmit(),
    "heard west": heard(WEST, 11),
    "published": published(WEST),
    "scheduled": scheduled(WEST, 11),
    "told west": outcome(WEST, 11, FIRST),
    "dnmsg": dnmsg(WEST, 11),
    "heard east": heard(EAST, 22),
    "told east": outcome(EAST, 22, COPY),
    "said": said(ACKED),
    "due west": due(WEST, 0, FIRST),
    "due east": due(EAST, 1, COPY),
    "due line": due_line(ACKED),
    "end": end(),
}


def good(*more: Event, without: tuple[str, ...] = (), **instead: Event) -> list[Event]:
    """The good case, some events left out or replaced (`heard_west=…`), some added at its end."""
    replaced = {name.replace("_", " "): event for name, event in instead.items()}
    assert replaced.keys() <= GOOD.keys() >= set(without)
    events = [event for name, event in (GOOD | replaced).items() if name not in without]
    return in_order(*events[:-1], *more, events[-1])
