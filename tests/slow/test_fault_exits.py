"""The interpreter exits at 250 random points: with the code given, and in silence."""

import os

import pytest

from programs import HERE, LIMIT_S, finish, start

FORKED = 240
FRESH = 10


def test_exits_of_forked_children():
    """Two parents at a time; each forks its children one after the other."""
    parents = [start(HERE / "exits.py", FORKED // 2, seed) for seed in (0, 10**6)]
    for parent in parents:
        assert finish(parent) == f"{FORKED // 2}\n"


FRESH_PROGRAM = """
import random, sys
sys.path.insert(0, {here!r})
from exits import Use
code = Use(random.Random({seed})).run()
print(code, flush=True)
if code:
    sys.exit(code)
"""


def test_exits_of_fresh_interpreters():
    for seed in range(FRESH):
        code = FRESH_PROGRAM.format(here=str(HERE), seed=seed)
        program = start("-c", code)
        out, errors = program.communicate(timeout=LIMIT_S)
        assert errors == ""
        assert out == f"{program.returncode}\n"


@pytest.mark.parametrize("kind", ["thread", "ahead", "workers", "server", "simulated"])
def test_exits_with_an_epoch_that_outlives_the_modules(kind):
    assert finish(start(HERE / "kept.py", kind, os.getpid())) == "3\n"
