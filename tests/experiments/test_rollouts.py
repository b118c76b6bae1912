"""The experiment on replayed rollouts: what a run counts, rewards of groups, tables."""

import json
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


@pytest.mark.parametrize("factor", [1, 2, 4])
def test_limits_that_no_rollout_reaches_are_left_out(parts, numbered, factor):
    conditions = parts("condition")
    limits = [
        one.max_staleness for one in conditions.CONDITIONS if one.factor == factor
    ]
    assert limits == [None, *range(factor - 2, -1, -1)]
    rows = [
        parts("run").learn(numbered(), conditions.Condition(factor, limit))
        for limit in (None, factor - 1)
    ]
    assert rows[0]["curve"] == rows[1]["curve"]
    assert rows[1]["expired"] == 0


def test_groups_are_rewarded_where_the_digits_are_in_order(parts):
    torch = pytest.importorskip("torch")
    language = parts("language")
    end, pad = language.END, language.PAD
    texts = [
        [3, 1, 2, language.ASK, 1, 2, 3, end, pad, pad],
        [3, 1, 2, language.ASK, 1, 3, 2, end, pad, pad],
        [3, 1, 2, language.ASK, 1, 2, 3, 3, end, pad],
        [3, 1, 2, 1, language.ASK, 1, 1, 2, 3, end],
    ]
    prompts = [[3, 1, 2]] * 3 + [[3, 1, 2, 1]]
    rewards = language.rewards_of(torch.tensor(texts), prompts)
    assert rewards.tolist() == [1, 0, 0, 1]


def test_an_unchanged_policy_gives_groups_the_log_probabilities_that_are_stored(
    parts, monkeypatch
):
    torch = pytest.importorskip("torch")
    language = parts("language")
    monkeypatch.setattr(language, "TAUGHT", 2)
    learner = language.Language(1e-3, 0)
    with learner.buffer(parts("condition").Condition(1)) as buffer:
        learner.put(buffer, learner.generate(), version=5)
        ratios = []

        def clipped(log_prob, stored, advantage):
            ratios.append(((log_prob - stored).exp(), stored))
            return advantage * log_prob

        monkeypatch.setattr(language, "clipped", clipped)
        steps = 0
        while not steps:
            batch, info = buffer.next_batch()
            assert (info.version == 5).all()
            assert abs(batch["advantage"].sum()) < 1e-3
            steps += learner.update(batch)
    ((ratio, stored),) = ratios
    answered = stored != 0
    assert answered.sum() > 64
    torch.testing.assert_close(ratio[answered], torch.ones(int(answered.sum())))


def test_episodes_of_control_begin_where_others_end(parts):
    pytest.importorskip("torch")
    pytest.importorskip("gymnasium")
    learner = parts("control").Control(1e-3, 0)
    made = [learner.generate() for _ in range(4)]
    seen = np.concatenate([chunk["observation"] for chunk in made])
    seen = seen.reshape(4 * 32, 32, 4)
    assert np.abs(seen[0]).max() <= 0.05
    # The pole falls within a hundred steps; then it stands upright, and never lies.
    starts = (np.abs(seen).max(-1) <= 0.05).sum(0)
    assert (starts > 1).all()
    assert np.abs(seen[..., 2]).max() < 12 * 2 * np.pi / 360
    reward, entropy = learner.evaluate()
    assert 9 < reward < 100
    assert 0.6 < entropy < 0.7


def fake(trial):
    """Return an outcome: with replay the target needs fewer samples, more updates."""
    factor = trial.condition.factor
    best = -5 if factor == 1 else -6
    away = abs(2 * np.log10(trial.rate) - best)
    speed = factor**0.5 / (1 + away)
    samples = range(0, 60_001, 3_000)
    curve = [[n, factor * n // 256, min(500.0, n * speed / 60), 0.3] for n in samples]
    return {
        "curve": curve,
        "served": factor * 60_000,
        "expired": 7,
        "mean_age": 2.0 * factor,
        "largest_age": 4 * factor,
        "generating_s": 1.0,
        "updating_s": 1.0,
    }


def test_without_time_the_script_reports_what_is_logged(load, parts, tmp_path, capsys):
    pytest.importorskip("torch")
    pytest.importorskip("gymnasium")
    script, tuning = load("rollouts"), parts("tuning")
    main = script.main
    arguments = ["--out", str(tmp_path), "--learners", "control", "--seconds"]
    main([*arguments, "0"])
    path = tmp_path / "rollouts.json"
    control = json.loads(path.read_text())["learners"]["control"]
    assert control["conditions_not_done"] == len(script.CONDITIONS)
    settings = {"control": script.short(script.settings_of("control"))}
    log = script.RewardLog(tmp_path / "rollouts.jsonl", settings)
    found = script.resumed(log, fake, lambda *_: "", float("inf"))
    tuned = script.explore("control", found)
    assert [one.rate for one in tuned[:2]] == [tuning.rate_of(-5), tuning.rate_of(-6)]
    capsys.readouterr()
    main([*arguments, "0"])
    out = capsys.readouterr().out
    control = json.loads(path.read_text())["learners"]["control"]
    assert control["conditions_not_done"] == 0
    assert len(control["conditions"]) == len(script.CONDITIONS)
    by_name = {row["condition"]: row for row in control["compared"]}
    plain, four = by_name["e = 1, limit none"], by_name["e = 4, limit none"]
    assert plain["over_no_replay"] == dict.fromkeys(plain["median"], 1.0)
    assert four["reached"] == len(tuning.SEEDS)
    # Twice as soon, and four times as many updates a sample.
    assert four["over_no_replay"]["samples"] == pytest.approx(0.5, abs=0.1)
    assert four["over_no_replay"]["updates"] == pytest.approx(2, abs=0.3)
    assert "e = 4, limit 0" in out
    assert (tmp_path / "rollouts.png").exists()


def test_misses_count_as_more_than_all(parts):
    median = parts("report").median
    assert median([5, None, 3, 9, 7]) == 7
    assert median([5, None, None, None, 7]) is None


def test_a_permutation_test_tells_differences_from_chance(parts):
    p = parts("report").permutation_p
    assert p([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]) == 1
    # All three of one side are the largest: 2 of the 20 ways to choose them.
    assert p([4.0, 5.0, 6.0], [1.0, 2.0, 3.0]) == pytest.approx(0.1, abs=0.01)
