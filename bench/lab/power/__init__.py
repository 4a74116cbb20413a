"""Power switches, reset buttons and attenuators: how is something done to a board by a machine?"""

from bench.lab.power.attenuators import Attenuator, attenuator
from bench.lab.power.seam import PowerFailed, PowerSwitch
from bench.lab.power.switches import power_switch

__all__ = ["Attenuator", "PowerFailed", "PowerSwitch", "attenuator", "power_switch"]
