"""The experiment on packed text: clocks, targets, and what its summary says."""

import json
from dataclasses import replace

import pytest

pytest.importorskip("torch")


@pytest.fixture
def packed(load):
    return load("packed_text")


def test_a_run_ends_at_the_target_or_at_its_limit(packed, monkeypatch):
    experiment = packed.Experiment(files=24)
    assert len(experiment.held_out) == packed.HELD_OUT
    held_out = {text.tobytes() for text in experiment.held_out}
    assert not held_out & {text.tobytes() for text in experiment.texts}
    for target, limit_s, reached in ((9.0, 60.0, True), (0.0, 0.0, False)):
        monkeypatch.setattr(packed, "TARGET", target)
        run = experiment.run(2, 0, 0.0, limit_s)
        assert run.reached is reached
        assert (run.loss <= target) is reached
        assert run.steps > 0
        assert run.fresh_tokens >= packed.EVERY
        # What the model sees is at most twice what has arrived.
        assert 0 < run.tokens <= 2 * run.fresh_tokens
        assert 0 <= run.waste < 0.2


def test_a_summary_compares_within_seeds(packed, capsys):
    run = packed.Run(1, 0, True, 2.6, 40.0, 1000, 1000, 0.01, 10)
    runs = [
        run,
        replace(run, factor=4, seconds=10.0, fresh_tokens=500),
        replace(run, seed=1, seconds=20.0),
        replace(run, seed=1, factor=4, reached=False, seconds=60.0),
    ]
    told = packed.summary(runs)
    assert (told["1"]["runs"], told["1"]["reached"]) == (2, 2)
    assert told["1"]["seconds"] == {"median": 30.0, "range": [20.0, 40.0]}
    assert (told["4"]["runs"], told["4"]["reached"]) == (2, 1)
    assert told["4"]["seconds_over_plain"] == {"median": 0.25, "range": [0.25, 0.25]}
    assert told["4"]["fresh_over_plain"]["median"] == 0.5
    packed.print_summary(told)
    assert "factor 4: target reached in 1 of 2" in capsys.readouterr().out


def test_the_file_says_the_rules(packed, tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "TARGET", 9.0)
    arguments = ["--seeds", "0", "--factors", "1", "2", "--delay-ms", "0"]
    packed.main([*arguments, "--files", "24", "--out", str(tmp_path)])
    content = json.loads((tmp_path / "packed_text.json").read_text())
    assert content["settings"]["target_nats_a_byte"] == 9.0
    assert [run["factor"] for run in content["runs"]] == [1, 2]
    assert all(run["reached"] for run in content["runs"])
