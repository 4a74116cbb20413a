"""The way of an accepted uplink to the application, and what the application does with it."""

from lns.delivery.detection import ConfigurationError
from lns.delivery.detectors import Detectors
from lns.delivery.inbox import Inbox
from lns.delivery.inbox_events import Accepted, Ignored, Parked, Unread
from lns.delivery.incoming import Incoming, Unreadable
from lns.delivery.message_id_window import MessageIdWindow
from lns.delivery.remove_duplicates_keys import RemoveDuplicatesKeys
from lns.delivery.sequence_tracker import SequenceTracker

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
