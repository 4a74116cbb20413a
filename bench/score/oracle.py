"""What should have become of each reception?

Worked out from the receptions and the facts of a case, without a look at what the network server
did, and without a line of its code. Sessions of one server are followed with window functions;
where several servers share devices, where a store was away, and where a device is relaxed, in plain
Python, one by one (`bench.score.level2`), each server's level 1 and counters for itself. A few
things cannot be known from receptions: what an upstream that failed did to a frame, or a server
that was made to stumble, what a full level 1 forgot, what a server missed while its store was away;
such rows carry the reason in `unknowable` and count neither as agreement nor as disagreement.
"""

from bench.score.laws import RETENTION_US
from bench.score.level2 import FACTS, JUDGED, MAX_GAP, RESUBMISSIONS_MAX, judged
from bench.score.receptions import BEFORE, SO_FAR, WHOLE, WORDS, eui_no, sentence, told
from bench.spark.cut import Fold

NON_DUPLICATE = "NonDuplicate"
RESUBMISSION = "DuplicateDueToResubmission"
JOIN_NONCE_MAX = 0xFFFFFF
PENDING_MAX = 8  # sessions that wait for their first frame; of more, the oldest is forgotten
ORACLE_WORDS = (*WORDS, "level2")
# The most selective first: the sort then rarely looks further (a quarter of the time at 10 M rows).
LEVEL1_KEY = "mic_no, f_cnt_wire, dev_eui_no, run, case"
# Receptions at the same microsecond are taken in the order in which they were finished.
_ORDER = "t_us, place"
# The same, but whoever won a race comes first in it.
_RACE_ORDER = f"race_us, race_rank, {_ORDER}"
# Two hops through a loaded host; scenarios that want an order leave a multiple of it between two.
RACE_US = 20_000
# While the store is disturbed a claim may take as long as a server waits for it.
_DISTURBED_US = 300_000


def with_status(
    rows: str,
    *,
    key: str = LEVEL1_KEY,
    order: str = "t_us",
    station: str = "station",
    retention_us: str | int = RETENTION_US,
    life: str | None = None,
    is_join: str = "false",
    lost: str | None = None,
) -> str:
    """The rows with their `status` and `is_first`, in one pass over one window.

    Level 1 worked out from arrival times alone. ADR 007, part 1: the key of a data frame is DevEUI,
    MIC and the counter on the wire; the retention slides with every copy, and the first station
    stays. Receptions of one key that follow each other within the retention form an island, and the
    first of an island is the one that was not heard before.

    `life` is a column whose change empties level 1. A copy of a join is a Duplicate for every
    strategy. `lost` is a first copy that could not be made durable: as long as every copy since the
    first one was lost, each is a first one again.
    """
    of_key = f"PARTITION BY {key} ORDER BY {order}"
    anew = f" OR coalesce({life} != lag({life}) OVER of_key, true)" if life else ""
    kept = f", count_if(NOT {lost}) OVER ({of_key} {BEFORE}) AS kept" if lost else ""
    again = f"""
|> SET is_first = kept = last(if(is_first, kept, NULL)) IGNORE NULLS OVER ({of_key} {SO_FAR})
|> DROP kept""" if lost else ""  # fmt: skip
    return f"""{rows}
|> SELECT *, coalesce(t_us - lag(t_us) OVER of_key >= {retention_us}, true){anew} AS is_first{kept}
   WINDOW of_key AS ({of_key}){again}
|> EXTEND {station} = last(if(is_first, {station}, NULL)) IGNORE NULLS OVER ({of_key} {SO_FAR})
     AS by_first
|> EXTEND CASE WHEN is_first THEN 'NonDuplicate' WHEN {is_join} THEN 'Duplicate'
     WHEN by_first THEN 'DuplicateDueToResubmission' WHEN strategy = 'Drop' THEN 'Duplicate'
     WHEN strategy != 'Drop' THEN 'SoftDuplicate' END AS status
|> DROP by_first"""


_DEVICES = """
-- One row per device of a case: what was agreed of it before that, and whose it was since when.
SELECT run, case, dev_eui, min_by(struct(activation, strategy, relaxed_f_cnt, f_cnt_bits, nb_trans,
  f_cnt_up, f_cnt_down, lorawan, only_at, dev_status_s, join_eui, join_nonce_min), t_us) AS device,
  array_sort(collect_list(struct(t_us, server))) AS servers FROM case_device GROUP BY ALL"""

