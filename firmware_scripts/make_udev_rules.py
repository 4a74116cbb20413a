"""Give the boards of the inventory fixed names, /dev/lora/<name>, by a udev rule each.

A board is known by its USB serial number or by the port of the hub that it is plugged into
(`usb_serial`, `usb_path` in bench.toml). Without --install the rules are only printed.
"""

import re
import subprocess
import tomllib
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ending import Arguments, Failed, WrongUsage, run

TEMPLATE = Path(__file__).parent / "udev" / "70-lora-bench.rules"
TARGET = "/etc/udev/rules.d/70-lora-bench.rules"
EXAMPLES = (
    "python3 make_udev_rules.py --bench bench.toml                  # print the rules",
    "sudo python3 make_udev_rules.py --bench bench.toml --install",
    "python3 make_udev_rules.py --bench bench.toml --install --dry-run",
)


@dataclass(frozen=True, slots=True)
class BenchFile:
    path: Path
    content: Mapping[str, Any]

    def radios(self) -> list[Mapping[str, Any]]:
        return [*self.content.get("device", []), *self.content.get("replayer", [])]


def read_bench_file(path: Path) -> BenchFile:
    """The file's content; WrongUsage if there is none or it is no TOML."""
    try:
        return BenchFile(path, tomllib.loads(path.read_text(encoding="utf-8-sig")))
    except OSError as error:
        raise WrongUsage(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise WrongUsage(f"{path} is no TOML file: {error}") from None


def main() -> None:
    arguments = _arguments()
    rules = rules_for(read_bench_file(Path(arguments.bench)))
    if not arguments.install:
        print(rules, end="")
        return
    target = Path(f"{arguments.root}{TARGET}")
    if target.exists() and target.read_text(encoding="utf-8") == rules:
        print(f"unchanged: {target}")
        return
    if arguments.dry_run:
        print(f"would write: {target}\n{rules}", end="")
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(rules, encoding="utf-8")
    except OSError as error:
        raise Failed(f"{target} cannot be written: {error.strerror}; start it with sudo") from None
    print(f"written: {target}")
    for command in (["udevadm", "control", "--reload"], ["udevadm", "trigger", "-s", "tty"]):
        try:
            subprocess.run(command, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Failed(f"{' '.join(command)} did not work: {error}") from None
    print("applied; `ls -l /dev/lora` shows the boards that are plugged in")


def rules_for(bench: BenchFile) -> str:
    """The whole file of rules; WrongUsage if a name or a number cannot stand in a rule."""
    lines = [_rule(radio) for radio in bench.radios()]
    if not lines:
        raise WrongUsage(f"{bench.path} has no [[device]] and no [[replayer]]")
    return TEMPLATE.read_text(encoding="utf-8").replace("@NAMES@", "\n".join(lines))


def _rule(radio: Mapping[str, Any]) -> str:
    name = str(radio.get("name", ""))
    if re.fullmatch(r"[A-Za-z0-9_.-]+", name) is None:
        raise WrongUsage(f"{name!r} cannot be a name below /dev/lora; use letters, digits, - and _")
    if "usb_serial" in radio:
        serial = _quotable(str(radio["usb_serial"]))
        return f'SUBSYSTEM=="tty", ATTRS{{serial}}=="{serial}", SYMLINK+="lora/{name}"'
    if "usb_path" in radio:
        path = _quotable(str(radio["usb_path"]))
        by_path = f'SUBSYSTEM=="tty", SUBSYSTEMS=="usb", KERNELS=="{path}"'
        return f'{by_path}, SYMLINK+="lora/{name}"'
    return f"# {name}: its port stands in bench.toml, there is nothing to name it by"


def _quotable(text: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9_.:-]+", text) is None:
        raise WrongUsage(f"{text!r} is no USB serial number or path")
    return text


def _arguments() -> Namespace:
    parser = Arguments(str(__doc__), EXAMPLES)
    parser.add_argument("--bench", metavar="FILE", required=True, help="bench.toml")
    parser.add_argument("--install", action="store_true", help=f"write {TARGET} and apply it")
    parser.add_argument("--root", default="", help="write below this folder instead of /")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be written")
    return parser.parse_args()


if __name__ == "__main__":
    run(main)
