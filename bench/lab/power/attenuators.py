"""How is a step attenuator set?"""

from typing import Protocol

from bench.lab.inventory.entries import AttenuatorEntry
from bench.lab.power.commands import run_command
from bench.lab.power.person import ask_person
from bench.lab.power.seam import PowerFailed


class Attenuator(Protocol):
    """Something that weakens a signal by whole decibels."""

    async def set_db(self, db: int) -> None:
        """Set it; PowerFailed if that was not done."""


class CommandAttenuator:
    """An attenuator that a program of this host sets; "{db}" in its words is the number."""

    def __init__(self, entry: AttenuatorEntry) -> None:
        assert entry.set_command is not None, f"{entry.name} has no command"
        self._name = entry.name
        self._command = entry.set_command

    async def set_db(self, db: int) -> None:
        """Run the command."""
        await run_command(
            self._name, [word.replace("{db}", str(_loss(self._name, db))) for word in self._command]
        )


class PersonAttenuator:
    """An attenuator that a person sets."""

    def __init__(self, entry: AttenuatorEntry) -> None:
        self._name = entry.name

    async def set_db(self, db: int) -> None:
        """Ask on the terminal."""
        await ask_person(self._name, f"set the attenuator to {_loss(self._name, db)} dB")


def attenuator(entry: AttenuatorEntry) -> Attenuator:
    """The attenuator of an entry; nothing is set before it is used."""
    return PersonAttenuator(entry) if entry.set_command is None else CommandAttenuator(entry)


def _loss(name: str, db: int) -> int:
    if db < 0:
        raise PowerFailed(f"{name}: an attenuator does not amplify; {db} dB cannot be set")
    return db
