"""What does a WebSocket server cost that only parses the JSON and sends the text back?

The yardstick of `tests.benchmarks.server`: `websockets` as it comes, in a process of its own.
Prints where it listens and runs until SIGTERM.
"""

import asyncio
import json
import resource
import signal

from websockets.asyncio.server import ServerConnection, serve


async def main() -> None:
    """Serve until SIGTERM."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    async with serve(_echo, "127.0.0.1", 0, compression=None) as server:
        port = server.sockets[0].getsockname()[1]
        print(f"listening ws://127.0.0.1:{port}/", flush=True)
        await stopped.wait()


async def _echo(connection: ServerConnection) -> None:
    async for text in connection:
        json.loads(text)
        await connection.send(text)


if __name__ == "__main__":
    asyncio.run(main())
