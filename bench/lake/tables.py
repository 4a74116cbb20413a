"""Which tables lie in the lake, and what does each of their columns say?

The part of README.md about the tables is made from this page (`make pages`), and a test compares
both with what is really written.
"""

from dataclasses import dataclass

from bench.verdict.owner import Owner

RUNS = "runs"
OF_NIGHTS = ("trends", "changes", "comparisons")
"""What is written of the newest night of a line, after the rows of its runs."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the lake: what a row is, and name, SQL type and meaning of each column.

    Columns are in the order in which they are written; `night` and `run` follow, as partitions.
    """

    row: str
    columns: tuple[tuple[str, str, str], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _, _ in self.columns)

    @property
    def types(self) -> str:
        """The columns with their types, in words of SQL."""
        return ", ".join(f"`{name}` {type_}" for name, type_, _ in self.columns)


_WORDS = """\
status STRING status of level 1 (ADR 007); null where level 1 was not reached
upstream STRING forwarded, marked or dropped
reason STRING why dropped; null where it was not
answer STRING RX1, RX2, TooLate, Suppressed or NotAsked"""
_LINE = """\
bench STRING name of the bench; empty on a rig without an inventory
rig STRING simulated, emulated or hardware
line STRING what is tested
of_night STRING the night"""
_SEGMENTS = (
    "ARRAY<STRUCT<since:STRING,until:STRING,n:INT,fails:INT,lo:DOUBLE,hi:DOUBLE,"
    "earliest:STRING,latest:STRING>>"
)
# Each table: what a row is, then its columns, in the order in which they are written.
_TEXT = f"""
# runs: a run that was scored to the end: join every other table with it
run_id STRING id of the run inside its lines
rig STRING simulated, emulated or hardware
bench STRING name of the bench; null on a rig without an inventory
line STRING what is tested, such as lns@main; null where the manifest does not say
dut STRING device under test, as the JSON of the manifest
git_commit STRING commit of the bench
build STRING what was tested, in short; with the hash of the difference where that is no commit
of_night STRING night that the run is part of, as its manifest says; null for none
part STRING what was chosen of the catalogue
explores BOOLEAN whether its seed is another one each night
catalogue_sha STRING hash of the scenarios
inventory_sha STRING hash of the inventory
host STRING where it ran
started STRING wall clock at its begin, UTC
ended STRING wall clock at its end, UTC; null where it did not say
seed STRING seed of the run
exit_code INT exit code of the run
cases INT cases with a verdict
pass INT cases with this verdict
fail INT cases with this verdict
inconclusive INT cases with this verdict
error INT cases with this verdict
left_out INT cases that the rig could not play
repeated INT attempts that proved nothing and were played again
whole BOOLEAN whether all is there that was planned
rows MAP<STRING,BIGINT> rows of the run by table
scored_at TIMESTAMP when it was scored
# receptions: a frame that a station delivered, with its outcome and the words of the oracle
told BOOLEAN whether the network server wrote an outcome of it
xtime BIGINT time of the concentrator, µs, with the session in its upper bits
station STRING EUI of the station
turn INT receptions of a case with this station and xtime, counted from 1
case STRING case that the line belongs to; null outside of cases
t_us BIGINT time of the run, µs
source STRING who wrote the line
seq BIGINT number of the line in its source
lns_life BIGINT restarts of network servers before it
text STRING text of the station, as it left the tap
origin STRING injected, where the bench invented it
held_us BIGINT how long the tap held it back, µs
is_join BOOLEAN a join request
readable BOOLEAN whether the text is a frame
frame_id STRING DevAddr:FCnt:MIC, or JoinEUI:DevEUI:DevNonce
phy STRING bytes of the frame, hexadecimal
dev_addr STRING DevAddr
mic STRING MIC as on the wire
mic_no BIGINT MIC as a number
f_cnt_wire BIGINT lower 16 bits of the frame counter
join_eui STRING JoinEUI of a join request
join_dev_eui STRING DevEUI in a join request
dev_nonce BIGINT DevNonce of a join request
f_port INT FPort; null without one
confirmed BOOLEAN confirmed data
adr_ack_req BOOLEAN bit ADRACKReq
adr BOOLEAN bit ADR
device_time BOOLEAN asks for the time
link_check BOOLEAN asks for a link check
rssi_dbm DOUBLE RSSI, dBm
snr_db DOUBLE SNR, dB
dr INT data rate
freq_hz BIGINT frequency, Hz
genuine BOOLEAN a device of the case sent these very bytes
dev_eui STRING DevEUI of the sender
session INT session of the sender, counted from 0
f_cnt BIGINT frame counter, 32 bits
transmission BIGINT number of the transmission on the air
copy INT receptions of the frame in its case, counted from 0
dev_eui_no BIGINT DevEUI as a signed number
join_eui_no BIGINT JoinEUI as a signed number
station_no BIGINT EUI of the station as a signed number
oracle_status STRING status that is due; - where level 1 is not reached
oracle_upstream STRING what is due upstream
oracle_reason STRING reason that is due; - for none
oracle_answer STRING answer that is due: due stands for RX1, RX2 or TooLate, open for any
oracle_level2 STRING word of level 2 that is due
unknowable STRING why nobody can tell what is due; null where one can
status_agrees BOOLEAN the network server has the status that is due
disposition_agrees BOOLEAN upstream, reason and answer are as due
level2_agrees BOOLEAN the word of level 2 is as due
observed_status STRING word of the network server; - for none, null without an outcome
observed_upstream STRING word of the network server
observed_reason STRING word of the network server
observed_answer STRING word of the network server
# outcomes: what the network server says became of a reception
case STRING case; null outside of cases
station STRING EUI of the station
xtime BIGINT time of the concentrator, µs
lns STRING id of the network server
frame_id STRING as in receptions
dev_eui STRING DevEUI; null where no MIC matched
dev_addr STRING DevAddr
f_cnt BIGINT frame counter, 32 bits
confirmed BOOLEAN confirmed data
strategy STRING Drop, Mark or None
{_WORDS}
level2 STRING NotAsked, Owner, NotOwner or Unavailable
t_us BIGINT time of the run, µs
source STRING who wrote the line
seq BIGINT number of the line in its source
turn INT outcomes of a case with this station and xtime, counted from 1
# expectations: a reception that a scenario says is due
case STRING case
frame_id STRING as in receptions
copy INT receptions due of the frame, counted from 0
station STRING EUI of the station that is to hear it
{_WORDS}
level2 STRING word of level 2; null where it is not asked about
race INT rows of one number are due at one moment, in any order
seq BIGINT number of the line
# scores: an expectation beside the reception that it stands against
case STRING case
frame_id STRING as in receptions
copy INT receptions of the frame, counted from 0
due_station STRING EUI of the station that was to hear it
heard_station STRING EUI of the station that heard it
due STRING words that are due
due_status STRING status that is due
observed STRING words of the network server
observed_status STRING status of the network server
grade STRING agrees, differs, no outcome, not delivered, other station or not expected
t_us BIGINT time of the reception, µs
due_seq BIGINT number of the line of the expectation
# answers: how many receptions of one kind ended in one answer
strategy STRING Drop, Mark or None
confirmed BOOLEAN confirmed data
answer STRING RX1, RX2, TooLate, Suppressed or NotAsked
count BIGINT receptions
# verdicts: a case
case STRING case with its parameters
scenario STRING name of the scenario
file STRING file of the scenario
group STRING group of the scenario
title STRING requirement in a sentence
strategy STRING Drop, Mark or None
confirmed BOOLEAN confirmed data
verdict STRING PASS, FAIL, INCONCLUSIVE or ERROR
reasons ARRAY<STRING> why, most important first
owner STRING whose matter it is, as in findings
attempt INT attempts so far, this one included
superseded BOOLEAN proved nothing and was played again: does not count
begin_us BIGINT begin, µs of the run
end_us BIGINT end, µs of the run
receptions BIGINT receptions in the case
# findings: a disagreement between network server, expectation, oracle and the books
case STRING case; null where it concerns the run
owner STRING {", ".join(Owner)}: LNS is the network server
rule STRING what is broken
frame_id STRING as in receptions
station STRING EUI of the station
n INT reception of the frame, counted from 0
expected STRING what is due
observed STRING what was observed
t_us BIGINT time of the run, µs
text STRING all of it in a sentence
result STRING FAIL or INCONCLUSIVE where it decides the verdict, else null
# margins: an answer to a confirmed uplink or a join, and how early it was
case STRING case
station STRING EUI of the station
lns STRING id of the network server
frame_id STRING as in receptions
kind STRING data or join
aimed STRING window of the outcome
used STRING window that the station reports; null for none
usable STRING window that the station could still use, or none
margin_rx1_us BIGINT from the answer at the tap to RX1, µs
margin_rx2_us BIGINT from the answer at the tap to RX2, µs
measured_from STRING air, or tap where nothing tells of the air
disturbed BOOLEAN held back, slowed down or stalled: says nothing of the network server
consumed_us BIGINT from the end of the uplink to the answer at the tap, µs
t_us BIGINT when the answer left the tap, µs
# ledger: a duplicate, or an accepted uplink at a consumer
case STRING case
what STRING duplicate or uplink
which STRING DevEUI-DevAddr-FCnt, or the id of a message of the bench
frame_id STRING as in receptions
message_id STRING id of the message
station STRING EUI of the station
consumer STRING consumer; null where the case has none
born STRING air, station, LNS, broker, consumer or bench
died STRING first place that recognised it; effect where none did
delivered INT messages of the uplink at the broker
effects INT effects of the uplink at the consumer
t_us BIGINT time of the run, µs
# stimuli: what a case needed of a device and a station
case STRING case
attempt INT attempts so far, this one included
device STRING DevEUI of the sender, or unknown
station STRING EUI of the station that was to hear it
planned INT receptions that were due
heard INT of those, delivered by this station
missed INT of those, not delivered by it
reason STRING why the case proves nothing; null where it proves something
rssi_p50 DOUBLE median RSSI of what the station delivered in the case, dBm
snr_p50 DOUBLE median SNR of it, dB
# margin_nights: a station and a kind of answer: how much time answers consumed
station STRING EUI of the station
kind STRING data or join
measured_from STRING air, or tap where nothing tells of the air
n INT answers that were not disturbed; all figures are of these
disturbed INT answers that were
consumed_p50_us BIGINT median of the time from the end of the uplink to the answer, µs
consumed_p95_us BIGINT 95 % of it, µs
consumed_p99_us BIGINT 99 % of it, µs
consumed_max_us BIGINT longest of it, µs
margin_min_us BIGINT least margin to RX1, µs
margin_p1_us BIGINT 1 % of the margins to RX1, µs
late INT answers for which no window was left
late_for_rx1 INT answers aimed at RX1 for which only RX2 was left
# lab_nights: a part of the lab: what became of the stimuli that needed it
part_kind STRING station or device
part STRING its EUI
opportunities INT receptions that were due
missed INT of those, not delivered
repeats INT cases that proved nothing and were played again
inconclusive INT cases that proved nothing
errors INT cases that broke
rssi_p50 DOUBLE median RSSI, dBm
snr_p50 DOUBLE median SNR, dB
sick BOOLEAN whether more than 10 % are missed, with 95 % certainty
# trends: how a case stands in a night beside all nights before; in the newest run of the night
series BIGINT number of bench, rig, line and case
{_LINE}
case STRING case
state STRING passing, new_failure, still_failing, ...: see the README
confirmed BOOLEAN whether what was mended has passed three times in a row
since STRING night in which the present streak began
since_build STRING build of that night
last STRING last conclusive result: · or F
last_pass STRING last night in which it passed
last_pass_build STRING build of that night
signature STRING of the last failure: who broke which rule how
passes INT conclusive passes since then
told BOOLEAN whether the failure was told as new
quiet INT nights in a row without a conclusive result
n30 INT conclusive nights, the last 30 at most
fail30 INT of those, failed
lo DOUBLE lower bound of the rate of failures, 95 % (Wilson)
hi DOUBLE upper bound
flips30 INT changes between pass and failure in them
strip STRING a glyph a night, 60 at most: · r F ? ! – and a space where it did not run
nights ARRAY<STRING> nights of the strip
builds ARRAY<STRING> builds of these nights
signatures MAP<STRING,STRING> signatures of failures by night
segments {_SEGMENTS} nights with one rate, by change points
# changes: what is not as it was, as the page of the night lists it
{_LINE}
kind STRING new_failure, changed_failure, lost, fixed, margin_shift, lab_shift, ...
case STRING case, kind of answer or part of the lab
owner STRING whose matter it is
text STRING what it is, in a sentence
since STRING night since which it is so
since_build STRING build of that night
in_run STRING run that shows it
repeat STRING command that plays it again
signature STRING of a failure
gated BOOLEAN whether it makes the night red under --gate new
# comparisons: a case in the baseline and tonight
{_LINE}
comparison STRING both nights
case STRING case
seed BIGINT seed of both
a STRING PASS or FAIL in the baseline; null where neither
b STRING the same of tonight
relation STRING same, worse, better, fails otherwise, only a, only b
a_run STRING run of the baseline
b_run STRING run of tonight
signature_a STRING of a failure in the baseline
signature_b STRING of a failure tonight
"""


def _table(text: str) -> tuple[str, Table]:
    head, *rows = text.strip().splitlines()
    name, _, row = head.partition(": ")
    columns = (line.split(maxsplit=2) for line in rows)
    return name, Table(row, tuple((column, type_, what) for column, type_, what in columns))


TABLES: dict[str, Table] = dict(_table(text) for text in _TEXT.split("\n# ")[1:])
