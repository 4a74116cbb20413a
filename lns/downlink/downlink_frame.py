"""Which bytes does a data downlink have, and which counter?"""

from msgspec import Struct

from lns.dedup.claiming import Claiming
from lns.downlink.downlink_queue import DownlinkQueues, Waiting
from lns.lorawan.frame import MType, build_data
from lns.lorawan.frame_counter import F_CNT_MAX
from lns.uplink.end_device import Session
from lns.uplink.registry import Registry


class Content(Struct, frozen=True):
    """What an answer carries besides its header: the ACK bit and MAC commands.

    `due`: it is owed to the device even if the application has nothing to say. `f_cnt_down` is the
    counter that the claim of its uplink brought; without one it takes its own.
    """

    ack: bool
    f_opts: bytes = b""
    due: bool = True
    f_cnt_down: int | None = None


class DownlinkFrames:
    """Builds the data downlinks of the devices of one server.

    The sessions of a device are made durable before a downlink counter is used, never after, or a
    restarted server would use it again.
    """

    def __init__(self, registry: Registry, claiming: Claiming, queues: DownlinkQueues) -> None:
        self._registry = registry
        self._claiming = claiming
        self._queues = queues

    async def build(
        self, session: Session, content: Content, carried: Waiting | None
    ) -> tuple[bytes, int] | None:
        """The bytes of a data downlink, and its counter, which is durable already.

        None: another server owns the session, or its counters are used up. StoreUnavailable:
        nothing may leave.
        """
        said = carried.downlink if carried else None
        waiting = self._queues.waiting(session.dev_eui)
        f_cnt_down = content.f_cnt_down
        if f_cnt_down is None:
            device = self._registry.device(session.dev_eui)
            assert device is not None, "a session belongs to a device of this server"
            f_cnt_down = await self._claiming.take_f_cnt_down(device, session)
        if f_cnt_down is None or f_cnt_down > F_CNT_MAX:
            return None
        await self._registry.keep(session.dev_eui)
        pdu = build_data(
            MType.CONFIRMED_DOWN if said and said.confirmed else MType.UNCONFIRMED_DOWN,
            dev_addr=session.dev_addr,
            f_cnt=f_cnt_down,
            keys=session.keys,
            f_port=said.f_port if said else None,
            payload=said.payload if said else b"",
            ack=content.ack,
            f_opts=content.f_opts,
            f_pending=waiting > (1 if said else 0),
        )
        return pdu, f_cnt_down
