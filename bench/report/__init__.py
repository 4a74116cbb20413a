"""What does a run look like to a person, to a build server and to a chat window?

`write` leaves report.html, junit.xml and summary.md in a run folder; `exit_code` says the same
to a shell. Both read only score.json, manifest.json and the captures. A run that has not been
scored shows its own verdicts; without any, `ReportError` says what to do.
"""

from bench.night.exit_code import exit_code
from bench.report.files import write
from bench.report.score_file import ReportError, score_of

__all__ = ["ReportError", "exit_code", "score_of", "write"]
