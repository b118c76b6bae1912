"""Every second echo is augmented the opposite way; and the script's report."""

import itertools
from collections import defaultdict

import numpy as np
import pytest

from echobuf.transforms import RandomWindow


@pytest.fixture
def numbered(load):
    """A workload whose examples tell their number and where they were cut."""
    load("opposite_echoes")
    base = load("workloads.workload").Workload

    class Numbered(base):
        records = (np.arange(4096)[:, None] * 100 + np.arange(10),)
        transform = property(lambda self: {0: [RandomWindow(5)]})
        about = property(lambda self: {})

        def learner(self, seed, rate, device, width):
            raise NotImplementedError

    return Numbered()


@pytest.mark.parametrize("kind", ["before", "opposite"])
def test_pairs_of_echoes_are_cut_at_opposite_places(load, numbered, kind):
    running, conditions = load("fresh.run"), load("fresh.conditions")
    condition = conditions.Condition(kind, 4)
    run = running.Run("numbered", condition, 0.1, 3, most_fresh=4096)
    places = defaultdict(list)
    for _, (leaf,) in itertools.islice(running.batches(run, numbered), 64):
        for row in leaf:
            places[row[0] // 100].append(row[0] % 100)
    pairs = [(each[0], each[1]) for each in places.values() if len(each) > 1]
    assert len(pairs) > 100
    opposite = sum(first + second == 5 for first, second in pairs)
    assert (opposite == len(pairs)) == (kind == "opposite")
