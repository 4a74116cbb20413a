"""What does RUI3 keep in flash?"""

from typing import Any

from bench.virtual.board.nvm import Nvm
from bench.virtual.rui3.rui3_status import Status
from bench.virtual.rui3.rui3_values import VALUES


class Rui3Memory:
    """Settings as text by the names of their commands, the work mode, echo, nonce and counters."""

    def __init__(self, nvm: Nvm, *, factory_dev_eui: str) -> None:
        self._nvm = nvm
        if nvm.get("DEVEUI") is None:
            nvm.put(DEVEUI=factory_dev_eui)

    @property
    def mode(self) -> int:
        """0 P2P, 1 LoRaWAN, 2 FSK."""
        return int(self._nvm.get("mode", 1))

    @mode.setter
    def mode(self, mode: int) -> None:
        self._nvm.put(mode=mode)

    @property
    def echoes(self) -> bool:
        """Whether the console repeats what it hears."""
        return bool(self._nvm.get("echo", False))

    @echoes.setter
    def echoes(self, echoes: bool) -> None:
        self._nvm.put(echo=echoes)

    def get(self, name: str) -> str:
        """A setting."""
        return str(self._nvm.get(name, VALUES[name].default))

    def number(self, name: str) -> int:
        """A setting that is a number."""
        return int(self.get(name))

    def set(self, name: str, argument: str) -> Status:
        """Keep a setting, if it may be that."""
        kept = VALUES[name].check(argument)
        if kept is None:
            return Status.PARAM_ERROR
        self._nvm.put(**{name: kept})
        return Status.OK

    def keep(self, **values: Any) -> None:
        """Write something that no command sets."""
        self._nvm.put(**values)

    def kept(self, name: str, default: Any) -> Any:
        """Read it."""
        return self._nvm.get(name, default)

    def restore_defaults(self) -> None:
        """ATR: keys, EUIs, settings, DevNonce and counters are lost."""
        self._nvm.erase("boots")
        self._nvm.put(DEVEUI=VALUES["DEVEUI"].default)
