"""Fails where the score of a night blames the network server, although every scenario passed.

One of the two is wrong then: what the scenarios expect, or what the score works out by itself.
"""

import json
import sys
from pathlib import Path

found = [
    f"{score.parent.name}: {finding['case']}: {finding['text']}"
    for score in sorted(Path("runs").glob("*/score.json"))
    for finding in json.loads(score.read_text(encoding="utf-8"))["findings"]
    if finding["owner"] == "LNS"
]
print("\n".join(found) or "No finding of the night blames the network server.")
sys.exit(1 if found else 0)
