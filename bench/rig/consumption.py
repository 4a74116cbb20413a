"""The verbs for consumers, as every rig with network servers of its own carries them out."""

from abc import abstractmethod
from dataclasses import replace
from typing import Any, Protocol

from bench.device.interfaces import Sent
from bench.rig.consumer_settings import ConsumerSettings
from bench.rig.consuming import CONSUMER, Named
from bench.rig.injected import PRODUCER, Injected
from bench.rig.stimulation import Stimulation
from bench.verdict.mistake import not_there
from lns.clock import now_us
from lns.delivery.detectors import NETWORK_US, RETENTION_MAX_US, RETRY_US, WINDOW_US

PUBLISHED = ("upstream.published", "upstream.repeated", "upstream.injected")
_WITHIN_US = 20_000_000
_AGAIN_US = 20_000


class RigConsumer(Protocol):
    """One consumer, in this process or a program of its own."""

    settings: ConsumerSettings

    async def kill(self) -> None:
        """End it at once."""

    def crash(self, at: str) -> None:
        """Crash at the next message."""

    async def until_crashed(self) -> None:
        """Wait until it has crashed, if it is to."""


class Consumption(Stimulation):
    """What a scenario may do to consumers and to the broker, and expect of them."""

    _consumers: dict[str, Any]
    _messages = 0

    def consumer(
        self,
        name: str = CONSUMER,
        *,
        window: int | None = WINDOW_US,
        partitioned: bool = False,
        sessions: bool = False,
        sequence: bool = True,
        keys: bool = False,
        retention: int = RETENTION_MAX_US,
        retry: int = RETRY_US,
        network: int = NETWORK_US,
        knows_oldest: bool = False,
        store: str | None = None,
        elsewhere: bool = False,
        refuses: str | None = None,
        refusals: int | None = None,
    ) -> None:
        self._before_start(f"consumer {name!r}")
        settings = ConsumerSettings(
            name=name,
            window_us=window,
            partitioned=partitioned,
            sessions=sessions,
            sequence=sequence,
            keys=keys,
            retention_us=retention,
            retry_us=retry,
            network_us=network,
            knows_oldest=knows_oldest,
            store=store,
            elsewhere=elsewhere,
            refuses=refuses,
            refusals=refusals,
        )
        settings.detectors()
        self._consumers[name] = self.new_consumer(settings)

    def consumer_of(self, name: str) -> Any:
        """A consumer by name; ScenarioMistake for one that nobody asked for before."""
        if name not in self._consumers:
            raise not_there("consumer", name, self._consumers)
        return self._consumers[name]

    @abstractmethod
    def new_consumer(self, settings: ConsumerSettings) -> RigConsumer:
        """A consumer that the first act will start."""

    @abstractmethod
    async def run_consumer(self, name: str) -> None:
        """Start a consumer, and wait until the broker knows it; ConfigurationError."""

    @abstractmethod
    async def publish(self, topic: str, body: dict[str, object]) -> None:
        """Publish one message in the name of the bench."""

    async def kill_consumer(self, name: str = CONSUMER) -> None:
        await self.start()
        self.note_fault("consumer", "kill", consumer=name)
        await self.consumer_of(name).kill()

    async def start_consumer(self, name: str = CONSUMER, *, window: int | None = None) -> None:
        consumer = self.consumer_of(name)
        await consumer.until_crashed()
        if window is not None:
            consumer.settings = replace(consumer.settings, window_us=window)
        await self.run_consumer(name)

    async def crash_consumer(self, at: str, name: str = CONSUMER) -> None:
        await self.start()
        self.note_fault("consumer", "crash", consumer=name, at=at)
        self.consumer_of(name).crash(at)

    def note_fault(
        self, seam: str, fault: str, kind: str = "fault.begin", **detail: object
    ) -> None:
        """Tell of a fault between network servers and application."""
        told: dict[str, object] = {"seam": seam, "fault": fault, "origin": "injected"}
        self.record("bench", kind, told | {"detail": detail})

    # --- messages -------------------------------------------------------------------------------

    async def until_published(self, uplink: Named, times: int = 1, *, lns: str = "") -> None:
        until_us = now_us() + _WITHIN_US
        while len(self._messages_of(uplink, lns)) < times:
            if now_us() > until_us:
                got = len(self._messages_of(uplink, lns))
                raise TimeoutError(f"{which(uplink)}: published {got} times, not {times}")
            await self.pause(_AGAIN_US)

    async def republish(self, uplink: Sent, *, after: int) -> None:
        await self.until_published(uplink)
        first = self._messages_of(uplink, "")[0]
        await self.pause(first["t_us"] + after - now_us())
        await self.publish(first["topic"], first["body"])

    async def inject(
        self,
        device: Any,
        *,
        message_id: str | None = None,
        number: int | None = None,
        key: str | None = None,
        session: str | None = None,
        partition: str | None = None,
        body: str = "21.5",
    ) -> Injected:
        await self.start()
        self._messages += 1
        message = Injected(message_id or f"injected-{self._messages}")
        dev_eui = device.provisioned.dev_eui
        fields: dict[str, object] = {
            "messageId": message.message_id,
            "partitionKey": partition or dev_eui,
        }
        optional = {"sequenceNumber": number, "removeDuplicatesKey": key, "sessionId": session}
        fields |= {name: value for name, value in optional.items() if value is not None}
        fields |= {"devEui": dev_eui, "payload": body}
        await self.publish(f"lorawan/{PRODUCER}/{dev_eui}/up", fields)
        return message

    def _messages_of(self, message: Named, lns: str) -> list[dict[str, Any]]:
        """The lines of an uplink's messages, or of one message of the bench."""

        def fits(body: dict[str, Any]) -> bool:
            if isinstance(message, Injected):
                return bool(body["messageId"] == message.message_id)
            what = body.get("devEui"), body.get("devAddr"), body.get("fCnt")
            return what == tuple(which(message).values()) and lns in ("", body["lns"])

        lines = self.case.events
        return [line for line in lines if line["kind"] in PUBLISHED and fits(line["body"])]

    # --- what is due ----------------------------------------------------------------------------

    def expect_effects(
        self, message: Named, times: int = 1, *, consumer: str | None = None
    ) -> None:
        self.case.expect_effects(times, which(message), consumer=consumer)

    def expect_ignored(
        self, message: Named, *, by: str, times: int = 1, consumer: str | None = None
    ) -> None:
        self.case.expect_effects(times, which(message), consumer=consumer, by=by)


def which(message: Named) -> dict[str, object]:
    """How a message is named in an expectation."""
    if isinstance(message, Injected):
        return {"message_id": message.message_id}
    dev_addr = message.frame_id.split(":")[0]
    return {"dev_eui": message.dev_eui, "dev_addr": dev_addr, "f_cnt": message.f_cnt}