_ADDRESSES = f"""
-- Who uses a DevAddr in a case: the device and session whose frames bear it, forged ones too, and
-- whether others do as well: to them a frame of a session that is over has a wrong MIC.
FROM radio_transmit LEFT SEMI JOIN devices USING (run, case, dev_eui)
|> WHERE session IS NOT NULL
|> EXTEND substring_index(frame_id, ':', 1) AS dev_addr
|> AGGREGATE max_by({eui_no("dev_eui")}, session) AS owner_no, max(session) AS owner_session,
     count(DISTINCT dev_eui) > 1 AS is_shared
   GROUP BY run, case, dev_addr"""

_OF_CASE = """own_lns, lns_count, begun_us, retention_us, on_outage, dwells, asks, had_outage,
    restarts, faults, orphans, has_failure, has_mistake, requests"""
_OF_STATION = f"PARTITION BY station, run, case ORDER BY {_ORDER}"
# What only the last step asks for, and what only the fold does; packed.
_REST = """told, frame.readable, frame_id, copy, frame.f_port, genuine, requests_answer, relaxed,
  short, elsewhere, unrecorded, stranger, server IS NOT NULL AS pinned, of_case.on_outage,
  of_case.asks OR of_case.lns_count > 1 AS asks, if(reaches, NULL, owner_no) AS owner_no,
  coalesce(is_shared, false) AS is_shared, device IS NOT NULL AS is_known,
  coalesce(relaxed AND f_cnt <= 1, false) AS first_message,
  coalesce(exists(of_case.faults, one -> one.is_store AND one.t_us <= t_us), false) AS had_fault,
  coalesce(array_contains(of_case.requests, dev_eui), false) AS is_wanted,
  coalesce(device.activation = 'otaa', false) AS is_otaa, device.dev_status_s IS NOT NULL
    OR coalesce(frame.adr AND device.nb_trans > 1 OR of_case.dwells, false) AS is_asked,
  if(is_join, frame_id, concat_ws(':', dev_eui, frame.mic, frame.f_cnt_wire)) AS level1_key"""
_OF_SEVERAL = """dev_eui, of_case.begun_us, of_case.restarts, of_case.faults, of_case.orphans,
  coalesce(store_fault AND outcome.level2 = 'Unavailable', false) AS unavailable"""
