"""`python -m lns`, as a person at a shell sees it."""

import subprocess
import sys
from pathlib import Path

import pytest

from lns.__main__ import main

DEVICES = """[[device]]
name = "alpha"
dev_eui = "70B3D57ED0000001"
activation = "otaa"
join_eui = "70B3D57ED0000000"
app_key = "00112233445566778899AABBCCDDEEFF"
strategy = "Drop"
"""


@pytest.fixture
def lns_toml(tmp_path: Path) -> Path:
    (tmp_path / "devices.toml").write_text(DEVICES)
    (tmp_path / "devices.toml").chmod(0o600)
    file = tmp_path / "lns.toml"
    file.write_text('[lns]\nid = "lns-a"\n')
    return file


def test_a_good_configuration_is_summed_up_without_keys(
    lns_toml: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(lns_toml), "--check"]) == 0
    assert capsys.readouterr().out == (
        f"{lns_toml}: lns-a, EU868, 1 devices\n  stations: any; to show: nothing\n"
        "  alpha  70B3D57ED0000001  otaa  Drop\n"
    )


def test_a_bad_configuration_exits_4_with_file_line_and_key(
    lns_toml: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lns_toml.write_text('[lns]\nid = "lns-a"\nregoin = "EU868"\n')
    assert main([str(lns_toml), "--check"]) == 4
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"{lns_toml}:3: lns.regoin: unknown key; did you mean 'region'?\n"


@pytest.mark.parametrize("arguments", [[], ["--check"], ["lns.toml", "--chek"]])
def test_a_wrong_command_line_exits_4(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 4
    assert "usage: python -m lns" in capsys.readouterr().err


def test_as_a_process_of_its_own(lns_toml: Path) -> None:
    def check(file: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "lns", str(file), "--check"]
        root = Path(__file__).resolve().parents[2]
        return subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)

    good, bad = check(lns_toml), check(lns_toml.with_name("nowhere.toml"))
    assert (good.returncode, good.stderr) == (0, "")
    assert (bad.returncode, bad.stdout) == (4, "")
    assert "Traceback" not in bad.stderr


def test_a_summary_that_nobody_can_be_told_is_one_sentence(lns_toml: Path) -> None:
    command = [sys.executable, "-m", "lns", str(lns_toml), "--check"]
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (4, "stdout: No space left on device\n")


def test_a_server_whose_output_takes_no_more_serves_and_says_so_in_its_log(lns_toml: Path) -> None:
    lns_toml.write_text('[lns]\nid = "lns-a"\nlisten = "127.0.0.1:0"\n')
    command = [sys.executable, "-m", "lns", str(lns_toml)]
    with (
        open("/dev/full", "w", encoding="utf-8") as full,
        subprocess.Popen(command, stdout=full, stderr=subprocess.PIPE, text=True) as server,
    ):
        assert server.stderr is not None
        said = server.stderr.readline()
        server.terminate()
        rest = server.stderr.read()
        code = server.wait(60)
    assert "INFO listening ws://127.0.0.1:" in said
    assert "(nobody can be told: No space left on device)" in said
    assert (code, "Traceback" in rest) == (0, False)
