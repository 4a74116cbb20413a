"""The way of an accepted uplink to the application, and what the application does with it."""

from lns.delivery.detectors import (
    ConfigurationError,
    Detectors,
    MessageIdWindow,
    RemoveDuplicatesKeys,
    SequenceTracker,
)
from lns.delivery.inbox import Accepted, Ignored, Inbox, Parked, Unread
from lns.delivery.incoming import Incoming, Unreadable

__all__ = [
    "Accepted",
    "ConfigurationError",
    "Detectors",
    "Ignored",
    "Inbox",
    "Incoming",
    "MessageIdWindow",
    "Parked",
    "RemoveDuplicatesKeys",
    "SequenceTracker",
    "Unread",
    "Unreadable",
]
