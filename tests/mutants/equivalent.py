"""Which generated faults change nothing that anybody could see, and why?

By the name of the fault (`python -m tests.mutants.generated --list`).
"""

EQUIVALENT: dict[str, str] = {}
