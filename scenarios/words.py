"""The expected words that several groups of scenarios share, one column each.

They are put together: `FIRST + COPY * 2` is a frame that two more stations have heard. What is
particular to one scenario stands beside it.
"""

from bench.verdict.expectation import Table

FIRST = Table("""
    strategy kind        | first
    *        confirmed   | NonDuplicate forwarded RX1
    *        unconfirmed | NonDuplicate forwarded NotAsked
    *        join        | NonDuplicate dropped RX1
""")

# Heard again by the station that delivered the first copy.
AGAIN = Table("""
    strategy kind        | again
    Drop     confirmed   | DuplicateDueToResubmission dropped(ResubmissionSuppressed) RX1
    Mark     confirmed   | DuplicateDueToResubmission marked RX1
    None     confirmed   | DuplicateDueToResubmission forwarded RX1
    *        unconfirmed | DuplicateDueToResubmission dropped(InvalidFrameCounter) NotAsked
""")

# Heard by another station than the first; joins have no soft duplicates (ADR 007, 1b).
COPY = Table("""
    strategy kind        | copy
    Drop     confirmed   | Duplicate dropped(Duplicate) Suppressed
    Drop     unconfirmed | Duplicate dropped(Duplicate) NotAsked
    Mark     confirmed   | SoftDuplicate marked Suppressed
    Mark     unconfirmed | SoftDuplicate marked NotAsked
    None     confirmed   | SoftDuplicate forwarded Suppressed
    None     unconfirmed | SoftDuplicate forwarded NotAsked
    *        join        | Duplicate dropped(Duplicate) Suppressed
""")

# Level 1 as one policy (ADR 007, 1a): what a server makes of a reception, whoever else hears it.
LEVEL_1 = FIRST + COPY + AGAIN

# Level 2 (ADR 007, part 2): what is left of a first copy where another server owns the frame.
ELSEWHERE = Table("""
    strategy kind        | elsewhere
    Drop     confirmed   | NonDuplicate dropped(DuplicateAtOtherServer) Suppressed
    Drop     unconfirmed | NonDuplicate dropped(DuplicateAtOtherServer) NotAsked
    Mark     confirmed   | NonDuplicate marked Suppressed
    Mark     unconfirmed | NonDuplicate marked NotAsked
    None     confirmed   | NonDuplicate forwarded Suppressed
    None     unconfirmed | NonDuplicate forwarded NotAsked
""")

# The newest frame once more, when level 1 has forgotten it.
EXPIRED = Table("""
    strategy kind        | again
    *        confirmed   | NonDuplicate forwarded RX1
    *        unconfirmed | NonDuplicate dropped(InvalidFrameCounter) NotAsked
""")

# Its server was ended over it.
ENDED = Table("""
    strategy kind        | ended
    *        *           | no outcome
""")

# One resubmission too many for this counter value.
OVER = Table("""
    strategy kind        | over
    *        confirmed   | DuplicateDueToResubmission dropped(ResubmissionLimit) Suppressed NotAsked
""")

FORGED = Table("""
    strategy kind        | forged
    *        *           | - dropped(MicMismatch) NotAsked
""")

# A frame of a session that nobody can tell this server of.
STRANGE = Table("""
    strategy kind        | strange
    *        *           | - dropped(UnknownDevice) NotAsked
""")

# A frame whose message the application does not take: it counts as not heard.
REFUSED = Table("""
    strategy kind        | refused
    *        confirmed   | NonDuplicate dropped(UpstreamUnavailable) Suppressed
    *        unconfirmed | NonDuplicate dropped(UpstreamUnavailable) NotAsked
""")

# A repeat whose message the application does not take; with Drop there is none.
REFUSED_AGAIN = Table("""
    strategy kind        | refused
    Mark     confirmed   | DuplicateDueToResubmission dropped(UpstreamUnavailable) Suppressed
    None     confirmed   | DuplicateDueToResubmission dropped(UpstreamUnavailable) Suppressed
""")

# Answered because it asks the network for something; in RX2 where RX1 is gone.
ASKED = Table("""
    strategy kind        | asked
    *        *           | NonDuplicate forwarded RX1
""")
LATE = Table("""
    strategy kind        | late
    *        *           | NonDuplicate forwarded RX2
""")

IN_RX2 = Table("""
    strategy kind        | first
    *        confirmed   | NonDuplicate forwarded RX2
    *        join        | NonDuplicate dropped RX2
""")

# Answered although it asks for nothing: the application has something for the device.
WITH_DOWNLINK = Table("""
    strategy kind        | first
    *        *           | NonDuplicate forwarded RX1
""")

TOO_LATE = Table("""
    strategy kind        | first
    *        confirmed   | NonDuplicate forwarded TooLate
    *        unconfirmed | NonDuplicate forwarded NotAsked
""")

# The server that may answer, and the word of level 2 that says so.
OWNED = Table("""
    strategy kind        | owned
    *        confirmed   | NonDuplicate forwarded RX1 Owner
    *        unconfirmed | NonDuplicate forwarded NotAsked Owner
""")

# A server that is told that another one owns the frame.
LOST = Table("""
    strategy kind        | lost
    Drop     confirmed   | NonDuplicate dropped(DuplicateAtOtherServer) Suppressed NotOwner
    Drop     unconfirmed | NonDuplicate dropped(DuplicateAtOtherServer) NotAsked NotOwner
    Mark     confirmed   | NonDuplicate marked Suppressed NotOwner
    Mark     unconfirmed | NonDuplicate marked NotAsked NotOwner
    None     confirmed   | NonDuplicate forwarded Suppressed NotOwner
    None     unconfirmed | NonDuplicate forwarded NotAsked NotOwner
""")

# A frame told once more by its first station, while it is another server's.
ELSEWHERE_AGAIN = Table("""
    strategy kind      | theirs
    Drop     confirmed | DuplicateDueToResubmission dropped(DuplicateAtOtherServer) Suppressed
    Mark     confirmed | DuplicateDueToResubmission marked Suppressed
    None     confirmed | DuplicateDueToResubmission forwarded Suppressed
""")

# A server that nobody tells who owns the frame; `on_outage` is "open".
UNVERIFIED = Table("""
    strategy kind        | unverified
    *        confirmed   | NonDuplicate forwarded Suppressed Unavailable
    *        unconfirmed | NonDuplicate forwarded NotAsked Unavailable
""")

# The owner of a frame that the application does not take: it gives the frame back.
LOST_UPSTREAM = Table("""
    strategy kind        | back
    *        confirmed   | NonDuplicate dropped(UpstreamUnavailable) Suppressed Owner
    *        unconfirmed | NonDuplicate dropped(UpstreamUnavailable) NotAsked Owner
""")

# A frame that this server was refused, when its owner has given it back.
TAKEN_OVER = Table("""
    strategy kind        | taken
    *        confirmed   | DuplicateDueToResubmission forwarded RX1 Owner
""")
