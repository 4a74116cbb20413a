from bench.doctor.installed import (
    Check,
    Looked,
    Purpose,
    State,
    checked,
    missing,
    obstacles,
    ok,
    warning,
    works,
)


def broken() -> Looked:
    raise RuntimeError("strange machine")


def check(purpose: Purpose, looked: Looked) -> Check:
    return checked("thing", purpose, lambda: looked)


def test_a_look_that_breaks_is_a_warning() -> None:
    found = checked("thing", Purpose.NIGHTLY, broken)
    assert found.state is State.WARNING
    assert "strange machine" in found.found


def test_a_rig_needs_what_the_ones_above_it_need() -> None:
    checks = [
        check(Purpose.NIGHTLY, ok("here")),
        check(Purpose.EMULATED, missing("no broker", "install it")),
        check(Purpose.HARDWARE, warning("no group", "join it")),
    ]
    assert [works(checks, purpose) for purpose in Purpose] == [True, False, False]
    assert obstacles(checks, Purpose.HARDWARE) == [checks[1]]
