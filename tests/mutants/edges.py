"""x"""

from tests.mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = ()