_FAULT_HERE = "one.t_us <= coalesce(outcome.t_us, t_us) AND coalesce(one.lns = lns, true)"
_FACTS = f"""
-- One row per reception, with who sent it and who got it, and what the capture shows of its server.
-- several: it is followed in plain Python. lns: the server that its station is connected to, as
-- what was told of it last or else first says. unrecorded: only another has a record of its device.
-- lns_life counts the restarts before, stale_life those that brought back an older counter, stale
-- is the counter that the last of these brought; no server of several cases starts anew for them.
-- reaches: it is proven to be of a device known here (which signs no counter that it cannot have).
-- store_fault: the store was disturbed by then, had_fault: for any server; unavailable: the server
-- says so, and is believed because of that; lost: what the frame brought is forgotten; failed: so
-- it is, for the upstream did not take it, or its server stumbled, or was_cut off over it;
-- stranger: its server could not tell who sent it; unkept: its answer was withheld: nothing could
-- be kept, or its counters are used up. is_wanted: the application has something for the device,
-- is_asked: the network has; agreed: a join and what it is held against.
FROM matched |> WHERE heard
|> SELECT row_id, run, case, station, t_us, struct(outcome.seq AS told_seq, source, seq) AS place,
     was_cut, told, is_join, frame_id, frame.dev_addr, frame, copy,
     dev_eui, sent, outcome, frame.confirmed OR frame.adr_ack_req OR frame.link_check
       OR frame.device_time AS requests_answer
|> LEFT JOIN (SELECT run, case, struct({_OF_CASE}) AS of_case FROM cases) USING (run, case)
|> LEFT JOIN devices USING (run, case, dev_eui)
|> LEFT JOIN addresses USING (run, case, dev_addr)
|> EXTEND coalesce(device.activation = 'abp' AND device.relaxed_f_cnt, false) AS relaxed,
     try_element_at(filter(servers, one -> one.t_us <= t_us), -1).server AS server
|> EXTEND coalesce(of_case.lns_count > 1 OR of_case.had_outage OR relaxed, false) AS several
|> EXTEND coalesce(if(several, coalesce(
       last(outcome.lns) IGNORE NULLS OVER ({_OF_STATION} {SO_FAR}),
       first(outcome.lns) IGNORE NULLS OVER ({_OF_STATION} {WHOLE})), NULL), of_case.own_lns) AS lns
|> EXTEND several AND coalesce(exists(of_case.faults, one -> {_FAULT_HERE}), false) AS store_fault,
     coalesce(server != lns, false) AS elsewhere, sent IS NOT NULL AS genuine,
     coalesce(device.only_at != lns, false) AS unrecorded,
     coalesce(device.f_cnt_bits = 16, false) AS short,
     coalesce(sent.session, owner_session, 0) AS session,
     filter(coalesce(of_case.restarts, array()), one -> one.t_us <= t_us) AS begun,
     coalesce(outcome.reason IN ('UnknownDevice', 'MicMismatch'), false) AS stranger
|> EXTEND coalesce(genuine AND device IS NOT NULL AND NOT elsewhere AND NOT unrecorded
       AND (NOT is_join OR device.activation = 'otaa')
       AND NOT coalesce(short AND sent.f_cnt > 65535, false), false) AS reaches,
     if(short, frame.f_cnt_wire, coalesce(sent.f_cnt, frame.f_cnt_wire)) AS f_cnt,
     filter(begun.f_cnt_up, one -> one IS NOT NULL) AS brought
|> SELECT row_id, run, case, station, t_us, place, is_join, several, lns, reaches, session, f_cnt,
     -- Forged frames stand in the line of the device whose address they bear.
     coalesce(if(reaches, NULL, owner_no), {eui_no("dev_eui")}) AS dev_eui_no, frame.mic_no,
     if(is_join, {eui_no("frame.join_eui")}, frame.mic_no) AS key_high,
     if(is_join, frame.dev_nonce, frame.f_cnt_wire) AS key_low, frame.confirmed, device.strategy,
     coalesce(of_case.retention_us, {RETENTION_US}) AS retention_us,
     CAST(size(filter(begun, one -> NOT several OR one.lns = lns)) AS BIGINT) AS lns_life,
     CAST(size(brought) AS BIGINT) AS stale_life, try_element_at(brought, -1) AS stale,
     if(session = 0, device.f_cnt_up, NULL) AS preset, sent.t_us AS sent_us, store_fault,
     coalesce((store_fault AND outcome.reason IN ('StoreUnavailable',
       if(is_join, NULL, 'UnknownDevice'))) OR (is_join AND of_case.has_mistake
       AND outcome.reason = 'InternalError') OR (is_join AND was_cut), false) AS lost,
     coalesce(was_cut OR (of_case.has_failure AND outcome.reason = 'UpstreamUnavailable')
       OR (of_case.has_mistake AND outcome.reason = 'InternalError'), false) AS failed,
     coalesce(outcome.answer = 'Suppressed' AND (device.f_cnt_down >= 4294967000 OR
       exists(of_case.faults, one -> one.is_store AND (NOT several OR {_FAULT_HERE})))
       AND (NOT several OR coalesce(outcome.level2 != 'NotOwner', true)), false) AS unkept,
     outcome, if(is_join, struct(frame.join_eui, frame.dev_nonce, device.lorawan,
       device.join_eui AS due, device.join_nonce_min), NULL) AS agreed,
     if(several, struct({_OF_SEVERAL}), NULL) AS of_several, struct({_REST}) AS rest"""

# Arrivals tell who claims first, but for those so close together that the way from the tap to the
# store decides. Two receptions race if they are of one session, at different servers, and at most
# RACE_US apart. Who was first in a race is then taken from the claims, which is not circular: it
# settles an order between two events that the wires left open, and nothing else. Still exactly one
# server has to own the frame, and what all others do with it, and with every later frame, has to
# follow from that. If none says that it owns the frame, or more than one, arrivals count again, and
# the claims are found to be wrong.
_SENDER = "dev_eui_no, session, run, case, is_join, reaches"
_SAYS_FIRST = f"""coalesce(outcome.level2 = 'Owner' OR (is_join AND outcome.reason IS NULL
       AND outcome.status = '{NON_DUPLICATE}'), false)"""
_RACES = f"""
-- The same, with what is known of races. raced: another server took part; winner: the one that was
-- first with this very frame, null where that is no question; overtaken: a newer frame came right
-- behind, at another server; race_us and race_rank order the parts of a race.
SELECT *, t_us AS race_us, 0 AS race_rank, NULL AS race FROM facts WHERE NOT several
UNION ALL (
  FROM facts |> WHERE several
  |> EXTEND if(store_fault, {_DISTURBED_US}, {RACE_US}) AS race_bound_us
  |> EXTEND coalesce(t_us - lag(t_us) OVER (PARTITION BY {_SENDER} ORDER BY {_ORDER})
       > race_bound_us, true) AS begins
  |> EXTEND count_if(begins) OVER (PARTITION BY {_SENDER} ORDER BY {_ORDER} {SO_FAR}) AS race_no
  |> EXTEND size(collect_set(lns) OVER (PARTITION BY {_SENDER}, race_no)) > 1 AS raced,
       collect_set(if({_SAYS_FIRST}, lns, NULL)) OVER (PARTITION BY {_SENDER}, race_no, mic_no)
         AS owners,
       size(collect_set(lns) OVER (PARTITION BY {_SENDER}, race_no, mic_no)) > 1 AS others
  |> EXTEND if(others AND size(owners) = 1, owners[0], NULL) AS winner,
       coalesce(raced AND max(f_cnt) OVER (PARTITION BY {_SENDER}, race_no ORDER BY {_ORDER}
         ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) > f_cnt, false) AS overtaken,
       min(t_us) OVER (PARTITION BY {_SENDER}, race_no) AS race_us
  |> EXTEND coalesce(CAST(winner != lns AS INT), 0) AS race_rank,
       struct(race_bound_us, raced, winner, overtaken) AS race
  |> DROP begins, race_no, owners, others, race_bound_us, raced, winner, overtaken)"""

