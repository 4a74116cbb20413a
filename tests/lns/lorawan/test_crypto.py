from typing import Any

import pytest

from lns.lorawan.crypto import (
    Direction,
    SessionKeys,
    cmac,
    crypt_payload,
    data_mic,
    decrypt_blocks,
    decrypt_join_accept,
    derive_session_keys,
    encrypt_blocks,
    encrypt_join_accept,
    join_mic,
)
from lns.lorawan.identifiers import dev_addr
from tests.lns.lorawan.vectors import each, vectors

RFC_4493_KEY = bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c")
RFC_4493_MESSAGE = bytes.fromhex(
    "6bc1bee22e409f96e93d7e117393172a"
    "ae2d8a571e03ac9c9eb76fac45af8e51"
    "30c81c46a35ce411e5fbc1191a0a52ef"
    "f69f2445df4f9b17ad2b417be66c3710"
)


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [vector for vector in vectors("primitives") if vector["kind"] == kind]


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (0, "bb1d6929e95937287fa37d129b756746"),
        (16, "070a16b46b4d4144f79bdd9dd04a287c"),
        (40, "dfa66747de9ae63030ca32611497c827"),
        (64, "51f0bebf7e3b9d92fc49741779363cfe"),
    ],
)
def test_cmac_gives_the_known_answers_of_rfc_4493(length: int, expected: str) -> None:
    assert cmac(RFC_4493_KEY, RFC_4493_MESSAGE[:length]).hex() == expected


def test_aes_gives_the_known_answer_of_fips_197() -> None:
    # FIPS-197, appendix C.1.
    key = bytes.fromhex("000102030405060708090a0b0c0d0e0f")
    clear = bytes.fromhex("00112233445566778899aabbccddeeff")
    encrypted = bytes.fromhex("69c4e0d86a7b0430d8cdb78070b4c55a")
    assert encrypt_blocks(key, clear) == encrypted
    assert decrypt_blocks(key, encrypted) == clear


def test_the_cached_objects_of_a_key_carry_nothing_from_message_to_message() -> None:
    once = [cmac(RFC_4493_KEY, b"a"), encrypt_blocks(RFC_4493_KEY, bytes(32))]
    cmac(RFC_4493_KEY, b"something else")
    encrypt_blocks(RFC_4493_KEY, bytes(range(16)))
    assert [cmac(RFC_4493_KEY, b"a"), encrypt_blocks(RFC_4493_KEY, bytes(32))] == once


def test_a_partial_block_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(AssertionError):
        encrypt_blocks(RFC_4493_KEY, bytes(15))
    with pytest.raises(AssertionError):
        decrypt_blocks(RFC_4493_KEY, bytes(17))


@pytest.mark.parametrize("length", [0, 15, 24, 32])
def test_a_key_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        cmac(bytes(length), b"")


@each(of_kind("cmac"))
def test_cmac_of_others(vector: dict[str, Any]) -> None:
    key, message = bytes.fromhex(vector["key"]), bytes.fromhex(vector["message"])
    assert cmac(key, message).hex().upper() == vector["cmac"]


@each(of_kind("mic"))
def test_data_mic_of_others(vector: dict[str, Any]) -> None:
    mic = data_mic(
        bytes.fromhex(vector["key"]),
        Direction[vector["direction"]],
        dev_addr(vector["dev_addr"]),
        vector["f_cnt"],
        bytes.fromhex(vector["message"]),
    )
    assert mic.hex().upper() == vector["mic"]


@each(of_kind("payload-crypt"))
def test_payload_cipher_of_others(vector: dict[str, Any]) -> None:
    key, direction = bytes.fromhex(vector["key"]), Direction[vector["direction"]]
    address, f_cnt = dev_addr(vector["dev_addr"]), vector["f_cnt"]
    clear, encrypted = bytes.fromhex(vector["clear"]), bytes.fromhex(vector["encrypted"])
    assert crypt_payload(key, direction, address, f_cnt, clear) == encrypted
    assert crypt_payload(key, direction, address, f_cnt, encrypted) == clear


def test_a_payload_that_ends_in_zeros_keeps_its_length() -> None:
    args = (RFC_4493_KEY, Direction.UP, dev_addr(1), 1)
    stream = crypt_payload(*args, bytes(40))
    assert len(stream) == 40
    assert crypt_payload(*args, stream) == bytes(40)
    assert crypt_payload(*args, b"") == b""


@each(vectors("session_keys"))
def test_session_keys_of_others(vector: dict[str, Any]) -> None:
    keys = derive_session_keys(
        bytes.fromhex(vector["app_key"]),
        join_nonce=vector["join_nonce"],
        net_id=vector["net_id"],
        dev_nonce=vector["dev_nonce"],
    )
    assert keys.nwk_s_key.hex().upper() == vector["nwk_s_key"]
    assert keys.app_s_key.hex().upper() == vector["app_s_key"]


def test_session_keys_do_not_show() -> None:
    keys = SessionKeys(b"n" * 16, b"a" * 16)
    assert repr(keys) == str(keys) == "SessionKeys()"


@each([vector for vector in vectors("join_accepts") if "phy" in vector])
def test_join_accepts_from_the_air(vector: dict[str, Any]) -> None:
    app_key = bytes.fromhex(vector["keys"]["app_key"])
    clear, phy = bytes.fromhex(vector["clear"]), bytes.fromhex(vector["phy"])
    assert decrypt_join_accept(app_key, phy) == clear
    assert encrypt_join_accept(app_key, clear) == phy
    session = vector["session"]
    keys = derive_session_keys(
        app_key,
        join_nonce=vector["join_nonce"],
        net_id=vector["net_id"],
        dev_nonce=session["dev_nonce"],
    )
    assert keys.nwk_s_key.hex().upper() == session["nwk_s_key"]
    assert keys.app_s_key.hex().upper() == session["app_s_key"]


@each([vector for vector in vectors("join_accepts") if vector["lorawan"] == "1.0"])
def test_join_accept_mics_of_others(vector: dict[str, Any]) -> None:
    clear = bytes.fromhex(vector["clear"])
    mic = join_mic(bytes.fromhex(vector["keys"]["app_key"]), clear[:-4])
    assert (mic == clear[-4:]) is vector["mic_valid"]


@each([vector for vector in vectors("join_accepts") if vector["lorawan"] == "1.1"])
def test_the_mic_of_a_1_1_join_accept_is_not_supported(vector: dict[str, Any]) -> None:
    # LoRaWAN 1.1 puts JoinReqType, JoinEUI and DevNonce before the message.
    clear = bytes.fromhex(vector["clear"])
    assert join_mic(bytes.fromhex(vector["keys"]["app_key"]), clear[:-4]) != clear[-4:]


@pytest.mark.parametrize("length", [0, 16, 18, 32, 34])
def test_a_join_accept_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="17 or 33"):
        encrypt_join_accept(RFC_4493_KEY, bytes(length))
    with pytest.raises(ValueError, match="17 or 33"):
        decrypt_join_accept(RFC_4493_KEY, bytes(length))
