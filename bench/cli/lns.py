"""`lorabench lns`: the network server itself, as `python -m lns` starts it."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from bench.cli.output import AsJson, ExitCode, Refused, print_json
from lns.__main__ import main
from lns.config import ConfigError, load
from lns.startup import prepare

EXAMPLES = ("lorabench lns lns.toml", "lorabench lns lns.toml --check")


def lns(
    config: Annotated[Path, Parameter(help="The lns.toml of the network server.")],
    /,
    *,
    check: Annotated[
        bool,
        Parameter(
            negative=(), show_default=False, help="Read and check the configuration, then stop."
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Serve stations until Ctrl-C or SIGTERM.

    Prints `listening <URI>` once stations can connect. As `python -m lns` it exits with 0 when it
    was stopped, and with 4 when the configuration is wrong: each mistake is a line with file, line
    and key. --json goes with --check.
    """
    if not as_json:
        return main([str(config), "--check"] if check else [str(config)])
    if not check:
        raise Refused(
            "--json goes with --check. What a running server does is told by the file that"
            " `path` in its [capture] section names."
        )
    return _checked(config)


def _checked(config: Path) -> int:
    try:
        found = load(config)
        startup = prepare(found)
    except ConfigError as error:
        print_json({"file": config, "works": False, "mistakes": str(error).splitlines()})
        return ExitCode.USAGE
    devices = [
        {
            "name": device.name,
            "dev_eui": device.dev_eui,
            "activation": device.activation,
            "strategy": device.strategy,
        }
        for device in found.devices
    ]
    settings = found.settings.lns
    print_json(
        {
            "file": config,
            "works": True,
            "lns": settings.id,
            "region": settings.region,
            "stations_show": startup.access.required,
            "devices": devices,
        }
    )
    return ExitCode.PASSED
