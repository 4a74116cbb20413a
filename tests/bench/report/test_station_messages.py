import pytest

from bench.report.narration import downlink, label, megahertz, msgtype, text_in_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '{"msgtype":"updf","MHdr":64,"DevAddr":-1234567,"FCnt":2,"FPort":-1,"FRMPayload":"",'
            '"DR":5,"Freq":868100000,"upinfo":{"rssi":-51,"snr":9.5,"xtime":62768920078008177}}',
            "updf FFED2979 FCnt 2, unconfirmed, no FPort, payload –, DR5 868.1 MHz, "
            "RSSI -51 dBm, SNR 9.5 dB, xtime 62768920078008177",
        ),
        (
            '{"msgtype":"jreq","JoinEui":"AA-13","DevEui":"33-31","DevNonce":35076,"DR":5,'
            '"Freq":868100000,"upinfo":{"rssi":-60,"snr":7,"xtime":1}}',
            "jreq of 33-31 for AA-13, DevNonce 35076, DR5 868.1 MHz, RSSI -60 dBm, SNR 7 dB, "
            "xtime 1",
        ),
        (
            '{"msgtype":"dnmsg","diid":7,"pdu":"20aabbccddeeff00112233445566778899","RX2DR":0,'
            '"RX2Freq":869525000}',
            "dnmsg 7: join accept; RX2 DR0 869.525 MHz",
        ),
        ('{"msgtype":"dntxed","diid":7}', "dntxed 7: the station has sent the downlink"),
        ('{"msgtype":"router_config","region":"EU868"}', "router_config: EU868"),
        (
            '{"msgtype":"version","station":"2.0.6","protocol":2}',
            "version: station 2.0.6, protocol 2",
        ),
        ('{"msgtype":"timesync","txtime":1}', "timesync"),
        ('{"msgtype":"updf"}', 'updf with unreadable fields: “{"msgtype":"updf"}”'),
        ('{"msgtype":"novel"}', '“{"msgtype":"novel"}”'),
        ("not JSON", "“not JSON”"),
        ("[" * 100_000, f"“{'[' * 159}…”"),
    ],
)
def test_a_message_in_words(text: str, words: str) -> None:
    assert text_in_words(text) == words


def test_a_field_of_the_wrong_type_is_quoted() -> None:
    text = (
        '{"msgtype":"updf","MHdr":"x","DevAddr":[],"FCnt":2,"FPort":1,"FRMPayload":"","upinfo":0}'
    )
    assert text_in_words(text).startswith("updf with unreadable fields: “")


def test_the_label_of_an_arrow_is_short() -> None:
    assert label('{"msgtype":"updf","FCnt":7}') == "updf FCnt 7"
    assert label('{"msgtype":"jreq","DevNonce":3}') == "jreq DevNonce 3"
    assert label("}") == "unreadable"
    assert msgtype(None) == "unreadable"


def test_downlinks_in_words() -> None:
    assert downlink("60efcdab0120030012345678") == "ack for 01ABCDEF, FCntDown 3"
    assert downlink("zz") == "unreadable frame"


def test_a_frequency_for_reading() -> None:
    assert megahertz(869525000) == "869.525 MHz"
    assert megahertz(868000000) == "868.0 MHz"
