"""What is broken on purpose, and who must notice it?"""

from dataclasses import dataclass

SCENARIOS = "scenarios"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One deliberate bug: `old` stands exactly once in `file` and becomes `new`.

    `noticed_by`: what must notice it, the scenarios, one file of them or one test file. With `says`
    some case must fail by its `owner` with a reason that has this (a regular expression), and none
    may fail by anybody else; of another owner than the server a case may prove nothing instead.
    """

    name: str
    file: str
    old: str
    new: str
    noticed_by: str = SCENARIOS
    says: str = ""
    owner: str = "LNS"
