"""The summary of a night reaches a broker and a web hook, or a line says why not."""

import asyncio
import json
import socket
from pathlib import Path

import pytest

from bench.host.program import free_port
from bench.lab.inventory.sections import ReportSection
from bench.night.memory import publish
from lns.delivery.mqtt_session import broker
from lns.delivery.subscription import Subscription
from tests.bench.night.web_hook import Hook, serving
from tests.broker import Mosquitto

SUMMARY = {"bench": "lab-1", "text": "A good night – all passed.", "exit_code": 0}


def test_nobody_is_told_where_nobody_is_named() -> None:
    assert publish(ReportSection(), "lab-1", SUMMARY) == []


def test_a_web_hook_gets_the_summary_as_json() -> None:
    with serving(Hook()) as hook:
        lines = publish(ReportSection(webhook=hook.url), "lab-1", SUMMARY)
    assert hook.told == [("/hooks/secret-token?key=also-secret", "application/json", SUMMARY)]
    assert lines == [f"The summary is posted to http://127.0.0.1:{hook.server_port}."]


def test_a_web_hook_may_ask_for_a_login() -> None:
    with serving(Hook()) as hook:
        url = hook.url.replace("//", "//bench:p%40ss@")
        [line] = publish(ReportSection(webhook=url), "lab-1", SUMMARY)
    assert hook.logins == ["Basic YmVuY2g6cEBzcw=="]
    assert "p%40ss" not in line


@pytest.mark.parametrize("status", [403, 500])
def test_a_web_hook_that_refuses_is_a_line_without_its_secrets(status: int) -> None:
    with serving(Hook(status)) as hook:
        [line] = publish(ReportSection(webhook=hook.url), "lab-1", SUMMARY)
    assert line.startswith(f"The summary was not posted to http://127.0.0.1:{hook.server_port}: ")
    assert f"it answers {status}" in line
    assert "secret" not in line


def test_a_web_hook_that_is_not_there_is_a_line() -> None:
    url = f"http://user:secret@127.0.0.1:{free_port()}/secret"
    [line] = publish(ReportSection(webhook=url), "lab-1", SUMMARY)
    assert "was not posted to http://127.0.0.1:" in line
    assert "refused" in line
    assert "secret" not in line


def test_a_web_hook_that_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        [line] = publish(ReportSection(webhook=url), "lab-1", SUMMARY, limit_us=100_000)
    assert "timed out" in line


@pytest.mark.broker
def test_a_broker_gets_the_summary_on_the_topic_of_the_bench(tmp_path: Path) -> None:
    heard: list[tuple[str, object]] = []
    mosquitto = Mosquitto(tmp_path).start()

    async def listen_and_publish() -> list[str]:
        got = asyncio.Event()

        def take(topic: str, body: bytes, properties: dict[str, str]) -> None:
            heard.append((topic, json.loads(body)))
            got.set()

        async with Subscription(broker(mosquitto.url), "lorabench/#", "listener", take):
            told = await asyncio.to_thread(
                publish, ReportSection(mqtt=mosquitto.url), "lab-1", SUMMARY
            )
            async with asyncio.timeout(60):
                await got.wait()
        return told

    try:
        [line] = asyncio.run(listen_and_publish())
    finally:
        mosquitto.stop()
    assert heard == [("lorabench/lab-1/night", SUMMARY)]
    assert line.endswith("topic lorabench/lab-1/night.")


def test_a_broker_that_is_not_there_is_a_line_without_its_password() -> None:
    url = f"mqtt://bench:secret@127.0.0.1:{free_port()}"
    [line] = publish(ReportSection(mqtt=url), "lab-1", SUMMARY)
    assert line.startswith("The summary was not published to mqtt://127.0.0.1:")
    assert "secret" not in line
