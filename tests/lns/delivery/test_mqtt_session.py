"""The URL of a broker: what it says, and what is wrong with it."""

import asyncio
import gc
import random
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import Any, NoReturn

import pytest

from bench import clock
from bench.host.program import free_port
from lns.clock import now_us
from lns.delivery.mqtt_session import (
    Attempts,
    BackOff,
    Broker,
    BrokerLost,
    MqttSession,
    Patience,
    broker,
)
from tests.lns.delivery.sending import message, until, way


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("mqtt://127.0.0.1", Broker("127.0.0.1", 1883)),
        ("mqtt://127.0.0.1:1884/", Broker("127.0.0.1", 1884)),
        ("mqtts://broker.example", Broker("broker.example", 8883, tls=True)),
        ("mqtt://[::1]:1883", Broker("::1", 1883)),
        ("mqtt://lns@b", Broker("b", 1883, user="lns")),
        ("mqtt://lns:p%40ss%2Fw@b", Broker("b", 1883, user="lns", password="p@ss/w")),
    ],
)
def test_what_a_url_says(url: str, found: Broker) -> None:
    assert broker(url) == found


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://b", "begins with mqtt:// or mqtts://"),
        ("127.0.0.1:1883", "begins with mqtt:// or mqtts://"),
        ("mqtt://", "names no host"),
        ("mqtt://b c", "names no host"),
        ("mqtt://b..c", "names no host"),
        (f"mqtt://{'b' * 64}.c", "names no host"),
        ("mqtt://b:0", "the port of a broker is 1 to 65535"),
        ("mqtt://b:70000", "not the URL of a broker"),
        ("mqtt://b:port", "not the URL of a broker"),
        ("mqtt://b/topic", "ends after its port"),
        ("mqtt://lns:hunter2/w0rd@b", "not the URL of a broker"),
        ("mqtt://lns:hunter2#w0rd@b", "not the URL of a broker"),
        ("mqtt://:hunter2@b", "takes a password only with a user"),
    ],
)
def test_a_wrong_url_is_told_without_its_password(url: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as told:
        broker(url)
    assert "hunter2" not in str(told.value) and "w0rd" not in str(told.value)


def test_neither_user_nor_password_is_ever_shown() -> None:
    found = broker("mqtts://operator:hunter2@b:8884")
    assert str(found) == "mqtts://b:8884"
    assert "operator" not in repr(found) and "hunter2" not in repr(found)
    assert str(broker("mqtt://[::1]")) == "mqtt://[::1]:1883"


def test_a_ca_must_be_usable(tmp_path: Path) -> None:
    no_pem = tmp_path / "ca.crt"
    no_pem.write_text("no certificate")
    with pytest.raises(ValueError, match=r"ca\.crt holds no certificate"):
        broker("mqtts://b", no_pem)
    with pytest.raises(ValueError, match=r"missing\.crt cannot be read: No such file"):
        broker("mqtts://b", tmp_path / "missing.crt")
    with pytest.raises(ValueError, match="a ca is for mqtts:// only"):
        broker("mqtt://b", no_pem)


@pytest.mark.parametrize(
    ("failures", "whole_us"), [(1, 500_000), (2, 1_000_000), (6, 16_000_000), (7, 30_000_000)]
)
def test_waits_double_up_to_a_bound_and_half_of_each_is_chance(
    failures: int, whole_us: int
) -> None:
    chance = random.Random(1)
    waits_us = [BackOff().wait_us(failures, chance) for _ in range(200)]
    assert whole_us // 2 <= min(waits_us) < max(waits_us) <= whole_us
    assert len(set(waits_us)) > 100


def test_any_number_of_failures_is_waited_for() -> None:
    assert BackOff().wait_us(10_000, random.Random(1)) <= 30_000_000


def test_the_same_chance_gives_the_same_waits() -> None:
    one, other = ([BackOff().wait_us(n, random.Random(7)) for n in range(1, 9)] for _ in range(2))
    assert one == other


def longest_waits_s(*attempts: tuple[float, bool]) -> list[int]:
    """How long the waits may be, after attempts that lasted so long and were useful or not."""

    async def run() -> list[int]:
        made = Attempts(BackOff(first_us=1_000_000, max_us=8_000_000), random.Random(1))
        waits_us = []
        for lasted_s, useful in attempts:
            made.begin()
            await asyncio.sleep(lasted_s)
            waits_us.append(made.next_wait_us(useful=useful))
        return [next(s for s in (1, 2, 4, 8) if wait_us <= s * 1_000_000) for wait_us in waits_us]

    return clock.run(run())


def test_waits_grow_with_attempts_that_come_to_nothing() -> None:
    assert longest_waits_s((0, False), (1, False), (8, False), (0, False), (0, False)) == [
        1, 2, 4, 8, 8,
    ]  # fmt: skip


@pytest.mark.parametrize("proved", [(8.000001, False), (0, True)])
def test_an_attempt_that_came_to_something_begins_the_waits_anew(
    proved: tuple[float, bool],
) -> None:
    assert longest_waits_s((0, False), (0, False), proved, (0, False)) == [1, 2, 1, 2]


def test_one_connection_is_held_after_another() -> None:
    class Line:
        useful = False

        async def watch(self) -> NoReturn:
            await asyncio.sleep(1)
            self.useful = True
            raise BrokerLost("is gone")

    async def run() -> list[tuple[str, int]]:
        told: list[tuple[str, int]] = []
        tries = iter([False, False, True, False])

        @asynccontextmanager
        async def connected() -> AsyncIterator[Line]:
            there = next(tries, None)
            if not there:
                raise BrokerLost("is away") if there is False else EOFError
            yield Line()

        made = Attempts(BackOff(first_us=1_000_000), random.Random(1))
        with pytest.raises(EOFError):
            await made.hold(connected, lambda why: told.append((why, now_us())))
        return told

    told = clock.run(run())
    assert [why for why, _ in told] == ["is away", "is away", "is gone", "is away"]
    waits_us = [after - before for (_, before), (_, after) in pairwise(told)]
    for waited_us, longest_us in zip(waits_us, (1_000_000, 2_000_000, 1_000_000), strict=True):
        lasted_us = 1_000_000 if longest_us == 2_000_000 else 0
        assert longest_us // 2 <= waited_us - lasted_us <= longest_us


def test_certificates_that_are_exchanged_just_now_are_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They are read for each connection; whoever reads half of them tries again."""
    ca = tmp_path / "ca.pem"

    async def body() -> None:
        async with way(Broker("127.0.0.1", free_port(), tls=True, ca=ca), tmp_path) as upstream:
            await upstream.publish(message(1))
            await until(lambda: f"{ca} cannot be read: No such file" in caplog.text)
            await asyncio.to_thread(ca.write_text, "-----BEGIN CERT")
            await until(lambda: f"{ca} holds no certificate" in caplog.text)
            assert (upstream.connected, upstream.waiting) == (False, 1)

    asyncio.run(body())


def test_who_ends_while_its_broker_refuses_it_leaves_no_trace_in_the_log() -> None:
    left: list[dict[str, Any]] = []
    ended = Event()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, told: left.append(told))
        threads = ThreadPoolExecutor(1)
        loop.set_default_executor(threads)
        threads.submit(ended.wait)  # what connects has not begun when it is ended
        away = Broker("127.0.0.1", free_port())
        opening = asyncio.create_task(MqttSession(away, "lns", Patience(), lambda: None).open())
        await asyncio.sleep(0)
        opening.cancel()
        await asyncio.sleep(0)
        ended.set()
        with pytest.raises(asyncio.CancelledError):
            await opening
        del opening
        gc.collect()

    asyncio.run(run())
    assert left == []
