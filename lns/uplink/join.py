"""What becomes of a join request?

MIC first (a forged join must not block the real one), then level 1, then the DevNonce. A join
has no soft duplicates: a copy is a `Duplicate` for every strategy (ADR 007, 1b).
"""

import random

from cachetools import FIFOCache

from lns.clock import StoreUnavailable
from lns.dedup.claiming import SessionRefresh
from lns.dedup.concentrator import Copy, JoinKey, Sightings
from lns.dedup.session import Session
from lns.dedup.strategy import Reason, Status, Upstream
from lns.downlink.downlink import Downlinks
from lns.events import Outcome
from lns.lorawan.crypto import derive_session_keys
from lns.lorawan.frame import (
    DlSettings,
    JoinAcceptFields,
    JoinRequest,
    build_join_accept,
    frequency_cf_list,
    mic_of,
)
from lns.lorawan.identifiers import DevAddr, Eui, dev_addr
from lns.lorawan.region import Answer, Region
from lns.station.protocol import Reception
from lns.uplink.registry import Activation, EndDevice, LoRaWanVersion, Registry

JOIN_NONCE_MAX = (1 << 24) - 1
GIVEN_MAX = 100_000  # accepts whose DevAddr is remembered
NWK_ADDR_BITS = 25  # LoRaWAN 1.0.x: DevAddr = NwkID (7 bits) | NwkAddr (25 bits)


class Joins:
    """Handles join requests; draws DevAddr from `entropy`, and remembers the last `GIVEN_MAX`."""

    def __init__(
        self,
        lns: str,
        net_id: str,
        region: Region,
        registry: Registry,
        sightings: Sightings,
        downlinks: Downlinks,
        entropy: random.Random,
        elsewhere: SessionRefresh | None = None,
    ) -> None:
        self._lns = lns
        self._net_id = net_id
        self._region = region
        self._registry = registry
        self._sightings = sightings
        self._downlinks = downlinks
        self._entropy = entropy
        self._elsewhere = elsewhere
        self._given: FIFOCache[tuple[Eui, DevAddr], bool] = FIFOCache(GIVEN_MAX)

    async def receive(self, reception: Reception, request: JoinRequest) -> Outcome:
        """Handle one reception of a join request and tell what became of it."""
        device = self._registry.device(request.dev_eui)
        if device is None or device.activation is not Activation.OTAA:
            return self._outcome(reception, request, None, reason=Reason.UNKNOWN_DEVICE)
        assert device.app_key is not None
        if not request.mic_is_valid(device.app_key):
            return self._outcome(reception, request, None, reason=Reason.MIC_MISMATCH)
        if device.server not in (None, self._lns):
            reason = Reason.BELONGS_TO_ANOTHER_SERVER
            return self._outcome(reception, request, device, reason=reason)
        copy = self._sightings.note(self._key(request), reception.station)
        if copy is not Copy.FIRST:
            return self._outcome(
                reception, request, device, status=Status.DUPLICATE, reason=Reason.DUPLICATE
            )
        answer = None
        try:
            if self._elsewhere is not None and device.server is None:
                await self._elsewhere.learn_of(device.dev_eui)
            refused = self._refusal(device, request)
            if refused is None:
                answer = await self._accept(reception, device, device.app_key, request)
                refused = Reason.DEV_NONCE_USED if answer is None else None
        except StoreUnavailable:
            # What was not kept was not heard: the next copy of it is a first one.
            self._sightings.forget(self._key(request))
            refused = Reason.STORE_UNAVAILABLE
        except Exception:
            self._sightings.forget(self._key(request))
            raise
        return self._outcome(
            reception, request, device, status=Status.NON_DUPLICATE, reason=refused, answer=answer
        )

    def _key(self, request: JoinRequest) -> JoinKey:
        return JoinKey(request.join_eui, request.dev_eui, request.dev_nonce)

    def _refusal(self, device: EndDevice, request: JoinRequest) -> Reason | None:
        """A DevNonce is used once and for ever; LoRaWAN 1.0.4, 6.2.4 makes it a counter."""
        used = self._registry.dev_nonces(device.dev_eui)
        if request.dev_nonce in used:
            return Reason.DEV_NONCE_USED
        if device.lorawan is LoRaWanVersion.V1_0_4 and used and request.dev_nonce < max(used):
            return Reason.DEV_NONCE_USED
        if request.join_eui != device.join_eui:
            return Reason.UNKNOWN_DEVICE
        return None

    async def _accept(
        self, reception: Reception, device: EndDevice, app_key: bytes, request: JoinRequest
    ) -> Answer | None:
        """Answer with a new session; None when the DevNonce, or every JoinNonce, is used by now.

        JoinNonce, DevNonce and session are durable before the accept leaves, or StoreUnavailable.
        """
        join_nonce = await self._registry.next_join_nonce(device)
        if join_nonce > JOIN_NONCE_MAX or self._refusal(device, request) is not None:
            return None  # a higher DevNonce may have come meanwhile
        listening, more_hz = device.listening, device.more_channels_hz
        fields = JoinAcceptFields(
            join_nonce=join_nonce,
            net_id=self._net_id,
            dev_addr=self._free_dev_addr(device.dev_eui),
            dl_settings=DlSettings(listening.rx1_dr_offset, self._region.rx2(listening.rx2_dr)[0]),
            rx_delay=listening.rx_delay_s,
            cf_list=frequency_cf_list(more_hz) if more_hz else b"",
        )
        keys = derive_session_keys(
            app_key,
            join_nonce=fields.join_nonce,
            net_id=fields.net_id,
            dev_nonce=request.dev_nonce,
        )
        session = Session(
            dev_eui=device.dev_eui,
            dev_addr=fields.dev_addr,
            keys=keys,
            listening=listening,
            more_channels_hz=more_hz or None,
        )
        if not await self._registry.join(device, session, request.dev_nonce):
            return None
        pdu = build_join_accept(app_key, fields)
        return await self._downlinks.accept(reception, device.dev_eui, request.frame_id, pdu)

    def _free_dev_addr(self, dev_eui: Eui) -> DevAddr:
        # Messages and level 2 name a session by it, those that are over among them: the frames of
        # a second one of that name would be taken for copies, or for late.
        nwk_id = int(self._net_id, 16) & 0x7F
        while True:
            nwk_addr = self._entropy.getrandbits(NWK_ADDR_BITS)
            drawn = dev_addr(f"{nwk_id << NWK_ADDR_BITS | nwk_addr:08X}")
            was_its_own = (dev_eui, drawn) in self._given
            if not self._registry.knows(drawn) and not was_its_own:
                self._given[dev_eui, drawn] = True
                return drawn

    def _outcome(
        self,
        reception: Reception,
        request: JoinRequest,
        device: EndDevice | None,
        *,
        status: Status | None = None,
        reason: Reason | None = None,
        answer: Answer | None = None,
    ) -> Outcome:
        """Nothing of a join goes upstream; a refusal of a proven device withholds the accept.

        `device` is None where no MIC proved who asked.
        """
        if answer is None:
            answer = Answer.NOT_ASKED if device is None else Answer.SUPPRESSED
        return Outcome(
            station=reception.station,
            lns=self._lns,
            frame_id=request.frame_id,
            dev_eui=request.dev_eui if device else None,
            mic=mic_of(request),
            strategy=device.strategy if device else None,
            status=status,
            upstream=Upstream.DROPPED,
            reason=reason,
            answer=answer,
            xtime=reception.xtime,
        )
