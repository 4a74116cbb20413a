"""`python -m lns` takes what applications ask for from a real broker, and nothing else."""

import asyncio
from pathlib import Path

import pytest
from paho.mqtt.client import MQTTv5
from paho.mqtt.publish import single

from tests.broker import Mosquitto
from tests.lns.served_network import WEST, uplink
from tests.lns.server.basics_station import BasicsStation, StationSocket
from tests.lns.test_running import LNS, Process, lns_toml, running
from tests.lns.test_running_wires import mosquitto, of_kind, upstream

__all__ = ["lns_toml", "mosquitto"]

TOPIC = "lorawan/lns-a/70B3D57ED0000001/down"
GOOD = '{"fPort":7,"payload":"6f6e"}'
PATIENCE_S = 60


def publish(broker: Mosquitto, body: str, *, topic: str = TOPIC, retain: bool = False) -> None:
    single(topic, body, qos=1, retain=retain, port=broker.port, protocol=MQTTv5)


async def told(file: Path, until: str) -> list[dict[str, str]]:
    """The events about requests so far, once the last one has this stage or reason."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            events = of_kind(file, "lns.request")
            found = [{key: str(value) for key, value in event.items()} for event in events]
            if found and until in (found[-1]["stage"], found[-1].get("reason")):
                return found
            await asyncio.sleep(0.02)


async def subscribed(file: Path, broker: Mosquitto) -> None:
    """The first request that arrives shows it; what nobody hears yet is gone."""
    async with asyncio.timeout(PATIENCE_S):
        while not (file.parent / "var" / "lns-a.jsonl").exists() or not of_kind(
            file, "lns.request"
        ):
            publish(broker, "is anybody there?")
            await asyncio.sleep(0.2)


async def answered(process: Process, f_cnt: int) -> int:
    """How many bytes of FPort and payload an answer to one unconfirmed uplink carries."""
    station = BasicsStation(WEST, process.tc_uri)
    await station.connect()
    await station.until_configured()
    station.hear(uplink(f_cnt))
    dnmsg = await station.next_dnmsg()
    await StationSocket.reset_all()
    return len(dnmsg.pdu) - 12


@pytest.mark.broker
def test_a_request_goes_down_with_the_next_answer_and_nonsense_harms_nobody(
    lns_toml: Path, mosquitto: Mosquitto
) -> None:
    lns_toml.write_text(LNS + upstream(mosquitto))

    async def scenario(process: Process) -> int:
        await subscribed(lns_toml, mosquitto)
        publish(mosquitto, '{"fPort":0,"payload":"00"}')
        publish(mosquitto, GOOD, topic="lorawan/lns-b/70B3D57ED0000001/down")
        publish(mosquitto, GOOD, topic="lorawan/lns-a/0000000000000001/down")
        publish(mosquitto, GOOD)
        events = (await told(lns_toml, "queued"))[-3:]
        assert [(event["stage"], event.get("reason", "")[:14]) for event in events] == [
            ("refused", "not a downlink"),
            ("refused", "UnknownDevice"),
            ("queued", ""),
        ]
        return await answered(process, 10)

    with running(lns_toml) as process:
        assert asyncio.run(scenario(process)) == len(b"\x07on")
        status, _, err = process.stop()
    assert status == 0
    assert "not a downlink" in err
    assert "6f6e" not in err


@pytest.mark.broker
def test_a_retained_request_is_sent_once_not_with_every_start(
    lns_toml: Path, mosquitto: Mosquitto
) -> None:
    lns_toml.write_text(LNS + upstream(mosquitto))
    with running(lns_toml) as process:
        asyncio.run(subscribed(lns_toml, mosquitto))
        publish(mosquitto, GOOD, retain=True)
        before = len(asyncio.run(told(lns_toml, "queued")))
        process.stop()
    with running(lns_toml) as process:
        publish(mosquitto, GOOD, topic="lorawan/lns-a/0000000000000001/down")
        events = asyncio.run(told(lns_toml, "UnknownDevice"))[before:]
        assert [event.get("reason") for event in events] == ["UnknownDevice"]
        process.stop()
