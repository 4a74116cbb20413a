"""What is an operator told of the files that he has written for a network server?"""

from collections.abc import Mapping
from itertools import zip_longest
from shutil import rmtree
from types import MappingProxyType

from bench.certificates import any_authority, write_server_files, write_station_files
from bench.plan.needs import Item, needs
from bench.rig.case_setup import CaseSetup
from bench.rig.in_memory.disk_outbox import new_folder
from bench.verdict.owner import Scrutiny
from lns.__main__ import summary
from lns.clock import now_us
from lns.complaints import place_of
from lns.config import ConfigError, load
from lns.startup import prepare

HOST = "lns.example"
"""The name in the certificate of the server."""
SECRET = "geheim"
"""What nobody is to read who is told of a mistake."""
_SHOWN = 30
"""As much of what is as it should be stands before what is not."""
_NOTHING: Mapping[str, str] = MappingProxyType({})


class Configurations:
    """The verb about configurations."""

    def __init__(self, setup: CaseSetup) -> None:
        self.setup = setup
        self.must_have = setup.must_have

    @needs(Item.VIRTUAL_TIME)
    async def check_configuration(
        self,
        lns_toml: str,
        says: str,
        files: Mapping[str, str] = _NOTHING,
        *,
        key_of: str | None = None,
    ) -> None:
        """Let a server read its configuration, and serve nobody.

        Beside its `lns.toml` are an empty `devices.toml`, `server.crt` and its key, and
        `stations-ca.crt`; `files` come in their place or beside them, by their paths. `key_of` a
        station there are credentials in `stations`. `says` has a line for each mistake as far as it
        matters, or what is said of a configuration without one. No line has `SECRET` in it.
        """
        await self.setup.begin()
        folder = new_folder("configuration")
        try:
            write_server_files(folder, any_authority(), HOST)
            if key_of is not None:
                home, trust = folder / "stations" / key_of, any_authority().certificate
                write_station_files(home, "tc", f"wss://{HOST}:1", trust=trust, token=SECRET)
            written = {"devices.toml": "device = []\n", **files, "lns.toml": lns_toml}
            for name, text in written.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(text, "utf-8")
            try:
                said = summary(prepare(load(folder / "lns.toml")))
            except ConfigError as error:
                said = str(error)
            except Exception as error:  # nothing that somebody writes may end so
                said = place_of(error)
        finally:
            rmtree(folder, ignore_errors=True)
        about = " ".join(text.rstrip().rpartition("\n")[2] for text in (lns_toml, *files.values()))
        check = Scrutiny(rule="configuration", of=f"what is said of {about}", t_us=now_us())
        lines = said.replace(f"{folder}/", "").splitlines()
        for observed, due in zip_longest(lines, says.splitlines(), fillvalue=""):
            if not (due and observed.startswith(due)) or SECRET in observed:
                pairs = enumerate(zip(due, observed, strict=False))
                alike = next((number for number, (one, other) in pairs if one != other), 0)
                begin = max(0, alike - _SHOWN)
                self.setup.case.find(check.wrong("line", due[begin:], observed[begin:]))
