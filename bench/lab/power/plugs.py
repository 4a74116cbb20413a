"""How is a smart plug in the local network switched, by the HTTP interface of its maker?

Shelly generation 1: `/relay/<n>?turn=on` answers with `ison`. Generation 2 and later:
`/rpc/Switch.Set`, then `/rpc/Switch.GetStatus` with `output`. Tasmota: `/cm?cmnd=Power<n>%20On`
answers with `POWER` or `POWER<n>`. What a plug says of its state is believed, nothing else.
"""

import asyncio
import json
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from urllib.parse import quote

from bench.lab.power.seam import OFF_US, PowerFailed, off_and_on

_LIMIT_US = 5_000_000
_ANSWER_BYTES_MAX = 65_536
# A proxy of the environment does not lead into the local network.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))

Answer = dict[str, object]


async def answer(name: str, url: str, limit_us: int = _LIMIT_US) -> Answer:
    """The JSON object that a plug answers with; PowerFailed if it does not, or not in time."""
    try:
        told = json.loads(await asyncio.to_thread(_get, url, limit_us))
    except urllib.error.HTTPError as error:
        error.close()
        said = f"{error.code} {error.reason}"
        raise PowerFailed(f"{name}: {url} says {said}; is it this kind of plug?") from None
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise PowerFailed(f"{name}: no answer from {url} ({reason})") from None
    if not isinstance(told, dict):
        raise PowerFailed(f"{name}: {url} answers with no JSON object; is it this kind of plug?")
    return told


def _get(url: str, limit_us: int) -> bytes:
    with _OPENER.open(url, timeout=limit_us / 1_000_000) as response:
        return bytes(response.read(_ANSWER_BYTES_MAX))


class _Plug(ABC):
    """A plug that is told a state and answers with the one it has."""

    def __init__(self, name: str, url: str, limit_us: int) -> None:
        self._name = name
        self._url = url.rstrip("/")
        self._limit_us = limit_us

    async def on(self) -> None:
        """Switch it on, and hear that it is."""
        await self._is(True)

    async def off(self) -> None:
        """Switch it off, and hear that it is."""
        await self._is(False)

    async def cycle(self, off_us: int = OFF_US) -> None:
        """Switch it off for a while."""
        await off_and_on(self, off_us)

    async def _is(self, on: bool) -> None:
        state = await self._set(on)
        if state is not on:
            wanted = "on" if on else "off"
            raise PowerFailed(f"{self._name}: {self._url} does not say that it is {wanted} now")

    @abstractmethod
    async def _set(self, on: bool) -> bool | None:
        """The state it has afterwards, None if it does not say."""

    async def _ask(self, path: str) -> Answer:
        return await answer(self._name, f"{self._url}{path}", self._limit_us)


class ShellyPlug(_Plug):
    """A relay of a Shelly, `generation` 1, or 2 and later."""

    def __init__(
        self, name: str, url: str, generation: int, channel: int = 0, limit_us: int = _LIMIT_US
    ) -> None:
        super().__init__(name, url, limit_us)
        self._generation = generation
        self._channel = channel

    async def _set(self, on: bool) -> bool | None:
        if self._generation == 1:
            told = await self._ask(f"/relay/{self._channel}?turn={'on' if on else 'off'}")
            state = told.get("ison")
        else:
            await self._ask(f"/rpc/Switch.Set?id={self._channel}&on={str(on).lower()}")
            told = await self._ask(f"/rpc/Switch.GetStatus?id={self._channel}")
            state = told.get("output")
        return state if isinstance(state, bool) else None


class TasmotaPlug(_Plug):
    """A relay of a device with Tasmota; `channel` from 1, None for the only one."""

    def __init__(
        self, name: str, url: str, channel: int | None = None, limit_us: int = _LIMIT_US
    ) -> None:
        super().__init__(name, url, limit_us)
        self._command = f"Power{channel or ''}"

    async def _set(self, on: bool) -> bool | None:
        command = f"{self._command} {'On' if on else 'Off'}"
        told = await self._ask(f"/cm?cmnd={quote(command)}")
        # With one relay only, the answer to Power1 is called POWER.
        state = told.get(self._command.upper(), told.get("POWER"))
        return {"ON": True, "OFF": False}.get(state) if isinstance(state, str) else None
