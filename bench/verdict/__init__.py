"""Is a case well played, and what did the network server do? Evidence, laws and verdicts."""
