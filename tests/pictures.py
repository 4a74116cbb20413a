"""The pictures of README: a report, a timeline and the map of the nights, as they look today.

    python -m tests.pictures RUNS        (`make pictures`; after a nightly, whose runs they show)

Chromium draws them without a window.
"""

import html
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "bench" / "report" / "pictures"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
CASE = "a_second_station Drop-confirmed"
TERMINAL = "background:#16181d;color:#d8dbe2;font:13px/1.45 monospace;margin:0;padding:16px"


def picture(browser: str, page: Path, name: str, width: int, height: int) -> None:
    """Draw the top of a page."""
    command = [browser, "--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu"]
    size = [f"--screenshot={PICTURES / name}", f"--window-size={width},{height}"]
    subprocess.run([*command, *size, page.as_uri()], check=True, capture_output=True, timeout=120)
    print(f"{(PICTURES / name).relative_to(ROOT)}: {(PICTURES / name).stat().st_size // 1000} kB")


def main(words: list[str]) -> int:
    """Draw all pictures."""
    runs = Path(words[0] if words else "runs").resolve()
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"There is no {' or '.join(BROWSERS)}: sudo apt-get install chromium")
        return 4
    reports = sorted(runs.glob("*/report.html"))
    if not reports or not (runs / "nights.html").is_file():
        print(f"There is no night in {runs}: make nightly")
        return 4
    PICTURES.mkdir(exist_ok=True)
    largest = max(reports, key=lambda page: (page.parent / "bench.jsonl").stat().st_size)
    picture(browser, largest, "report.png", 1280, 900)
    picture(browser, runs / "nights.html", "nights.png", 1280, 900)
    command = [sys.executable, "-m", "bench", "timeline", str(largest.parent), CASE]
    drawn = subprocess.run(
        [*command, "--width", "110"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "timeline.html")
        text = html.escape(drawn.stdout)
        page.write_text(f'<meta charset="utf-8"><body style="{TERMINAL}"><pre>{text}</pre>')
        lines = drawn.stdout.count("\n") + 3
        picture(browser, page, "timeline.png", 960, lines * 19 + 40)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
