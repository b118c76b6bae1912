"""Passes that leave out what is learnt: what a run counts, and the report."""

import json
import math
from collections import Counter

import numpy as np
import pytest

EXAMPLES = 4096


@pytest.fixture
def parts(load):
    """A module of the experiment by its name."""
    load("loss_reuse")
    return load


@pytest.fixture
def numbered(parts):
    """A workload whose examples tell their number."""
    base = parts("workloads.workload").Workload

    class Numbered(base):
        records = (np.arange(EXAMPLES),)
        transform = None
        about = property(lambda self: {})

        def learner(self, seed, rate, device, width):
            raise NotImplementedError

    return Numbered()


def served(parts, workload, condition, steps):
    """Examples that have left, uses and weights, where odd numbers are learnt."""
    run = parts("fresh.run").Run("numbered", condition, 0.1, 3, most_fresh=EXAMPLES)
    drawn = parts("reuse.run").batches(run, workload)
    uses, weights = Counter(), set()
    read, (numbers,), info = next(drawn)
    for _ in range(steps):
        uses.update(numbers.tolist())
        weights.update(info.weight.tolist())
        losses = np.where(numbers % 2, np.float32(0.1), np.float32(2.0))
        read, (numbers,), info = drawn.send(losses)
    order = next(workload.fresh_batches(EXAMPLES, 3))[0]
    assert set(uses) <= set(order[:read].tolist())
    left = order[: read - 3 * condition.window]
    return {parity: left[left % 2 == parity] for parity in (0, 1)}, uses, weights


def test_conditions_differ_and_each_is_tuned_after_another(parts):
    wanted = parts("reuse.conditions").conditions()
    assert len(set(wanted)) == len(wanted)
    assert {one.factor for one in wanted} == {1, 2, 4, 8}
    for one in wanted:
        assert one.plain == wanted[0]
        if one != wanted[0]:
            assert wanted.index(one.near) < wanted.index(one)


@pytest.mark.parametrize("uses", ["all", "loss", "chance"])
def test_examples_are_left_out_by_their_loss_or_by_chance(parts, numbered, uses):
    kind = parts("reuse.conditions").ReuseCondition
    thin = 0.0 if uses == "all" else 0.5
    condition = kind("before", 4, 128, 16, uses=uses, thin=thin)
    left, counts, weights = served(parts, numbered, condition, 600)
    low, high = (np.mean([counts[n] for n in left[parity]]) for parity in (1, 0))
    assert len(left[0]) > 300
    if uses == "all":
        assert (low, high, weights) == (4, 4, {1.0})
    elif uses == "loss":
        assert weights == {1.0, 2.0}
        assert high > 3.9
        assert low < 2.8
    else:
        assert abs(high - low) < 0.3
        assert 2.8 < (high + low) / 2 < 3.6


@pytest.mark.parametrize("name", ["images", "text"])
def test_weights_of_one_train_as_no_weights(parts, name):
    import torch

    chosen = parts("fresh.run").loaded(name)
    batch = next(chosen.stream(32, 3, augmented=True))
    leaves = tuple(map(torch.from_numpy, batch))
    some = tuple(leaf[::2] for leaf in leaves)
    only_some = torch.tensor([2.0, 0.0]).repeat(16)
    plain, weighted, rows, only_rows = (
        chosen.learner(0, 0.02, "cpu", 1) for _ in range(4)
    )
    start = plain.error()
    for _ in range(20):
        plain.step(*leaves)
        losses = weighted.weighted_step(torch.ones(32), *leaves)
        rows.step(*some)
        only_rows.weighted_step(only_some, *leaves)
    assert losses.shape == (32,)
    assert not losses.requires_grad
    assert plain.error() != start
    # A digit of 600 may be read otherwise.
    assert weighted.error() == pytest.approx(plain.error(), abs=2 / 600)
    assert only_rows.error() == pytest.approx(rows.error(), abs=2 / 600)
    assert abs(rows.error() - plain.error()) > 3 / 600


