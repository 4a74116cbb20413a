"""What does a message do to the application, and what happens when it must be undone?"""

from collections.abc import Awaitable, Callable
from typing import Protocol, runtime_checkable

from lns.delivery.incoming import Incoming
from lns.store.inbox_entries import Transaction

Handle = Callable[[Incoming, Transaction], Awaitable[None] | None]


class EffectUnavailable(Exception):
    """No effect can be had now, whatever the message is; the text says why. It is tried again."""


@runtime_checkable
class Effect(Protocol):
    """The effects of messages, several of which are kept together."""

    def open(self, transaction: Transaction) -> None:
        """Prepare, and undo what was begun before a kill and never kept; EffectUnavailable."""

    def handle(self, message: Incoming, transaction: Transaction) -> Awaitable[None] | None:
        """The effect of one message; what it raises is undone and the message tried again.

        `transaction.position` numbers the effects, from 1. What this does outside the transaction
        it must be able to undo.
        """

    def flush(self, transaction: Transaction) -> None:
        """The transaction is about to be kept: make durable what belongs to it."""

    def end(self, *, kept: bool) -> None:
        """The transaction was kept, or none of it was: then undo what is outside of it."""


class Handled:
    """The effect that is one function; all of it is in the transaction, or cannot be undone."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def open(self, transaction: Transaction) -> None:
        """Nothing is to be prepared."""

    def handle(self, message: Incoming, transaction: Transaction) -> Awaitable[None] | None:
        """Call the function."""
        return self._handle(message, transaction)

    def flush(self, transaction: Transaction) -> None:
        """It is in the transaction."""

    def end(self, *, kept: bool) -> None:
        """It was in the transaction."""


def effect_of(effect: Effect | Handle) -> Effect:
    """The effect, or the one of a function."""
    return effect if isinstance(effect, Effect) else Handled(effect)
