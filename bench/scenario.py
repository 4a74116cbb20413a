"""Everything that the file of a scenario imports, in one place.

    from bench.scenario import FIRST, Rig, seconds

    async def test_the_pump_is_heard(rig: Rig) -> None:
        '''A first frame goes to the application.'''
        pump = rig.provision("pump")
        uplink = await pump.send(b"on")
        rig.expect(uplink, FIRST, first="west")

`scenarios/README.md` has every verb of a rig, the language of the tables, and the faults.
"""

from bench.clock import microseconds, milliseconds, minutes, seconds
from bench.device.interfaces import Joining, Sent
from bench.rig.interfaces import Frame, RigDevice, RigStation
from bench.rig.rig import Rig
from bench.verdict.case import StimulusMissed
from bench.verdict.expectation import Due, Table
from bench.verdict.owner import ScenarioMistake
from lns.dedup.strategy import Strategy

__all__ = [
    "Due", "Frame", "Joining", "Rig", "RigDevice", "RigStation", "ScenarioMistake", "Sent",
    "StimulusMissed", "Strategy", "Table", "microseconds", "milliseconds", "minutes", "seconds",
]  # fmt: skip
