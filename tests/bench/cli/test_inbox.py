"""`lorabench inbox` as a person meets it: a process between a broker and a file."""

import asyncio
import json
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from paho.mqtt import publish

from bench.cli.program import main
from bench.host.lns_process import Valkey
from lns.delivery.detectors import statement
from lns.delivery.mqtt_session import broker, post
from tests import forked
from tests.blocking import start_now, stop_now
from tests.broker import Listener, Mosquitto
from tests.forked import Piped
from tests.lns.delivery.sending import message, way

RUN = ["bench", "inbox"]
WAIT_S = 60
Once = Callable[..., "Done"]


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Mosquitto]:
    (tmp_path / "broker").mkdir()
    server = Mosquitto(tmp_path / "broker").start()
    yield server
    server.stop()


@pytest.fixture
def asked(mosquitto: Mosquitto, tmp_path: Path) -> list[str]:
    """Broker and store."""
    return ["--broker", mosquitto.url, "--store", str(tmp_path / "inbox.sqlite")]


@contextmanager
def started(*words: str) -> Iterator[Piped]:
    """A consumer as a process."""
    process = Piped([*RUN, *words], imports=forked.CONSUMER)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def running(*words: str) -> Iterator[Piped]:
    """A consumer that is connected."""
    with started(*words) as process:
        until_it_says(process, " brings ")
        yield process


def until_it_says(process: Piped, words: str) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            return line
    raise AssertionError(f"it never said {words}")


def stop(process: Piped, how: signal.Signals = signal.SIGTERM) -> str:
    """The rest of what it says, after a clean end."""
    process.send_signal(how)
    _, rest = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, rest
    return rest


@dataclass(frozen=True)
class Done:
    """What a consumer did that stopped by itself."""

    code: int
    out: str
    err: str


@pytest.fixture
def once(capfd: pytest.CaptureFixture[str]) -> Once:
    """Consume, in this process, what the broker has."""

    def run(*words: str) -> Done:
        capfd.readouterr()
        code = main(["inbox", *words, "--until-idle", "300ms"])
        return Done(code, *capfd.readouterr())

    return run


def send(url: str, folder: Path, *f_cnts: int) -> None:
    async def body() -> None:
        async with way(url, folder) as up:
            for f_cnt in f_cnts:
                await up.publish(message(f_cnt))
            await up.drained()

    asyncio.run(body())


def send_again(url: str, f_cnt: int, *, number: int) -> None:
    """A message under the number that it had."""
    sent = message(f_cnt)
    asyncio.run(post(broker(url), sent.topic, json.dumps(sent.body(number)).encode()))


def retain(mosquitto: Mosquitto, topic: str, body: bytes) -> None:
    publish.single(topic, body, qos=1, retain=True, hostname="127.0.0.1", port=mosquitto.port)


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.broker
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_each_message_becomes_one_line_and_one_event(
    how: signal.Signals, asked: list[str], mosquitto: Mosquitto, tmp_path: Path
) -> None:
    to, capture = tmp_path / "uplinks.jsonl", tmp_path / "inbox.jsonl"
    with running(*asked, "--to", str(to), "--capture", str(capture), "--every", "200ms") as inbox:
        send(mosquitto.url, tmp_path, 1, 2, 2, 3, 1)
        until_it_says(inbox, "accepted 3, ignored 2 (window 2, sequence 0, key 0)")
        stop(inbox, how)
    got = lines(to)
    assert [(line["position"], line["messageId"][-2:]) for line in got] == [
        (1, "-1"),
        (2, "-2"),
        (3, "-3"),
    ]
    assert got[0]["body"] == message(1).body(1)
    events = lines(capture)
    assert [event["kind"].removeprefix("inbox.") for event in events] == [
        "accepted",
        "accepted",
        "ignored",
        "accepted",
        "ignored",
    ]
    assert (events[4]["by"], events[4]["first_position"]) == ("window", 1)
    assert [event["seq"] for event in events] == list(range(5))
    assert {(event["source"], event["run_id"]) for event in events} == {("inbox", "inbox")}


@pytest.mark.broker
def test_the_next_one_goes_on_where_the_last_one_was_killed(
    asked: list[str], once: Once, mosquitto: Mosquitto, tmp_path: Path
) -> None:
    to = tmp_path / "uplinks.jsonl"
    with running(*asked, "--to", str(to), "--every", "100ms") as inbox:
        send(mosquitto.url, tmp_path, 1, 2)
        until_it_says(inbox, "accepted 2,")
        inbox.kill()
        inbox.wait()
    send(mosquitto.url, tmp_path, 3, 2, 4)
    assert once(*asked, "--to", str(to)).code == 0
    assert [line["position"] for line in lines(to)] == [1, 2, 3, 4]
    assert [line["body"]["fCnt"] for line in lines(to)] == [1, 2, 3, 4]


