"""Final quality at a fixed budget: steps, fresh examples, and real runs."""

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
