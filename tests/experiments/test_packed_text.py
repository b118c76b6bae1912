"""The experiment on packed text: clocks, targets, and what its summary says."""

import json

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


def test_the_file_says_the_rules(packed, tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "TARGET", 9.0)
    arguments = ["--seeds", "0", "--factors", "1", "2", "--delay-ms", "0"]
    packed.main([*arguments, "--files", "24", "--out", str(tmp_path)])
    content = json.loads((tmp_path / "packed_text.json").read_text())
    assert content["settings"]["target_nats_a_byte"] == 9.0
    assert [run["factor"] for run in content["runs"]] == [1, 2]
    assert all(run["reached"] for run in content["runs"])
