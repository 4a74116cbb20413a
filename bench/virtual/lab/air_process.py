"""Who hears which frame? The air of an emulated lab, a process between all its radios.

`python -m bench.virtual.lab.air_process DIR`: radios connect to the socket in DIR/air. A radio says
who it is (`radio`), what it sends (`sends`, an emission) and that it stopped in the middle
(`stops`, a key). Each radio that is near enough is told of every emission as it `begins`, and of
its end: `heard`, or `lost` with the cause. DIR/air/frames.jsonl keeps who heard what. `AirLine` is
how one radio reaches it, `DistantMedium` how a station in a process of its own does.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench.transmission import Direction, Eui, Transmission
from bench.virtual.air import (
    PUBLIC,
    Caught,
    Emission,
    Heard,
    Links,
    Listener,
    Medium,
    Modulation,
    Named,
    from_json,
    modulated,
    on_air_us,
    sensitivity_dbm,
    snr_db,
    spoilt,
)
from bench.virtual.lab import lab_folder
from bench.virtual.lab.lab_folder import AIR, Wire, connect, home, live, serve
from lns.clock import now_us

LOSS_DB = 60
"""Pads, combiner and splitter between any two radios; a step attenuator comes on top of it."""
STEP_DB = 20
Tell = Callable[[Mapping[str, object]], None]


@dataclass(slots=True)
class _OnAir:
    emission: Emission
    near: dict[str, float]
    overlaps: list[Emission] = field(default_factory=list)
    is_cut_off: bool = False


class Air:
    """The air; remembers its radios, what is on the air, and what lies before each radio."""

    def __init__(self, note: Callable[[dict[str, object]], None]) -> None:
        self._note = note
        self._radios: dict[str, Tell] = {}
        self._on_air: dict[str, _OnAir] = {}
        self._steps_db: dict[str, int] = {}
        self._boxed: dict[str, None] = {}

    def attach(self, radio: str, tell: Tell) -> None:
        """A radio is there; one of the same name is there no more."""
        self.detach(radio)
        self._radios[radio] = tell

    def detach(self, radio: str) -> None:
        self._radios.pop(radio, None)
        for frame in self._on_air.values():
            if frame.emission.sender == radio:
                frame.is_cut_off = True

    def attenuate(self, radio: str, step_db: int) -> None:
        self._steps_db[radio] = step_db

    def box(self, radio: str, *, closed: bool) -> None:
        self._boxed.pop(radio, None)
        if closed:
            self._boxed[radio] = None

    def begin(self, emission: Emission) -> None:
        frame = _OnAir(emission, {})
        for other in self._on_air.values():
            if other.emission.overlaps(emission):
                other.overlaps.append(emission)
                frame.overlaps.append(other.emission)
        self._on_air[emission.key] = frame
        for radio, tell in self._radios.items():
            rssi_dbm = self._rssi_dbm(emission, radio)
            if rssi_dbm is not None and rssi_dbm >= sensitivity_dbm(emission.modulation.data_rate):
                frame.near[radio] = rssi_dbm
                tell({"begins": emission.to_json()})
        loop = asyncio.get_running_loop()
        loop.call_at(emission.end_us / 1_000_000, self._end, emission.key)

    def stop(self, key: str) -> None:
        if key in self._on_air:
            self._on_air[key].is_cut_off = True

    def clear(self) -> None:
        """Let what is on the air end without a word: the lab is over."""
        self._on_air.clear()

    def _end(self, key: str) -> None:
        frame = self._on_air.pop(key, None)
        if frame is None:
            return
        emission, heard, lost = frame.emission, {}, {}
        for radio, rssi_dbm in frame.near.items():
            tell = self._radios.get(radio)
            if tell is None:
                continue
            cause = self._loss(frame, radio, rssi_dbm)
            signal: dict[str, object] = {
                "rssi_dbm": round(rssi_dbm),
                "snr_db": snr_db(rssi_dbm, emission.modulation.data_rate),
            }
            if cause:
                lost[radio] = cause
                tell({"lost": key, "cause": cause, **signal})
            else:
                heard[radio] = round(rssi_dbm)
                tell({"heard": key, **signal})
        self._note({**emission.to_json(), "heard": heard, "lost": lost})

    def _loss(self, frame: _OnAir, radio: str, rssi_dbm: float) -> str:
        if frame.is_cut_off:
            return "cut off"
        if self._rssi_dbm(frame.emission, radio) is None:
            return "boxed"
        modulation = frame.emission.modulation
        disturbing = [other for other in frame.overlaps if other.modulation.disturbs(modulation)]
        others_dbm = (self._rssi_dbm(other, radio) for other in disturbing)
        cause = spoilt(
            rssi_dbm,
            is_busy=any(other.sender == radio for other in frame.overlaps),
            others_dbm=(dbm for dbm in others_dbm if dbm is not None),
        )
        return cause or ""

    def _rssi_dbm(self, emission: Emission, radio: str) -> float | None:
        sender = emission.sender
        if radio == sender or radio in self._boxed or sender in self._boxed:
            return None
        steps_db = self._steps_db.get(radio, 0) + self._steps_db.get(sender, 0)
        return float(emission.power_dbm - LOSS_DB - steps_db)


async def serve_air(folder: Path, steps_db: Mapping[str, int]) -> None:
    own = lab_folder.home(folder, lab_folder.AIR)
    with (own / "frames.jsonl").open("a") as frames:

        def note(frame: dict[str, object]) -> None:
            frames.write(json.dumps(frame) + "\n")
            frames.flush()

        air = Air(note)
        for radio, step_db in steps_db.items():
            air.attenuate(radio, step_db)

        try:
            async with await serve(own, partial(serve_radio, air)) as server:
                print("listening", flush=True)
                await server.serve_forever()
        finally:
            air.clear()


async def serve_radio(air: Air, wire: Wire) -> None:
    """Let one radio, or who controls the air, be on it until the connection is over."""
    name = ""
    while (message := await wire.receive()) is not None:
        match message:
            case {"radio": str(name)}:
                air.attach(name, wire.send)
                wire.send({"attached": name})
            case {"sends": emission}:
                air.begin(from_json(emission))
            case {"stops": str(key)}:
                air.stop(key)
            case {"verb": str(verb), "name": str(radio), "value": value}:
                wire.send({"refused": _obey(air, verb, radio, value)})
    if name:
        air.detach(name)


def _obey(air: Air, verb: str, radio: str, value: str) -> str:
    match verb:
        case "deaf" | "hearing":
            air.box(radio, closed=verb == "deaf")
        case "attenuate":
            if not value.isdecimal():
                return f"{value!r} is no attenuation in dB"
            air.attenuate(radio, int(value))
        case _:
            return f"the air cannot {verb}"
    return ""


def main(words: list[str]) -> int:
    """`DIR NAME=DB …`: the folder of the lab, and the step attenuators."""
    steps_db = {name: int(db) for name, _, db in (word.partition("=") for word in words[1:])}
    return live(serve_air(Path(words[0]), steps_db))


class AirGone(Exception):
    """The process of the air has ended: nobody hears anybody any more."""


class AirLine:
    """One radio's connection to the air; remembers what begins and has not ended.

    `begins` is told every emission that is near as it begins, `caught` the end of each that could
    be received, also one with errors.
    """

    def __init__(self, name: str, wire: Wire) -> None:
        self.name = name
        self.ongoing: dict[str, Emission] = {}
        self.begins: Callable[[Emission], None] = lambda emission: None
        self.caught: Callable[[Caught], None] = lambda caught: None
        self._wire = wire
        self._numbers = 0

    def transmit(
        self,
        phy: bytes,
        modulation: Modulation,
        *,
        power_dbm: int,
        crc: bool,
        coding_rate: int = 1,
        start_us: int | None = None,
    ) -> Emission:
        """Send a frame now; `start_us`: when it began, where a timer of the radio decides that."""
        self._numbers += 1
        emission = Emission(
            sender=self.name,
            number=self._numbers,
            phy=phy,
            modulation=modulation,
            start_us=now_us() if start_us is None else start_us,
            airtime_us=on_air_us(modulation, len(phy), crc=crc, coding_rate=coding_rate),
            power_dbm=power_dbm,
        )
        self._wire.send({"sends": emission.to_json()})
        return emission

    def stop(self, emission: Emission) -> None:
        """Switch the sender off; without effect after the end."""
        self._wire.send({"stops": emission.key})

    async def run(self) -> None:
        """Hear until the air is gone: AirGone."""
        while (message := await self._wire.receive()) is not None:
            match message:
                case {"begins": fields}:
                    emission = from_json(fields)
                    self.ongoing[emission.key] = emission
                    self.begins(emission)
                case {"heard": key, "rssi_dbm": rssi_dbm, "snr_db": snr_db}:
                    self.caught(Caught(self.ongoing.pop(key), rssi_dbm, snr_db))
                case {"lost": key, "rssi_dbm": rssi_dbm, "snr_db": snr_db}:
                    self.caught(Caught(self.ongoing.pop(key), rssi_dbm, snr_db, error=True))
        raise AirGone(f"{self.name}: the air is gone")

    async def close(self) -> None:
        await self._wire.close()


async def open_air(folder: Path, name: str) -> AirLine:
    """Bring a radio on the air of the lab in this folder; AirGone if there is none."""
    try:
        wire = await connect(home(folder, AIR))
    except OSError as error:
        raise AirGone(f"{name}: there is no air in {folder} ({error.strerror})") from None
    return await go_on_air(wire, name)


async def go_on_air(wire: Wire, name: str) -> AirLine:
    """Bring a radio on the air at the other end of this connection; AirGone if it ends."""
    wire.send({"radio": name})
    if await asyncio.wait_for(wire.receive(), 10) is None:
        raise AirGone(f"{name}: the air is gone")
    return AirLine(name, wire)


class DistantMedium(Medium):
    """A medium whose frames come and go over a line: it does not know what is under way.

    A concentrator hears what has the IQ and the sync word of LoRaWAN uplinks and a data rate of its
    region, on a frequency of the region. It sends with inverted IQ.
    """

    def __init__(self, region: Named, line: AirLine) -> None:
        super().__init__(region, Links(), lambda *_: None)
        self._line = line
        self._heard_frames = 0
        line.caught = self._caught

    def attach(self, listener: Listener, *, hears: Direction) -> None:
        if id(listener) not in self._listeners[hears]:
            low_mhz, high_mhz = (hz / 1e6 for hz in self.plan.limits_hz)
            where = f"{self.plan.name} -- {low_mhz:.1f}MHz..{high_mhz:.1f}MHz"
            print("WARN: Dev/test settings: nocca=0 nodc=1 nodwell=0", flush=True)
            print(f"INFO: Configuring for region: {where}", flush=True)
            print("INFO: Concentrator started (0ms)", flush=True)
        super().attach(listener, hears=hears)

    def _begin(self, transmission: Transmission) -> None:
        freq_hz, phy = transmission.freq_hz, transmission.phy
        is_down = transmission.direction == "down"
        self._line.transmit(
            phy,
            modulated(transmission.data_rate, freq_hz, inverted=is_down),
            power_dbm=transmission.power_dbm,
            crc=not is_down,
            start_us=transmission.start_us,
        )
        print(f"INFO: TX {freq_hz / 1e6:.1f}MHz DR{transmission.dr} {len(phy)} bytes", flush=True)

    def _caught(self, caught: Caught) -> None:
        emission, modulation = caught.emission, caught.emission.modulation
        low_hz, high_hz = self.plan.limits_hz
        if caught.error or modulation.inverted or modulation.sync_word != PUBLIC:
            return
        if not low_hz <= modulation.freq_hz <= high_hz:
            return
        dr = self.plan.up_dr(modulation.data_rate)
        if dr is None:
            return
        self._heard_frames += 1
        transmission = Transmission(
            number=self._heard_frames, direction="up", sender=Eui(""), phy=emission.phy,
            freq_hz=modulation.freq_hz, dr=dr, data_rate=modulation.data_rate,
            start_us=emission.start_us, airtime_us=emission.airtime_us,
            end_us=emission.end_us, power_dbm=emission.power_dbm, origin="device",
        )  # fmt: skip
        print(f"INFO: RX {modulation.freq_hz / 1e6:.1f}MHz DR{dr} {len(emission.phy)} bytes")
        heard = Heard(transmission, caught.rssi_dbm, caught.snr_db, emission.end_us)
        for ear in list(self._listeners["up"].values()):
            ear.frame_heard(heard)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
