"""Which generated faults change nothing that anybody could see, and why?

By the name of the fault (`python -m tests.mutants.generated --list`).
"""

EQUIVALENT: dict[str, str] = {
    "lns/uplink/data.py::Facts.owned: Level2.NOT_ASKED -> Level2.OWNER": (
        "looked at only when level 2 has been asked"
    ),
    "lns/dedup/session.py::_far: 1 -> 2": "any number below 0 is below every counter",
    "lns/uplink/join.py::Joins._refusal: "
    "request.dev_nonce < max(used) -> request.dev_nonce <= max(used)": (
        "the greatest DevNonce that was used is refused as used, a line before"
    ),
    "lns/uplink/mac_layer.py::ended_gps_us: 0 -> 1": (
        "no frame ended in the first microsecond of 1980"
    ),
    "lns/lorawan/region.py::airtime_us: 28 -> 27": (
        "whole octets and groups of four bits: one bit less never saves a group"
    ),
    "lns/station/protocol.py::StationClock.lns_time_us: "
    "known is None or xtime <= 0 -> known is None and xtime <= 0": (
        "it is asked of a frame with a clock alone, right after that was learnt from it"
    ),
    "lns/delivery/effect.py::_sync_folder: "
    "os.O_RDONLY | os.O_DIRECTORY -> os.O_RDONLY & os.O_DIRECTORY": (
        "it is only asked for folders, which open for reading without it as well"
    ),
}
