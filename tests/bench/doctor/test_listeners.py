"""Who listens, as /proc tells it."""

import os
import socket
from pathlib import Path

from bench.doctor import listener

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:075B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1
   1: 0100007F:18EB 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 4712 1
broken
"""


def test_this_process_is_found_on_this_machine() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert listener(port, Path("/")).endswith(f", process {os.getpid()}")
    assert listener(port, Path("/")) == ""


def test_the_program_is_named(tmp_path: Path) -> None:
    (tmp_path / "proc" / "net").mkdir(parents=True)
    (tmp_path / "proc" / "net" / "tcp").write_text(TABLE)
    for number, inode in ((7, 1), (812, 4711), (900, 4712)):
        handles = tmp_path / "proc" / str(number) / "fd"
        handles.mkdir(parents=True)
        (handles / "3").symlink_to(f"socket:[{inode}]")
    (tmp_path / "proc" / "8").mkdir()
    (tmp_path / "proc" / "812" / "comm").write_text("mosquitto\n")
    assert listener(1883, tmp_path) == "mosquitto, process 812"
    assert listener(6379, tmp_path) == ""
    assert listener(0x18EB, tmp_path) == "", "a connection is no listener"
    (tmp_path / "proc" / "812" / "comm").unlink()
    assert listener(1883, tmp_path) == "a program, process 812"


def test_another_user_s_program_is_not_told(tmp_path: Path) -> None:
    (tmp_path / "proc" / "net").mkdir(parents=True)
    (tmp_path / "proc" / "net" / "tcp6").write_text(TABLE)
    (tmp_path / "proc" / "812").mkdir()
    assert listener(1883, tmp_path) == ""
