"""How is something done to a board, a station or the air from outside?

`python -m bench.virtual.lab.control DIR VERB NAME [VALUE]` asks the lab in that folder.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.virtual.lab import json_lines

ANSWER_S = 30
Obey = Callable[[str, str, str], Awaitable[str]]
"""Carries out a verb for a name with a value; what was wrong, "" if nothing was."""

VERBS = {
    "unplug": "take the USB plug of a board out; the board goes on",
    "plug": "put it in again",
    "power-off": "cut the power of a board or a station",
    "power-on": "give it back",
    "power-cycle": "cut it and give it back",
    "reset": "press NRST of a board",
    "reboot": "let a board start anew by itself, as after a brown-out",
    "mute": "let the firmware of a board hang: it answers nothing",
    "unmute": "let it go on",
    "kill-station": "kill the process of a station",
    "start-station": "start it",
    "restart-station": "kill it, if it runs, and start it",
    "deaf": "put a radio into a box that no signal enters or leaves",
    "hearing": "take it out",
    "attenuate": "set its step attenuator to this many dB",
}


class ControlRefused(Exception):
    """The lab cannot do that; the text says why."""


async def ask(home: Path, verb: str, name: str, value: str = "") -> None:
    """Let the process in this folder do something; ControlRefused with the reason otherwise."""
    try:
        async with asyncio.timeout(ANSWER_S):
            wire = await json_lines.connect(home)
            try:
                wire.send({"verb": verb, "name": name, "value": value})
                answer = await wire.receive()
            finally:
                await wire.close()
    except OSError as error:
        raise ControlRefused(f"nothing runs in {home} ({error.strerror or error})") from None
    except TimeoutError:
        raise ControlRefused(f"what runs in {home} does not answer") from None
    if answer is None or answer["refused"]:
        raise ControlRefused(answer["refused"] if answer else f"{home}: it ended meanwhile")


async def listen(home: Path, obey: Obey) -> asyncio.Server:
    """Let this process be asked, in its folder."""

    async def accept(wire: json_lines.Wire) -> None:
        while (request := await wire.receive()) is not None:
            wire.send({"refused": await obey(request["verb"], request["name"], request["value"])})

    return await json_lines.serve(home, accept)


def main(words: list[str]) -> int:
    """Ask once; 0 if it was done."""
    if len(words) not in (3, 4) or words[1] not in VERBS:
        print(f"usage: DIR VERB NAME [VALUE]; verbs: {', '.join(VERBS)}", file=sys.stderr)
        return 4
    try:
        asyncio.run(ask(Path(words[0]), *words[1:]))
    except ControlRefused as refusal:
        print(refusal, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
