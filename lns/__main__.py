"""`python -m lns lns.toml`: a network server for Basics Stations."""

import argparse
import asyncio
import gc
import logging
import os
import sys
from pathlib import Path
from time import gmtime

from lns.clock import monotonic_us, read_from
from lns.complaints import SafeFormatter, without_controls
from lns.config import ConfigError, load
from lns.running import run
from lns.startup import Startup, prepare

log = logging.getLogger(__name__)

WRONG = 4


def main(argv: list[str] | None = None) -> int:
    """Run a network server until SIGTERM or Ctrl-C, then return 0.

    4: the command line or the configuration is wrong; every mistake of that is told with file, line
    and key.
    """
    parser = argparse.ArgumentParser(
        prog="python -m lns",
        description="Run a LoRaWAN network server for Basics Stations.",
        epilog="example: python -m lns lns.toml",
    )
    parser.add_argument("config", type=Path, help="the lns.toml of the network server")
    parser.add_argument(
        "--check", action="store_true", help="read and check the configuration, then stop"
    )
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as stop:
        raise SystemExit(WRONG if stop.code else 0) from None
    handler = logging.StreamHandler(sys.stderr)
    formatter = SafeFormatter(
        "%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S"
    )
    formatter.converter = gmtime
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    # Every handshake and close of a socket; what matters of them is told by lns itself.
    logging.getLogger("websockets").setLevel(logging.CRITICAL)
    try:
        config = load(arguments.config)
        startup = prepare(config)
        if arguments.check:
            why = _print(without_controls(summary(startup)))
            if why:
                raise ConfigError(f"stdout: {why}")
            return 0
        # What is there by now stays: a collection that walked it would stop the server for 30 ms.
        gc.freeze()
        # Nearly all that a frame leaves behind goes without it: it looks a tenth as often.
        gc.set_threshold(7_000)
        with read_from(monotonic_us):
            asyncio.run(run(startup, tell_where))
    except ConfigError as error:
        print(without_controls(str(error)), file=sys.stderr)
        return WRONG
    return 0


def tell_where(uri: str) -> None:
    """Say on standard output where stations can connect; the log says why nobody can be told."""
    why = _print(f"listening {uri}")
    if why:  # stations connect all the same
        log.info("listening %s (nobody can be told: %s)", uri, why)


def _print(text: str) -> str:
    """Why nobody can be told, "" where somebody is."""
    try:
        print(text, flush=True)
    except OSError as error:  # whoever was to read it has gone, or has no room
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return error.strerror or str(error)
    return ""


def summary(startup: Startup) -> str:
    """What a configuration without a mistake comes to, for people to read."""
    config, access = startup.config, startup.access
    lns = config.settings.lns
    lines = [f"{config.file}: {lns.id}, {lns.region}, {len(config.devices)} devices"]
    allowed = "any" if access.stations is None else f"{len(access.stations)} listed"
    lines.append(f"  stations: {allowed}; to show: {access.required}")
    lines += [
        f"  {device.name}  {device.dev_eui}  {device.activation}  {device.strategy}"
        for device in config.devices
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