@pytest.mark.broker
def test_a_pipe_gets_lines_and_nothing_else(
    asked: list[str], once: Once, mosquitto: Mosquitto, tmp_path: Path
) -> None:
    assert once(*asked).out == ""
    send(mosquitto.url, tmp_path, 1, 2)
    done = once(*asked)
    assert [json.loads(line)["position"] for line in done.out.splitlines()] == [1, 2]
    assert re.search(r"^accepted 2, .*NumDupMsgsRcvd 0; remembered: window 2", done.err, re.M)


@pytest.mark.broker
def test_who_reads_no_more_ends_it_and_loses_nothing(
    asked: list[str], once: Once, mosquitto: Mosquitto, tmp_path: Path
) -> None:
    once(*asked)
    send(mosquitto.url, tmp_path, 1, 2)
    with subprocess.Popen(
        [sys.executable, "-m", *RUN, *asked],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as inbox:
        assert inbox.stdout is not None and inbox.stderr is not None
        inbox.stdout.close()
        said = inbox.stderr.read()
        assert inbox.wait(WAIT_S) == 4
    assert "Nobody reads the output any more" in said and "Traceback" not in said
    assert len(once(*asked).out.splitlines()) == 2


@pytest.mark.broker
def test_keys_recognise_what_ids_do_not_and_numbers_can_be_left_alone(
    asked: list[str], once: Once, mosquitto: Mosquitto, tmp_path: Path
) -> None:
    off = [*asked, "--window", "off", "--no-sequence", "--keys"]
    once(*off)
    send(mosquitto.url, tmp_path, 1, 1, 2)
    done = once(*off)
    assert len(done.out.splitlines()) == 2
    assert "ignored 1 (window 0, sequence 0, key 1)" in done.err


@pytest.mark.broker
def test_a_producer_that_tries_for_longer_is_warned_of_and_its_time_is_heard(
    asked: list[str], mosquitto: Mosquitto, tmp_path: Path
) -> None:
    retain(mosquitto, "lorawan/lns-a/min_msg_time", statement("lns-a", 10**15, 600_000_000))
    retain(mosquitto, "lorawan/lns-b/min_msg_time", b"nonsense")
    keys = ["--keys", "--retry", "5min", "--to", str(tmp_path / "to"), "--every", "100ms"]
    for more in ([], ["--min-msg-time", "lorawan/+/min_msg_time"]):
        with running(*asked, *keys, *more) as inbox:
            said = until_it_says(inbox, "--retry is 300 s")
            assert "lorawan/lns-a/min_msg_time sends a message again for 600 s" in said
            assert "lorawan/lns-b/min_msg_time holds no time" in until_it_says(inbox, "holds no")
            send(mosquitto.url, tmp_path, 1)
            until_it_says(inbox, "accepted 1")
            stop(inbox)
    with closing(sqlite3.connect(tmp_path / "inbox.sqlite")) as db:
        rows = db.execute("SELECT value FROM inbox_number WHERE name = 'min_msg_time_us'")
        assert rows.fetchall() == [(10**15,)]


@pytest.mark.broker
@pytest.mark.parametrize(("time", "accepted"), [("2001-01-01T00:00:00Z", 1), ("4102444800", 2)])
def test_a_command_says_of_what_time_the_oldest_message_is(
    time: str, accepted: int, asked: list[str], once: Once, mosquitto: Mosquitto, tmp_path: Path
) -> None:
    """With an old one the key is still known; with one in the future it is forgotten."""
    keys = [*asked, "--window", "off", "--no-sequence", "--keys"]
    keys += ["--min-msg-time", f"command:echo {time}"]
    once(*keys)
    send(mosquitto.url, tmp_path, 1)
    once(*keys)
    send_again(mosquitto.url, 1, number=1)
    assert f"accepted {accepted}," in once(*keys).err


@pytest.mark.broker
def test_a_command_that_fails_is_told(asked: list[str]) -> None:
    with started(*asked, "--keys", "--min-msg-time", "command:exit 3") as inbox:
        until_it_says(inbox, "--min-msg-time: exit 3: it ended with 3")
        stop(inbox)


@pytest.mark.broker
def test_messages_are_published_again_without_their_repeats(
    asked: list[str], once: Once, mosquitto: Mosquitto, tmp_path: Path
) -> None:
    listener = Listener(mosquitto.port)
    try:
        once(*asked)
        send(mosquitto.url, tmp_path, 1, 1, 2)
        assert once(*asked, "--to", "mqtt:clean").code == 0
        clean = [
            heard
            for heard in listener.wait_for(lambda heard: len(heard) >= 5)
            if heard.topic.startswith("clean/")
        ]
    finally:
        listener.close()
    assert [heard.topic for heard in clean] == [f"clean/{message(1).topic}"] * 2
    assert [heard.body["fCnt"] for heard in clean] == [1, 2]
    assert dict(clean[1].properties)["removeDuplicatesKey"] == message(2).message_id


@pytest.mark.broker
def test_its_state_is_shown_while_it_runs(
    asked: list[str],
    mosquitto: Mosquitto,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store = str(tmp_path / "inbox.sqlite")
    with running(*asked, "--to", str(tmp_path / "to"), "--every", "100ms") as inbox:
        send(mosquitto.url, tmp_path, 1, 1)
        until_it_says(inbox, "accepted 1, ignored 1 ")
        assert main(["inbox", "--show", store, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert main(["inbox", "--show", store]) == 0
        page = capsys.readouterr().out
        assert main(["inbox", *asked]) == 4
        assert "is in use by another process" in capsys.readouterr().err
    assert (document["accepted"], document["ignored"]["window"]) == (1, 1)
    assert (document["window_us"], document["parked_messages"]) == (600_000_000, [])
    assert "remembered by window    1" in page


@pytest.mark.broker
def test_the_window_may_have_another_length_later_and_nothing_else(
    asked: list[str], once: Once, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def window_us() -> int:
        assert main(["inbox", "--show", str(tmp_path / "inbox.sqlite"), "--json"]) == 0
        return int(json.loads(capfd.readouterr().out)["window_us"])

    once(*asked)
    assert window_us() == 600_000_000
    once(*asked, "--window", "1h")
    assert window_us() == 3_600_000_000
    assert once(*asked).code == 0
    assert window_us() == 3_600_000_000, "what nobody speaks of stays"
    done = once(*asked, "--window", "off")
    assert (done.code, "was created with duplicate detection" in done.err) == (4, True)
    done = once(*asked, "--partitioned")
    assert (done.code, "cannot become a window of 1 h, partitioned" in done.err) == (4, True)


@pytest.mark.broker
def test_a_store_without_a_window_is_used_without_one(asked: list[str], once: Once) -> None:
    once(*asked, "--window", "off")
    assert once(*asked).code == 0
    done = once(*asked, "--window", "10min")
    assert (done.code, "was created without duplicate detection" in done.err) == (4, True)


@pytest.mark.broker
def test_what_is_remembered_has_a_limit_that_can_be_chosen(
    asked: list[str], once: Once, mosquitto: Mosquitto, tmp_path: Path
) -> None:
    few = [*asked, "--ids-max", "2", "--no-sequence"]
    once(*few)
    send(mosquitto.url, tmp_path, 1, 2, 3, 1, 1)
    done = once(*few)
    assert [json.loads(line)["body"]["fCnt"] for line in done.out.splitlines()] == [1, 2, 3, 1]
    assert "2 left too early" in done.err


@pytest.mark.broker
def test_options_may_stand_in_a_file_under_their_names(
    asked: list[str], once: Once, mosquitto: Mosquitto, tmp_path: Path
) -> None:
    """`performDuplicateChecking` as the AEP Engine has it: NumDupMsgsRcvd is 0 then."""
    config = tmp_path / "inbox.toml"
    config.write_text(
        f"""[inbox]\nbroker = "{mosquitto.url}"\nstore = "{tmp_path / "inbox.sqlite"}"\n"""
        """window = "off"\nperformDuplicateChecking = true\n"""
    )
    once("--config", str(config))
    send(mosquitto.url, tmp_path, 2, 3)
    send_again(mosquitto.url, 3, number=2)
    done = once("--config", str(config))
    assert "accepted 2, ignored 1 (window 0, sequence 1" in done.err
    assert "NumDupMsgsRcvd 1" in done.err
    for off in (["--no-performDuplicateChecking"], ["--performDuplicateChecking=false"]):
        assert "NumDupMsgsRcvd 0" in once(f"--config={config}", *off).err
    config.write_text(config.read_text().replace("true", "false"))
    assert "NumDupMsgsRcvd 0" in once("--config", str(config)).err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[inbox]\nwindo = '1h'\n", "windo"),
        ("[inbox]\nwindow = \n", "inbox.toml: Invalid value (at line 2"),
        (None, "there is no file"),
    ],
)
def test_a_mistake_in_the_file_is_answered_in_words(
    text: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "inbox.toml"
    if text is not None:
        config.write_text(f"\ufeff{text}", "utf-8")
    assert main(["inbox", "--config", str(config)]) == 4
    assert said in capsys.readouterr().err


@pytest.mark.broker
def test_a_broker_that_is_away_is_waited_for_with_one_message(tmp_path: Path) -> None:
    server = Mosquitto(tmp_path)
    words = ["--broker", server.url, "--store", str(tmp_path / "inbox.sqlite")]
    with started(*words) as inbox:
        try:
            until_it_says(inbox, "cannot be reached: Connection refused; lorawan/+/+/up is not")
            server.start()
            assert inbox.stderr is not None
            assert " brings lorawan/+/+/up" in inbox.stderr.readline()
            stop(inbox)
        finally:
            server.stop()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--store", "s"], "--broker is missing"),
        (["--broker", "mqtt://h"], "--store is missing"),
        (["--broker", "http://h", "--store", "s"], "begins with mqtt:// or mqtts://"),
        (["--broker", "mqtt://h", "--store", "s", "--window", "19s"], "20 s to 7 d"),
        (["--broker", "mqtt://h", "--store", "s", "--window", "8d"], "20 s to 7 d"),
        (["--broker", "mqtt://h", "--store", "s", "--window", "10"], "a number and a unit"),
        (["--broker", "mqtt://h", "--store", "s", "--keys", "--retention", "16d"], "at most 15 d"),
        (["--broker", "mqtt://h", "--store", "s", "--to", "mqtt:lorawan"], "come back"),
        (["--broker", "file:nowhere", "--store", "s"], "nowhere cannot be read"),
        (["--broker", "mqtt://h", "--store", "redis://:0"], "--store: "),
        (["--broker", "mqtt://h", "--store", "s", "--topic", "$share/a/#"], "needs --no-sequence"),
        (["--broker", "mqtt://h", "--store", "s", "--capture", "c"], "such as c.jsonl"),
        (["--broker", "mqtt://h", "--store", "s", "--topic", "a/#/b"], "--topic: a/#/b is no"),
        (["--broker", "mqtt://h", "--store", "s", "--client-id", ""], "--client-id is empty"),
        (["--broker", "mqtt://h", "--store", "redis://127.0.0.1:1"], "('127.0.0.1', 1).\n"),
        (["--broker", "mqtt://h", "--store", "s", "--ids-max", "0"], "--ids-max is 1 or more"),
        (["--broker", "mqtt://h", "--store", "s", "--min-msg-time", "a"], "goes with --keys"),
        (
            ["--broker", "mqtt://h", "--store", "s", "--keys", "--min-msg-time", "a/#/b"],
            "--min-msg-time: a/#/b is no",
        ),
        (
            "--broker mqtt://h --store s --keys --min-msg-time a"
            " --topic $share/a/b --no-sequence".split(),
            "with a shared subscription is a command",
        ),
        (["--show", "nowhere"], "nowhere is no file"),
    ],
)
def test_a_mistake_is_answered_in_words(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["inbox", *words]) == 4
    output = capsys.readouterr()
    assert said in output.err and "Traceback" not in output.err
    assert output.out == ""


def test_a_program_that_asks_for_json_is_told_its_mistake_in_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["inbox", "--broker", "mqtt://h", "--store", "s", "--json"]) == 4
    output = capsys.readouterr()
    told = json.loads(output.out)
    assert told["error"].startswith("--json goes with --show") and told["exit_code"] == 4
    assert output.err == ""


def test_a_password_is_never_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = tmp_path / "url"
    url.write_text("mqtt://operator:hunter2@[bad\n")
    assert main(["inbox", "--broker", f"file:{url}", "--store", str(tmp_path / "s")]) == 4
    assert "hunter2" not in capsys.readouterr().err


@pytest.mark.broker
def test_two_consumers_with_one_redis_share_what_they_remember(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    (tmp_path / "redis").mkdir()
    valkey = start_now(Valkey(tmp_path / "redis"))
    asked = ["--broker", mosquitto.url, "--store", valkey.url, "--every", "100ms"]
    asked += ["--topic", "$share/application/lorawan/+/+/up", "--no-sequence"]
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    try:
        with (
            running(*asked, "--client-id", "a", "--to", str(files[0])) as first,
            running(*asked, "--client-id", "b", "--to", str(files[1])) as second,
        ):
            send(mosquitto.url, tmp_path, *range(1, 21), *range(1, 21))
            until_it_says(first, "accepted 20, ignored 20 ")
            until_it_says(second, "accepted 20, ignored 20 ")
            stop(first)
            stop(second)
    finally:
        stop_now(valkey)
    shared = [{line["body"]["fCnt"] for line in lines(file)} for file in files]
    assert all(shared) and not shared[0] & shared[1]
    assert shared[0] | shared[1] == set(range(1, 21))
