"""Would anybody notice a network server that judges copies and counters wrongly?"""

from tests.mutants.mutant import Mutant

LEVEL_1 = "tests/lns/dedup/test_concentrator.py"

MUTANTS = (
    Mutant(
        "copies of a repeat do not wait",
        "lns/uplink/data.py",
        "return self.status is NON_DUPLICATE and not self.ends_here",
        "return False",
        noticed_by="tests/lns/uplink/test_data_interleavings.py",
    ),
    Mutant(
        "counter kept before its frame is delivered",
        "lns/dedup/session.py",
        "            if kept.mic in self.under_way:",
        "            if kept.mic in ():",
        noticed_by="tests/lns/dedup/test_session.py",
    ),
    Mutant(
        "a repeat has no name for its copies",
        "lns/uplink/data.py",
        "self._sightings.place(facts.key, facts.named)  # before a newer frame comes",
        "pass",
        noticed_by="tests/bench/explore/test_explore.py",
    ),
    Mutant(
        "no slide on a hit",
        "lns/dedup/concentrator.py",
        "        self._frames[key] = Sighting(first, now_us, known.lived)",
        "        self._frames.setdefault(key, Sighting(first, now_us, known.lived))",
    ),
    Mutant(
        "station replaced on a hit",
        "lns/dedup/concentrator.py",
        "self._frames[key] = Sighting(first, now_us, known.lived)",
        "self._frames[key] = Sighting(station, now_us, known.lived)",
    ),
    Mutant(
        "a refusal takes a frame of a later life back",
        "lns/uplink/data.py",
        "        if session.f_cnt_up == f_cnt and session.mic == facts.key.mic:\n",
        "        if session.f_cnt_up == f_cnt:\n",
        "tests/lns/uplink/test_data_upstream.py",
    ),
    Mutant(
        "> for >= at 60 s",
        "lns/dedup/concentrator.py",
        "return found if now_us - found.heard_us < self._retention_us else _NOBODY",
        "return found if now_us - found.heard_us <= self._retention_us else _NOBODY",
    ),
    Mutant(
        "retention half as long",
        "lns/dedup/concentrator.py",
        "return found if now_us - found.heard_us < self._retention_us else _NOBODY",
        "return found if now_us - found.heard_us < self._retention_us // 2 else _NOBODY",
    ),
    Mutant(
        "all that is due leaves at once",
        "lns/dedup/concentrator.py",
        "        return super().expire(self._marks_us.popleft())",
        "        return super().expire(time)",
        LEVEL_1,
    ),
    Mutant(
        "an expired entry counts as evicted",
        "lns/dedup/concentrator.py",
        "        due = due or super().expire()",
        "        due = due or list(super().expire())[:0]",
        LEVEL_1,
    ),
    Mutant(
        "key without MIC",
        "lns/uplink/data.py",
        "DataKey(match.device.dev_eui, mic_of(frame), frame.f_cnt)",
        'DataKey(match.device.dev_eui, type(mic_of(frame))(""), frame.f_cnt)',
    ),
    Mutant(
        "key without DevEUI",
        "lns/uplink/data.py",
        "DataKey(match.device.dev_eui, mic_of(frame), frame.f_cnt)",
        'DataKey(type(match.device.dev_eui)(""), mic_of(frame), frame.f_cnt)',
    ),
    Mutant(
        "join key without DevNonce",
        "lns/uplink/join.py",
        "JoinKey(request.join_eui, request.dev_eui, request.dev_nonce)",
        "JoinKey(request.join_eui, request.dev_eui, 0)",
    ),
    Mutant(
        "soft duplicate answered",
        "lns/dedup/strategy.py",
        "Disposition(_COPY_OF[s])",
        "Disposition(_COPY_OF[s], answers=True)",
    ),
    Mutant(
        "Duplicate forwarded",
        "lns/dedup/strategy.py",
        "_COPY_DROPPED = Disposition(Upstream.DROPPED, Reason.DUPLICATE)",
        "_COPY_DROPPED = Disposition(Upstream.FORWARDED)",
    ),
    Mutant(
        "None marks copies",
        "lns/dedup/strategy.py",
        "Strategy.NONE: Upstream.FORWARDED,",
        "Strategy.NONE: Upstream.MARKED,",
    ),
    Mutant(
        "unconfirmed resubmission forwarded",
        "lns/dedup/strategy.py",
        "repeats = may_have_restarted or (standing is EQUAL and confirmed)",
        "repeats = may_have_restarted or standing is EQUAL",
    ),
    Mutant(
        "resubmission sends data under Drop",
        "lns/dedup/strategy.py",
        "        Upstream.DROPPED, Reason.RESUBMISSION_SUPPRESSED, answers=True",
        "        Upstream.FORWARDED, answers=True",
    ),
    Mutant(
        "no resubmission limit",
        "lns/dedup/strategy.py",
        "RESUBMISSIONS_MAX = 3",
        "RESUBMISSIONS_MAX = 1_000",
    ),
    Mutant(
        "late copy of an older frame passes",
        "lns/dedup/strategy.py",
        "return done if admitted else _INVALID",
        "return done",
    ),
    Mutant(
        "every device may have restarted",
        "lns/uplink/registry.py",
        "return self.activation is _ABP and self.relaxed_f_cnt",
        "return True",
    ),
    Mutant(
        "no gap check",
        "lns/dedup/session.py",
        "return NEWER if gap <= MAX_GAP else TOO_FAR",
        "return NEWER",
    ),
    Mutant(
        "counter rollover at 65 535",
        "lns/lorawan/frame.py",
        "return wire, wire + _WIRE_SPAN",
        "return (wire,)",
    ),
    Mutant(
        "what was granted is taken back with the next frame",
        "lns/dedup/session.py",
        "        if self.life != life:  # in the same one,",
        "        if True:  # in the same one,",
        noticed_by="scenarios/test_seldom_together.py",
    ),
    Mutant(
        "copies of a former life numbered anew",
        "lns/dedup/session.py",
        "            self.knows_dwell_times = False\n        self.f_cnt_up",
        "            self.nb_trans, self.nb_trans_asked, self.copies = 1, False, {}\n"
        "        self.f_cnt_up",
        noticed_by="tests/bench/traffic/test_importing.py",
    ),
    Mutant(
        "copies of an older frame numbered anew",
        "lns/dedup/session.py",
        "        for old in others[: max(0, len(others) + 1 - COPIED_MAX)]:",
        "        for old in others:",
        noticed_by="tests/lns/dedup/test_session.py",
    ),
)