_NEW = f"status = '{NON_DUPLICATE}'"
_AGAIN = f"status = '{RESUBMISSION}'"
_SESSION = "dev_eui_no, session, run, case, reaches, stale_life"
# Whether it is a copy of what is still on its way to the upstream: it is of the newest frame then.
_WAITS = f"""(NOT {_NEW} AND coalesce(max(if({_NEW} AND outcome.reason IS NULL, outcome.t_us, NULL))
       OVER (PARTITION BY mic_no, lns, {_SESSION} ORDER BY {_ORDER} {BEFORE}) > t_us, false))"""

# What reaches level 1; a join is known there by JoinEUI, DevEUI and DevNonce.
_STATUSES = (
    with_status(
        "FROM races",
        key="key_high, key_low, dev_eui_no, run, case, lns, is_join, reaches",
        order=_ORDER,
        retention_us="retention_us",
        life="lns_life",
        is_join="is_join",
        lost="lost",
    )
    + f"""
|> SET status = if(reaches, status, NULL)
|> EXTEND {_WAITS} AS waits
|> DROP key_high, key_low, is_first"""
)

_OF_DEVICE = "dev_eui_no, run, case"
_JOINED = f"""
-- Whether a join is accepted, by the DevNonces that all servers together have accepted. nonce_used:
-- this one was, or (LoRaWAN 1.0.4) a greater one; nonce_doubtful: nobody can tell, because the
-- store was lost when it was to be used. A join with a foreign JoinEUI is refused, and its DevNonce
-- remains unused. Each accepted join takes a JoinNonce of 24 bits: after the last comes none.
SELECT *, false AS foreign_join_eui, false AS nonce_used, false AS nonce_doubtful,
  false AS accepts_join
FROM statuses WHERE NOT is_join
UNION ALL (
  FROM statuses |> WHERE is_join
  |> SELECT *, agreed.dev_nonce, coalesce(agreed.join_eui != agreed.due, false) AS foreign_join_eui
  |> EXTEND if(status = '{NON_DUPLICATE}' AND NOT foreign_join_eui AND NOT lost, dev_nonce, NULL)
       AS taken
  |> EXTEND coalesce(count(taken) OVER (PARTITION BY dev_nonce, {_OF_DEVICE}, reaches
         ORDER BY {_RACE_ORDER} {BEFORE}) > 0 OR (agreed.lorawan = '1.0.4' AND dev_nonce <=
         max(taken) OVER (PARTITION BY {_OF_DEVICE}, reaches ORDER BY {_RACE_ORDER} {BEFORE})),
         false) AS nonce_used,
       coalesce(max(if(lost, dev_nonce, NULL)) OVER (PARTITION BY {_OF_DEVICE}, reaches
         ORDER BY {_RACE_ORDER} {BEFORE}) >= dev_nonce, false) AS nonce_doubtful
  |> SET nonce_used = nonce_used OR coalesce(agreed.join_nonce_min + count_if(taken IS NOT NULL
       AND NOT nonce_used) OVER (PARTITION BY {_OF_DEVICE}, reaches ORDER BY {_RACE_ORDER} {BEFORE})
       > {JOIN_NONCE_MAX}, false)
  |> EXTEND coalesce(reaches AND if(nonce_doubtful,
         outcome.status = '{NON_DUPLICATE}' AND outcome.reason IS NULL,
         taken IS NOT NULL AND NOT nonce_used), false) AS accepts_join
  |> DROP taken, dev_nonce)"""

