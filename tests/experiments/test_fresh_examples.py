"""Fresh examples to a target: the count of a run, targets, and the report."""

import itertools
import json
import math
from collections import Counter, defaultdict

import numpy as np
import pytest

from echobuf.transforms import RandomWindow

EXAMPLES = 4096


@pytest.fixture
def parts(load):
    """A module of the experiment by its name."""
    return lambda name: load(f"fresh.{name}")


@pytest.fixture
def numbered(load):
    """A workload whose examples tell their number and where they were cut."""
    load("fresh_examples")
    base = load("workloads.workload").Workload

    class Numbered(base):
        records = (np.arange(EXAMPLES)[:, None] * 100 + np.arange(10),)
        transform = property(lambda self: {0: [RandomWindow(5)]})
        about = property(lambda self: {})
        measure, target = "part missed", 0.1

        def learner(self, seed, rate, device, width):
            raise NotImplementedError

    return Numbered()


def served(parts, workload, condition, steps):
    """Fresh examples read, and numbers and places of cuts, batch by batch."""
    running = parts("run")
    run = running.Run("numbered", condition, 0.1, 3, most_fresh=EXAMPLES)
    for read, (leaf,) in itertools.islice(running.batches(run, workload), steps):
        assert leaf.shape == (condition.batch_size, 5)
        yield read, leaf[:, 0] // 100, leaf[:, 0] % 100


def test_each_batch_is_of_fresh_examples_counted_as_read(parts, numbered):
    for condition in parts("conditions").conditions():
        order = next(numbered.fresh_batches(EXAMPLES, 3))[0][:, 0] // 100
        place = {number: i for i, number in enumerate(order)}
        steps = 60 * condition.factor
        uses = Counter()
        for read, numbers, _ in served(parts, numbered, condition, steps):
            uses.update(numbers)
            # All of what was read, but for a segment that the pass is to come to.
            assert max(place[n] for n in numbers) < read
            assert len(uses) >= read - condition.window // condition.factor
        assert max(uses.values()) == condition.factor


@pytest.mark.parametrize("name", ["images", "text"])
def test_runs_reach_an_easy_target_and_miss_an_impossible_one(
    load, parts, name, monkeypatch
):
    running, wanted = parts("run"), parts("conditions").conditions()
    workload = running.loaded(name)
    start = workload.learner(0, 0.01, "cpu", 1).error()
    monkeypatch.setattr(type(workload), "target", 0.95 * start)
    counts = defaultdict(set)
    for condition in (wanted[0], wanted[3], wanted[3]):
        run = running.Run(name, condition, 0.03, 0, most_fresh=10_000)
        counts[condition].add(running.fresh_needed(run))
        steps = running.EVALUATE_EVERY * running.SMOOTHING
        least = steps * condition.batch_size / condition.factor
        (fresh,) = counts[condition]  # the same again
        assert least <= fresh < 10_000
    monkeypatch.setattr(type(workload), "target", -1.0)
    run = running.Run(name, wanted[0], 0.01, 0, most_fresh=100)
    assert running.fresh_needed(run) is None


def valley(best, calls):
    """Fresh examples with one best rate, in fifths of a decade, cut off as told."""

    def count(run):
        calls.append(run)
        away = abs(5 * math.log10(run.rate) - best)
        fresh = round(1000 / run.condition.factor * (1 + away) + run.seed % 7)
        return fresh if fresh <= run.most_fresh else None

    return count


def test_without_time_it_reports_what_is_done(load, parts, tmp_path, monkeypatch):
    script, wanted = load("fresh_examples"), parts("conditions").conditions()
    chosen = load("workloads").workload("text")
    run_log = parts("run_log").CountLog(
        tmp_path / "fresh_examples.jsonl", {"text": script.settings_of(chosen)}
    )
    count = script.counter(run_log, valley(-9, []), math.inf)
    search = parts("search").Search("text", chosen.rates, chosen.most_fresh, count)
    done = script.explore({"text": search}, wanted[:20], 1)["text"]
    arguments = ["--seconds", "0", "--out", str(tmp_path), "--workloads", "text"]
    monkeypatch.setattr("sys.argv", ["fresh_examples.py", *arguments])
    script.main()
    told = json.loads((tmp_path / "fresh_examples.json").read_text())
    text = told["workloads"]["text"]
    assert [row["median"] for row in text["conditions"]] == [t.median for t in done]
    assert text["conditions_not_done"] == len(wanted) - len(done)
    assert all(len(row["fresh"]) == 5 for row in text["conditions"])
    assert (tmp_path / "fresh_examples.png").read_bytes().startswith(b"\x89PNG")
