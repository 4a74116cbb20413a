"""Would anybody notice a network server that answers, joins or remembers wrongly?"""

from tests.mutants.mutant import Mutant

STORE_OUTAGE = "tests/lns/test_store_outage.py"
DOWNLINK = "tests/lns/downlink/test_downlink.py"
STATIONS = "scenarios/test_catalogue_stations.py"
XTIME = "tests/lns/station/test_xtime.py"
JOINS = "scenarios/test_joins.py"
UNEXPECTED = "tests/lns/test_unexpected_error.py"
IDENTIFIERS = "tests/lns/lorawan/test_identifiers.py"
SMALL_PRINT = "scenarios/test_small_print.py"

MUTANTS = (
    Mutant(
        "answer from the wrong station",
        "lns/connections.py",
        "            return False\n        connection.protocol.send_downlink(downlink)",
        "            return False\n"
        "        connection = max(self._current.items(), key=lambda one: one[0])[1]\n"
        "        connection.protocol.send_downlink(downlink)",
    ),
    Mutant(
        "FCntDown used again",
        "lns/dedup/session.py",
        "        self.f_cnt_down += 1\n",
        "",
    ),
    Mutant(
        "answer always in RX1",
        "lns/lorawan/region.py",
        "    if rx1_us >= lead_us:",
        "    if True:",
    ),
    Mutant(
        "join level 1 before its MIC",
        "lns/uplink/join.py",
        "        if not request.mic_is_valid(device.app_key):",
        "        self._note(reception, request)\n"
        "        if not request.mic_is_valid(device.app_key):",
    ),
    Mutant(
        "DevNonce forgotten",
        "lns/uplink/join.py",
        "        if request.dev_nonce in used:\n            return Reason.DEV_NONCE_USED",
        "        used = frozenset()",
    ),
    Mutant(
        "JoinNonce of chance",
        "lns/uplink/join.py",
        "join_nonce = await self._registry.next_join_nonce(device)",
        "join_nonce = self._entropy.getrandbits(24)",
        JOINS,
    ),
    Mutant(
        "JoinNonce begins anew with the server",
        "lns/uplink/registry.py",
        "        asked = self._store.next_join_nonce(device.dev_eui, device.join_nonce_min)\n"
        "        return await self._patience.wait_for(asked)",
        "        self._given = getattr(self, '_given', 0) + 1\n        return self._given",
        JOINS,
    ),
    Mutant(
        "JoinNonce of two servers taken twice",
        "lns/store/memory.py",
        "            self._join_nonces = beside._join_nonces\n",
        "",
        JOINS,
    ),
    Mutant(
        "JoinNonce forgotten with the device",
        "lns/store/redis.py",
        'await self._wire.do("DEL", dev_nonces_of(dev_eui), sessions_of(dev_eui))',
        'await self._wire.do("DEL", dev_nonces_of(dev_eui), join_nonce_of(dev_eui))',
        "tests/lns/store/test_redis.py",
    ),
    Mutant(
        "JoinNonce below the least one",
        "lns/store/sqlite.py",
        "max(join_nonce + 1, excluded.join_nonce)",
        "join_nonce + 1",
        "tests/contracts/test_session_store.py",
    ),
    Mutant(
        "answered before the counter is kept",
        "lns/downlink/downlink.py",
        "await self._registry.keep(session.dev_eui)",
        "pass",
    ),
    Mutant(
        "application downlink never done",
        "lns/downlink/downlink.py",
        "            self.queues.prove(scheduled.dev_eui, carried)",
        "            pass",
    ),
    Mutant(
        "class C sends again at once what an answer brought",
        "lns/downlink/downlink.py",
        "            return  # who sent it waits until the device has had time to acknowledge it\n"
        "        if carried is not None:\n",
        "            pass\n        elif carried is not None:\n",
        SMALL_PRINT,
        says=r"time: expected 8000 ms after an answer that is to be acknowledged",
    ),
    Mutant(
        "a request hastens what waits for its acknowledgement",
        "lns/downlink/downlink.py",
        "now_us(), unasked=True)",
        "now_us())",
        "scenarios/test_answers.py",
        says=r"time: expected 8000 ms after an answer that is to be acknowledged",
    ),
    Mutant(
        "class C stands still behind an answer that carried nothing",
        "lns/downlink/downlink.py",
        "        if scheduled.f_cnt_down is not None:\n            self._class_c.stir",
        "        if carried is not None:\n            self._class_c.stir",
        SMALL_PRINT,
        says=r"expected at a station at once, observed nowhere",
    ),
    Mutant(
        "class C through another station",
        "lns/uplink/registry.py",
        "        self._last_heard[match.device.dev_eui] = station",
        "        self._last_heard.setdefault(match.device.dev_eui, station)",
    ),
    Mutant(
        "session of a join that was not kept",
        "lns/uplink/registry.py",
        "        kept = False\n        try:",
        "        kept = True\n        try:",
        STORE_OUTAGE,
    ),
    Mutant(
        "join that was not kept shadows copies",
        "lns/uplink/join.py",
        "            self._sightings.forget(self._key(request))\n            refused",
        "            refused",
        STORE_OUTAGE,
    ),
    Mutant(
        "outage spends resubmissions",
        "lns/uplink/data.py",
        "            self._give_back(facts)\n            return facts.withheld",
        "            return facts.withheld",
        STORE_OUTAGE,
    ),
    Mutant(
        "offset of an earlier session kept",
        "lns/station/protocol.py",
        "        if known is not None and (session in self._ended or known.offset_us < least_us):",
        "        if False:",
        STATIONS,
    ),
    Mutant(
        "old frames move a new session's clock",
        "lns/station/protocol.py",
        "            return False  # a frame of the earlier session of this number was under way",
        "            pass",
        XTIME,
    ),
    Mutant(
        "session byte believed only once",
        "lns/station/protocol.py",
        "        may_run = session not in self._ended or _unit(session) not in self._running",
        "        may_run = session not in self._ended",
        XTIME,
    ),
    Mutant(
        "an error in a reception drops the station",
        "lns/network_server.py",
        '        except Exception as error:\n            self._fail(reception.station, "rec',
        '        except KeyError as error:\n            self._fail(reception.station, "rec',
        UNEXPECTED,
    ),
    Mutant(
        "an error in a downlink drops the station",
        "lns/connections.py",
        "        except Exception as error:",
        "        except KeyError as error:",
        UNEXPECTED,
    ),
    Mutant(
        "a copy that failed unexpectedly shadows",
        "lns/uplink/data.py",
        "        except Exception as error:\n            became",
        "        except UpstreamUnavailable as error:\n            became",
        "scenarios/test_mistakes.py",
    ),
    Mutant(
        "downlink counter of a store not checked",
        "lns/dedup/session.py",
        "    f_cnt_down: Annotated[int, Meta(ge=0, le=USED_UP)] = 0",
        "    f_cnt_down: int = 0",
        "tests/lns/store/test_sqlite.py",
    ),
    Mutant(
        "report of any station believed",
        "lns/downlink/downlink.py",
        "        scheduled = self._scheduled.get((station, report.diid))\n"
        "        if scheduled is None or scheduled.dev_eui != report.dev_eui:\n"
        "            return None\n"
        "        del self._scheduled[station, report.diid]\n",
        "        keys = [key for key in self._scheduled if key[1] == report.diid]\n"
        "        scheduled = self._scheduled[keys[0]] if keys else None\n"
        "        if scheduled is None or scheduled.dev_eui != report.dev_eui:\n"
        "            return None\n"
        "        del self._scheduled[keys[0]]\n",
        DOWNLINK,
    ),
    Mutant(
        "only more repetitions",
        "lns/uplink/mac_layer.py",
        "session.nb_trans != device.nb_trans",
        "session.nb_trans < device.nb_trans",
        "tests/lns/uplink/test_mac_layer.py",
    ),
    Mutant(
        "DevEui plain",
        "lns/station/messages.py",
        '        "DevEui": eui_dashed(dnmsg.dev_eui),\n        "dC"',
        '        "DevEui": dnmsg.dev_eui,\n        "dC"',
        "tests/lns/station/test_messages.py",
    ),
    Mutant(
        "a full queue is no refusal",
        "lns/downlink/downlink.py",
        "        if not self.queues.add(dev_eui, downlink):\n            return QUEUE_FULL\n",
        "        self.queues.add(dev_eui, downlink)\n",
        "tests/lns/downlink/test_application_downlinks.py",
    ),
    Mutant(
        "EUI as a number of 63 bits",
        "lns/lorawan/identifiers.py",
        "if not 0 <= value < 1 << 64",
        "if not 0 <= value < 1 << 63",
        IDENTIFIERS,
    ),
)