# Counter validation from arrival order. LoRaWAN 1.0.3, 4.3.1.5 (MAX_FCNT_GAP), ADR 007 and the
# bench's rule for resubmissions: a counter that was already accepted is answered again three times,
# when the frame is confirmed. The last counter is the greatest so far, or the older one that a
# restart of the server brought back to the sessions that it had before; only in a session with a
# jump beyond MAX_GAP the counters are followed one by one.
_SESSION_BEFORE = f"(PARTITION BY {_SESSION} ORDER BY {_ORDER} {BEFORE})"
# Whether a session was forgotten before a frame of it came: so many joins were accepted since.
_FORGOTTEN = f"""size(filter(collect_list(if(accepts_join, t_us, NULL))
       OVER (PARTITION BY {_OF_DEVICE} ORDER BY {_ORDER} {BEFORE}), one -> one >= sent_us))
       >= {PENDING_MAX}"""
# Whether a reception is the first one of a frame, and its server takes it.
_ACCEPTED = f"reaches AND {_NEW} AND (newer OR (spends AND NOT limited))"
_COUNTED = f"""
-- What the counter of a reception is worth: newer (accepted as the next one), equal, spends (asks
-- for one of the repeated answers), limited (there is none left), known (the counter can be told
-- from the wire), outlived (a frame of a later session was accepted before, or too many joins).
FROM joined |> WHERE NOT several
|> EXTEND coalesce(max(if({_NEW}, f_cnt, NULL)) OVER {_SESSION_BEFORE}, -1) AS so_far,
     coalesce(if(coalesce(min(if(is_join, NULL, stale_life))
       OVER (PARTITION BY dev_eui_no, session, run, case, reaches) < stale_life, false)
       OR preset IS NOT NULL, stale, NULL), preset, -1) AS start
|> EXTEND max({_NEW} AND f_cnt - greatest(start, so_far, 0) > {MAX_GAP})
     OVER (PARTITION BY {_SESSION}) AS jumps
|> EXTEND collect_list(if(jumps AND {_NEW}, f_cnt, NULL)) OVER {_SESSION_BEFORE} AS earlier
|> EXTEND CASE WHEN jumps THEN aggregate(earlier, start, (last, one) ->
         if(one > last AND one - greatest(last, 0) <= {MAX_GAP}, one, last))
       WHEN NOT jumps THEN greatest(start, so_far) END AS last
|> EXTEND f_cnt = last OR waits AS equal,
     {_NEW} AND f_cnt > last AND f_cnt - greatest(last, 0) <= {MAX_GAP} AS newer,
     -- The counter on the wire stands for one near the last one, or for itself.
     f_cnt < 65536 OR (last >= 0 AND NOT rest.short
       AND shiftright(f_cnt, 16) - shiftright(last, 16) BETWEEN -1 AND 1) AS known
|> EXTEND (({_NEW} AND NOT newer AND equal) OR ({_AGAIN} AND equal)) AND confirmed AS spends,
     count_if(newer) OVER {_SESSION_BEFORE} AS steps
|> EXTEND spends AND count_if(spends AND NOT unkept) OVER (PARTITION BY {_SESSION}, steps, f_cnt
     ORDER BY {_ORDER} {BEFORE}) >= {RESUBMISSIONS_MAX} AS limited
|> EXTEND coalesce(max(if({_ACCEPTED} AND NOT failed, session, NULL))
       OVER (PARTITION BY {_OF_DEVICE} ORDER BY {_ORDER} {BEFORE}) > session, false) AS later,
     steps = 0 AND {_FORGOTTEN} AS forgotten
|> EXTEND later OR forgotten AS outlived, later AND rest.had_fault AS doubtful,
     if(rest.asks AND NOT rest.pinned AND (newer OR (spends AND NOT limited)), 'Owner', 'NotAsked')
       AS level2, false AS overlapped, false AS maybe_read, false AS retried
|> DROP waits, so_far, start, jumps, earlier, last, steps, later, forgotten"""

_GRANTED = f"""last(if(accepts_join, lns, NULL)) IGNORE NULLS
       OVER (PARTITION BY {_OF_DEVICE} ORDER BY {_RACE_ORDER} {SO_FAR})"""
_SHARED = f"""
-- What the fold over a session needs of each reception. granted_by is the server that accepted the
-- join which opened the session; null where the session was there before.
FROM joined |> WHERE several
|> EXTEND {_GRANTED} AS joined_at
|> EXTEND if(preset IS NOT NULL OR NOT rest.is_otaa, NULL, first(joined_at)
       OVER (PARTITION BY {_SENDER} ORDER BY {_RACE_ORDER} {SO_FAR})) AS granted_by
|> SET preset = coalesce(preset, -1L) |> DROP joined_at"""

