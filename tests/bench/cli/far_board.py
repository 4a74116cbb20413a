"""A board at a real pty that answers as a test tells it to."""

import os
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

RUI3 = {
    "AT": "OK\r\n",
    "AT+VER=?": "AT+VER=RUI_5.0.0_RAK3172-H\r\nOK\r\n",
    "AT+DEVEUI=?": "AT+DEVEUI=AC1F09FFFE000001\r\nOK\r\n",
    "AT+UID=?": "AT+UID=0123\r\nOK\r\n",
}
E5 = {
    "AT": "+AT: OK\r\n",
    "AT+VER": "+VER: 4.0.11\r\n",
    "AT+ID": "+ID: DevAddr, 32:30:DA:C3\r\n+ID: DevEui, 2C:F7:F1:20:32:30:DA:C3\r\n"
    "+ID: AppEui, 80:00:00:00:00:00:00:06\r\n",
}


UNPLUGGED = "<unplugged>"


class FarBoard:
    """What the bench wrote, line by line, and what is answered to it; UNPLUGGED: no more."""

    def __init__(self, port: str, answers: dict[str, str]) -> None:
        self.port = port
        self.heard: list[str] = []
        self.answers = dict(answers)


@contextmanager
def far_board(answers: dict[str, str]) -> Iterator[FarBoard]:
    """A board at `board.port`, until the end of the block."""
    far, near = os.openpty()
    tty.setraw(near)
    board = FarBoard(os.ttyname(near), answers)

    def speak() -> None:
        rest = b""
        with os.fdopen(far, "r+b", buffering=0) as line:
            while True:
                try:
                    data = line.read(1000) or b""
                except OSError:  # nobody has the other side open any more
                    return
                *heard, rest = (rest + data).split(b"\r\n")
                for command in filter(None, heard):
                    board.heard.append(command.decode())
                    answer = board.answers.get(board.heard[-1], "")
                    if answer == UNPLUGGED:
                        return
                    line.write(answer.encode())

    thread = Thread(target=speak)
    thread.start()
    try:
        yield board
    finally:
        os.close(near)
        thread.join()
