"""What holds for the inbox of an application holds where it lies in a real Redis."""

from scenarios import test_consumer, test_detectors
from scenarios.test_in_redis import in_redis

GROUPS = (test_consumer, test_detectors)
LEFT_OUT = {
    "what_waits_behind_five_hundred_stays_behind_them": "each of them is decided on alone here",
}

for _group in GROUPS:
    for _name, _scenario in vars(_group).items():
        if _name.startswith("test_") and _name.removeprefix("test_") not in LEFT_OUT:
            globals().setdefault(_name, in_redis(_scenario))
