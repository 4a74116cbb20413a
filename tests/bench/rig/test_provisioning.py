from typing import Any

import pytest

from bench.rig.provisioning import provision
from lns.lorawan.crypto import SessionKeys
from lns.uplink.registry import Activation


def test_a_device_has_names_by_number_and_keys_by_seed() -> None:
    one, again, other = (provision("alpha", 1, seed) for seed in (1, 1, 2))
    assert one == again
    assert (one.dev_eui, one.dev_addr) == ("70B3D57ED0000001", "26000001")
    assert one.dev_eui == other.dev_eui
    keys = {one.keys.nwk_s_key, one.keys.app_s_key, one.app_key, other.app_key}
    assert len(keys) == 4
    assert provision("bravo", 1, 1).app_key != one.app_key


@pytest.mark.parametrize(
    ("facts", "f_cnt_up"),
    [({}, None), ({"f_cnt": 10}, 9), ({"f_cnt_up": 10}, 10), ({"f_cnt": 10, "f_cnt_up": 3}, 3),
     ({"f_cnt": 1}, 0)],
)  # fmt: skip
def test_the_server_knows_the_counter_before_the_next(
    facts: dict[str, Any], f_cnt_up: int | None
) -> None:
    device = provision("alpha", 1, 1, f_cnt_down=7, **facts)
    assert device.f_cnt_up == f_cnt_up
    session = device.session()
    assert session is not None
    assert (session.f_cnt_up, session.f_cnt_down) == (f_cnt_up, 7)


def test_an_otaa_device_has_no_session_until_it_joins() -> None:
    device = provision("bravo", 2, 1, activation="otaa")
    assert device.session() is None
    assert device.record.activation is Activation.OTAA
    assert (device.record.dev_addr, device.record.session_keys) == (None, None)
    assert device.record.app_key == device.app_key
    assert device.identity.join_eui == device.record.join_eui


def test_an_otaa_device_may_have_joined_before() -> None:
    session = provision("bravo", 2, 1, activation="otaa", preset_session=True, f_cnt_up=4).session()
    assert session is not None
    assert session.f_cnt_up == 4


def test_an_abp_device_has_no_app_key() -> None:
    record = provision("alpha", 1, 1).record
    assert (record.app_key, record.join_eui) == (None, None)
    assert record.session_keys == provision("alpha", 1, 1).keys


def test_keys_and_address_of_ones_own() -> None:
    keys = SessionKeys(bytes(16), bytes(range(16)))
    device = provision("alpha", 1, 1, dev_addr_text="01020304", keys=keys, nb_trans=3)
    assert (device.dev_addr, device.keys, device.record.nb_trans) == ("01020304", keys, 3)


def test_keys_do_not_show() -> None:
    device = provision("bravo", 2, 1, activation="otaa")
    shown = f"{device.record!r} {device.session()!r} {device.identity!r}"
    for key in (device.app_key, device.keys.nwk_s_key, device.keys.app_s_key):
        assert key.hex() not in shown
        assert repr(key) not in shown
