"""A web hook on the loopback, in this process."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer


class Hook(HTTPServer):
    """A web hook that remembers what it was told, and answers `status`."""

    def __init__(self, status: int = 204) -> None:
        super().__init__(("127.0.0.1", 0), _Asked)
        self.status = status
        self.told: list[tuple[str, str, object]] = []
        self.logins: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hooks/secret-token?key=also-secret"


class _Asked(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.told.append((self.path, self.headers["Content-Type"], json.loads(body)))
        self.server.logins.append(self.headers["Authorization"])
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *arguments: object) -> None: ...


@contextmanager
def serving(hook: Hook) -> Iterator[Hook]:
    thread = threading.Thread(target=hook.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield hook
    finally:
        hook.shutdown()
        thread.join()
        hook.server_close()
