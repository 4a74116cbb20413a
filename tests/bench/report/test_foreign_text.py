import pytest

from bench.report.excerpts import shown, shown_arguments


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("a frame", "a frame"),
        ("AT+APPKEY=00112233445566778899AABBCCDDEEFF", "AT+APPKEY=****"),
        ("AT+NWKSKEY=?secret?", "AT+NWKSKEY=****"),
        ('AT+KEY=APPKEY,"00112233"', "AT+KEY=APPKEY,****"),
        ('{"app_key": "00ff", "x": 1}', '{"app_key": ****, "x": 1}'),
        ("key 00112233445566778899aabbccddeeff.", "key ****."),
        ("00 11 22 33 44 55 66 77 88 99 AA BB CC DD EE FF", "****"),
        ("mqtt://anna:hunter2@host/1", "mqtt://****@host/1"),
        ("70B3D57ED0000001", "70B3D57ED0000001"),
        ("4f1c2d9e0aa17b30c0de4f1c2d9e0aa17b30c0de", "4f1c2d9e0aa17b30c0de4f1c2d9e0aa17b30c0de"),
        ("a\x00b\x1bc", "a␀b␛c"),
        ("a\u202eb\ud800c", "a�b�c"),
    ],
)
def test_what_is_printed_of_a_text(text: str, printed: str) -> None:
    assert shown(text) == printed


def test_a_long_text_is_cut() -> None:
    assert shown("x" * 1000, 10) == "xxxxxxxxx…"


def test_the_value_of_a_secret_flag_is_masked() -> None:
    assert shown_arguments(["run", "--app-key", "00FF", "--seed", "7"]) == [
        "run",
        "--app-key",
        "****",
        "--seed",
        "7",
    ]
