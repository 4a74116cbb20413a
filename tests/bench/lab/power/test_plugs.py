"""Smart plugs over HTTP: what is asked, and that only what they say of themselves is believed."""

import asyncio
from collections.abc import Callable

import pytest

from bench.host.program import free_port
from bench.lab.power import PowerFailed, PowerSwitch, ShellyPlug, TasmotaPlug
from tests.bench.lab.power.plug import plug

MAKES: dict[str, Callable[[str], PowerSwitch]] = {
    "shelly 1": lambda url: ShellyPlug("plug", url, 1, limit_us=2_000_000),
    "shelly 2": lambda url: ShellyPlug("plug", f"{url}/", 2, limit_us=2_000_000),
    "tasmota": lambda url: TasmotaPlug("plug", url, limit_us=2_000_000),
    "tasmota, second relay": lambda url: TasmotaPlug("plug", url, 2, limit_us=2_000_000),
}
ASKED = {
    "shelly 1": ["/relay/0?turn=on", "/relay/0?turn=off"],
    "shelly 2": [
        "/rpc/Switch.Set?id=0&on=true",
        "/rpc/Switch.GetStatus?id=0",
        "/rpc/Switch.Set?id=0&on=false",
        "/rpc/Switch.GetStatus?id=0",
    ],
    "tasmota": ["/cm?cmnd=Power%20On", "/cm?cmnd=Power%20Off"],
    "tasmota, second relay": ["/cm?cmnd=Power2%20On", "/cm?cmnd=Power2%20Off"],
}


@pytest.mark.parametrize("make", MAKES)
def test_a_plug_is_switched_as_its_maker_documents_it(make: str) -> None:
    async def switch(url: str) -> None:
        it = MAKES[make](url)
        await it.on()
        assert far.on
        await it.off()
        assert not far.on

    with plug() as far:
        asyncio.run(switch(far.url))
    assert far.asked == ASKED[make]


@pytest.mark.parametrize("make", MAKES)
def test_a_plug_that_does_nothing_has_failed(make: str) -> None:
    with plug() as far:
        far.stuck = True
        with pytest.raises(PowerFailed, match="does not say that it is on now"):
            asyncio.run(MAKES[make](far.url).on())


@pytest.mark.parametrize("make", MAKES)
def test_a_cycle_ends_switched_on(make: str) -> None:
    with plug() as far:
        far.on = True
        asyncio.run(MAKES[make](far.url).cycle(1000))
        assert (
            far.on
            and far.asked
            == ASKED[make][len(far.asked) // 2 :] + (ASKED[make][: len(far.asked) // 2])
        )


@pytest.mark.parametrize("knows", [True, False])
def test_a_cycle_that_is_cancelled_ends_switched_on(knows: bool) -> None:
    """Whether it has been told that it is off by now, or not yet."""

    async def switch(url: str) -> None:
        task = asyncio.create_task(TasmotaPlug("plug", url).cycle(60_000_000))
        while far.on:  # noqa: ASYNC110 - the plug is in another thread
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.sleep(0)
        far.telling.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    with plug() as far:
        far.on = True
        if not knows:
            far.telling.clear()
        asyncio.run(switch(far.url))
        assert far.on


def test_another_make_is_no_answer() -> None:
    with plug() as far, pytest.raises(PowerFailed, match=r"404 Not Found; is it"):
        asyncio.run(ShellyPlug("plug", f"{far.url}/x", 1).on())


def test_a_plug_that_is_not_there_is_named() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(PowerFailed, match=f"plug: no answer from {url}"):
        asyncio.run(TasmotaPlug("plug", url).on())


def test_a_plug_that_says_nothing_is_not_waited_for() -> None:
    with plug() as far:
        far.held.clear()
        with pytest.raises(PowerFailed, match="no answer from"):
            asyncio.run(TasmotaPlug("plug", far.url, limit_us=100_000).on())
        far.held.set()
