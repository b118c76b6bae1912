"""The experiment on replayed rollouts: updates and uses of a run."""

from collections import Counter

import numpy as np
import pytest

from echobuf import EchoBuffer, Field


@pytest.fixture
def parts(load):
    """A module of the experiment by its name."""
    return lambda name: load(f"policies.{name}")


@pytest.fixture
def numbered(parts):
    """A learner whose samples are numbers, and whose reward is its updates."""
    base = parts("learner").Learner
    limit = parts("learner").limit

    class Numbered(base):
        budget, chunk, batch, evaluate_every, target = 256, 16, 8, 32, 1.0

        def __init__(self):
            self.made = self.updates = 0
            self.used = Counter()

        def buffer(self, condition):
            return EchoBuffer(
                {"number": Field((), np.int64)},
                batch_size=self.batch,
                window=self.chunk * condition.factor,
                factor=condition.factor,
                with_info=True,
                **limit(condition),
            )

        def generate(self):
            self.made += self.chunk
            return {"number": np.arange(self.made - self.chunk, self.made)}

        def put(self, buffer, made, version):
            buffer.put_batch(made, timeout=0, version=version)

        def update(self, batch):
            self.updates += 1
            self.used.update(batch["number"].tolist())
            return True

        def evaluate(self):
            return float(self.updates), 0.5

    return Numbered


@pytest.mark.parametrize("factor", [1, 2, 4])
def test_a_run_makes_all_updates_that_a_chunk_allows(parts, numbered, factor):
    learner = numbered()
    row = parts("run").learn(learner, parts("condition").Condition(factor))
    samples, updates, rewards, entropies = zip(*row["curve"], strict=True)
    assert samples == tuple(range(0, 257, 32))
    assert updates == tuple(map(int, rewards))
    # All but the last chunks have had all their uses.
    done = 256 - (factor - 1) * 16
    assert {learner.used[number] for number in range(done)} == {factor}
    assert row["served"] == sum(learner.used.values()) == 8 * updates[-1]
    assert set(entropies) == {0.5}
    # Two updates a pass for each chunk in the window, and the generator is one ahead.
    assert row["largest_age"] == 2 * factor * (factor + 1) - 1


@pytest.mark.parametrize(("factor", "limit"), [(2, 0), (4, 2), (4, 1), (4, 0)])
def test_a_limit_of_policies_leaves_one_use_more(parts, numbered, factor, limit):
    learner = numbered()
    row = parts("run").learn(learner, parts("condition").Condition(factor, limit))
    uses = limit + 1
    done = 256 - limit * 16
    assert {learner.used[number] for number in range(done)} == {uses}
    passes = [min(factor, number + 1) for number in range(256 // 16)]
    given_up = sum(max(0, count - uses) for count in passes)
    assert row["expired"] == 16 * given_up
    assert row["largest_age"] < 2 * uses * (uses + 1)
