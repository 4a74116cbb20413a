"""Which line ends a reply, in both dialects; lines only, no port."""

import asyncio
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.device.at_session import (
    REPLIES_MAX,
    RUI3,
    RUI3_LINES,
    AtCommand,
    AtConsole,
    Grammar,
    Line,
    LineKind,
    LineSpelling,
)
from bench.device.lora_e5 import E5, E5_LINES
from tests.bench.device.far_end import TRANSCRIPTS
from tests.bench.device.wired import on_wires

STREAMS = [
    "\r\n".join(line[2:] for line in file.read_text("utf-8").splitlines() if line[0] == "<")
    for file in sorted(TRANSCRIPTS.glob("*.txt"))
]


def heard(grammar: Grammar, command: str, *lines: str) -> AtCommand:
    asked = AtCommand(command, grammar.reply_to(command))
    console = AtConsole(grammar.lines)
    for text in lines:
        for line in console.receive_bytes(f"{text}\r\n".encode()):
            asked.hear(line)
    return asked


@pytest.mark.parametrize(
    ("command", "lines"),
    [("AT", ["+AT: OK"]), ("AT+VER", ["+VER: 4.0.11"]),
     ("AT+ID", ["+ID: DevAddr, 26:01:1F:42", "+ID: DevEui, 2C:F7:F1:20:00:00:00:01",
                "+ID: AppEui, 80:00:00:00:00:00:00:06"]),
     ('AT+ID=DevEui,"2CF7F12000000001"', ["+ID: DevEui, 2C:F7:F1:20:00:00:00:01"]),
     ('AT+KEY=APPKEY,"00"', ["+KEY: APPKEY 00"]), ('AT+KEY= APPKEY,"00"', ["+KEY: APPKEY, 00"]),
     ("AT+MODE=TEST", ["+MODE: TEST"]), ("AT+MODE?", ["+MODE: LWABP"]),
     ("AT+DR=EU868", ["+DR: EU868"]), ("AT+DR=US915HYBRID", ["+DR: US915HYBRID"]),
     ("AT+DR=5", ["+DR: DR5", "+DR: EU868 DR5  SF7  BW125K"]),
     ("AT+DR=DR5", ["+DR: DR5", "+DR: EU868 DR5  SF7  BW125K"]),
     ("AT+DR?", ["+DR: EU868 DR5  SF7  BW125K"]),
     ("AT+CH=NUM,0-2", ["+CH: NUM, 0-2"]), ("AT+CH=0,868.1", ["+CH: 0,868100000,DR0,DR5"]),
     ("AT+ADR=OFF", ["+ADR: OFF"]), ("AT+CLASS=C", ["+CLASS: C"]), ("AT+PORT=8", ["+PORT: 8"]),
     ("AT+REPT=1", ["+REPT: 1"]), ("AT+RETRY=3", ["+RETRY: 3"]), ("AT+POWER=14", ["+POWER: 14"]),
     ("AT+LW=ULDL", ["+LW: ULDL, 12, 3"]), ("AT+LW=DC, OFF", ["+LW: DC, OFF, 0"]),
     ("AT+FDEFAULT", ["+FDEFAULT: OK"]), ("AT+FDEFAULT=RISINGHF", ["+FDEFAULT: OK"]),
     ("AT+JOIN", ["+JOIN: Starting"]), ("AT+JOIN=FORCE", ["+JOIN: Start"]),
     ('AT+MSG="hello"', ["+MSG: Start"]), ('AT+PMSGHEX="01"', ["+PMSGHEX: Start"]),
     ("AT+TEST=RXLRPKT", ["+TEST: RXLRPKT"]), ("AT+TEST=STOP", ["+TEST: STOP"]),
     ('AT+TEST=TXLRPKT,"40"', ['+TEST: TXLRPKT "40"'])],
)  # fmt: skip
@on_wires
async def test_each_command_of_a_lora_e5_has_its_own_last_line(
    command: str, lines: list[str]
) -> None:
    unfinished = heard(E5, command, *lines[:-1])
    assert not unfinished.status.done()
    asked = heard(E5, command, "+LOG: DEBUG 1 noise", "+OTHER: 1", *lines)
    status = asked.status.result()
    assert isinstance(status, Line)
    assert status.text == lines[-1]
    assert not asked.refuses(status)


