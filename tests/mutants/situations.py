"""Would anybody notice what shows in rare situations only: far counters, drawn nonces, antennas?"""

from tests.mutants.mutant import Mutant

COUNTERS = "scenarios/test_counters.py"
ANSWERS = "scenarios/test_answers.py"
JOINS = "scenarios/test_joins.py"
CACHE = "scenarios/test_cache.py"
APPLICATION = "scenarios/test_upstream.py"
STORE = "scenarios/test_shared_store.py"
OWNERS = "scenarios/test_ownership.py"

DOWNLINK = "lns/downlink/downlink.py"
QUEUE = "lns/downlink/downlink_queue.py"
FRAME = "lns/downlink/downlink.py"
END_DEVICE = "lns/dedup/session.py"
JOIN = "lns/uplink/join.py"
LEVEL_1 = "lns/dedup/concentrator.py"
UPLINK = "lns/uplink/data.py"
DECISIONS = "lns/delivery/inbox.py"
WINDOW = "lns/delivery/detectors.py"

MUTANTS = (
    Mutant(
        "gap one too small",
        "lns/lorawan/frame.py",
        "MAX_GAP = 16384",
        "MAX_GAP = 16383",
        COUNTERS,
    ),
    Mutant(
        "a device never heard may begin anywhere",
        "lns/dedup/session.py",
        "gap = f_cnt - (newest or 0)",
        "gap = f_cnt - (f_cnt - 1 if newest is None else newest)",
        COUNTERS,
    ),
    Mutant(
        "payload deciphered with sixteen bits",
        "lns/delivery/publisher.py",
        "payload=frame.payload(session.keys, f_cnt),",
        "payload=frame.payload(session.keys, f_cnt & 0xFFFF),",
        COUNTERS,
    ),
    Mutant(
        "restart gives new answers",
        END_DEVICE,
        "kept.resubmissions, kept.copies = {**kept.resubmissions}, {**kept.copies}",
        "kept.resubmissions, kept.copies = {}, {**kept.copies}",
        COUNTERS,
    ),
    Mutant(
        "new life pays for the old one",
        END_DEVICE,
        "counter.mic, owner\n        self.resubmissions = {}",
        "counter.mic, owner",
        COUNTERS,
    ),
    Mutant(
        "copy goes up without naming its counter",
        UPLINK,
        "session.f_cnt_up == f_cnt and not facts.shared:",
        "session.f_cnt_up == f_cnt and not facts.shared and facts.disposition.spends:",
        "scenarios/test_explored.py",
    ),
    Mutant(
        "accept says nothing of the offset",
        JOIN,
        "DlSettings(listening.rx1_dr_offset,",
        "DlSettings(0,",
        ANSWERS,
    ),
    Mutant(
        "accept says nothing of the delay",
        JOIN,
        "rx_delay=listening.rx_delay_s",
        "rx_delay=1",
        ANSWERS,
    ),
    Mutant(
        "answer knows no offset",
        "lns/lorawan/region.py",
        "region.rx1(dr, freq_hz, rx1_dr_offset)",
        "region.rx1(dr, freq_hz)",
        ANSWERS,
    ),
    Mutant(
        "answer in RX2 of the region",
        DOWNLINK,
        "            rx2_dr=listening.rx2_dr,\n        )",
        "            rx2_dr=None,\n        )",
        ANSWERS,
    ),
    Mutant(
        "answer after a second always",
        DOWNLINK,
        "session.listening.rx_delay_s * 1_000_000",
        "self._region.receive_delay_us",
        ANSWERS,
    ),
    Mutant(
        "class C in RX2 of the region",
        DOWNLINK,
        "self._region.rx2(session.listening.rx2_dr)",
        "self._region.rx2()",
        ANSWERS,
    ),
    Mutant(
        "how a device listens forgotten",
        END_DEVICE,
        "kept.heard, kept.heard_life, kept.under_way = None, 0, {}",
        "kept.heard, kept.heard_life, kept.listening = None, 0, AS_REGION_SAYS",
        ANSWERS,
    ),
    Mutant("always the first antenna", DOWNLINK, "rctx=reception.rctx,", "rctx=0,", ANSWERS),
    Mutant(
        "FPending although nothing waits",
        FRAME,
        "f_pending=waiting > (1 if said else 0)",
        "f_pending=waiting > 0",
        ANSWERS,
    ),
    Mutant(
        "FPending never",
        FRAME,
        "f_pending=waiting > (1 if said else 0)",
        "f_pending=False",
        ANSWERS,
    ),
    Mutant(
        "last downlink first",
        QUEUE,
        "        queue.append(Waiting(downlink))",
        "        queue.appendleft(Waiting(downlink))",
        ANSWERS,
    ),
    Mutant("downlink sent four times", QUEUE, "SENDINGS_MAX = 3", "SENDINGS_MAX = 4", ANSWERS),
    Mutant("downlink sent twice", QUEUE, "SENDINGS_MAX = 3", "SENDINGS_MAX = 2", ANSWERS),
    Mutant(
        "station proves a confirmed downlink",
        DOWNLINK,
        "        if carried is not None and carried.downlink.confirmed:\n",
        "        if False:\n",
        ANSWERS,
    ),
    Mutant(
        "acknowledgement of the device ignored",
        UPLINK,
        "            self._downlinks.queues.acknowledge(device.dev_eui)",
        "            pass",
        ANSWERS,
    ),
    Mutant(
        "confirmed downlink asks for nothing",
        FRAME,
        "MType.CONFIRMED_DOWN if said and said.confirmed else MType.UNCONFIRMED_DOWN",
        "MType.UNCONFIRMED_DOWN",
        ANSWERS,
    ),
    Mutant(
        "no ACK beside data",
        FRAME,
        "            ack=content.ack,",
        "            ack=content.ack and not said,",
        ANSWERS,
    ),
    Mutant(
        "accept names no channels",
        JOIN,
        'frequency_cf_list(more_hz) if more_hz else b""',
        'b""',
        ANSWERS,
    ),
    Mutant(
        "request for repetitions takes channels away",
        "lns/uplink/mac_layer.py",
        "        ch_mask=region.ch_mask | more,",
        "        ch_mask=region.ch_mask,",
        ANSWERS,
    ),
    Mutant(
        "drawn nonces have to grow",
        JOIN,
        "if device.lorawan is LoRaWanVersion.V1_0_4 and used and",
        "if used and",
        JOINS,
    ),
    Mutant(
        "counted nonces may go back",
        JOIN,
        "if device.lorawan is LoRaWanVersion.V1_0_4 and used and",
        "if False and used and",
        JOINS,
    ),
    Mutant(
        "join key without DevEUI",
        JOIN,
        "JoinKey(request.join_eui, request.dev_eui, request.dev_nonce)",
        "JoinKey(request.join_eui, request.join_eui, request.dev_nonce)",
        JOINS,
    ),
    Mutant(
        "join with a foreign JoinEUI uses its nonce",
        JOIN,
        "        if request.join_eui != device.join_eui:\n            return",
        "        if request.join_eui != device.join_eui:\n"
        "            self._registry._store._dev_nonces[device.dev_eui].add(request.dev_nonce)\n"
        "            return",
        JOINS,
    ),
    Mutant(
        "downlinks begin at one in a session",
        JOIN,
        "            more_channels_hz=more_hz or None,\n",
        "            more_channels_hz=more_hz or None,\n            f_cnt_down=1,\n",
        JOINS,
    ),
    Mutant(
        "a new session may have been answered",
        "lns/store/redis.py",
        "then redis.call('HSETNX', KEYS[3], opened.dev_addr, 0) end\n",
        "then end\n",
        "tests/lns/store/test_redis.py",
    ),
    Mutant(
        "a session that is over may be answered once more",
        "lns/store/redis.py",
        "if opened and lives[opened.dev_addr] then",
        "if opened then",
        "tests/lns/store/test_redis.py",
    ),
    Mutant(
        "evicted in silence",
        LEVEL_1,
        "        self._evicted(Eviction(key",
        "        str(Eviction(key",
        CACHE,
    ),
    Mutant(
        "what the server got wrong is of no frame",
        "lns/network_server.py",
        "reception.station, Reason.INTERNAL_ERROR, reception.xtime, _frame_id(frame)",
        "reception.station, Reason.INTERNAL_ERROR, reception.xtime",
        "tests/lns/test_unexpected_error.py",
    ),
    Mutant(
        "what the server got wrong is of no moment",
        "lns/network_server.py",
        "reception.station, Reason.INTERNAL_ERROR, reception.xtime, _frame_id(frame)",
        "reception.station, Reason.INTERNAL_ERROR, None, _frame_id(frame)",
        "tests/lns/test_unexpected_error.py",
    ),
    Mutant(
        "a script that was refused is taken for known",
        "lns/store/redis_wire.py",
        "        elif not isinstance(reply, ResponseError):\n",
        "        else:\n",
        "tests/lns/store/test_redis.py",
    ),
    Mutant(
        "retention is a minute, whatever is configured",
        "lns/network_server.py",
        "now_us, retention_us=retention_us,",
        "now_us, retention_us=60_000_000,",
        CACHE,
    ),
    Mutant(
        "room for one frame less",
        "lns/network_server.py",
        "entries_max=entries_max, evicted",
        "entries_max=max(1, entries_max - 1), evicted",
        CACHE,
    ),
    Mutant(
        "what is due is evicted",
        LEVEL_1,
        "        due = due or super().expire()  # then",
        "        due = due or []  # then",
        CACHE,
    ),
    Mutant(
        "forged join takes room",
        JOIN,
        "if not request.mic_is_valid(device.app_key):",
        "if not request.mic_is_valid(device.app_key) and self._note(reception, request):",
        CACHE,
    ),
    Mutant(
        "application may take half a minute",
        "lns/delivery/publisher.py",
        "PUBLISH_US = 10_000_000",
        "PUBLISH_US = 30_000_000",
        APPLICATION,
    ),
    Mutant(
        "application has to be quick",
        "lns/delivery/publisher.py",
        "PUBLISH_US = 10_000_000",
        "PUBLISH_US = 9_000_000",
        APPLICATION,
    ),
    Mutant(
        "what hung counts as delivered",
        "lns/delivery/publisher.py",
        '            raise UpstreamUnavailable(f"not durable within {PUBLISH_US} us") from None',
        "            return",
        APPLICATION,
    ),
    Mutant(
        "refused repeat is spent",
        UPLINK,
        "        self._give_back(facts)\n        if before is None or",
        "        if before is None or",
        APPLICATION,
    ),
    Mutant(
        "repeat during an outage is spent",
        UPLINK,
        "            self._give_back(facts)\n            return facts.withheld",
        "            return facts.withheld",
        STORE,
    ),
    Mutant(
        "repeat that nobody can own is spent",
        UPLINK,
        "        if not facts.owned:\n            self._give_back(facts)\n",
        "        if not facts.owned:\n",
        STORE,
    ),
    Mutant(
        "effect has two tries",
        DECISIONS,
        "        if tries < self._tries.most:",
        "        if tries < 2:",
        APPLICATION,
    ),
    Mutant(
        "nothing waits for an effect that fails",
        DECISIONS,
        "            if decision.event is None:\n                held.add(offered.stream)",
        "            pass",
        APPLICATION,
    ),
    Mutant(
        "effect that failed is remembered",
        DECISIONS,
        "        with tx.attempt():\n",
        "        if True:\n",
        APPLICATION,
    ),
    Mutant(
        "traffic lets go of ids too early",
        WINDOW,
        "entries.forget(Table.WINDOW, now_us - self._window_us + 1, at_most)",
        "entries.forget(Table.WINDOW, now_us - self._window_us // 2, at_most)",
        APPLICATION,
    ),
    Mutant(
        "owner of what the store forgot is whoever asks",
        "lns/dedup/claim.py",
        "state = State(bid.known, bid.known_owner)",
        "state = State(bid.known, bid.lns)",
        OWNERS,
    ),
)
