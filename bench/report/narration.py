"""What does one capture line say, in words, and what is everybody called who takes part?"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

from bench.capture import reading
from bench.capture.reading import Event, contents
from bench.report.excerpts import Excerpt, shown, visible
from lns.lorawan.frame import Data, JoinAccept, MalformedFrame, parse
from lns.lorawan.identifiers import dev_addr

# Basics Station, LNS protocol. Anything may stand in such a text: a message that cannot be read is
# quoted, never trusted.
QUOTE_MAX = 160  # characters of a text that cannot be read


def text_in_words(text: object) -> str:
    """The message in a short sentence without keys; quoted if it is no known message."""
    message = _message(text)
    tell = _MESSAGES.get(str(message.get("msgtype"))) if message is not None else None
    if message is None or tell is None:
        return f"“{shown(str(text), QUOTE_MAX)}”"
    try:
        return shown(tell(message))
    except (KeyError, TypeError, ValueError):
        return f"{message['msgtype']} with unreadable fields: “{shown(str(text), QUOTE_MAX)}”"


def msgtype(text: object) -> str:
    message = _message(text)
    return "unreadable" if message is None else shown(str(message.get("msgtype")), 20)


def label(text: object) -> str:
    """The message in two or three words, for an arrow of the ladder."""
    message = _message(text) or {}
    word, f_cnt = msgtype(text), message.get("FCnt")
    if word == "updf" and type(f_cnt) is int:
        return f"updf FCnt {f_cnt}"
    if word == "jreq":
        return shown(f"jreq DevNonce {message.get('DevNonce')}", 40)
    if word == "dnmsg":
        windows = [window for window in ("RX1", "RX2") if f"{window}Freq" in message]
        return " ".join([word, "/".join(windows)]).strip()
    return word


def _message(text: object) -> dict[str, Any] | None:
    return reading.event(text) if isinstance(text, str) else None


def _updf(message: dict[str, Any]) -> str:
    port = message["FPort"]
    return (
        f"updf {dev_addr(_whole(message['DevAddr']))} FCnt {message['FCnt']}, "
        f"{'confirmed' if _whole(message['MHdr']) >> 5 == 4 else 'unconfirmed'}, "
        f"{'no FPort' if port == -1 else f'FPort {port}'}, payload {message['FRMPayload'] or '–'}, "
        f"{_radio(message)}"
    )


def _jreq(message: dict[str, Any]) -> str:
    return (
        f"jreq of {message['DevEui']} for {message['JoinEui']}, DevNonce {message['DevNonce']}, "
        f"{_radio(message)}"
    )


def _dnmsg(message: dict[str, Any]) -> str:
    where = ", ".join(
        f"{window} DR{message[f'{window}DR']} {megahertz(message[f'{window}Freq'])}"
        for window in ("RX1", "RX2")
        if f"{window}Freq" in message
    )
    return f"dnmsg {message['diid']}: {downlink(message['pdu'])}; {where or 'no window'}"


_MESSAGES: dict[str, Callable[[dict[str, Any]], str]] = {
    "updf": _updf,
    "jreq": _jreq,
    "dnmsg": _dnmsg,
    "dntxed": lambda said: f"dntxed {said['diid']}: the station has sent the downlink",
    "version": lambda said: f"version: station {said['station']}, protocol {said['protocol']}",
    "router_config": lambda said: f"router_config: {said['region']}",
    "timesync": lambda said: "timesync",
}


def downlink(phy: object) -> str:
    try:
        frame = parse(bytes.fromhex(str(phy)))
    except (ValueError, MalformedFrame):
        return "unreadable frame"
    match frame:
        case Data():
            kind = "ack" if frame.ack else "data"
            return f"{kind} for {frame.dev_addr}, FCntDown {frame.f_cnt}"
        case JoinAccept():
            return "join accept"
        case _:
            return "not a downlink"


def megahertz(freq_hz: object) -> str:
    """A frequency for reading: 868.1 MHz."""
    hz = _whole(freq_hz)
    decimals = f"{hz % 1_000_000:06d}".rstrip("0") or "0"
    return f"{hz // 1_000_000}.{decimals} MHz"


def _radio(message: dict[str, Any]) -> str:
    info = message["upinfo"]
    return (
        f"DR{message['DR']} {megahertz(message['Freq'])}, RSSI {info['rssi']} dBm, "
        f"SNR {info['snr']} dB, xtime {info['xtime']}"
    )


def _whole(value: object) -> int:
    if type(value) is not int:
        raise TypeError("not a whole number")
    return value


NAME_MAX = 24  # characters


@dataclass(frozen=True, slots=True)
class Cast:
    """The parties of one case: devices and stations by EUI, servers by id, each with its name.

    A station that nobody named is lettered in the order of EUIs: station A, station B, … A device
    that is only provisioned, and neither speaks nor sends, takes no part.
    """

    devices: dict[str, str]
    stations: dict[str, str]
    servers: tuple[str, ...]

    def name(self, eui: object) -> str:
        text = str(eui)
        return self.stations.get(text) or self.devices.get(text) or visible(text, NAME_MAX)


def cast_of(events: Iterable[Event]) -> Cast:
    devices: dict[str, str] = {}
    stations: set[str] = set()
    deaf: set[str] = set()
    servers: dict[str, None] = {}
    names: dict[str, str] = {}
    provisioned: dict[str, str] = {}
    for event in events:
        kind, dev_eui = event.get("kind"), event.get("dev_eui")
        if isinstance(dev_eui, str) and kind == "case.device":
            provisioned[dev_eui] = _device_name(event, dev_eui)
        if isinstance(dev_eui, str) and kind in ("device.line", "device.command"):
            devices.setdefault(dev_eui, _device_name(event, dev_eui))
        if kind == "case.station" and isinstance(event.get("eui"), str):
            names[event["eui"]] = visible(str(event.get("name", "")), NAME_MAX)
        sender = event.get("sender")
        if isinstance(sender, str) and kind == "radio.transmit" and event.get("direction") == "up":
            devices.setdefault(sender, provisioned.get(sender) or visible(sender, NAME_MAX))
        receiver = event.get("receiver")
        if isinstance(receiver, str) and kind == "radio.lost":
            deaf.add(receiver)
        station = event.get("station")
        if isinstance(station, str) and station:
            stations.add(station)
        lns = event.get("lns")
        if isinstance(lns, str) and lns:
            servers.setdefault(lns)
    # Who misses a frame is a device or a station, and devices have introduced themselves.
    stations |= deaf - devices.keys() - provisioned.keys()
    called = {
        eui: names.get(eui) or f"station {_letter(n)}" for n, eui in enumerate(sorted(stations))
    }
    return Cast(devices, called, tuple(servers))


def _device_name(event: Event, dev_eui: str) -> str:
    name = event.get("name")
    source = str(event.get("source", ""))
    if not isinstance(name, str):
        name = source.removeprefix("device-") if source.startswith("device-") else dev_eui
    return visible(name, NAME_MAX)


def _letter(n: int) -> str:
    cycle, place = divmod(n, len(ascii_uppercase))
    return ascii_uppercase[place] + (str(cycle + 1) if cycle else "")


@dataclass(frozen=True, slots=True)
class Line:
    """One capture line on the page: seconds since the case began, who wrote it, what it says."""

    seconds: str
    source: str
    seq: str
    kind: str
    text: str
    injected: bool
    pointed_at: bool  # a finding names this line
    gap: int  # lines left out just before this one


def lines(excerpt: Excerpt, cast: Cast, begin_us: int, pointed_at: frozenset[int]) -> list[Line]:
    """The excerpt, line by line; `pointed_at` are the places in it that findings name."""
    gaps = excerpt.gaps or {}
    return [
        Line(
            seconds=seconds(event["t_us"] - begin_us),
            source=shown(str(event.get("source", "?")), 40),
            seq=shown(str(event.get("seq", "?")), 12),
            kind=shown(str(event.get("kind", "?")), 30),
            text=in_words(event, cast),
            injected=event.get("origin") == "injected",
            pointed_at=place in pointed_at,
            gap=gaps.get(place, 0),
        )
        for place, event in enumerate(excerpt.events)
    ]


def in_words(event: Event, cast: Cast) -> str:
    tell = _SENTENCES.get(str(event.get("kind")))
    return shown(tell(event, cast) if tell is not None else listed(contents(event)))


def seconds(time_us: int) -> str:
    """Microseconds as seconds, exactly: 1.250000."""
    whole, rest = divmod(abs(time_us), 1_000_000)
    return f"{'−' if time_us < 0 else ''}{whole}.{rest:06d}"


def frequency(freq_hz: object) -> str:
    return megahertz(freq_hz) if type(freq_hz) is int else "? MHz"


def milliseconds(time_us: object) -> str:
    """A span in µs as milliseconds for reading: 61.7 ms."""
    return f"{time_us / 1000:.1f} ms" if isinstance(time_us, int) else "? ms"


def disposition(event: Event) -> str:
    """What became of a reception, in the words of the closed list."""
    upstream, reason = str(event.get("upstream") or "?"), event.get("reason")
    refused = upstream == "dropped" and reason not in (None, "-")
    answer = str(event.get("answer") or "?")
    return " · ".join(
        [
            str(event.get("status") or "no status"),
            f"dropped: {reason}" if refused else upstream,
            "no answer asked" if answer == "NotAsked" else answer,
        ]
    )


def _case_expect(event: Event, cast: Cast) -> str:
    tell = _DUE.get(str(event.get("expect")), _due_reception)
    return f"due: {tell(event, cast)}"


def _due_reception(event: Event, cast: Cast) -> str:
    wanted = {**event, "status": None if event.get("status") == "-" else event.get("status")}
    where = _at(event, cast)
    return f"reception {event.get('n')} of {event.get('frame_id')}{where}: {disposition(wanted)}"


def _due_on_air(event: Event, cast: Cast) -> str:
    windows = event.get("windows")
    said = ", ".join(map(str, windows)) if isinstance(windows, list) else ""
    return f"answers to {event.get('frame_id')} on the air: {said or 'none'}"


_DUE: dict[str, Callable[[Event, Cast], str]] = {
    "device": lambda due, cast: f"{cast.name(due.get('dev_eui'))} prints “{due.get('line')}”",
    "upstream": lambda due, cast: (
        f"the application gets FCnt {due.get('f_cnt')} through {cast.name(due.get('station'))} with"
        f" {listed(due.get('body'))}"
    ),
    "answer": lambda due, cast: (
        f"answer {due.get('n')} to {due.get('frame_id')} says {listed(due.get('body'))}"
    ),
    "evicted": lambda due, cast: f"level 1 forgets {due.get('count')} frames before their time",
    "finding": lambda due, cast: (
        f"the report has a finding about {cast.name(due.get('station'))}: {due.get('rule')}"
    ),
    "on_air": _due_on_air,
}


def listed(fields: object) -> str:
    found = fields.items() if isinstance(fields, dict) else ()
    return ", ".join(f"{name} {value}" for name, value in found)


def _at(event: Event, cast: Cast) -> str:
    return f" at {cast.name(event['station'])}" if "station" in event else ""


def _case_end(event: Event, cast: Cast) -> str:
    reasons = event.get("reasons")
    why = "; ".join(str(reason) for reason in reasons) if isinstance(reasons, list) else ""
    return f"the case ends: {event.get('verdict')}" + (f", {why}" if why else "")


def _case_device(event: Event, cast: Cast) -> str:
    last = event.get("f_cnt_up")
    return (
        f"{event.get('name')} ({event.get('dev_eui')}) joins the case: {event.get('activation')}, "
        f"strategy {event.get('strategy')}"
        + (", relaxed counter" if event.get("relaxed_f_cnt") is True else "")
        + (f", known to {event.get('only_at')} only" if event.get("only_at") else "")
        + (f", last FCnt heard {last}" if last is not None else ", nothing heard of it yet")
    )


def _station_binary(event: Event, cast: Cast) -> str:
    station = cast.name(event.get("station"))
    way = f"{station} → LNS" if event.get("direction") == "up" else f"LNS → {station}"
    number, size = event.get("n"), event.get("bytes_count")
    return f"{way}: binary message {number}, {size} bytes: {event.get('begins')}, not carried on"


def _case_lns(event: Event, cast: Cast) -> str:
    retention_us = event.get("retention_us")
    kept = f"{retention_us // 1_000_000} s" if isinstance(retention_us, int) else "?"
    return f"{event.get('lns')}: {event.get('event')}, {event.get('region')}, remembers for {kept}"


def _fault_begin(event: Event, cast: Cast) -> str:
    details = listed(event.get("detail"))
    fault = f"fault on the {event.get('seam')}{_at(event, cast)}: {event.get('fault')}"
    return f"{fault} ({details})" if details else fault


def _radio_transmit(event: Event, cast: Cast) -> str:
    who = cast.name(event.get("sender"))
    frame = (
        downlink(event.get("phy"))
        if event.get("direction") == "down"
        else f"{event.get('frame_id') or 'a frame'}, attempt {event.get('attempt', 1)}"
    )
    false = ", not a frame of a device" if event.get("genuine") is False else ""
    return (
        f"{who} sends {frame}{false}; DR{event.get('dr')} {frequency(event.get('freq_hz'))}, "
        f"{milliseconds(event.get('airtime_us'))} on the air (transmission "
        f"{event.get('transmission')})"
    )


def _station_text(event: Event, cast: Cast) -> str:
    station = cast.name(event.get("station"))
    ways = {"up": f"{station} → LNS", "down": f"LNS → {station}"}
    held = f", held back for {milliseconds(event['held_us'])}" if "held_us" in event else ""
    dropped = ", dropped by the tap" if event.get("dropped") is True else ""
    way = ways.get(str(event.get("direction")), station)
    return f"{way}: {text_in_words(event.get('text'))}{held}{dropped}"


def _lns_downlink(event: Event, cast: Cast) -> str:
    margin = event.get("margin_us")
    early = f", {milliseconds(margin)} before the window" if isinstance(margin, int) else ""
    station = cast.name(event.get("station"))
    return f"answer {event.get('stage')} for {event.get('window')} by {station}{early}"


def _lns_connection(event: Event, cast: Cast) -> str:
    station = cast.name(event["station"]) if "station" in event else "a station"
    cause = f": {event['cause']}" if "cause" in event else ""
    return f"{station} {event.get('stage')} ({event.get('peer')}){cause}"


def _upstream_published(event: Event, cast: Cast) -> str:
    body = event.get("body")
    if not isinstance(body, dict):
        return f"published on {event.get('topic')}"
    marked = ", marked as a duplicate" if body.get("dupMsg") is True else ""
    return (
        f"published on {event.get('topic')}: FCnt {body.get('fCnt')}, payload "
        f"{body.get('payload')}{marked} (message {body.get('messageId')})"
    )


def _case_left_out(event: Event, cast: Cast) -> str:
    missing = event.get("missing")
    named = ", ".join(map(str, missing)) if isinstance(missing, list) else "?"
    return f"left out: this rig lacks {named}"


_SENTENCES: dict[str, Callable[[Event, Cast], str]] = {
    "case.begin": lambda said, _: f"the case begins: {said.get('title') or said.get('case')}",
    "case.expect": _case_expect,
    "case.end": _case_end,
    "case.device": _case_device,
    "case.station": lambda said, _: f"{said.get('name')} is the station {said.get('eui')}",
    "case.lns": _case_lns,
    "case.left_out": _case_left_out,
    "fault.begin": _fault_begin,
    "fault.end": lambda said, _: f"end of the fault on the {said.get('seam')}: {said.get('fault')}",
    "device.command": lambda said, cast: f"to {cast.name(said.get('dev_eui'))}: {said.get('text')}",
    "device.line": lambda said, cast: f"{cast.name(said.get('dev_eui'))}: {said.get('text')}",
    "radio.transmit": _radio_transmit,
    "radio.lost": lambda said, cast: (
        f"{cast.name(said.get('receiver'))} does not hear transmission {said.get('transmission')}:"
        f" {said.get('cause')}"
    ),
    "station.text": _station_text,
    "station.binary": _station_binary,
    "lns.outcome": lambda said, cast: (
        f"{said.get('lns')} decides on {said.get('frame_id') or 'an unreadable frame'} from"
        f" {cast.name(said.get('station'))}: {disposition(said)}"
    ),
    "lns.downlink": _lns_downlink,
    "lns.connection": _lns_connection,
    "upstream.published": _upstream_published,
    "upstream.failed": lambda said, _: f"not published on {said.get('topic')}: {said.get('cause')}",
    "upstream.acknowledged": lambda said, _: f"the broker has the message {said.get('message_id')}",
    "upstream.parked": lambda said, _: (
        f"the message {said.get('message_id')} is parked: it waited for too long"
    ),
    "host.stalled": lambda said, _: (
        f"the host of the bench stalled for {milliseconds(said.get('late_us'))}"
    ),
}
