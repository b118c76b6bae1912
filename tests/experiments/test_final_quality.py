"""Final quality at a fixed budget: the budget, errors, tuning, verdicts, going on."""

import json
import math

import numpy as np
import pytest

from scripts import EXPERIMENTS

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


def test_the_budget_is_that_of_the_result_files(parts):
    """The file it was chosen by, as long as that was not taken again, and our own."""
    running = parts("run")
    chosen = json.loads((EXPERIMENTS / "results/fresh_examples.json").read_text())
    if chosen["environment"]["commit"] == "e8c5c35":
        for name, workload in chosen["workloads"].items():
            plain = workload["conditions"][0]
            assert (plain["echoing"], plain["batch_size"]) == ("no echoing", 32)
            assert plain["median"] == running.NEEDED[name]
    path = EXPERIMENTS / "results/final_quality.json"
    if path.exists():
        for name, workload in json.loads(path.read_text())["workloads"].items():
            assert workload["steps"] == running.BUDGETS[name]


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


def test_errors_are_means_of_ten_evaluations(parts, scripted, wanted):
    running = parts("run")
    errors = [*range(50, 20, -1), *[20.0] * 10, *range(21, 37)]  # 56 evaluations
    workload = scripted([100.0, *errors])
    outcome = running.trained(final_run(parts, wanted[0], steps=560), workload)
    assert outcome.error == sum(range(27, 37)) / 10
    assert outcome.best == 20.0
    assert running.best_error([3.0, 1.0]) == 2.0  # fewer than ten
    assert running.final_error(100.0, [50.0] * 5 + [10.0] * 10) == 10.0


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


def valley(parts, best, calls, most=math.inf):
    """Outcomes with one best rate; from `most` fifths of a decade on runs diverge."""
    running = parts("run")

    def measure(run):
        calls.append(run)
        fifths = 5 * math.log10(run.rate)
        fresh = run.steps * 32 // run.condition.factor
        if fifths > most + 0.5:
            return running.Outcome(None, None, fresh, 10)
        error = 0.1 + 0.01 * abs(fifths - best) + 1e-4 * run.seed
        return running.Outcome(error, error - 0.01, fresh, run.steps)

    return measure


@pytest.mark.parametrize("best", [-14, -10, -8, -5])
def test_no_best_rate_lies_at_the_edge_of_those_tried(load, parts, wanted, best):
    searching, rates = parts("search"), load("fresh.rates")
    calls = []
    search = searching.FinalSearch(
        "any", range(-11, -8), STEPS, valley(parts, best, calls, most=best)
    )
    for condition in wanted:
        one = search.of(condition)
        assert (one.fifths, one.at_edge, one.diverged) == (best, False, 0)
        assert all(len(outcomes) == 2 for outcomes in one.tried.values())
        assert len(one.outcomes) == 5
    assert len(calls) == len(set(calls))
    assert {run.steps for run in calls} == {STEPS}
    # Seeds that tune and seeds that tell are apart.
    assert {run.seed for run in calls} == {*rates.SEEDS, *rates.TUNING_SEEDS}


def test_a_search_that_was_cut_off_says_so(parts, wanted):
    search = parts("search").FinalSearch(
        "any", range(-11, -8), STEPS, valley(parts, 40, [])
    )
    assert search.of(wanted[0]).at_edge


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


def test_the_standard_error_is_that_of_the_differences(parts, wanted):
    plain = finished(parts, wanted[0], [0.1, 0.9, 0.3, 0.4, 0.5])
    other = finished(parts, wanted[1], [0.2, 1.1, 0.6, 0.8, 1.0])
    found = parts("compare").difference(other, plain)
    assert found.mean == pytest.approx(0.3)
    assert found.standard_error == pytest.approx((0.025 / 5) ** 0.5)
    assert found.verdict == "worse"  # 0.3 over 2.776 times 0.071


def test_a_second_run_goes_on_and_repeats_nothing(load, parts, wanted, tmp_path):
    script, exploration = load("final_quality"), load("fresh.exploration")
    path = tmp_path / "final_quality.jsonl"

    def go(settings, most, jobs, steps=STEPS):
        calls = []
        inner = valley(parts, -9, calls, most=-9)

        def some(run):
            if len(calls) == most:
                raise exploration.OutOfTimeError
            return inner(run)

        run_log = parts("run").QualityLog(path, {"any": settings})
        measure = script.measurer(run_log, some, math.inf)
        search = parts("search").FinalSearch("any", range(-11, -8), steps, measure)
        return calls, exploration.explore({"any": search}, wanted, jobs)["any"]

    first, few = go("a", 30, 1)
    assert 0 < len(few) < len(wanted)
    with path.open("a") as file:
        file.write(path.read_text()[:40])  # a line that was cut short
    second, whole = go("a", math.inf, 2)
    assert [one.condition for one in whole] == wanted
    assert any(o.error is None for one in whole for o in one.tried[-8])
    assert not set(first) & set(second)
    third, again = go("a", math.inf, 1)
    assert (third, again) == ([], whole)
    for changed in (("b", math.inf, 1), ("a", math.inf, 1, STEPS + 10)):
        assert len(go(*changed)[0]) == len(first) + len(second)


def test_without_time_it_reports_what_is_done(
    load, parts, wanted, tmp_path, monkeypatch, capsys
):
    script = load("final_quality")
    monkeypatch.setattr("sys.argv", ["final_quality.py"])
    chosen = load("workloads").workload("text")
    run_log = parts("run").QualityLog(
        tmp_path / "final_quality.jsonl", {"text": script.settings_of(chosen)}
    )
    steps = parts("run").BUDGETS["text"]
    inner = valley(parts, -9, [])

    def measure(run):
        outcome = inner(run)
        fails = run.condition.kind == "batch" and run.seed == 3
        return parts("run").Outcome(None, None, 99, 10) if fails else outcome

    search = parts("search").FinalSearch(
        "text", chosen.rates, steps, script.measurer(run_log, measure, math.inf)
    )
    for condition in wanted[:6]:
        search.of(condition)
    script.main(["--seconds", "0", "--out", str(tmp_path), "--workloads", "text"])
    content = json.loads((tmp_path / "final_quality.json").read_text())
    text = content["workloads"]["text"]
    assert (text["steps"], text["conditions_not_done"]) == (1050, 7)
    plain, batch, after = text["conditions"][:3]
    assert plain["to_no_echoing"] is None
    assert plain["final_error"]["seeds"] == sorted(plain["final_error"]["seeds"])
    assert plain["final_error"]["min"] == pytest.approx(0.1, abs=3e-4)
    assert plain["final_error"]["max"] - plain["final_error"]["min"] == pytest.approx(
        4e-4
    )
    assert not any(row["rate_at_edge"] for row in text["conditions"])
    assert batch["diverged"] == 1
    assert batch["final_error"]["mean"] is None
    assert batch["final_error"]["seeds"][3] is None
    assert batch["to_no_echoing"]["verdict"] == "worse"
    assert after["to_no_echoing"]["mean"] == pytest.approx(0)
    assert after["to_no_echoing"]["verdict"] == "no difference found"
    assert content["environment"]["versions"]["torch"]
    assert (tmp_path / "final_quality.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "text: 7 of 13 conditions are not done" in printed
    assert "1 diverged" in printed
