"""Ctrl-C at 1,000 random points: nothing hangs, crashes, is torn or lost.

Every record is in the buffer, delivered, or was in the one call that was cut off.
"""

import pytest

from programs import HERE, finish, start

CASES = {
    "put-small-0": 140,
    "put-small-2": 140,
    "put-large-0": 40,
    "next-small-0": 140,
    "next-small-2": 140,
    "next-large-0": 40,
    "next-large-2": 40,
    "loop-small-0": 140,
    "loop-small-2": 140,
    "loop-large-0": 40,
}


def test_they_are_a_thousand():
    assert sum(CASES.values()) == 1000


@pytest.mark.parametrize("case", CASES)
def test_interrupts_lose_nothing_but_the_call_they_cut_off(case):
    turns = CASES[case]
    out = finish(start(HERE / "interrupts.py", case, turns, 1))
    assert int(out.split()[0]) == turns
