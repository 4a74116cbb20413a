"""Would anybody notice a network server that lets one bad peer or disk cost another one?"""

from tests.mutants.mutant import Mutant

RUNNING = "tests/lns/test_running.py"
CAPTURE = "tests/lns/test_capture.py"

LATE = "tests/lns/test_late_stations.py"

PEERS = "tests/lns/server/test_hostile_peers.py"

MUTANTS = (
    Mutant(
        "whoever sends nothing but pings keeps the others waiting",
        "lns/server/web_socket.py",
        "_OCTETS_A_TURN = 4096",
        "_OCTETS_A_TURN = 1 << 20",
        PEERS,
    ),
    Mutant(
        "a station that cannot answer is never named",
        "lns/connections.py",
        "        row.number += 1",
        "        row.number = 1",
        LATE,
    ),
    Mutant(
        "TooLate logged for each uplink",
        "lns/connections.py",
        "            self._named[station] = True",
        "            pass",
        LATE,
    ),
    Mutant(
        "a capture that cannot be written ends all",
        "lns/running.py",
        "        except OSError as error:\n            self._unrecorded += 1",
        "        except KeyError as error:\n            self._unrecorded += 1",
        RUNNING,
    ),
    Mutant(
        "a capture without an end",
        "lns/capture.py",
        "        if self._bytes_max is not None and stream.size >= self._bytes_max // 2:",
        "        if False:",
        CAPTURE,
    ),
    Mutant(
        "half a line left on a full disk",
        "lns/capture.py",
        "                stream.file.truncate(stream.size)",
        "                pass",
        CAPTURE,
    ),
)
