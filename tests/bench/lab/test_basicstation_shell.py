"""Commands on a gateway: where they run, as whom, and what is told when they cannot."""

import asyncio
import os

import pytest

from bench.lab.basicstation_host import (
    GatewayFailed,
    GatewayShell,
    restart_gateway,
    restart_words,
    shell_of,
)
from bench.lab.inventory.entries import GatewayEntry, GatewayKind
from lns.lorawan.identifiers import Eui
from tests.bench.lab.gateway_host import GatewayHost, gateway_host

__all__ = ["gateway_host"]


def gateway(kind: GatewayKind, **more: object) -> GatewayEntry:
    eui = Eui("0016C001F1500001")
    return GatewayEntry(name="west", eui=eui, kind=kind, **more)  # type: ignore[arg-type]


def run(ssh: str | None, words: str, **more: int) -> str:
    return asyncio.run(GatewayShell("west", ssh, "/opt/basicstation").run(words, **more))


def test_ssh_never_asks_and_does_not_wait_long(host: GatewayHost) -> None:
    assert run("pi@west", "echo 'a  b'; cat") == "a  b\n"
    assert host.calls == ["ssh -o BatchMode=yes -o ConnectTimeout=10 pi@west echo 'a  b'; cat"]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("pi@nowhere", "west: pi@nowhere cannot be reached: .*is it on, and in this network?"),
        ("pi@stranger", "log in once by hand, `ssh pi@stranger`, and compare the key"),
    ],
)
def test_a_gateway_that_cannot_be_reached(host: GatewayHost, where: str, said: str) -> None:
    with pytest.raises(GatewayFailed, match=said):
        run(where, "true")


def test_what_a_failed_command_says_is_told(host: GatewayHost) -> None:
    with pytest.raises(GatewayFailed, match="west: pi@west ended with 3: no such unit"):
        run("pi@west", "echo no such unit >&2; exit 3")


def test_a_command_that_does_not_end_is_ended(host: GatewayHost) -> None:
    with pytest.raises(GatewayFailed, match="no end of 'exec sleep 60' within 0 s"):
        run("pi@west", "exec sleep 60", limit_us=200_000)


def test_without_ssh_it_is_said_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: os.PathLike[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GatewayFailed, match="no program ssh; install openssh-client"):
        run("pi@west", "true")


def test_a_home_of_somebody_else_is_entered_as_root(host: GatewayHost) -> None:
    host.program("id", "echo 1000")
    host.program("sudo", 'shift; exec "$@"')
    shell = GatewayShell("west", "pi@west", "/proc/nobody/home")
    assert asyncio.run(shell.run_script("echo $0 $((1 + 1))")) == "sh 2\n"
    assert host.calls[-1] == "sudo -n sh -s"
    own = GatewayShell("west", "pi@west", str(host.folder))
    assert asyncio.run(own.run_script("echo own")) == "own\n"
    assert host.calls[-1] == "id -u"


def test_a_password_for_sudo_is_not_asked_for(host: GatewayHost) -> None:
    host.program("id", "echo 1000")
    host.program("sudo", "echo 'sudo: a password is required' >&2; exit 1")
    with pytest.raises(GatewayFailed, match="use sudo without a password, or log in as root"):
        asyncio.run(GatewayShell("west", "pi@west", "/proc/nobody/home").run_script("true"))


def test_each_kind_is_restarted_in_its_way(host: GatewayHost) -> None:
    host.program("id", "echo 1000")
    host.program("sudo", 'shift; exec "$@"')
    host.program("reboot", "")
    asyncio.run(restart_gateway(gateway(GatewayKind.RASPBERRY_PI, ssh="pi@west")))
    assert host.calls[-2:] == [
        "sudo -n systemctl restart basicstation",
        "systemctl restart basicstation",
    ]
    assert "reboot" in restart_words(gateway(GatewayKind.WISGATE, ssh="root@west"))
    mark = host.folder / "it's done"
    for kind in (GatewayKind.PROGRAM, GatewayKind.WISGATE):
        asyncio.run(restart_gateway(gateway(kind, restart=("touch", str(mark)))))
        mark.unlink()


def test_a_gateway_without_a_way_in_says_what_is_missing() -> None:
    with pytest.raises(GatewayFailed, match='give ssh = "user@host"'):
        shell_of(gateway(GatewayKind.RASPBERRY_PI))
    with pytest.raises(GatewayFailed, match="give restart = "):
        asyncio.run(restart_gateway(gateway(GatewayKind.PROGRAM)))
