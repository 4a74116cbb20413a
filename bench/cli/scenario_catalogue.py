"""Which scenarios are there, and what does each require?

Read from the source without importing it: the list is there at once, also when one is broken.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import bench
from bench.cli.exit_code import BenchBroken, Refused


class NoSuchScenario(Refused):
    """No scenario has this name, or stands in this file."""


class ScenariosMissing(BenchBroken):
    """The folder with the scenarios is not where the program expects it."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario: the group is its file's name, the title the first line of its docstring."""

    group: str
    name: str
    title: str
    file: str
    line: int
    requires: tuple[str, ...] = ()


def scenarios_folder() -> Path:
    """The folder `scenarios` beside the package; ScenariosMissing if it is not there."""
    folder = Path(bench.__path__[0]).resolve().parent / "scenarios"
    if not folder.is_dir():
        raise ScenariosMissing(
            f"There is no folder {folder}. The scenarios are part of the source tree: run "
            "lorabench from a checkout of the project (make install)."
        )
    return folder


def chosen(pattern: str | None) -> list[str]:
    """What pytest is told to collect: part of a name, a `-k` expression, or a file; None: all.

    NoSuchScenario for a file that is not there.
    """
    folder = scenarios_folder()
    if pattern is None:
        return [str(folder)]
    file, _, function = pattern.partition("::")
    if not file.endswith(".py"):
        return [str(folder), "-k", pattern]
    for path in (Path(file), folder.parent / file, folder / file):
        if path.is_file():
            return [f"{path}::{function}".removesuffix("::")]
    raise NoSuchScenario(f"There is no file {file}. `lorabench scenarios` lists all scenarios.")


def scenarios_in(folder: Path) -> list[Scenario]:
    """Every scenario below `folder`, by file and line."""
    files = sorted(folder.rglob("test_*.py"))
    return [scenario for file in files for scenario in _scenarios_of(file, folder)]


def _scenarios_of(file: Path, folder: Path) -> Iterator[Scenario]:
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
    except (SyntaxError, UnicodeDecodeError) as error:
        raise BenchBroken(f"{file} cannot be read as Python: {error}") from None
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if not node.name.startswith("test_"):
            continue
        yield Scenario(
            group=file.stem.removeprefix("test_"),
            name=node.name,
            title=" ".join((ast.get_docstring(node) or "").split("\n\n")[0].split()),
            file=file.relative_to(folder.parent).as_posix(),
            line=node.lineno,
            requires=tuple(_required(node)),
        )


def _required(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """The words of `@pytest.mark.requires("word", ...)`."""
    for decorator in node.decorator_list:
        if not isinstance(decorator, ast.Call) or not isinstance(decorator.func, ast.Attribute):
            continue
        if decorator.func.attr != "requires":
            continue
        for argument in decorator.args:
            if isinstance(argument, ast.Constant):
                yield str(argument.value)