_GROUPS = f"""
FROM shared |> WHERE reaches AND NOT is_join
|> SELECT *, rest.*, of_several.*, race.*, rest.on_outage = 'closed' AS closed,
     outcome.level2 AS observed_level2
|> AGGREGATE transform(sort_array(collect_list(struct({_ORDER}, struct(row_id, {", ".join(FACTS)})
     AS row))), one -> one.row) AS rows GROUP BY dev_eui_no, session, run, case"""

_LEVEL2 = """
-- The facts of their counters and level2, the word that is due; what reaches no counter has none.
-- outlived: this server does not know the session any more, or never did. A frame of a later
-- session was accepted here; or anywhere, before this server heard of this one, asked whose this
-- frame is, looked because it had not done so for nearly a day, or because the counter of a frame
-- was too far; or before a join was heard here, for which a server looks as well. overlapped: a
-- repetition that waited for the upstream while another frame was accepted. retried: a first
-- message that its server was granted before it began anew; only a confirmed one is answered again.
SELECT s.*, rest.pinned, rest.elsewhere, of_several.begun_us, j.* EXCEPT (row_id)
FROM shared AS s LEFT JOIN judged AS j ON s.row_id = j.row_id"""
# Ten minutes before claims are forgotten (lns/README.md).
_LOOKS_AFTER_US = 85_800_000_000
_HERE_BEFORE = f"(PARTITION BY lns, {_OF_DEVICE} ORDER BY {_ORDER} {BEFORE})"
_ANYWHERE_BEFORE = f"(PARTITION BY {_OF_DEVICE} ORDER BY {_ORDER} {BEFORE})"
_OF_LIFE = f"PARTITION BY session, lns, lns_life, {_OF_DEVICE} ORDER BY {_ORDER}"
_FOLLOWED = f"""{_LEVEL2}
|> EXTEND if({_ACCEPTED} AND NOT failed, session, NULL) AS taken,
     -- When this server looked last into the store, unasked.
     aggregate(collect_list(t_us) OVER ({_OF_LIFE} {BEFORE}), begun_us,
       (looked, one) -> if(one - looked >= {_LOOKS_AFTER_US}L, one, looked)) AS looked_us
|> EXTEND coalesce(max(taken) OVER {_HERE_BEFORE} > session
       OR (max(taken) OVER {_ANYWHERE_BEFORE} > session
         AND count_if(NOT is_join OR NOT elsewhere) OVER ({_OF_LIFE} {BEFORE}) = 0), false)
       AS later,
     coalesce(level2 IN ('Owner', 'NotOwner') AND
       max(if(level2 = 'Owner', taken, NULL)) OVER {_ANYWHERE_BEFORE} > session, false)
       AS told_over,
     if((is_join AND {_NEW} AND NOT (pinned OR lost)) OR t_us - looked_us >= {_LOOKS_AFTER_US}L
         OR ({_NEW} AND NOT pinned AND f_cnt > {MAX_GAP} + greatest(max(if(newer, f_cnt, NULL))
           OVER (PARTITION BY session, {_OF_DEVICE} ORDER BY {_ORDER} {BEFORE}), preset, 0)),
       max(taken) OVER {_ANYWHERE_BEFORE}, NULL) AS newest_told
|> EXTEND later OR NOT coalesce(met, true) OR max(told_over) OVER ({_OF_LIFE} {SO_FAR})
     OR coalesce(max(newest_told) OVER (PARTITION BY lns, {_OF_DEVICE} ORDER BY {_ORDER} {SO_FAR})
       > session, false)
     OR ({_FORGOTTEN} AND NOT array_contains(collect_set(taken) OVER {_ANYWHERE_BEFORE}, session))
     AS outlived,
     -- With another session of its device it may have read this one, when that was not over.
     elsewhere AND coalesce(max(taken) OVER {_ANYWHERE_BEFORE} > session, false)
       AND count_if(NOT is_join) OVER {_HERE_BEFORE} > 0 AS maybe_read
|> SET doubtful = doubtful OR coalesce(max(if(store_fault, taken, NULL)) OVER {_ANYWHERE_BEFORE}
     > session, false)
|> EXTEND {_AGAIN} AND size(filter(collect_list(if({_ACCEPTED}, t_us, NULL)) OVER (PARTITION BY
     session, {_OF_DEVICE}), one -> one > t_us AND one < outcome.t_us)) > 0 AS overlapped
|> DROP taken, looked_us, later, told_over, newest_told, met, granted_by, waits, pinned, elsewhere,
     begun_us"""

_FACT_NAMES = """newer, equal, spends, limited, known, outlived, level2, doubtful, overlapped,
  maybe_read, retried"""
_WORTH = f"""
SELECT * EXCEPT ({_FACT_NAMES}), {_FACT_NAMES} FROM counted
UNION ALL
SELECT * EXCEPT ({_FACT_NAMES}), {_FACT_NAMES} FROM followed"""

