"""A smart plug that tells what it was asked, for tests; a real server on the loopback."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Event, Thread
from urllib.parse import parse_qs, unquote, urlsplit


class Plug:
    """Remembers its state and every path it was asked; `stuck`: it answers and does nothing.

    While `held` is not set it takes nothing, while `telling` is not set it says nothing of it.
    """

    def __init__(self) -> None:
        self.on = False
        self.asked: list[str] = []
        self.stuck = False
        self.held = Event()
        self.held.set()
        self.telling = Event()
        self.telling.set()
        self.url = ""

    def answer(self, path: str) -> object:
        """What the plug says, as its maker documents it; None: no such path."""
        self.asked.append(path)
        parts = urlsplit(path)
        asked = {key: values[0] for key, values in parse_qs(parts.query).items()}
        match parts.path:
            case "/relay/0":
                self._turn(asked["turn"] == "on")
                return {"ison": self.on, "has_timer": False, "source": "http"}
            case "/rpc/Switch.Set":
                was_on = self.on
                self._turn(asked["on"] == "true")
                return {"was_on": was_on}
            case "/rpc/Switch.GetStatus":
                return {"id": int(asked["id"]), "source": "HTTP", "output": self.on}
            case "/cm":
                name, _, wanted = unquote(asked["cmnd"]).partition(" ")
                self._turn(wanted == "On")
                return {name.upper(): "ON" if self.on else "OFF"}
        return None

    def _turn(self, on: bool) -> None:
        self.on = self.on if self.stuck else on


@contextmanager
def plug() -> Iterator[Plug]:
    """A plug at `plug.url`."""
    it = Plug()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            it.held.wait(30)
            told = it.answer(self.path)
            it.telling.wait(30)
            self.send_response(404 if told is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(told).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    it.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield it
    finally:
        it.held.set()
        it.telling.set()
        server.shutdown()
        thread.join()
        server.server_close()
