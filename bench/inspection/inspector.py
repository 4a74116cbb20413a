"""What of all that network servers handed over in a case is not as it has to be?

Reads the events of one case in order, with the keys of its devices, and asks no server anything.
What is wrong before the antenna is the network server's; a right downlink that a station kept to
itself is the gateway's. Only what a device did with a right one can be its own.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from math import inf
from typing import Any

from bench.capture.reading import Event
from bench.inspection import downlink, message, outcome
from bench.inspection.accounts import Accounts, Told
from bench.inspection.downlink import Answered, Network
from bench.inspection.gateway import (
    UNKNOWN_AIR,
    AirFacts,
    Gateways,
    deaf_stations,
)
from bench.inspection.known_device import KnownDevice, Session, Wanted
from bench.inspection.requests import (
    ClassC,
    disturbs_links,
    disturbs_servers,
    disturbs_store,
    said_us_of,
)
from bench.inspection.sender import Senders
from bench.inspection.station import (
    AIM_GAP_US,
    Orders,
    Reports,
    ServerTime,
    StationTime,
    Windows,
    misspelt,
    over_us,
    router_config,
    windows_of,
)
from bench.inspection.store import Kept, StoreInspection, may_lose_counters
from bench.verdict.expectation import LINK, Evidence
from bench.verdict.owner import NO_PROTOCOL, Found, Scrutiny
from bench.verdict.wire import Uplink, eui_of, gps_us, is_plain, json_of, unreadable_type, uplink_of
from bench.virtual.lorawan.air_interface import DataFrame, read_data
from bench.virtual.lorawan.channel_plan import ChannelPlan
from bench.virtual.lorawan.join_frames import JoinRequest, read_join_accept, session_keys

STATUS = "upstream.status"
REQUEST = "application.request"
"""The kind of event that tells what the application wants of a device."""
_QUIET = frozenset({"timesync", "getxtime"})
_CONFIGURED_US = 5_000_000
_OVERTAKING = frozenset({("upstream", "delay"), ("tap", "delay_downlink"), ("store", "delay")})
_UNDER_WAY_US = 5_000_000
"""How long after a disturbance a link may be lost for that reason."""


class Inspector:
    """Remembers what was sent, heard, wanted and agreed on so far in one case.

    `began`: what the clocks of its servers showed when the bench's was 0, where that is known;
    `kept`: what a store has of its devices in the end, `air`: how strongly they sent, `clocks`:
    what those of stations show in the end, and when, `on_duty`: which of them keep a duty cycle;
    where that can be looked at.
    """

    def __init__(
        self,
        plan: ChannelPlan,
        net_id: str,
        devices: Sequence[KnownDevice],
        names: dict[str, str],
        *,
        began: datetime | None = None,
        has_twins: bool = False,
        kept: Sequence[Kept] = (),
        air: AirFacts = UNKNOWN_AIR,
        clocks: Mapping[str, Sequence[tuple[int, int]]] | None = None,
        on_duty: Collection[str] | None = None,
    ) -> None:
        self._kept, self._store = kept, StoreInspection()
        self._has_twins = has_twins
        self._frame_names = message.Names()
        self._numbers, self._decided = message.Numbers(), outcome.Decided()
        self._level1 = outcome.Remembered()
        self._strategies: dict[str, str] = {}
        addresses = {s.dev_addr: device for device in devices for s in device.sessions}
        self._network = Network(plan, net_id, addresses, began)
        self._time = ServerTime(began)
        self._names = names
        self._devices = {device.dev_eui: device for device in devices}
        self._heard: dict[tuple[str, int], list[Uplink]] = {}
        self._messages: dict[tuple[str, str, int], list[Answered]] = {}
        self._reports = Reports()
        self._joins: dict[str, Uplink] = {}
        self._handed_over: dict[str, int] = {}
        self._introduced: dict[str, int] = {}
        self._found: list[Found] = []
        self._class_c = ClassC(self._name)
        self._times_asked: dict[str, dict[int, int]] = {}
        self._undisturbed = self._is_late = False
        self._status_names = message.StatusNames()
        self._told_by: dict[bytes, set[str]] = {}
        self._senders = Senders(self._devices, plan, air)
        began_us = None if began is None else gps_us(began)
        station_time = StationTime(alone=not has_twins, gps_began_us=began_us, shows=clocks or {})
        self._gateways = Gateways(Orders(plan, on_duty), station_time, air)
        self._accounts = Accounts(self._devices, plan.name, self._name, alone=not has_twins)

    def inspect(
        self, events: Sequence[Event], *, is_stuck: bool = False, ended_us: int = 0
    ) -> list[Found]:
        """What is wrong, in order of time; `is_stuck`: a device refused to go on.

        `ended_us`: until when nothing else happened; by default there is no such time.
        """
        end_us = max(ended_us, events[-1]["t_us"] if events else 0)
        undisturbed = not any(map(may_lose_counters, events))
        self._undisturbed = not any(map(disturbs_servers, events))
        self._class_c.begin(events, undisturbed=self._undisturbed)
        self._numbers.put_aside(events)
        for device in self._devices.values():
            device.loses_no_f_cnt_down = undisturbed
        for event in events:
            self._found += self._accounts.take(event)
            self._store.take(event)
            self._found += self._senders.take(event)
            self._gateways.take(event)
            if self._time.is_simulated:
                self._found += outcome.misshapen(event)
            match event["kind"]:
                case "application.request":
                    self._wanted(event)
                case "radio.transmit" if event["direction"] == "down" and "airtime_us" in event:
                    self._class_c.on_air(event)
                case "station.text":
                    self._text(event)
                case "upstream.published" | "upstream.status":
                    self._published(event)
                case "lns.outcome":
                    self._outcome(event)
                case "lns.evicted":
                    told = [uplink for heard in self._heard.values() for uplink in heard]
                    self._found += outcome.forgotten(event, told)
                    self._level1.forget(event["key"])
                case "case.lns":
                    self._level1.forget()
                    for device in self._devices.values():
                        device.meet_anew()
                    if (retention_us := event.get("retention_us")) is not None:
                        self._frame_names.retention_us = retention_us
                        self._level1.retention_us = retention_us
                case "case.device":
                    self._strategies[event["dev_eui"]] = event["strategy"]
                    if (known := self._devices.get(event["dev_eui"])) is not None:
                        known.nb_trans = event["nb_trans"]
                        known.join_nonce_min = event.get("join_nonce_min", 1)
                case "case.begin":
                    self._gateways.time.rig = event.get("rig", "")
                    self._numbers.begins_at_one = event.get("rig") == "simulated"
                    self._time = replace(self._time, is_simulated=self._numbers.begins_at_one)
                case "fault.begin" if event["fault"] == "wipe":
                    self._numbers.forget(event["detail"].get("lns", ""), event["t_us"])
                case "fault.begin" if (event.get("seam"), event["fault"]) in _OVERTAKING:
                    for device in self._devices.values():
                        device.is_overtaken = True
                case "fault.begin" if event["fault"] in ("let expire", "hang"):
                    self._frame_names.forget()
                    for session in chain.from_iterable(d.sessions for d in self._devices.values()):
                        session.doubt()
                case "fault.begin" if event.get("detail", {}).get("empty"):
                    self._frame_names.forget()
                    for device in self._devices.values():
                        device.forget()
                case "fault.begin" if event.get("seam") == "clock":
                    # Nobody follows a clock that is moved.
                    self._network = replace(self._network, began=None)
                    self._time = replace(self._time, began=None)
                    self._gateways.time.gps_began_us = None
        self._found += self._senders.end()
        if events:
            self._found += self._unserved(events)
            self._found += self._gateways.unsaid(end_us, self._names)
        if is_stuck and not any(map(disturbs_store, events)):
            self._found += self._unaccepted()
        if self._is_late or not self._reports.are_as_asked:
            evidence = Evidence.of(events)
            self._found += self._reports.wrong(evidence, events[-1]["t_us"])
            self._found += deaf_stations(evidence, self._heard, self._gateways.transmission_of)
        if events and self._class_c.sends_all and any(d.wanted for d in self._devices.values()):
            evidence = Evidence.of(events)
            due = evidence.expected_lines
            self._found += self._class_c.unsent(self._devices, evidence.unsaid(), due)
        self._found += self._accounts.end()
        self._found += self._store.wrong(self._devices, self._kept)
        # What came first may be why the rest came about; what is missing shows in the end only.
        return sorted(self._found, key=lambda found: found.t_us or inf)

    def _wanted(self, event: Event) -> None:
        device = self._devices.get(event["dev_eui"])
        if device is None:
            return
        if event["wants"] == "status":
            device.status_wanted = True
        elif event["wants"] == "downlink":
            payload = bytes.fromhex(event["payload"])
            device.wanted.append(Wanted(event["f_port"], payload, event["confirmed"]))
            self._class_c.wanted_us[device.dev_eui].append(event["t_us"])
            if self._gateways.rig != "simulated":
                device.wanted_us = event["t_us"]

    def _text(self, event: Event) -> None:
        if event["direction"] == "down":
            self._down(event)
        elif not event.get("dropped"):
            self._up(event)

    # --- what stations tell -------------------------------------------------------------------

    def _up(self, event: Event) -> None:
        held_us = event.get("held_us", 0)
        is_injected = event.get("origin") == "injected"
        uplink = uplink_of(
            event["station"], event["t_us"], held_us, event["text"], injected=is_injected
        )
        if uplink is None:
            told = json_of(event["text"]) or {}
            number = told.get("diid", told.get("seqno"))
            if told.get("msgtype") == "dntxed" and isinstance(number, int):
                self._reports.report(event["station"], number, told)
                self._accounts.reported(event["station"], number, told)
            if (msgtype := unreadable_type(event["text"])) is not None:
                self._accounts.unreadable(event["station"], msgtype)
            elif not is_plain(event["text"]):
                self._accounts.doubtful(event["station"], str(told.get("msgtype", "")))
            if told.get("msgtype") == "timesync" and type(told.get("txtime")) is int:
                asked = self._times_asked.setdefault(event["station"], {})
                asked[told["txtime"]] = event["t_us"]
            if told.get("msgtype") == "version":
                self._introduced[event["station"]] = event["t_us"]
                self._gateways.introduced(event)
            return
        self._heard.setdefault((uplink.station, uplink.xtime), []).append(uplink)
        self._told_by.setdefault(uplink.phy, set()).add(uplink.station)
        self._level1.tell(uplink)
        sent = self._gateways.transmission_of(uplink)
        if sent is not None:
            check = Scrutiny(
                rule="reception", of=f"{uplink.frame_id} through {self._name(uplink.station)}",
                t_us=uplink.t_us, station=uplink.station, frame_id=uplink.frame_id,
            )  # fmt: skip
            self._found += self._gateways.heard(uplink, sent, check)
        answered = self._sender(uplink)
        if answered is not None and isinstance(uplink.frame, DataFrame):
            dev_eui = answered.device.dev_eui
            self._class_c.told(dev_eui, uplink.station, uplink.frame, event["t_us"], uplink.xtime)
            if answered.session is not None:
                answered.session.hear(uplink.frame, answered.f_cnt)
            if uplink.frame.ack:
                self._accounts.acknowledged(dev_eui)
            if message.statuses(answered):
                self._accounts.status_told(dev_eui, uplink.frame_id)
            key = dev_eui, uplink.station, answered.f_cnt
            self._messages.setdefault(key, []).append(answered)
        elif answered is not None:
            self._joins[answered.device.dev_eui] = uplink

    def _sender(self, uplink: Uplink) -> Answered | None:
        """Whose this is; None if no device of the case has sent it."""
        sent = self._gateways.transmission_of(uplink)
        device = self._devices.get(sent["dev_eui"]) if sent is not None else None
        if sent is None or device is None:
            return None
        if isinstance(uplink.frame, JoinRequest):
            return Answered(uplink, device)
        session = device.session_of(uplink.frame, sent["f_cnt"])
        stations = len(self._told_by.get(uplink.phy, ()))
        may_be_new = self._level1.may_be_new(uplink)
        return Answered(uplink, device, sent["f_cnt"], session, stations, may_be_new)

    # --- what network servers say ---------------------------------------------------------------

    def _down(self, event: Event) -> None:
        name = self._names.get(event["station"], event["station"])
        told = json_of(event["text"])
        check = Scrutiny(
            rule="station text", of=f"text for {name}", t_us=event["t_us"],
            station=event["station"],
        )  # fmt: skip
        if told is None:
            check = check.about(NO_PROTOCOL)
            self._found.append(check.wrong("text", "a JSON object", event["text"] or '""'))
        elif downlink.is_dnmsg(told):
            self._dnmsg(event, told, name)
        elif told.get("msgtype") == "router_config":
            self._introduced.pop(event["station"], None)
            check = Scrutiny(
                rule="router_config", of=f"router_config for {name}", t_us=event["t_us"],
                station=event["station"],
            )  # fmt: skip
            self._found += router_config(told, self._network.plan, self._network.net_id, check)
            self._found += self._time.mux_time(told, event["t_us"], check)
            if not (self._gateways.configures(event["station"]) or self._has_twins):
                self._found.append(check.wrong("msgtype", "one for each version", "another one"))
        elif told.get("msgtype") == "timesync":
            self._found += self._timesync(event, told, check)
        elif told.get("msgtype") == "getxtime":
            self._found += misspelt(told, check)
            self._found += self._time.mux_time(told, event["t_us"], check)
        elif told.get("msgtype") not in _QUIET:
            check, due = check.about(NO_PROTOCOL), "a message of the protocol"
            self._found.append(check.wrong("msgtype", due, told.get("msgtype")))

    def _timesync(self, event: Event, told: dict[str, Any], check: Scrutiny) -> Iterator[Found]:
        """Whether an answer has the question's clock, and the time."""
        asked = self._times_asked.get(event["station"], {})
        if "txtime" in told:
            if told["txtime"] in asked:
                del asked[told["txtime"]]
            else:
                due = " or ".join(map(str, asked)) or "none: nobody has asked"
                yield check.wrong("txtime", due, told["txtime"])
            yield from misspelt(told, check)
            yield from self._time.gps_time(told, event["t_us"], check)
            yield from self._time.mux_time(told, event["t_us"], check)
        elif asked:
            yield check.wrong("txtime", next(iter(asked)), None)

    def _dnmsg(self, event: Event, told: dict[str, Any], name: object) -> None:
        station = event["station"]
        check = Scrutiny(rule="dnmsg", of=f"dnmsg for {name}", t_us=event["t_us"], station=station)
        found = downlink.misshapen(told, check)
        if not found:
            self._handed_over[eui_of(told.get("DevEui", told.get("DevEUI"))) or ""] = event["t_us"]
            dev_eui, diid = eui_of(told.get("DevEui", told.get("DevEUI"))), int(told["diid"])
            if dev_eui in self._devices:
                self._devices[dev_eui].is_held = bool(event.get("held_us"))
            self._class_c.hand_over(station, told["pdu"], dev_eui or "")
            found = list(self._dnmsg_read(event, told, check))
            if (station, diid) in self._reports:
                found.append(check.wrong("diid", "one never used for this station", diid))
            self._accounts.told(station, diid, self._passed(event, told))
            if not event.get("dropped"):
                windows = self._windows(event, told)
                asked_us = None if found else self._asked_us(event, told)
                self._gateways.handed_over(event, told, windows, asked_us)
                windows = {} if found else windows
                self._senders.handed_over(dev_eui or "", bytes.fromhex(told["pdu"]), windows)
            if not event.get("dropped") and not event.get("held_us"):
                over = over_us(event["t_us"], self._windows(event, told))
                self._reports.hand_over(station, diid, told, over, is_right=not found)
        self._found += found

    def _windows(self, event: Event, told: dict[str, Any]) -> Windows:
        return windows_of(told, self._passed(event, {**told, "RX1DR": 0}).opens_us)

    def _asked_us(self, event: Event, told: dict[str, Any]) -> int | None:
        """When it ended what a station has told in time and a downlink answers, or this itself."""
        if "xtime" not in told:
            return int(event["t_us"])
        asked = [one for one in self._answers(event, told) if not one.injected]
        sent = self._gateways.transmission_of(asked[-1]) if asked else None
        ended_us = self._gateways.ended_us(asked[-1]) if asked else 0
        is_known = sent is not None and ended_us == sent["t_us"] + sent.get("airtime_us", 0)
        return ended_us if is_known else None

    def _answers(self, event: Event, told: dict[str, Any]) -> list[Uplink]:
        """The receptions that a downlink may answer; of two devices at one moment, those of its."""
        # Of class C names no moment, and what was heard without a clock has none either.
        heard = self._heard.get((event["station"], told.get("xtime", -1)), [])
        heard = [one for one in heard if one.rctx == told.get("rctx", 0)] or heard
        whose = eui_of(told.get("DevEui", told.get("DevEUI")))
        mine = [one for one in heard if (of := self._sender(one)) and of.device.dev_eui == whose]
        return mine or heard

    def _passed(self, event: Event, told: dict[str, Any]) -> Told:
        """A downlink with the uplinks that it may answer, if the bench knows any."""
        same = self._answers(event, told)
        frames = frozenset(uplink.frame_id for uplink in same)
        sent = self._gateways.transmission_of(same[-1]) if same else None
        if sent is None or sent.get("origin") != "device":
            return Told(told, frames, None)
        opens_us = self._gateways.ended_us(same[-1]) + max(1, told.get("RxDelay", 1)) * 1_000_000
        if "RX1DR" not in told:
            opens_us += downlink.RX2_AFTER_RX1_US
        return Told(told, frames, opens_us)

    def _dnmsg_read(self, event: Event, told: dict[str, Any], check: Scrutiny) -> Iterator[Found]:
        station, dev_eui = event["station"], eui_of(told.get("DevEui", told.get("DevEUI")))
        if "xtime" not in told:
            device = self._devices.get(dev_eui or "")
            if device is None:
                yield check.wrong("DevEui", "a device of this network", dev_eui)
            else:
                known = len(device.told)
                yield from downlink.at_once(told, device, self._network, check)
                sent = device.told[-1] if len(device.told) > known else None
                if event.get("dropped"):
                    del device.told[known:]
                frame = read_data(bytes.fromhex(told["pdu"]))
                yield from self._class_c.next_one(event, device, sent, check)
                yield from self._class_c.again(event, device, sent, check)
                yield from self._class_c.interrupted(event, device.dev_eui, check)
                yield from self._class_c.through(event, device.dev_eui, check)
                yield from self._class_c.spoken_to(frame, device.dev_eui, check)
                yield from self._class_c.too_soon(event, frame, device.dev_eui, check)
            return
        heard = self._heard.get((station, told["xtime"]), [])
        if not heard:
            yield self._wrong_xtime(station, told["xtime"], dev_eui, check)
            return
        uplink = self._answers(event, told)[-1]
        check = Scrutiny(
            rule=check.rule, of=f"{check.of} to {uplink.frame_id}", t_us=check.t_us,
            station=station, frame_id=uplink.frame_id,
        )  # fmt: skip
        answered = self._sender(uplink)
        if answered is None:
            yield check.wrong("uplink", "one that a device of this network has sent", "another")
            return
        yield from downlink.answer(told, answered, self._network, check)
        self._class_c.answer(event, told["pdu"], answered.device.dev_eui)
        yield from self._late(event, told, uplink, check)
        if isinstance(uplink.frame, JoinRequest):
            is_sure = len({one.frame_id for one in heard}) == 1
            self._open_session(answered, uplink.frame, told, is_sure=is_sure)

    def _wrong_xtime(self, station: str, xtime: int, dev_eui: str | None, check: Scrutiny) -> Found:
        own = [
            uplink
            for (through, _), heard in self._heard.items()
            for uplink in heard
            if through == station
            and (sender := self._sender(uplink)) is not None
            and sender.device.dev_eui == dev_eui
        ]
        due = own[-1].xtime if own else None
        observed = f"{xtime}" if due is None else f"{xtime}, {xtime - due:+} µs"
        return check.wrong("xtime", due, observed)

    def _late(
        self, event: Event, told: dict[str, Any], uplink: Uplink, check: Scrutiny
    ) -> Iterator[Found]:
        """Whether it came too late for a station to meet the first window that it names."""
        opens_us = self._gateways.ended_us(uplink) + max(1, told.get("RxDelay", 1)) * 1_000_000
        window = "RX1" if "RX1DR" in told else "RX2"
        if window == "RX2":
            opens_us += downlink.RX2_AFTER_RX1_US
        late_us = said_us_of(event) + AIM_GAP_US - opens_us
        if late_us > 0:
            due = f"{AIM_GAP_US // 1000} ms before {window} opens"
            yield check.wrong("time", due, f"{late_us // 1000} ms after that")

    def _open_session(
        self, answered: Answered, request: JoinRequest, told: dict[str, Any], *, is_sure: bool
    ) -> None:
        device = answered.device
        accept = read_join_accept(device.app_key, bytes.fromhex(told["pdu"]))
        if accept is None:
            return
        keys = session_keys(device.app_key, accept.join_nonce, accept.net_id, request.dev_nonce)
        first = len(self._network.plan.default_channels)
        more = (number for number, hz in enumerate(accept.more_channels_hz, first) if hz)
        agreed = Session(
            accept.dev_addr,
            keys,
            accept.rx2_dr,
            accept.rx1_dr_offset,
            accept.rx_delay_s,
            frozenset(more),
            is_used=False,
            is_sure=is_sure,
        )
        device.sessions.append(agreed)

    # --- what network servers tell of themselves ------------------------------------------------

    def _outcome(self, event: Event) -> None:
        self._is_late = self._is_late or event["answer"] == "TooLate"
        self._class_c.outcome(event)
        heard = self._heard.get((event["station"], event.get("xtime", 0)), [])
        if "frame_id" not in event:
            told_by = self._name(event["station"])
            check = Scrutiny(
                rule="outcome", of=f"outcome of what cannot be read, through {told_by}",
                t_us=event["t_us"], station=event["station"],
            )  # fmt: skip
            self._found += outcome.unreadable(event, check)
            return
        if not heard:
            return
        name = self._names.get(event["station"], event["station"])
        check = Scrutiny(
            rule="outcome", of=f"outcome of {event['frame_id']} through {name}",
            t_us=event["t_us"], station=event["station"], frame_id=event["frame_id"],
        )  # fmt: skip
        uplink = next((one for one in heard if one.frame_id == event["frame_id"]), None)
        if uplink is None:
            self._found.append(check.wrong("frame_id", heard[-1].frame_id, event["frame_id"]))
            return
        sender = self._sender(uplink)
        strategy = self._strategies.get(sender.device.dev_eui) if sender else None
        self._found += outcome.outcome(event, uplink, sender, strategy, check)
        if self._time.is_simulated:
            told_us = max(one.t_us for one in heard if one.frame_id == event["frame_id"])
            self._found += self._decided.compare(event, told_us, check)

    # --- what the application gets ----------------------------------------------------------------

    def _published(self, event: Event) -> None:
        body = event["body"] if isinstance(event["body"], dict) else {}
        is_status = event["kind"] == STATUS
        check = Scrutiny(
            rule="message", of=f"message {body.get('messageId')}", t_us=event["t_us"],
            station=body.get("station") if isinstance(body.get("station"), str) else None,
        )  # fmt: skip
        found = message.misshapen(body, message.STATUS if is_status else message.UPLINK, check)
        self._found += found or self._compared(event, body, check, is_status=is_status)

    def _compared(
        self, event: Event, body: dict[str, Any], check: Scrutiny, *, is_status: bool
    ) -> Iterator[Found]:
        heard = self._messages.get((body["devEui"], body["station"], body["fCnt"]), [])
        word = "status" if is_status else "up"
        yield from message.addressed(event["topic"], word, body, check)
        if self._undisturbed or self._numbers.begins_at_one:
            # What is sent anew after a kill has another number, or comes in another order.
            yield from self._numbers.compare(event["topic"], body, check)
        if not heard and self._time.is_simulated and body["devEui"] in self._devices:
            due = "those of a frame that a station has told"
            observed = f"{body['devEui']}, {body['station']}, {body['fCnt']}"
            yield check.wrong("devEui, station and fCnt", due, observed)
        since_us = min((one.uplink.t_us for one in heard), default=None)
        yield from message.in_time(body, self._network.began, since_us, check)
        if is_status:
            yield from message.status(body, heard, check)
            may_repeat = not self._undisturbed
            yield from self._status_names.compare(body, heard, check, may_repeat=may_repeat)
        else:
            yield from message.message(body, heard, check)
            yield from self._frame_names.compare(body, heard, check)

    # --- what they did not do ---------------------------------------------------------------------

    def _unserved(self, events: Sequence[Event]) -> Iterator[Found]:
        """Stations that a server left without an answer to their version, or without a link.

        Whoever disturbed servers or links, or said what no station says, is the reason himself.
        """
        disturbed_us = [event["t_us"] for event in events if disturbs_links(event)]
        if self._has_twins:
            return
        for station, version_us in self._introduced.items():
            if events[-1]["t_us"] - version_us > _CONFIGURED_US and not disturbed_us:
                yield Found(
                    rule="a server serves", t_us=version_us, station=station,
                    text=f"{self._name(station)}: its version was not answered: expected"
                    f" router_config within {_CONFIGURED_US // 1_000_000} s, observed none",
                    expected="router_config", observed="none",
                )  # fmt: skip
        for station, times in self._times_asked.items():
            for txtime, t_us in times.items():
                if events[-1]["t_us"] - t_us > _CONFIGURED_US and not disturbed_us:
                    yield Found(
                        rule="a server serves", t_us=t_us, station=station,
                        text=f"{self._name(station)}: timesync of {txtime} was not answered:"
                        " expected its txtime and the time, observed none",
                        expected="timesync", observed="none",
                    )  # fmt: skip
        for event in (one for one in events if one["kind"] == LINK):
            since_us = [event["t_us"] - at_us for at_us in disturbed_us if at_us <= event["t_us"]]
            is_refused = event.get("event") == "refused"
            if not since_us or not (is_refused or min(since_us) <= _UNDER_WAY_US):
                yield Found(
                    rule="a server serves", t_us=event["t_us"], station=event["station"],
                    text=f"{self._name(event['station'])}: the network server has {event['event']}"
                    " its connection: expected open, observed closed",
                    expected="open", observed=event["event"],
                )  # fmt: skip

    def _unaccepted(self) -> Iterator[Found]:
        """Join requests that reached a server, and that nothing came back for."""
        for dev_eui, uplink in self._joins.items():
            if self._handed_over.get(dev_eui, -1) < uplink.t_us:
                yield Found(
                    rule="join accept", t_us=uplink.t_us, station=uplink.station,
                    text=f"join accept to {uplink.frame_id} through {self._name(uplink.station)}:"
                    " expected one, observed none",
                    frame_id=uplink.frame_id, expected="one", observed="none",
                )  # fmt: skip

    def _name(self, station: str) -> str:
        return self._names.get(station, station)
