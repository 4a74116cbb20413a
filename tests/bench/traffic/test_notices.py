"""What a run says about the origin of its traffic stands in the project too."""

from pathlib import Path

import pytest

from bench import traffic
from bench.traffic import recording


@pytest.mark.parametrize("notice", [recording.SAINT_EYNARD, recording.CONFORMANCE])
def test_each_notice_stands_in_the_file_of_notices(notice: str) -> None:
    folder = Path(traffic.__file__).parent
    written = (folder / "NOTICES.md").read_text(encoding="utf-8")
    assert " ".join(notice.split()) in " ".join(written.split())


def test_the_excerpts_carry_their_notices() -> None:
    beside = (Path(__file__).parent / "excerpts" / "NOTICE.md").read_text(encoding="utf-8")
    assert "Open Database License (ODbL) 1.0" in beside
    assert "Copyright (c) 2018 Pablo Modernell, UOC, UdelaR" in beside