def test_runs_reach_an_easy_target_and_miss_an_impossible_one(parts, monkeypatch):
    running, kind = parts("fresh.run"), parts("reuse.conditions").ReuseCondition
    workload = running.loaded("images")
    start = workload.learner(0, 0.01, "cpu", 1).error()
    monkeypatch.setattr(type(workload), "target", 0.95 * start)
    condition = kind("before", 4, 512, uses="loss", thin=0.5)
    run = running.Run("images", condition, 0.03, 0, most_fresh=10_000)
    needed = parts("reuse.run").needed
    outcome = needed(run)
    assert outcome == needed(run)  # the same again
    assert outcome["steps"] >= running.EVALUATE_EVERY * running.SMOOTHING
    assert outcome["fresh"] * 4 >= outcome["steps"] * condition.batch_size
    monkeypatch.setattr(type(workload), "target", -1.0)
    run = running.Run("images", condition, 0.01, 0, most_fresh=1_600)
    missed = needed(run)
    assert (missed["fresh"], missed["steps"]) == (None, None)
    assert 1 < missed["mean_use"] < 4


def test_pairs_are_of_seeds_that_reached_the_target_in_both(parts):
    paired = parts("reuse.compare").paired
    told = paired([10, None, 30, 40, 50], [20, 20, 30, 20, None])
    assert told["pairs"] == 3
    assert told["fewer"] == 1
    assert (told["min"], told["median"], told["max"]) == (0.5, 1.0, 2.0)
    assert told["mean_difference"] == pytest.approx(10 / 3)
    assert told["standard_error"] == pytest.approx(
        np.std([-10, 0, 20], ddof=1) / 3**0.5
    )
    assert paired([1, None], [None, 1]) is None


def test_without_time_the_script_reports_what_is_logged(parts, tmp_path, monkeypatch):
    script, searching = parts("loss_reuse"), parts("fresh.search")
    chosen = parts("workloads").workload("text")
    log = script.UseLog(
        tmp_path / "loss_reuse.jsonl", {"text": script.settings_of(chosen)}
    )

    def measure(run):
        use = run.condition.factor * (1 if run.condition.uses == "all" else 0.75)
        away = round(abs(5 * math.log10(run.rate) + 9))
        fresh = round(1000 / use * (1 + away) + run.seed % 7)
        return {"fresh": fresh, "steps": round(fresh * use), "mean_use": use}

    found = script.resumed(log, measure, script.text_of, math.inf)
    search = searching.Search(
        "text", chosen.rates, chosen.most_fresh, lambda run: found(run)["fresh"]
    )
    wanted = parts("reuse.conditions").conditions()
    tuned = script.explore({"text": search}, wanted, 1)["text"]
    assert [one.condition for one in tuned] == wanted
    arguments = ["--seconds", "0", "--out", str(tmp_path), "--workloads", "text"]
    monkeypatch.setattr("sys.argv", ["loss_reuse.py", *arguments])
    script.main()
    told = json.loads((tmp_path / "loss_reuse.json").read_text())["workloads"]["text"]
    assert told["conditions_not_done"] == 0
    by_condition = {
        (row["factor"], row["uses"], row["thin"]): row for row in told["conditions"]
    }
    assert by_condition[4, "loss", 0.5]["mean_use"] == 3.0
    assert by_condition[4, "loss", 0.5]["fresh"] == [333, 334, 335, 336, 337]
    # By loss over all uses and over by chance, by chance over all; two other thins.
    assert len(told["compared"]) == 3 * 3 + 2
    first = told["compared"][0]
    assert (first["condition"], first["over"]) == (
        "e = 2, by loss, thin 0.5",
        "e = 2, all uses",
    )
    assert first["fresh"]["median"] == pytest.approx(4 / 3, rel=0.01)
