"""The pictures of README, drawn anew: a report, a timeline and the map of the nights.

    make pictures

A server without a fault and two broken ones are played by the simulated rig, judged by Spark, and
laid down as thirty nights. Chromium draws the pages without a window.
"""

import html
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.cli.nights import write_nights
from tests.bench.night.planted_builds import Build, lay_down, played

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "bench" / "report" / "pictures"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
GROUPS = ("multi_concentrator", "missed_confirm_window", "device_restart", "replay", "joins",
          "several_servers", "levels_combined", "windows")  # fmt: skip
NIGHTS = 30
BUILDS = (
    Build(0),
    Build(11, "no resubmission limit"),
    Build(15),
    Build(29, "soft duplicate answered"),
)
CASE = "a_second_station_delivers_the_same_frame[None-confirmed]"
TERMINAL = "background:#16181d;color:#d8dbe2;font:14px/1.4 monospace;margin:0;padding:16px"


def screenshot(browser: str, page: Path, name: str, width: int, height: int) -> None:
    """The top of a page as it looks in a window of this size."""
    command = [browser, "--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu"]
    size = [f"--screenshot={PICTURES / name}", f"--window-size={width},{height}"]
    subprocess.run([*command, *size, page.as_uri()], check=True, capture_output=True, timeout=120)
    print(f"{(PICTURES / name).relative_to(ROOT)}: {(PICTURES / name).stat().st_size // 1000} kB")


def section_of(page: Path, name: str) -> Path:
    """The same page, with nothing but one of its sections."""
    alone = f"header, main > :not(#{name}) {{ display: none }} </style>"
    copy = page.with_name(f"{name}.html")
    copy.write_text(page.read_text("utf-8").replace("</style>", alone, 1), "utf-8")
    return copy


def lorabench(folder: Path, *words: str) -> str:
    """What the program prints, started where the runs are; a red run is no mistake."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "bench", *words]
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if ended.returncode not in (0, 1):
        raise SystemExit(f"lorabench {' '.join(words)}: {ended.stdout}{ended.stderr}")
    return ended.stdout


def main() -> int:
    """Play, judge and draw."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"There is no {' or '.join(BROWSERS)}: sudo apt-get install chromium")
        return 4
    PICTURES.mkdir(exist_ok=True)
    scenarios = [f"scenarios/test_{group}.py" for group in GROUPS]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        runs = [played(build, folder / str(build.since), scenarios) for build in BUILDS]
        lorabench(folder, "score", *map(str, runs), "--lake", str(folder / "lake"))
        for number in range(NIGHTS):
            build, run = next(
                pair
                for pair in zip(BUILDS[::-1], runs[::-1], strict=True)
                if pair[0].since <= number
            )
            lay_down(folder / "runs", number, run, build)
        page = write_nights(folder / "runs", ())
        screenshot(browser, page, "nights.png", 1280, 900)
        screenshot(browser, section_of(page, "map-1"), "heat_map.png", 1280, 760)
        lorabench(folder, "report", str(runs[-1]))
        screenshot(browser, runs[-1] / "report.html", "report.png", 1280, 900)
        drawn = lorabench(runs[-1].parent, "timeline", runs[-1].name, CASE, "--width", "110")
        page = folder / "timeline.html"
        text = html.escape(drawn)
        page.write_text(
            f'<meta charset="utf-8"><body style="{TERMINAL}"><pre>{text}</pre>', "utf-8"
        )
        screenshot(browser, page, "timeline.png", 1000, 20 * drawn.count("\n") + 60)
    return 0


if __name__ == "__main__":
    sys.exit(main())
