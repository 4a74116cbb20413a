"""Real traffic from captures, through the network server, into a run like any other.

`run` reads the files (see `importing`, `conformance`, `campus_iot`), plays each log once for each
strategy on virtual time, and leaves one run folder with one case per log and strategy.
"""

from bench.traffic.importing import run
from bench.traffic.recording import TrafficError

__all__ = ["TrafficError", "run"]
