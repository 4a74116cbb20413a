"""How is a value named once in an expression that uses it often?"""

from collections.abc import Callable, Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F


def bind(value: Column, body: Callable[[Column], Column]) -> Column:
    """`body` of a value that is worked out once, however often the body mentions it."""
    return F.element_at(F.transform(F.array(value), body), 1)


def struct_of(fields: Mapping[str, Column]) -> Column:
    """A struct of these fields, in their order."""
    return F.struct(*(value.alias(name) for name, value in fields.items()))


def either(condition: Column, yes: Column, no: Column) -> Column:
    """One of two values by a condition that is never null."""
    return F.when(condition, yes).when(~condition, no)


def empty_map(key: str, value: str) -> Column:
    """A map of these SQL types without an entry."""
    return F.map_from_arrays(F.array().cast(f"array<{key}>"), F.array().cast(f"array<{value}>"))


def with_entry(entries: Column, key: Column, value: Column) -> Column:
    """The map with the value of one key replaced, or added."""
    others = F.map_filter(entries, lambda known, _: known != key)
    return F.map_concat(others, F.create_map(key, value))


def emptied(entries: Column) -> Column:
    """The map without its entries."""
    return F.map_filter(entries, lambda _, __: F.lit(False))
