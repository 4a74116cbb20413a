"""Fuzz target: any bytes from the air are a frame that spells them, or a `MalformedFrame`.

Frames, join-accepts with whatever key, and the MAC commands in them.
"""

from hypothesis import given
from hypothesis import strategies as st

from lns.lorawan.crypto import encrypt_join_accept, join_mic
from lns.lorawan.frame import (
    JoinAcceptFields,
    MalformedFrame,
    build_join_accept,
    open_join_accept,
    parse,
)
from lns.lorawan.mac_commands import encode, parse_downlink, parse_uplink
from tests.fuzz.mutation import mutated
from tests.lns.lorawan.vectors import vectors

KINDS = ("data_frames", "join_accepts", "join_requests", "rejoin_requests")
VECTORS = [vector for kind in KINDS for vector in vectors(kind) if "phy" in vector]
GENUINE = [bytes.fromhex(vector["phy"]) for vector in VECTORS]
COMMANDS = [
    bytes.fromhex(text)
    for text in ("02", "0307", "06ff2a", "0203070600110d", "021101", "035102ff00ff06", "0a017f")
]
KEY = bytes.fromhex("00112233445566778899AABBCCDDEEFF")


@given(mutated(GENUINE) | st.binary(max_size=300))
def test_any_bytes_are_a_frame_or_malformed(phy: bytes) -> None:
    try:
        frame = parse(phy)
    except MalformedFrame as malformed:
        assert str(malformed)
    else:
        assert frame.to_bytes() == phy


@given(mutated(GENUINE) | st.binary(min_size=16, max_size=34).map(lambda rest: b"\x20" + rest))
def test_any_bytes_are_a_join_accept_or_malformed(phy: bytes) -> None:
    try:
        fields = open_join_accept(KEY, phy)
    except MalformedFrame as malformed:
        assert str(malformed)
    else:
        assert isinstance(fields, JoinAcceptFields)


@given(st.binary(min_size=12, max_size=12) | st.binary(min_size=28, max_size=28))
def test_a_join_accept_that_its_key_proves_may_still_say_nonsense(body: bytes) -> None:
    clear = b"\x20" + body
    phy = encrypt_join_accept(KEY, clear + join_mic(KEY, clear))
    try:
        fields = open_join_accept(KEY, phy)
    except MalformedFrame as malformed:
        assert str(malformed)
    else:
        # RFU bits are not kept; what is, is read back.
        assert open_join_accept(KEY, build_join_accept(KEY, fields)) == fields


@given(mutated(COMMANDS) | st.binary(max_size=242))
def test_any_bytes_begin_with_commands_that_spell_them(data: bytes) -> None:
    assert len(parse_uplink(data)) <= len(data)
    commands = parse_downlink(data)
    assert len(commands) <= len(data)
    spelled = encode(commands)
    assert len(spelled) <= len(data)
    assert spelled[:1] == data[: len(spelled[:1])]
