"""The URL of a broker: what it says, and what is wrong with it."""

from pathlib import Path

import pytest

from lns.delivery.mqtt_session import Broker, broker


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("mqtt://127.0.0.1", Broker("127.0.0.1", 1883)),
        ("mqtt://127.0.0.1:1884/", Broker("127.0.0.1", 1884)),
        ("mqtts://broker.example", Broker("broker.example", 8883, tls=True)),
        ("mqtt://[::1]:1883", Broker("::1", 1883)),
        ("mqtt://lns@b", Broker("b", 1883, user="lns")),
        ("mqtt://lns:p%40ss%2Fw@b", Broker("b", 1883, user="lns", password="p@ss/w")),
    ],
)
def test_what_a_url_says(url: str, found: Broker) -> None:
    assert broker(url) == found


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://b", "begins with mqtt:// or mqtts://"),
        ("127.0.0.1:1883", "begins with mqtt:// or mqtts://"),
        ("mqtt://", "names no host"),
        ("mqtt://b c", "names no host"),
        ("mqtt://b:0", "the port of a broker is 1 to 65535"),
        ("mqtt://b:70000", "not the URL of a broker"),
        ("mqtt://b:port", "not the URL of a broker"),
        ("mqtt://b/topic", "ends after its port"),
        ("mqtt://lns:hunter2/w0rd@b", "not the URL of a broker"),
        ("mqtt://lns:hunter2#w0rd@b", "not the URL of a broker"),
        ("mqtt://:hunter2@b", "takes a password only with a user"),
    ],
)
def test_a_wrong_url_is_told_without_its_password(url: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as told:
        broker(url)
    assert "hunter2" not in str(told.value) and "w0rd" not in str(told.value)


def test_neither_user_nor_password_is_ever_shown() -> None:
    found = broker("mqtts://operator:hunter2@b:8884")
    assert str(found) == "mqtts://b:8884"
    assert "operator" not in repr(found) and "hunter2" not in repr(found)
    assert str(broker("mqtt://[::1]")) == "mqtt://[::1]:1883"


def test_a_ca_must_be_usable(tmp_path: Path) -> None:
    no_pem = tmp_path / "ca.crt"
    no_pem.write_text("no certificate")
    with pytest.raises(ValueError, match=r"ca\.crt holds no certificate"):
        broker("mqtts://b", no_pem)
    with pytest.raises(ValueError, match=r"missing\.crt cannot be read: No such file"):
        broker("mqtts://b", tmp_path / "missing.crt")
    with pytest.raises(ValueError, match="a ca is for mqtts:// only"):
        broker("mqtt://b", no_pem)
