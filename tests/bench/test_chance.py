from bench.chance import stream


def test_the_same_seed_and_names_give_the_same_numbers() -> None:
    assert stream(7, "air", "a").random() == stream(7, "air", "a").random()


def test_another_seed_or_name_gives_others() -> None:
    draws = [stream(7, "air"), stream(8, "air"), stream(7, "ai", "r"), stream(7, "air", "")]
    assert len({draw.random() for draw in draws}) == 4


def test_a_stream_is_the_same_on_every_machine() -> None:
    assert stream(1, "station", "clock").randrange(1_000_000) == 710664
