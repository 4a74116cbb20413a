import socket
from pathlib import Path

from bench.host.program import LOOPBACK, _can_be_had, free_port, is_answered


def test_a_free_port_is_free_and_not_one_that_the_kernel_hands_out() -> None:
    found = [free_port() for _ in range(50)]
    assert len(set(found)) == len(found)
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(port < lowest for port in found) or lowest <= 10_000


def test_a_port_that_is_taken_is_not_free() -> None:
    with socket.create_server((LOOPBACK, free_port())) as server:
        port = server.getsockname()[1]
        assert is_answered(port)
        assert not _can_be_had(port)
    assert not is_answered(port)


def test_where_the_kernel_takes_all_ports_any_free_one_does(monkeypatch, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "range").write_text("1024 65535\n")
    monkeypatch.setattr("bench.host.program._RANGE", tmp_path / "range")
    assert 0 < free_port() < 65_536
    monkeypatch.setattr("bench.host.program._RANGE", tmp_path / "nothing")
    assert 10_000 <= free_port() < 32_768
