"""What does the bench say of a network server that is broken, as a program of its own?"""

import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.bench.run.test_emulated import emulated_in

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]

DOWNLINK = '''

async def test_is_asked(rig):
    """What the application wants for a device is queued, and goes down with an answer."""
    await stimulus(rig)
    await rig.queue_status(rig.alpha)
    await stimulus(rig)
'''
BUILDS = {
    "it does not start": ("raise SystemExit('no such disk')", r"ServerDied: .* exit code 1; .*"),
    "it takes no downlinks": (
        "from lns.network_server import NetworkServer\n"
        "NetworkServer.receive_request = lambda self, topic, body: None\n",
        r"ServerSilent: lns-a has not queued the downlink for 70B3D57ED0000101",
    ),
}


@pytest.mark.parametrize("build", BUILDS)
def test_a_broken_build_is_the_network_servers_fault(build: str, tmp_path: Path) -> None:
    broken, reason = BUILDS[build]
    (tmp_path / "build.py").write_text(
        f"{broken}\nimport sys\nfrom lns.__main__ import main\nsys.exit(main(sys.argv[1:]))\n"
    )
    server = shlex.join([sys.executable, str(tmp_path / "build.py")])
    ran = emulated_in(tmp_path, DOWNLINK, LORABENCH_SERVER=server)
    end = ran.ends[-1]
    assert (end["verdict"], end["owner"], ran.code) == ("FAIL", "LNS", 1), ran.output
    assert any(re.match(reason, one) for one in end["reasons"]), end["reasons"]