_EVICTED = """
-- The level-1 keys that a full cache lost in a case, in the words of the network server.
SELECT run, case, key AS level1_key, min(t_us) AS evicted_us
FROM lns_evicted WHERE case IS NOT NULL GROUP BY run, case, key"""

# Greater than each counter.
_EVERY_F_CNT = 1 << 32
# Why a reception does not reach level 1; null when it does.
_UNPROVEN = """CASE WHEN NOT readable THEN 'Malformed'
       WHEN unrecorded THEN 'UnknownDevice'
       WHEN is_join AND NOT is_otaa THEN 'UnknownDevice'
       WHEN is_join AND NOT genuine THEN 'MicMismatch'
       WHEN NOT is_join AND genuine AND is_known AND outlived
         THEN if(is_shared, 'MicMismatch', 'UnknownDevice')
       WHEN NOT is_join AND genuine AND is_known AND NOT known THEN 'MicMismatch'
       WHEN genuine AND elsewhere THEN 'BelongsToAnotherServer'
       WHEN NOT reaches AND owner_no IS NOT NULL AND NOT outlived THEN 'MicMismatch'
       WHEN NOT reaches THEN 'UnknownDevice' END"""
# Whether the counter of a copy is admitted, by its status.
_ADMITTED = f"""((status = 'SoftDuplicate' AND (equal OR first_message))
         OR ({_NEW} AND (newer OR spends))
         OR ({_AGAIN} AND (spends OR (first_message AND NOT confirmed) OR newer)))"""
# Why a reception that reached level 1 is dropped; null when it is accepted.
_REFUSAL = f"""CASE WHEN status = 'Duplicate' THEN 'Duplicate'
       WHEN is_join AND lost THEN 'StoreUnavailable'
       WHEN is_join AND nonce_used THEN 'DevNonceUsed'
       WHEN is_join AND foreign_join_eui THEN 'UnknownDevice'
       WHEN NOT is_join AND NOT {_ADMITTED} THEN 'InvalidFrameCounter'
       WHEN limited THEN 'ResubmissionLimit'
       WHEN level2 = 'NotOwner' AND strategy = 'Drop' THEN 'DuplicateAtOtherServer'
       WHEN level2 = 'Unavailable' AND on_outage = 'closed' THEN 'StoreUnavailable'
       WHEN {_AGAIN} AND strategy = 'Drop' THEN 'ResubmissionSuppressed' END"""
# The network answers unasked while it has a request of its own: for repetitions, of a device that
# obeys (ADR), for its status, or that it keeps dwell times (AS923). Only the server that owns
# a frame answers it, whatever the strategy (ADR 007, part 2). due: RX1, RX2, or TooLate when both
# are gone; open: the frame may carry a request that only the keys show.
_MAY = "coalesce(level2 NOT IN ('NotOwner', 'Unavailable'), true)"
_ANSWER = f"""CASE WHEN refusal = 'BelongsToAnotherServer' AND may_ask THEN 'open'
       WHEN refusal = 'BelongsToAnotherServer' AND (is_join OR requests_answer) THEN 'Suppressed'
       WHEN unproven IS NOT NULL THEN 'NotAsked'
       WHEN is_join AND refusal IS NULL THEN 'due' WHEN is_join THEN 'Suppressed'
       WHEN may_ask OR (NOT requests_answer AND is_asked AND {_NEW} AND {_MAY} AND refusal IS NULL)
         THEN 'open'
       WHEN requests_answer AND (({_NEW} AND NOT retried) OR (({_NEW} OR {_AGAIN}) AND confirmed))
         AND (refusal IS NULL OR (refusal = 'ResubmissionSuppressed' AND confirmed)) AND {_MAY}
         THEN 'due'
       WHEN requests_answer THEN 'Suppressed' WHEN NOT requests_answer THEN 'NotAsked' END"""
