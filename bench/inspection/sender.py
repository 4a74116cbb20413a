"""Does a device send what it was told to, and what it owes to what it has heard?

Read from its frames, with its keys, and from its console: what a network server makes of a wrong
frame is no fault of its own. Source: LoRaWAN 1.0.4, 4.3.1 (ADRACKReq, ACK) and 5 (MAC commands);
RUI3, LINKCHECK and TIMEREQ.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from bench.capture.reading import Event
from bench.inspection.gateway import UNKNOWN_AIR, AirFacts
from bench.inspection.known_device import GRANTED, KnownDevice, Message, OnAir, Sender
from bench.inspection.station import ON_TIME_US, Windows, late_us
from bench.verdict.owner import Found, Owner, Scrutiny
from bench.virtual.lorawan.air_interface import (
    F_CNT_WIRE,
    F_OPTS_MAX,
    MIC_OCTETS,
    Cid,
    Command,
    DataFrame,
    Kind,
    from_device,
    from_network,
    link_adr,
    read_data,
)
from bench.virtual.lorawan.channel_plan import ChannelPlan
from bench.virtual.lorawan.join_frames import join_mic, read_join_request

_ASKS = {"AT+LINKCHECK=1": Cid.LINK_CHECK, "AT+TIMEREQ=1": Cid.DEVICE_TIME}
_BEGINS_AGAIN = re.compile(r"ATZ|ATR|AT\+(RESET|FDEFAULT|NJM|JOIN)")
_MISSED = re.compile(r"\+EVT:(SEND_CONFIRMED|JOIN)_FAILED")
_HEARD = re.compile(
    r"""\+EVT:RX_\w+:.*UNICAST:(\d+):|PORT:\ (\d+);\ RX:|(SEND_CONFIRMED_OK|ACK\ Received)""", re.X
)
"""What a board says of a downlink: its FPort, or that it was acknowledged something."""
_DOWNLINKS, _ACKS = "downlinks", "acknowledgements"
_ANSWERED = {"+EVT:TIMEREQ_OK": Cid.DEVICE_TIME, "+EVT:LINKCHECK:0": Cid.LINK_CHECK}
"""What a board says of an answer to what it was to ask."""
ADR_ACK_LIMIT, ADR_ACK_DELAY = 64, 32
_REPEATED_US = 3_000_000
"""How soon a frame that is to be acknowledged may be repeated: a second after RX2 has opened."""
_LOWEST_DR_OF_DWELL = 2
"""The lowest data rate where uplinks have 400 ms at most (RP002-1.0.3, AS923)."""


class Senders:
    """Remembers of each device what it was told, and what it has heard for certain.

    `are_known`: how each is set, and how it counts, is known from the first frame on.
    """

    def __init__(
        self,
        devices: Mapping[str, KnownDevice],
        plan: ChannelPlan,
        air: AirFacts = UNKNOWN_AIR,
    ) -> None:
        self.are_known = False
        self._air = air
        self._devices = devices
        self._senders = {
            dev_eui: Sender(adr=one.adr, dr=one.dr) for dev_eui, one in devices.items()
        }
        self._right: dict[str, tuple[str, Windows]] = {}
        self._last_down_us = self._down_until_us = -1
        self._old: set[str] = set()
        self._asked_us: defaultdict[str, list[int]] = defaultdict(list)
        self._answers = {Cid.LINK_ADR, Cid.DEV_STATUS}
        self._answers |= {Cid.TX_PARAM_SETUP} if plan.tx_params is not None else set()
        self._sent: list[Event] = []
        self._plan = plan

    def handed_over(self, dev_eui: str, pdu: bytes, windows: Windows) -> None:
        """A station was handed a downlink for a device.

        `windows`: when those open (µs) that a right one was to be sent in, by DR and frequency.
        """
        sender, frame = self._senders.get(dev_eui), read_data(pdu)
        if sender is None:
            return
        is_repeated = pdu.hex() in self._right
        self._right[pdu.hex()] = dev_eui, windows
        if frame is None:
            return
        sender.handed, sender.unheard, sender.was_handed = frame, 0, True
        sender.may_tell[_DOWNLINKS] += bool(frame.f_port)
        sender.may_tell[_ACKS] += frame.ack
        if is_repeated:  # a device that has heard it refuses it
            return
        sender.asks_unseen |= frame.f_port == 0
        sender.was_confirmed |= frame.kind is Kind.CONFIRMED_DOWN
        commands = from_network(frame.f_opts)
        sender.was_asked.update(command.cid for command in commands)
        sender.may_tell.update(command.cid.name for command in commands)
        for command in commands:
            if command.cid is Cid.LINK_ADR:
                asked = link_adr(command)
                sender.nb_trans_asked, sender.dr_asked = asked.nb_trans, asked.dr
                sender.is_told_since, sender.obeys = False, sender.adr
                sender.nb_trans_max = max(sender.nb_trans_max, sender.nb_trans_asked)

    def take(self, event: Event) -> Iterator[Found]:
        """What is wrong with frames of devices before it; other events tell what is due.

        A frame is looked at when its moment is over: what its device was told at that very moment,
        it was told before.
        """
        if self._sent and event["t_us"] > self._sent[0]["t_us"]:
            yield from self.end()
        if event["kind"] == "case.begin":
            self.are_known = event.get("rig") == "simulated"
        elif event["kind"] == "radio.transmit" and event["direction"] == "down":
            self._on_air(event)
        elif event["kind"] == "radio.lost" and (lost := self._senders.get(event["receiver"])):
            if lost.to_hear is not None and lost.to_hear.transmission == event["transmission"]:
                lost.to_hear = None
        sender = self._senders.get(event.get("dev_eui", ""))
        yield from self._of_anybody(event)
        if sender is None:
            return
        match event["kind"]:
            case "device.command":
                sender.typed = event["text"]
                if _BEGINS_AGAIN.match(event["text"]):
                    sender.begin_again(keeps="keeps" in event, boots=event["text"] == "ATZ")
                self._told_to_repeat(sender, event)
            case "device.line":
                yield from self._missed(sender, event)
                yield from self._repeated(sender, event)
                yield from self._said(sender, event)
            case "radio.transmit" if event["direction"] == "up" and event["genuine"]:
                self._sent.append(event)

    def _on_air(self, event: Event) -> None:
        """A downlink that a device has to hear, if it is right and nothing else was on the air."""
        alone_since_us, self._last_down_us = self._last_down_us, event["t_us"]
        free_us, self._down_until_us = self._down_until_us, event["t_us"] + event["airtime_us"]
        dev_eui, windows = self._right.get(event["phy"].lower(), ("", {}))
        is_old = event["phy"] in self._old
        self._old.add(event["phy"])
        sender, frame = self._senders.get(dev_eui), read_data(bytes.fromhex(event["phy"]))
        if sender is None or not sender.can_read(self._devices[dev_eui]):
            return
        asked = _asked_in(frame)
        if Cid.DEV_STATUS in asked:
            sender.status_asked.append(event["transmission"])
        late = late_us(event, windows)
        if late is None:
            is_free = free_us <= event["t_us"] and not is_old
            listens = is_free and self._always_listens(dev_eui, frame, event, windows)
        else:
            opens_us, since_us = event["t_us"] - late, sender.ended_us
            listens = since_us is not None and alone_since_us < since_us
            listens = listens and abs(late) <= ON_TIME_US and _opens(opens_us - since_us)
        if listens:
            sender.to_hear = OnAir(
                event["transmission"],
                event["t_us"] + event["airtime_us"],
                ends_tries=late is not None and frame is not None and frame.ack,
                is_told=frame is not None and bool(frame.f_port and frame.encrypted),
                asks=frozenset(asked & self._answers),
            )

    def _always_listens(
        self, dev_eui: str, frame: DataFrame | None, event: Event, windows: Windows
    ) -> bool:
        """Whether a device of class C hears it, which has sent in its session before."""
        # Of two channels one is that of RX1, where it listens after its own frames alone.
        is_on_channel = [*windows] == [(event["dr"], event["freq_hz"])]
        sender = self._senders[dev_eui]
        listens = self._devices[dev_eui].is_class_c and sender.ended_us is not None
        if not listens or sender.has_joined or not is_on_channel or frame is None:
            return False
        return frame.dev_addr == sender.dev_addr

    def _told_to_repeat(self, sender: Sender, event: Event) -> None:
        """NbTrans of which no console and no frame has told."""
        told = self._devices[event["dev_eui"]].told_to_repeat
        so_far = [nb_trans for at_us, nb_trans in told if at_us <= event["t_us"]]
        if len(so_far) > sender.times_told:
            sender.nb_trans, sender.times_told = so_far[-1], len(so_far)
            sender.is_told_since = True
            sender.nb_trans_max = max(sender.nb_trans_max, *so_far)

    def _of_anybody(self, event: Event) -> Iterator[Found]:
        """What is wrong whatever the keys of a device are."""
        if event["kind"] == "radio.transmit" and event["direction"] == "up" and event["genuine"]:
            yield from self._named(event)
            if "f_cnt" not in event:
                self._asked_us[event.get("dev_eui", "")].append(event["t_us"])
        elif event["kind"] == "device.line" and event["text"] == "+EVT:JOINED" and self.are_known:
            # At this very moment it may have asked for the next session already.
            asked_us = self._asked_us[event["dev_eui"]]
            before_us = max((at_us for at_us in asked_us if at_us < event["t_us"]), default=-1)
            if self._last_down_us < before_us:
                what, due = "JOINED", "after an accept: nothing came down since it asked"
                yield _wrong_of_device(event, event["t_us"], what, due, event["text"])

    def _named(self, event: Event) -> Iterator[Found]:
        """Whether its octets are those of the frame that a device believes to send."""
        phy = bytes.fromhex(event["phy"])
        frame = read_data(phy) or read_join_request(phy)
        if self.are_known and frame is not None:
            check = Scrutiny(rule="uplink", of=f"uplink {event['frame_id']}", t_us=event["t_us"])
            wrong = [*check.same("octets", event["frame_id"], frame.frame_id)]
            if isinstance(frame, DataFrame) and "f_cnt" in event:
                wrong += check.same("FCnt on the air", event["f_cnt"] % F_CNT_WIRE, frame.f_cnt)
            yield from (replace(found, owner=Owner.DEVICE) for found in wrong)

    def _missed(self, sender: Sender, event: Event) -> Iterator[Found]:
        """What it says that it has not heard, and had to."""
        if event["text"].startswith("+EVT:JOINED"):
            sender.join()
        due = sender.to_hear
        if self.are_known and due is not None and _MISSED.match(event["text"]):
            sender.to_hear = None
            yield from _had_to_hear(due, event, event["text"])

    def _repeated(self, sender: Sender, event: Event) -> Iterator[Found]:
        """Whether a message that is over was sent as often as it takes without an answer."""
        due = 0
        if event["text"].startswith("+EVT:SEND_CONFIRMED_FAILED"):
            due = 1 + sender.retries
        elif event["text"] == "+EVT:TX_DONE" and not sender.was_handed:
            due = sender.nb_trans
        if self.are_known and sender.tries < due:
            what = "transmissions of its message"
            yield _wrong_of_device(event, event["t_us"], what, due, sender.tries)

    def end(self) -> Iterator[Found]:
        """What is wrong with the frames that have been sent since."""
        for event in self._sent:
            yield from self._looked_at(self._senders[event["dev_eui"]], event)
        self._sent.clear()

    def _said(self, sender: Sender, event: Event) -> Iterator[Found]:
        line = event["text"]
        if line.strip() == "OK":
            _agreed(sender)
        sender.typed = ""
        heard, frame = _HEARD.search(line), sender.handed
        answered = [cid.name for said, cid in _ANSWERED.items() if line.startswith(said)]
        for what in answered if not sender.asks_unseen else ():
            yield from self._tells(sender, event, what)
        if heard is None:
            return
        port = heard[1] or heard[2]
        yield from self._tells(sender, event, _DOWNLINKS if port else _ACKS)
        if frame is None:
            return
        if int(port) == frame.f_port if port else frame.ack:
            if frame == sender.heard:
                due, seen = f"more than {frame.f_cnt}", frame.f_cnt
                yield _wrong_of_device(event, event["t_us"], "FCntDown", due, seen)
                return
            # Of two that came for one window the air knows which one it was.
            asks = sender.to_hear.asks if sender.to_hear else _asked_in(frame) & self._answers
            sender.handed, sender.to_hear, sender.unheard_max = None, None, 0
            sender.heard = frame
            sender.owes_ack |= frame.kind is Kind.CONFIRMED_DOWN
            sender.owes |= asks

    def _tells(self, sender: Sender, event: Event, what: str) -> Iterator[Found]:
        """It tells of no more than was handed over for it."""
        sender.tells[what] += 1
        if self.are_known and sender.tells[what] > sender.may_tell[what]:
            due, seen = f"{sender.may_tell[what]} at most", sender.tells[what]
            yield _wrong_of_device(event, event["t_us"], f"{what} that it tells of", due, seen)

    def _looked_at(self, sender: Sender, event: Event) -> Iterator[Found]:
        if event.get("origin") != "device":
            sender.crafted += "f_cnt" in event
            yield from self._foreign(event)
            return
        yield from self._with_power(event)
        for found in self._looked_into(sender, event):
            yield replace(found, owner=Owner.DEVICE)
        sender.ended_us = event["t_us"] + event.get("airtime_us", 0)

    def _foreign(self, event: Event) -> Iterator[Found]:
        """A frame that the bench has built of the session that a device has."""
        frame, device = read_data(bytes.fromhex(event["phy"])), self._devices[event["dev_eui"]]
        known = [one for one in device.sessions if frame and one.dev_addr == frame.dev_addr]
        if frame and self.are_known and known and device.session_of(frame, event["f_cnt"]) is None:
            due = f"that of its session and FCnt {event['f_cnt']}"
            what = f"MIC of {frame.frame_id}"
            yield _wrong_of_device(event, event["t_us"], what, due, frame.mic.hex())

    def _with_power(self, event: Event) -> Iterator[Found]:
        """It sends with one of the powers of its region."""
        power_dbm, plan = self._air.power_dbm(event.get("transmission", 0)), self._plan
        least_dbm, most_dbm = plan.power_dbm(plan.power_index_max), plan.power_dbm(0)
        if power_dbm is not None and not least_dbm <= power_dbm <= most_dbm:
            due = f"{least_dbm} to {most_dbm} dBm"
            yield _wrong_of_device(event, event["t_us"], "power", due, f"{power_dbm} dBm")

    def _looked_into(self, sender: Sender, event: Event) -> Iterator[Found]:
        frame = read_data(bytes.fromhex(event["phy"]))
        if frame is None or "f_cnt" not in event:  # a join request
            if self.are_known:
                yield from self._asks_to_join(sender, event)
            sender.forget()
            return
        place, is_same = (event["session"], event["f_cnt"]), event["phy"] == sender.phy
        if sender.latest and place[0] != sender.latest[0]:
            sender.told.clear()
        is_late = not self.are_known and event["phy"] in sender.told
        sender.told.add(event["phy"])
        if is_late and place != sender.latest:
            return  # in a lab a frame is sent when a station tells of it
        is_same &= sender.message is None
        check = Scrutiny(
            rule="uplink", of=f"uplink {frame.frame_id}", t_us=event["t_us"],
            frame_id=frame.frame_id,
        )  # fmt: skip
        if place == sender.latest and (is_same or not self.are_known):
            sender.tries += 1
            if self.are_known:
                yield from self._again(sender, frame, event, check)
            due, sender.to_hear = sender.to_hear, None
            if self.are_known and due and due.ends_tries and due.ends_us <= event["t_us"]:
                yield check.wrong("transmissions", "no more: it was answered", "one more")
            return
        if self.are_known:
            if sender.to_hear is not None and sender.to_hear.ends_us <= event["t_us"]:
                sender.owes |= sender.to_hear.asks
                sender.unheard_max = 0
                if sender.to_hear.is_told:
                    yield from _had_to_hear(sender.to_hear, event, None)
            yield from self._counted(sender, frame, event, check)
            yield from _as_told(sender, frame, self._devices[event["dev_eui"]], place[1], check)
        if sender.has_joined and self.are_known and sender.latest:
            if place[0] == sender.latest[0]:
                yield check.wrong("session", "another one: it has joined since", place[0])
        sender.has_joined, sender.dev_addr = False, frame.dev_addr
        if sender.latest and place[0] != sender.latest[0]:
            sender.unheard_max = 0
        if sender.latest and (place[0] != sender.latest[0] or place[1] < sender.latest[1]):
            sender.forget()
        if not self.are_known and sender.latest and place[1] != sender.latest[1] + 1:
            sender.settle()  # with a frame that nobody heard
        sender.latest, sender.phy, sender.crafted = place, event["phy"], 0
        sender.tries, sender.was_handed = 1, False
        sender.may_begin = sender.has_forgotten = False
        sender.message, sender.to_hear = None, None
        if self.are_known:
            yield from self._on_its_channel(event, check)
            yield from check.same("class B", False, frame.bit_4)  # it listens to no beacons
        self._asks_for_life(sender, event)
        yield from self._wrong(sender, frame, event, place[1], check)

    def _again(
        self, sender: Sender, frame: DataFrame, event: Event, check: Scrutiny
    ) -> Iterator[Found]:
        """Whether a frame may be repeated once more, so fast, and so soon (LoRaWAN 1.0.3, 19)."""
        device = self._devices[event["dev_eui"]]
        if sender.dr is not None:
            steps = (sender.tries - 1) // 2 if device.lowers_data_rate and frame.confirmed else 0
            due_dr = max(sender.dr - steps, self._plan.up_drs[0])
            yield from check.same("data rate of its repetition", due_dr, event.get("dr"))
        most = max(sender.nb_trans_max, (1 + sender.retries) * frame.confirmed)
        if sender.tries > most:
            yield check.wrong("transmissions", f"{most} at most", sender.tries)
        since_us = sender.ended_us
        if frame.confirmed and since_us is not None and self._last_down_us < since_us:
            if event["t_us"] - since_us < _REPEATED_US:
                due, seen = f"{_REPEATED_US} us after it at least", event["t_us"] - since_us
                yield check.wrong("time of its repetition", due, seen)

    def _asks_to_join(self, sender: Sender, event: Event) -> Iterator[Found]:
        """LoRaWAN 1.0.4, 6.2.5: DevNonces are counted; earlier stacks may draw them."""
        phy, device = bytes.fromhex(event["phy"]), self._devices[event["dev_eui"]]
        request, newest = read_join_request(phy), sender.dev_nonce
        if request is None:
            return
        check = Scrutiny(
            rule="uplink", of=f"join request {request.frame_id}", t_us=event["t_us"],
            frame_id=request.frame_id,
        )  # fmt: skip
        sender.dev_nonce = request.dev_nonce
        yield from self._on_its_channel(event, check)
        if device.join_eui is not None:
            yield from check.same("JoinEUI", device.join_eui, request.join_eui)
        yield from check.same("DevEUI", device.dev_eui, request.dev_eui)
        yield from check.same("MIC", join_mic(device.app_key, phy[:-MIC_OCTETS]), request.mic)
        if device.counts_dev_nonces and newest is not None and request.dev_nonce <= newest:
            yield check.wrong("DevNonce", f"more than {newest}", request.dev_nonce)

    def _counted(
        self, sender: Sender, frame: DataFrame, event: Event, check: Scrutiny
    ) -> Iterator[Found]:
        """A new message has the next counter, or the first one of its stack."""
        device, latest, f_cnt = self._devices[event["dev_eui"]], sender.latest, event["f_cnt"]
        due, newest = [device.first_f_cnt], None
        if latest is not None:
            newest = latest[1] if latest[0] == event["session"] else None
        elif (session := device.session_of(frame, f_cnt)) is not None:
            newest = session.f_cnt_up
        if newest is not None and not (sender.has_forgotten and self.are_known):
            due = [newest + 1, *due[: sender.may_begin]]
        if not any(least <= f_cnt <= least + sender.crafted for least in due):
            yield check.wrong("FCnt", " or ".join(map(str, due)), f_cnt)

    def _on_its_channel(self, event: Event, check: Scrutiny) -> Iterator[Found]:
        more_hz = self._devices[event["dev_eui"]].more_channels_hz
        known_hz = {channel.freq_hz for channel in self._plan.own_channels} | set(more_hz)
        if (freq_hz := event.get("freq_hz")) is not None and freq_hz not in known_hz:
            yield check.wrong("frequency", "one of its channels", freq_hz)

    def _asks_for_life(self, sender: Sender, event: Event) -> None:
        """LoRaWAN 1.0.3, 4.3.1.1: at its lowest data rate nobody asks; 1.0.4: whoever likes."""
        lowest_dr = self._plan.up_drs[0]
        if self._plan.tx_params is not None and not self.are_known:
            lowest_dr = _LOWEST_DR_OF_DWELL
        asks = self.are_known and self._devices[event["dev_eui"]].asks_at_lowest_dr
        if event.get("dr", lowest_dr) > lowest_dr or asks:
            return
        sender.unheard = 0
        if self.are_known:
            sender.unheard_max = 0

    def _wrong(
        self, sender: Sender, frame: DataFrame, event: Event, f_cnt: int, check: Scrutiny
    ) -> Iterator[Found]:
        device = self._devices[event["dev_eui"]]
        session = device.session_of(frame, f_cnt)
        of_address = [one for one in device.sessions if one.dev_addr == frame.dev_addr]
        if session is None:
            if of_address:
                yield check.wrong("MIC", f"that of its session and FCnt {f_cnt}", frame.mic)
            elif self.are_known and device.sessions:
                yield check.wrong("DevAddr", device.sessions[-1].dev_addr, frame.dev_addr)
            return
        on_port_0 = frame.f_port == 0
        octets = frame.clear(session.keys, f_cnt) if on_port_0 else frame.f_opts
        said = from_device(octets)
        # On FPort 0 an application may have put whatever it likes.
        if not on_port_0 and sum(len(command.octets) for command in said) != len(octets):
            yield check.wrong("FOpts", "whole commands of a device", octets)
        if frame.adr and sender.unheard >= ADR_ACK_LIMIT and not frame.bit_6:
            yield check.wrong("ADRACKReq", f"yes: {sender.unheard} frames unheard", False)
        if frame.bit_6 and self.are_known and sender.unheard_max < ADR_ACK_LIMIT:
            yield check.wrong("ADRACKReq", f"no: {sender.unheard_max} frames unheard", True)
        if self.are_known:
            yield from self._as_fast(sender, frame, event.get("dr"), check)
        sender.unheard += 1
        sender.unheard_max += 1
        yield from _acknowledged(sender, frame, check)
        yield from self._answered(sender, said, check)
        yield from self._margins(sender, device.dev_eui, said, check)
        if not on_port_0:
            unasked = {command.cid for command in said} & set(_ASKS.values()) - sender.asks
            for cid in sorted(unasked) if self.are_known and not sender.may_ask else ():
                yield check.wrong(cid.name, "none: nobody has asked for it at the console", "one")
            sender.may_ask = False
            yield from _asked(sender, said, len(octets), check)

    def _as_fast(
        self, sender: Sender, frame: DataFrame, dr: int | None, check: Scrutiny
    ) -> Iterator[Found]:
        """LoRaWAN 1.0.4, 4.3.1.1: whom nobody answers is a step slower with each 32nd frame.

        First it raises its power, so its data rate falls with the 129th for the first time.
        """
        before, sender.dr = sender.dr, dr
        if before is None:
            return
        due, slower = {before}, {max(before - 1, self._plan.up_drs[0])}
        if sender.adr and sender.dr_asked is not None:
            due.add(sender.dr_asked)
        if frame.adr and sender.unheard_max >= ADR_ACK_LIMIT + 2 * ADR_ACK_DELAY:
            is_due = sender.unheard == sender.unheard_max and not sender.unheard % ADR_ACK_DELAY
            due = slower if is_due else due | slower
        if dr not in due:
            yield check.wrong("data rate", " or ".join(map(str, sorted(due))), dr)

    def _answered(
        self, sender: Sender, said: tuple[Command, ...], check: Scrutiny
    ) -> Iterator[Found]:
        answers = Counter(command.cid for command in said if command.cid in self._answers)
        sender.answered += answers
        for cid in sorted(sender.owes - answers.keys()):
            yield check.wrong(f"answer to {cid.name}", "one", None)
        for cid in sorted(answers):
            asked, answered = sender.was_asked[cid], sender.answered[cid]
            sender.answered[cid] = min(asked, answered)
            if sender.asks_unseen:
                continue
            if not asked:
                yield check.wrong(f"answer to {cid.name}", "none: nobody has asked", "one")
            elif answered > asked:
                yield check.wrong(f"answers to {cid.name}", f"{asked} in all", answered)
        for command in said:
            if command.cid is Cid.LINK_ADR and command.told != GRANTED:
                yield check.wrong("LinkADRAns", GRANTED, command.told)
            elif command.cid is Cid.LINK_ADR and sender.obeys and not sender.is_told_since:
                sender.nb_trans = max(1, sender.nb_trans_asked)
        sender.owes.clear()

    def _margins(
        self, sender: Sender, dev_eui: str, said: tuple[Command, ...], check: Scrutiny
    ) -> Iterator[Found]:
        """LoRaWAN 1.0.4, 5.5: the SNR of the request, in 6 bits and whole dB; 255: no battery."""
        for command in said:
            if command.cid is not Cid.DEV_STATUS:
                continue
            heard = [self._air.strength(number, dev_eui, 0) for number in sender.status_asked]
            sender.status_asked.clear()
            if self.are_known:
                yield from check.same("battery of DevStatusAns", 255, command.told[0])
            margin = (command.told[1] + 32) % 64 - 32
            due = [max(-32.0, min(31.0, one[1])) for one in heard if one is not None]
            if due and not any(abs(margin - snr) <= 0.5 for snr in due):
                yield check.wrong("margin of DevStatusAns", " or ".join(map(str, due)), margin)


def _opens(after_us: int) -> bool:
    """Whether a device may open a window so long after its frame: after whole seconds alone.

    What answers a frame that somebody replayed comes at any time.
    """
    return after_us > ON_TIME_US and (after_us + ON_TIME_US) % 1_000_000 <= 2 * ON_TIME_US


def _asked_in(frame: DataFrame | None) -> set[Cid]:
    """What a downlink asks of its device, but for what is on FPort 0."""
    return set() if frame is None else {command.cid for command in from_network(frame.f_opts)}


def _had_to_hear(due: OnAir, event: Event, observed: str | None) -> Iterator[Found]:
    if due.ends_us <= event["t_us"]:
        what = "downlink in its window"
        yield _wrong_of_device(event, due.ends_us, what, "one that it hears", observed)


def _wrong_of_device(event: Event, t_us: int, what: str, due: object, seen: object) -> Found:
    check = Scrutiny(rule="uplink", of=f"device {event['dev_eui']}", t_us=t_us)
    return replace(check.wrong(what, due, seen), owner=Owner.DEVICE)


def _agreed(sender: Sender) -> None:
    """It has said that it does what was typed."""
    word, _, value = sender.typed.partition("=")
    if (asked := _ASKS.get(sender.typed)) is not None:
        sender.asks.add(asked)
    match word:
        case "AT+ADR":
            sender.adr = value == "1"
        case "AT+RETY":
            sender.retries = int(value)
        case "AT+CFM":
            sender.confirmed = value == "1"
        case "AT+SEND":
            port, _, payload = value.partition(":")
            sender.message = Message(sender.confirmed, int(port), payload.lower())


def _as_told(
    sender: Sender, frame: DataFrame, device: KnownDevice, f_cnt: int, check: Scrutiny
) -> Iterator[Found]:
    """Whether a new frame is what its console was told to send."""
    yield from check.same("ADR", sender.adr, frame.adr)
    message, session = sender.message, device.session_of(frame, f_cnt)
    if message is None:
        yield check.wrong("frame", "none: nobody has told it to send", "one")
        return
    yield from check.same("confirmed", message.confirmed, frame.confirmed)
    yield from check.same("FPort", message.port, frame.f_port)
    if session is not None:
        payload = frame.clear(session.keys, f_cnt).hex()
        yield from check.same("payload", message.payload, payload)


def _acknowledged(sender: Sender, frame: DataFrame, check: Scrutiny) -> Iterator[Found]:
    if sender.owes_ack:
        yield from check.same("ACK", True, frame.ack)
    elif frame.ack and not sender.was_confirmed:
        yield from check.same("ACK", False, frame.ack)
    sender.owes_ack = False
    sender.was_confirmed &= not frame.ack


def _asked(
    sender: Sender, said: tuple[Command, ...], octets: int, check: Scrutiny
) -> Iterator[Found]:
    """What somebody has typed goes with the next frame, unless there is no room."""
    missing = sender.asks - {command.cid for command in said}
    if octets + len(missing) <= F_OPTS_MAX:
        for cid in sorted(missing):
            yield check.wrong(cid.name, "one: it was asked for at the console", None)
    sender.asks.clear()
