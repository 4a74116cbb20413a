"""Publishes for ever and tells each id once it is durable; made to be killed.

`python -m tests.lns.delivery.publishing_process URL FOLDER FIRST_F_CNT`
"""

import asyncio
import sys
from itertools import count
from pathlib import Path

from tests.lns.delivery.sending import ALPHA, BETA, message, way


async def _publish(url: str, folder: Path, first: int) -> None:
    numbers = count(first)
    async with way(url, folder) as upstream:

        async def one_after_the_other(dev_eui: str) -> None:
            for f_cnt in numbers:
                sent = message(f_cnt, dev_eui)
                await upstream.publish(sent)
                sys.stdout.write(sent.message_id + "\n")
                sys.stdout.flush()

        await asyncio.gather(*(one_after_the_other(dev_eui) for dev_eui in (ALPHA, BETA) * 8))


if __name__ == "__main__":
    asyncio.run(_publish(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
