"""Tables are made side by side, in the order that ends first."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.spark.cut import side_by_side

NAMES = "abcdefgh"
NEEDS = st.fixed_dictionaries(
    {name: st.sets(st.sampled_from(NAMES[:place])) if place else st.just(set[str]())
     for place, name in enumerate(NAMES)}
)  # fmt: skip


@given(NEEDS)
def test_each_begins_when_all_that_it_needs_is_there(needs: dict[str, set[str]]) -> None:
    ended: list[str] = []

    def work(name: str) -> str:
        assert needs[name] <= set(ended)
        ended.append(name)
        return name.upper()

    assert side_by_side(needs, work) == {name: name.upper() for name in NAMES}
    assert sorted(ended) == list(NAMES)


def test_what_the_longest_chain_waits_for_begins_first() -> None:
    """The lonely ones fill what the chain leaves."""
    chain = {"c1": [], "c2": ["c1"], "c3": ["c2"]}
    needs = {**{f"lonely {n}": [] for n in range(5)}, **chain}
    chain_begun = Event()

    def work(name: str) -> None:
        if name == "c1":
            chain_begun.set()
        assert chain_begun.wait(60)

    assert side_by_side(needs, work).keys() == needs.keys()


def test_nothing_waits_behind_what_is_not_there_yet() -> None:
    """Tables that may begin do so while the first of a chain is made."""
    others = [f"other {n}" for n in range(4)]
    needs = {"slow": [], "then 1": ["slow"], "then 2": ["slow"], **{one: [] for one in others}}
    made: set[str] = set()
    all_others = Event()

    def work(name: str) -> None:
        if name == "slow":
            assert all_others.wait(60)
        made.add(name)
        if made.issuperset(others):
            all_others.set()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(side_by_side, needs, work).result(60)
    assert made == set(needs)


def test_a_table_that_fails_is_raised_and_nothing_behind_it_begins() -> None:
    begun: list[str] = []

    def work(name: str) -> None:
        begun.append(name)
        if name == "bad":
            raise ValueError(name)

    with pytest.raises(ValueError, match="bad"):
        side_by_side({"bad": [], "behind": ["bad"]}, work)
    assert begun == ["bad"]
