import resource
import subprocess
import sys

from bench.host.program import take_all_allowed


def test_the_limit_is_raised_for_this_process_and_its_children() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        assert take_all_allowed() == before[1]
        code = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        assert int(told.stdout) == before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
