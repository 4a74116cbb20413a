"""A station of a well-behaved neighbour, in a process of its own: how long is it kept waiting?

    python -m tests.lns.server.neighbour PID URI [AUTHORITY CERTIFICATE KEY]

It hears confirmed uplinks, one after the other, and measures each from `updf` to `dnmsg`. For each
line on its standard input it writes one of JSON: what it measured since, in µs. `waits_us` is by
the clock on the wall; `served_us` leaves out for how long the server (the process PID) or this
process was ready to run and the host had no core for it.
"""

import asyncio
import itertools
import json
import ssl
import sys

from lns.clock import now_us
from tests.host_time import coreless_us
from tests.lns.served_network import EAST, uplink
from tests.lns.server.basics_station import BasicsStation

PAUSE_S = 0.005
FIRST_F_CNT = 10


async def main(server: str, uri: str, *tls: str) -> None:
    context = None
    if tls:
        authority, certificate, key = tls
        context = ssl.create_default_context(cafile=authority)
        context.load_cert_chain(certificate, key)
    station = BasicsStation(EAST, uri, context=context)
    await station.connect()
    await station.until_configured()
    measured: dict[str, list[int]] = {"waits_us": [], "served_us": []}
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with asyncio.TaskGroup() as tasks:
        hearing = tasks.create_task(hear(station, server, measured))
        while await reader.readline():
            print(json.dumps(measured), flush=True)
            for values in measured.values():
                values.clear()
        hearing.cancel()


async def hear(station: BasicsStation, server: str, measured: dict[str, list[int]]) -> None:
    for f_cnt in itertools.count(FIRST_F_CNT):
        phy = uplink(f_cnt, confirmed=True)
        began_us, delayed_us = now_us(), coreless_us(server) + coreless_us()
        station.hear(phy)
        await station.next_dnmsg()
        wait_us = now_us() - began_us
        delay_us = coreless_us(server) + coreless_us() - delayed_us
        measured["waits_us"].append(wait_us)
        measured["served_us"].append(max(0, wait_us - delay_us))
        await asyncio.sleep(PAUSE_S)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
