"""Would anybody notice a network server that has the bugs of others?

Of each bug in `scenarios/test_museum.py` the one line that gives it to this server; the names are
those of the scenarios.
"""

from tests.mutants.mutant import Mutant

MUSEUM = "scenarios/test_museum.py"
STRATEGY = "lns/dedup/strategy.py"
UPLINK = "lns/uplink/data.py"

MUTANTS = (
    Mutant(
        "museum: a replay by another station goes up",
        STRATEGY,
        "return done if admitted else _INVALID",
        "return done",
        MUSEUM,
    ),
    Mutant(
        "museum: a copy restarts the counter",
        STRATEGY,
        "return done if admitted else _INVALID",
        "return _with(done, advances=may_have_restarted) if admitted else _INVALID",
        MUSEUM,
    ),
    Mutant(
        "museum: a slow gateway brings a frame of its own",
        "lns/dedup/concentrator.py",
        "        self._retention_us = retention_us\n",
        "        self._retention_us = retention_us // 300\n",
        MUSEUM,
    ),
    Mutant(
        "museum: two gateways at one moment, both the first",
        UPLINK,
        "        copy = self._sightings.note(key, reception.station)\n        waited",
        "        key = replace(key, dev_eui=reception.station)\n"
        "        copy = self._sightings.note(key, reception.station)\n        waited",
        MUSEUM,
    ),
    Mutant(
        "museum: the retry of a confirmed uplink is not acknowledged",
        STRATEGY,
        "        Upstream.DROPPED, Reason.RESUBMISSION_SUPPRESSED, answers=True",
        "        Upstream.DROPPED, Reason.RESUBMISSION_SUPPRESSED",
        MUSEUM,
    ),
    Mutant(
        "museum: a retry at another data rate is another frame",
        UPLINK,
        "        copy = self._sightings.note(key, reception.station)\n        waited",
        "        key = replace(key, f_cnt_wire=key.f_cnt_wire + 65_536 * reception.dr)\n"
        "        copy = self._sightings.note(key, reception.station)\n        waited",
        MUSEUM,
    ),
    Mutant(
        "museum: a gateway in a loop is heard again",
        STRATEGY,
        "repeats = may_have_restarted or (standing is EQUAL and confirmed)",
        "repeats = may_have_restarted or standing is EQUAL",
        MUSEUM,
    ),
    Mutant(
        "museum: FCnt 0 right after FCnt 0 is dropped",
        STRATEGY,
        "if standing is NEWER or may_have_restarted:",
        "if standing is NEWER:",
        MUSEUM,
    ),
    Mutant(
        "museum: a DevNonce is used twice",
        "lns/store/memory.py",
        "        used.add(dev_nonce)\n",
        "",
        MUSEUM,
    ),
    Mutant(
        "museum: a lost message is acknowledged",
        UPLINK,
        "                self._sightings.forget(key)",
        "                pass",
        MUSEUM,
    ),
    Mutant(
        "museum: copies use up the answers",
        STRATEGY,
        "return done if admitted else _INVALID",
        "return _with(done, spends=confirmed) if admitted else _INVALID",
        MUSEUM,
    ),
    Mutant(
        "museum: a forged join blocks the real one",
        "lns/uplink/join.py",
        "        if not request.mic_is_valid(device.app_key):",
        "        self._note(reception, request)\n"
        "        if not request.mic_is_valid(device.app_key):",
        MUSEUM,
    ),
    Mutant(
        "museum: the frame at the roll-over is lost",
        "lns/lorawan/frame.py",
        "return wire, wire + _WIRE_SPAN",
        "return (wire,)",
        MUSEUM,
    ),
    Mutant(
        "museum: an answer repeated with its counter",
        "lns/dedup/session.py",
        "        self.f_cnt_down += 1\n",
        "",
        MUSEUM,
    ),
)
