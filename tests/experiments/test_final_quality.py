"""Final quality at a fixed budget: the budget, errors, tuning, verdicts, going on."""

import math

import numpy as np
import pytest

for module in ("torch", "rich", "matplotlib", "PIL", "sklearn"):
    pytest.importorskip(module, reason="needs the extra data-echoing[demo]")

STEPS = 960
EXAMPLES = 4096


@pytest.fixture
def parts(load):
    """A module of the experiment by its name."""
    return lambda name: load(f"quality.{name}")


@pytest.fixture
def wanted(parts):
    return parts("search").compared()


class Scripted:
    """A learner whose error falls as told, an evaluation after another."""

    def __init__(self, errors):
        self.errors, self.steps = iter(errors), 0

    def step(self, *leaves):
        self.steps += 1

    def error(self):
        return next(self.errors)


@pytest.fixture
def scripted(load):
    """Return a maker of workloads of given errors, the first before the first step."""
    base = load("workloads.workload").Workload

    class ScriptedWorkload(base):
        records = (np.arange(EXAMPLES),)
        transform = property(lambda self: {})
        about = property(lambda self: {})
        measure, learners = "error", ()

        def __init__(self, errors):
            self.errors, self.learners = errors, []

        def learner(self, seed, rate, device, width):
            self.learners.append(Scripted(self.errors))
            return self.learners[-1]

    return ScriptedWorkload


def final_run(parts, condition, **changed):
    settings = {"rate": 0.1, "seed": 0, "steps": STEPS, "workload": "any", **changed}
    return parts("run").FinalRun(condition=condition, **settings)


def test_the_budget_is_three_times_the_steps_to_the_target(load, parts):
    running, fresh = parts("run"), load("fresh.run")
    assert running.BUDGETS == {"images": 1710, "text": 1050}
    for name, steps in running.BUDGETS.items():
        assert steps % fresh.EVALUATE_EVERY == 0
        assert 0 <= steps - 3 * running.NEEDED[name] / 32 < fresh.EVALUATE_EVERY
    assert running.budget(3211) == 310  # 301.03 steps, up to the next evaluation


def test_no_echoing_and_each_kind_with_each_factor_are_compared(wanted):
    assert [c.factor for c in wanted] == [1] + [e for e in (2, 4, 8, 16) for _ in "123"]
    assert len(set(wanted)) == 13
    assert {c.batch_size for c in wanted} == {32}
    assert {c.window for c in wanted[1:]} == {512}


def test_all_have_the_same_steps_and_echoes_read_fewer_fresh_examples(
    parts, scripted, wanted
):
    for condition in wanted:
        workload = scripted([0.1] * 97)
        workload.errors[0] = 1.0
        outcome = parts("run").trained(final_run(parts, condition), workload)
        assert outcome.steps == workload.learners[0].steps == STEPS
        factor = condition.factor
        # A window fills by a segment a pass, and so the last ones are used less often.
        fewest = STEPS * 32 / factor
        filling = (factor - 1) / 2 * condition.window / factor
        segment = condition.window / factor
        assert fewest <= outcome.fresh <= fewest + filling + segment + 32


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_run_that_diverged_has_no_error(parts, scripted, wanted, bad):
    running = parts("run")
    workload = scripted([1.0, 0.5, bad, 0.4])
    outcome = running.trained(final_run(parts, wanted[3]), workload)
    assert (outcome.error, outcome.best, outcome.steps) == (None, None, 20)
    # All images read as one class: that is finite, and no better than at first.
    assert running.final_error(0.92, [0.3] * 20 + [0.9] * 10) is None
    assert running.final_error(0.92, [0.9] * 20 + [0.3] * 10) == pytest.approx(0.3)


@pytest.mark.parametrize("name", ["images", "text"])
def test_real_runs_learn_and_are_the_same_again(load, parts, name, wanted):
    running = parts("run")
    start = load("fresh.run").loaded(name).learner(0, 0.02, "cpu", 1).error()
    condition = wanted[-1]
    run = final_run(parts, condition, workload=name, rate=0.02, steps=150)
    outcome = running.outcome_of(run)
    assert outcome == running.outcome_of(run)
    assert outcome.error < 0.98 * start
    assert outcome.best <= outcome.error
    assert outcome.steps == 150


def finished(parts, condition, errors):
    running, searching = parts("run"), parts("search")
    outcomes = [running.Outcome(error, error, 100, STEPS) for error in errors]
    tried = dict.fromkeys((-10, -9, -8), outcomes[:2])
    return searching.Finished(condition, -9, tried, outcomes)


@pytest.mark.parametrize(
    ("errors", "verdict"),
    [
        ([0.2, 0.3, 0.4, 0.5, 0.6], "worse"),  # 0.1 more with each seed
        ([0.0, 0.1, 0.2, 0.3, 0.4], "better"),
        ([0.1, 0.2, 0.3, 0.4, 0.9], "no difference found"),  # of one seed alone
        ([0.1, 0.2, 0.3, 0.4, 0.5], "no difference found"),
        ([0.0, 0.0, 0.0, 0.0, None], "worse"),
    ],
)
def test_verdicts_compare_seed_by_seed(parts, wanted, errors, verdict):
    plain = finished(parts, wanted[0], [0.1, 0.2, 0.3, 0.4, 0.5])
    found = parts("compare").difference(finished(parts, wanted[1], errors), plain)
    assert found.verdict == verdict
    if None in errors:
        assert (found.mean, found.standard_error) == (None, None)
        assert found.by_seed[-1] is None
    else:
        assert found.mean == pytest.approx(sum(errors) / 5 - 0.3)