_OF_RECEPTION = "row_id, run, case, station, t_us, frame_id, copy, told, outcome"
_ORACLE = f"""
-- One row per reception: the words that are due, why they cannot be told where that is so, and
-- whether the network server agrees. oracle_status is "-" where level 1 is not reached,
-- oracle_answer "due" for any of RX1, RX2 and TooLate. A failure that the server reports is
-- believed only where the capture shows one. An answer that nobody asked for carries what the
-- application wants sent.
FROM worth |> SELECT *, rest.*
|> EXTEND {_UNPROVEN} AS unproven
|> EXTEND coalesce(unproven, {_REFUSAL}) AS refusal, NOT requests_answer AND f_port = 0 AS may_ask
|> EXTEND if(unproven IS NULL, status, '-') AS oracle_status,
     CASE WHEN refusal IS NOT NULL OR is_join OR f_port = 0 THEN 'dropped'
       WHEN {_NEW} AND coalesce(level2 != 'NotOwner', true) THEN 'forwarded'
       WHEN strategy = 'Drop' THEN 'dropped' WHEN strategy = 'Mark' THEN 'marked'
       WHEN strategy = 'None' THEN 'forwarded' END AS oracle_upstream,
     coalesce(refusal, '-') AS oracle_reason, {_ANSWER} AS oracle_answer,
     coalesce(if(unproven IS NULL, level2, NULL), 'NotAsked') AS oracle_level2
|> LEFT JOIN evicted USING (run, case, level1_key)
|> EXTEND CASE WHEN failed AND outcome.reason = 'InternalError' THEN 'its server stumbled'
       WHEN failed THEN 'upstream or store failed'
       WHEN max(if(failed, if(relaxed, {_EVERY_F_CNT}, f_cnt), NULL)) OVER (PARTITION BY
         dev_eui_no, session, run, case ORDER BY {_ORDER} {SO_FAR}) >= f_cnt OR nonce_doubtful
         THEN 'upstream or store had failed'
       WHEN doubtful OR (stranger AND several AND store_fault AND NOT reaches)
         THEN 'the store was away'
       WHEN overlapped THEN 'it waited while another frame was accepted'
       WHEN maybe_read THEN 'its server may have read the session before that was over'
       WHEN stranger AND NOT reaches AND NOT is_join AND owner_no IS NULL
         AND max(accepts_join) OVER (PARTITION BY {_OF_DEVICE} ORDER BY {_ORDER} {BEFORE})
         THEN 'only the accept tells whose address it is'
       WHEN unkept AND oracle_answer = 'due' THEN 'the store failed, or no counter was left'
       WHEN evicted_us <= t_us + {RACE_US} THEN 'level 1 was full'
       WHEN is_wanted AND outcome.answer IN ('RX1', 'RX2', 'TooLate', 'Suppressed')
         AND oracle_answer NOT IN ('due', 'open') THEN 'the application had something to send'
     END AS unknowable,
     coalesce({told("status")} = oracle_status, false) AS status_agrees,
     coalesce({told("upstream")} = oracle_upstream AND {told("reason")} = oracle_reason
       AND ({told("answer")} = oracle_answer OR oracle_answer = 'open' OR (oracle_answer = 'due'
         AND outcome.answer IN ('RX1', 'RX2', 'TooLate'))), false) AS disposition_agrees,
     told AND coalesce(outcome.level2, 'NotAsked') = oracle_level2 AS level2_agrees
|> SELECT {_OF_RECEPTION}, lns_life, session, f_cnt, dev_eui_no, unknowable, status_agrees,
     disposition_agrees, level2_agrees, {", ".join(f"oracle_{word}" for word in ORACLE_WORDS)},
     {", ".join(f"{told(word)} AS observed_{word}" for word in WORDS)}"""

_RECEPTIONS = f"""
-- One row per reception: all that is known of it. EUIs stand beside their text as numbers.
SELECT m.* EXCEPT (frame, said, sent, outcome), frame.*, said.*, sent IS NOT NULL AS genuine,
  sent.transmission, {eui_no("frame.join_eui")} AS join_eui_no, {eui_no("m.station")} AS station_no,
  o.* EXCEPT ({_OF_RECEPTION})
FROM (SELECT * FROM matched WHERE heard) AS m JOIN oracle AS o ON m.row_id = o.row_id"""

QUERIES: dict[str, str | Fold] = {
    "devices": _DEVICES, "addresses": _ADDRESSES, "facts": _FACTS, "races": _RACES,
    "statuses": _STATUSES, "joined": _JOINED, "counted": _COUNTED, "shared": _SHARED,
    "judged": Fold(_GROUPS, judged, JUDGED), "followed": _FOLLOWED, "worth": _WORTH,
    "evicted": _EVICTED, "oracle": _ORACLE, "receptions": _RECEPTIONS,
}  # fmt: skip


def words_asked(words: str, level2: str) -> str:
    """The words of one side as people write them, with that of level 2 where one was asked."""
    asked = "oracle_level2 != 'NotAsked' OR outcome.level2 != 'NotAsked'"
    return f"concat_ws(' ', {words}, if({asked}, {level2}, NULL))"


ORACLE_SENTENCE = words_asked(
    sentence(*(f"oracle_{word}" for word in ORACLE_WORDS[:-1])), "oracle_level2"
)
TOLD_SENTENCE = words_asked(sentence(*(told(word) for word in ORACLE_WORDS[:-1])), "outcome.level2")