@pytest.mark.parametrize(
    ("command", "line"),
    [("AT+DR=9", "+DR: ERROR(-1)"), ("AT+FOO=1", "+AT: ERROR(-10)"), ("AT+ID", "+ID: ERROR(-12)"),
     ("AT+VER", "+INFO: Input timeout"), ("AT+JOIN", "+JOIN: Joined already"),
     ("AT+JOIN", "+JOIN: LoRaWAN modem is busy"), ("AT+JOIN", "+JOIN: No free channel"),
     ("AT+JOIN", "+JOIN: Not in OTAA mode"), ('AT+CMSGHEX="01"', "+CMSGHEX: DR error"),
     ('AT+MSGHEX="01"', "+MSGHEX: No band in 13469ms"), ('AT+MSG="a"', "+MSG: ERROR(-1)"),
     ("AT+MODE?", "+MODE: ERROR(-12)"), ("AT+KEY=APPKEY,1", "+KEY: ERROR(-1)")],
)  # fmt: skip
@on_wires
async def test_each_refusal_of_a_lora_e5(command: str, line: str) -> None:
    asked = heard(E5, command, line)
    status = asked.status.result()
    assert isinstance(status, Line)
    assert asked.refuses(status)


@on_wires
async def test_a_reply_that_may_be_over_is_over_when_nothing_follows() -> None:
    asked = heard(E5, "AT+DR=5", "+DR: DR5")
    assert not asked.status.done()
    status = await asked.status
    assert isinstance(status, Line)
    assert (status.text, asked.answer) == ("+DR: DR5", ["+DR: DR5"])
    two = heard(E5, "AT+DR=5", "+DR: DR5", "+DR: EU868 DR5  SF7  BW125K")
    assert two.answer == ["+DR: DR5", "+DR: EU868 DR5  SF7  BW125K"]
    await asyncio.sleep(E5.reply_to("AT+DR=5").quiet_us / 1_000_000 + 0.05)
    assert two.answer == ["+DR: DR5", "+DR: EU868 DR5  SF7  BW125K"]


@on_wires
async def test_an_acknowledgement_is_kept_however_often_it_waits_for_it() -> None:
    waits = ["+CMSGHEX: Wait ACK"] * (2 * REPLIES_MAX)
    asked = heard(E5, 'AT+CMSGHEX="01"', "+CMSGHEX: Start", *waits, "+CMSGHEX: ACK Received")
    assert asked.told[-1] == "+CMSGHEX: ACK Received"
    assert len(asked.told) == REPLIES_MAX


@pytest.mark.parametrize("line", ["COMMAND_LOCKED", "AT_BUSY_ERROR", "AT+X: Command not found!!"])
@on_wires
async def test_each_refusal_of_rui3(line: str) -> None:
    asked = heard(RUI3, "AT+X=1", "Restricted_Wait_1_ms", line)
    status = asked.status.result()
    assert isinstance(status, Line)
    assert asked.refuses(status)
    assert asked.answer == ["Restricted_Wait_1_ms", line]


@on_wires
async def test_an_event_before_the_ok_is_an_ending_only_where_it_may_be() -> None:
    event = Line(LineKind.EVENT, "+EVT:TXP2P DONE")
    endings = re.compile(r"\+EVT:TXP2P DONE")
    for early in (True, False):
        asked = AtCommand("AT+PSEND=00", RUI3.reply_to(""), endings, early=early)
        asked.hear(event)
        assert asked.ending.done() is early


@pytest.mark.parametrize(
    ("text", "kind"),
    [("+RESET: OK", "boot"), ("+LOG: DEBUG 1 LORA TX, 40", "event"), ("+JOIN: Done", "reply"),
     ("OK", "reply"), ("+EVT:TX_DONE", "reply"), ("+LOWPOWER: WAKEUP", "event")],
)  # fmt: skip
def test_what_a_line_of_a_lora_e5_is(text: str, kind: str) -> None:
    (line,) = AtConsole(E5_LINES).receive_bytes(f"{text}\r\n".encode())
    assert line.kind.value == kind


@given(st.sampled_from(STREAMS), st.sampled_from([RUI3_LINES, E5_LINES]), st.data())
def test_any_split_of_a_dialogue_gives_the_same_lines(
    stream: str, spelling: LineSpelling, data: st.DataObject
) -> None:
    raw = stream.encode() + b"\r\n"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=12)))
    whole, cut = AtConsole(spelling), AtConsole(spelling)
    pieces = [
        line for a, b in pairwise([0, *cuts, len(raw)]) for line in cut.receive_bytes(raw[a:b])
    ]
    assert pieces == whole.receive_bytes(raw)
    assert [line.text for line in pieces] == stream.split("\r\n")
