"""Where does every random number of a run come from?"""

import random
from hashlib import blake2b


def stream(seed: int, *names: str) -> random.Random:
    """The random numbers for one purpose, the same for the same seed and names.

    Streams of different names are independent: a draw more in one changes nothing in another.
    """
    text = "\0".join((str(seed), *names))
    return random.Random(int.from_bytes(blake2b(text.encode(), digest_size=16).digest(), "big"))


class Repeating(random.Random):
    """Draws each number of bits twice: whoever wants another one than before has to look."""

    def __init__(self, drawn: random.Random) -> None:
        super().__init__(0)
        self._drawn = drawn
        self._again: int | None = None

    def getrandbits(self, k: int, /) -> int:
        if self._again is None:
            self._again = self._drawn.getrandbits(k)
            return self._again
        again, self._again = self._again, None
        return again
