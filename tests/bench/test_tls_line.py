"""What is said over TLS to a broker whose client shakes hands in one blocking call."""

import asyncio
import socket
import ssl
from pathlib import Path

from bench.clock import VirtualTimeLoop, run
from bench.host.lns_files import any_authority
from bench.tls_line import TlsLine, TlsListener

HERE = "127.0.0.1"


def test_what_is_said_in_one_turn_is_one_record(tmp_path: Path) -> None:
    any_authority().server(HERE).write(tmp_path, "broker")
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(tmp_path / "broker.crt", tmp_path / "broker.key")
    theirs = ssl.create_default_context(cadata=any_authority().certificate.decode())
    came: list[TlsLine] = []

    async def play() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        with socket.create_server((HERE, 0)) as listener:
            hears = TlsListener(listener, ours, came.append)
            loop.in_thread = hears.in_thread

            def connect(context: ssl.SSLContext) -> ssl.SSLSocket:
                line = socket.create_connection(listener.getsockname())
                return context.wrap_socket(line, server_hostname=HERE)

            refuses = loop.run_in_executor(None, connect, ssl.create_default_context())
            [refused] = await asyncio.gather(refuses, return_exceptions=True)
            assert isinstance(refused, ssl.SSLCertVerificationError)
            client = await loop.run_in_executor(None, connect, theirs)
            await asyncio.sleep(0)
            [line] = came
            assert hears.refused == 1
            line.send(b"one")
            line.send(b"two")
            await asyncio.sleep(0)
            assert (client.recv(3), client.pending()) == (b"one", 3)
            client.send(b"three")
            assert (await loop.sock_recv(line, 9), client.recv(9)) == (b"three", b"two")  # type: ignore[arg-type]
            line.close()
            client.close()

    run(play())
