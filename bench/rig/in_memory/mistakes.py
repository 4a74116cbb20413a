"""What is a mistake of the program of a network server in this process?"""

from typing import NoReturn

SECRET = "geheim"
"""What no server tells of a mistake: it could be a key."""


class Stumbled(Exception):
    """What no part of a network server expects of another."""


def stumble(over: list[str], what: str) -> NoReturn:
    """Make a mistake over this; it is not made again."""
    over.remove(what)
    raise Stumbled(SECRET)
