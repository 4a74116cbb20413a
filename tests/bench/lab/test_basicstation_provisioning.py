"""A gateway is made right over a real `ssh` process that leads to a folder."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.lab.basicstation_host import GatewayFailed
from bench.lab.basicstation_setup import CannotConfigure, Provisioning, provision
from bench.lab.inventory import Inventory, load
from bench.lab.inventory.sections import GatewayKind, GatewaySection
from tests.bench.lab.gateway_host import GatewayHost, gateway_host
from tests.bench.lab.inventory.bench_toml import bench_toml

__all__ = ["gateway_host"]
TOKEN = b"Authorization: Bearer sesame\r\n"


@pytest.fixture
def bench(tmp_path: Path, host: GatewayHost) -> Inventory:
    plain = load(bench_toml(tmp_path))
    west = plain.gateways[0].model_copy(
        update={"home": str(host.home), "credentials": tmp_path / "tc"}
    )
    (tmp_path / "tc").mkdir()
    return replace(plain, tap_uri="ws://192.168.10.5:6090", gateways=(west,))


def done(bench: Inventory, *, dry_run: bool = False, **changed: object) -> Provisioning:
    gateway: GatewaySection = bench.gateways[0].model_copy(update=changed)
    return asyncio.run(provision(bench, gateway, dry_run=dry_run))


def restarts(host: GatewayHost) -> int:
    return host.calls.count("systemctl restart basicstation")


def test_a_new_gateway_gets_everything_and_is_restarted(
    bench: Inventory, host: GatewayHost
) -> None:
    first = done(bench)
    assert first.written == ("tc.uri", "station.conf", "rinit.sh") and first.restarted
    assert (host.home / "tc.uri").read_text() == "ws://192.168.10.5:6090\n"
    assert json.loads((host.home / "station.conf").read_text())["station_conf"]["routerid"] == (
        "0016C001F1500001"
    )
    assert (host.home / "rinit.sh").stat().st_mode & 0o777 == 0o755
    assert (host.home / "tc.uri").stat().st_mode & 0o777 == 0o644
    assert sorted(path.name for path in host.home.iterdir()) == [
        "rinit.sh",
        "station.conf",
        "tc.uri",
    ]
    assert restarts(host) == 1


def test_a_gateway_that_is_right_is_left_alone(bench: Inventory, host: GatewayHost) -> None:
    done(bench)
    times = {path.name: path.stat().st_mtime_ns for path in host.home.iterdir()}
    again = done(bench)
    assert not again.changed and not again.restarted and restarts(host) == 1
    assert again.unchanged == ("tc.uri", "station.conf", "rinit.sh") and again.diff == ()
    assert times == {path.name: path.stat().st_mtime_ns for path in host.home.iterdir()}


def test_only_what_differs_is_written(bench: Inventory, host: GatewayHost) -> None:
    done(bench)
    (host.home / "tc.uri").write_text("ws://192.168.10.9:6090\n")
    (host.home / "rinit.sh").chmod(0o644)
    again = done(bench)
    assert again.written == ("tc.uri", "rinit.sh") and again.unchanged == ("station.conf",)
    assert "-ws://192.168.10.9:6090" in again.diff and "+ws://192.168.10.5:6090" in again.diff
    assert "rinit.sh: mode 644, 755 it is to be" in again.diff
    assert restarts(host) == 2


def test_a_dry_run_shows_everything_and_does_nothing(bench: Inventory, host: GatewayHost) -> None:
    told = done(bench, dry_run=True)
    assert told.written == ("tc.uri", "station.conf", "rinit.sh") and not told.restarted
    assert not host.home.exists() and restarts(host) == 0
    assert "+ws://192.168.10.5:6090" in told.diff and "+pulse 17" in told.diff
    assert [command.split()[0] for command in told.commands] == ["ssh", "ssh", "ssh"]
    assert "systemctl restart basicstation" in told.commands[2]


def test_a_key_is_never_shown_and_is_private(
    bench: Inventory, host: GatewayHost, tmp_path: Path
) -> None:
    (tmp_path / "tc/tc.key").write_bytes(TOKEN)
    told = done(bench, dry_run=True)
    assert "tc.key: is missing (not shown)" in told.diff
    done(bench)
    assert (host.home / "tc.key").read_bytes() == TOKEN
    assert (host.home / "tc.key").stat().st_mode & 0o777 == 0o600
    (host.home / "tc.key").write_bytes(b"Authorization: Bearer other\r\n")
    again = done(bench)
    assert "tc.key: differs (not shown)" in again.diff
    shown = " ".join([*host.calls, repr(told), repr(again)])
    assert "sesame" not in shown and "other" not in shown


def test_files_belong_to_whom_the_home_belongs_to(bench: Inventory, host: GatewayHost) -> None:
    host.home.mkdir()
    host.program("id", "echo 0")
    host.program("stat", 'echo "1000:1000"')
    host.program("chown", "")
    done(bench)
    assert "chown 1000:1000 .lorabench-new" in host.calls


def test_what_would_mislead_the_station_goes(bench: Inventory, host: GatewayHost) -> None:
    done(bench)
    (host.home / "tc.crt").write_text("of an earlier bench")
    assert done(bench, dry_run=True).removed == ("tc.crt",)
    assert (host.home / "tc.crt").exists()
    assert done(bench).removed == ("tc.crt",)
    assert not (host.home / "tc.crt").exists()


def test_cups_would_undo_it(bench: Inventory, host: GatewayHost) -> None:
    host.home.mkdir()
    (host.home / "cups.uri").write_text("https://cups")
    assert any("take cups.* away" in note for note in done(bench).notes)


def test_a_station_without_its_configuration_is_noted(bench: Inventory, host: GatewayHost) -> None:
    assert "there is no station.conf: the station will not start" in done(bench, board=None).notes
    (host.home / "station.conf").write_text("{}")
    told = done(bench, board=None)
    assert not [note for note in told.notes if "will not start" in note]
    assert (host.home / "station.conf").read_text() == "{}"


def test_the_restart_of_the_inventory_is_run_there(bench: Inventory, host: GatewayHost) -> None:
    host.program("station-restart", "")
    assert done(bench, restart=("station-restart", "the west one")).restarted
    assert host.calls[-1] == "station-restart the west one"


def test_a_station_on_this_host_needs_no_ssh(bench: Inventory, host: GatewayHost) -> None:
    program = {"kind": GatewayKind.PROGRAM, "board": None, "ssh": None}
    told = done(bench, **program)
    assert told.written == ("tc.uri",) and not told.restarted
    assert (host.home / "tc.uri").exists() and host.calls == []
    (host.home / "tc.uri").unlink()
    mark = host.folder / "restarted"
    assert done(bench, **program, restart=("touch", str(mark))).restarted
    assert mark.exists() and host.calls == []


def test_a_greeting_at_login_is_told_from_an_answer(bench: Inventory, host: GatewayHost) -> None:
    ssh = host.folder / "here/ssh"
    ssh.write_text(ssh.read_text().replace("PATH=", "echo Welcome to the gateway\nPATH=", 1))
    with pytest.raises(GatewayFailed, match="is something printed at each login"):
        done(bench)
    assert not host.home.exists()


def test_a_wisgate_has_pages_of_its_own(bench: Inventory) -> None:
    with pytest.raises(CannotConfigure, match="in its own pages"):
        done(bench, kind=GatewayKind.WISGATE, board=None)
