"""`lorabench import`: what does the network server make of real traffic?"""

from collections.abc import Sequence
from pathlib import Path

from bench.capture.run_folder import Origin
from bench.capture.wholeness import wholeness
from bench.cli.output import (
    RUNS,
    AsJson,
    ExitCode,
    Refused,
    RunsWritten,
    Seed,
    Strategy,
    command_line,
    labelled,
    print_json,
    print_lines,
    shown_path,
)
from bench.cli.progress import Progress, ProgressDisplay
from bench.cli.report import exit_code_of, in_words, read_verdicts, totals

EXAMPLES = (
    "lorabench import saint-eynard-33.ndjson.gz --limit 2000",
    "lorabench import frames.json --strategy Drop",
)


class CaptureMissing(Refused):
    """A file of real traffic is not where it was said to be."""


def import_captures(
    file: list[Path],
    /,
    *,
    strategy: Strategy = "None",
    seed: Seed = 1,
    limit: int | None = None,
    stations: int = 1,
    runs: RunsWritten = RUNS,
    as_json: AsJson = False,
) -> int:
    """Feed captures of real traffic through the network server, as a run like any other.

    :param file: Files of real traffic.
    :param strategy: How the devices deduplicate.
    :param limit: At most so many uplinks of each file. All if left out.
    :param stations: Stations that hear a capture of a single gateway, each in its own way.
    """
    with ProgressDisplay() as display:
        folder = import_files(
            file,
            runs=runs,
            strategy=strategy,
            seed=seed,
            limit=limit,
            stations=stations,
            progress=display,
        )
    verdicts, books = read_verdicts(folder), wholeness(folder)
    is_empty = not verdicts and books.whole
    code = ExitCode.PASSED if is_empty else exit_code_of(verdicts, whole=books.whole)
    if as_json:
        print_json({"run": folder, "totals": totals(verdicts), "exit_code": int(code)})
    else:
        path = shown_path(folder)
        print_lines(
            labelled(
                [
                    ("captures", path),
                    ("verdicts", in_words(totals(verdicts))),
                    ("score it", command_line("score", path)),
                ]
            )
        )
    return code


def import_files(
    files: Sequence[Path],
    *,
    runs: Path,
    strategy: str,
    seed: int,
    limit: int | None,
    progress: Progress,
    stations: int = 1,
    origin: Origin | None = None,
) -> Path:
    """The run folder with the captures of these files; CaptureMissing if one is not there."""
    for file in files:
        if not file.is_file():
            raise CaptureMissing(f"There is no file {file}. Give the path of a capture of traffic.")
    from bench import traffic

    try:
        return traffic.run(
            files,
            runs_dir=runs,
            strategy=strategy,
            seed=seed,
            limit=limit,
            stations=stations,
            origin=origin,
            progress=progress,
        )
    except traffic.TrafficError as error:
        raise Refused(str(error)) from error
