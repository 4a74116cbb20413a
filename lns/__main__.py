"""`python -m lns lns.toml --check`: is this configuration right?"""

import argparse
import sys
from pathlib import Path

from lns.config import Config, ConfigError, load


def main(argv: list[str] | None = None) -> int:
    """Check a configuration; exit status 2 names every mistake with file, line and key."""
    parser = argparse.ArgumentParser(
        prog="python -m lns",
        description="Check the configuration of a network server.",
        epilog="example: python -m lns lns.toml --check",
    )
    parser.add_argument("config", type=Path, help="the lns.toml of the network server")
    parser.add_argument(
        "--check",
        action="store_true",
        required=True,
        help="read and check the configuration, then stop",
    )
    arguments = parser.parse_args(argv)
    try:
        config = load(arguments.config)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    print(_summary(config))
    return 0


def _summary(config: Config) -> str:
    lns = config.settings.lns
    lines = [f"{config.file}: {lns.id}, {lns.region}, {len(config.devices)} devices"]
    lines += [
        f"  {device.name}  {device.dev_eui}  {device.activation}  {device.strategy}"
        for device in config.devices
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
