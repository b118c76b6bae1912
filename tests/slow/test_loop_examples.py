"""The examples of plain loops train, and go on exactly after a stop in an epoch."""

import runpy
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]


def load(name):
    return runpy.run_path(str(ROOT / "examples" / name / "train.py"))


def check_resume(main, arguments, tmp_path, stop):
    """The losses of a run in two parts are those of a run in one."""
    whole = main([*arguments, "--checkpoint", str(tmp_path / "whole.pt")])
    kept = str(tmp_path / "part.pt")
    part = main([*arguments, "--checkpoint", kept, "--stop-after", str(stop)])
    assert len(part) == stop < len(whole)
    rest = [*arguments, "--resume", kept, "--checkpoint", str(tmp_path / "rest.pt")]
    assert part + main(rest) == whole
    assert sum(whole[-10:]) < sum(whole[:10])


@pytest.mark.parametrize("name", ["timm_like", "nanogpt_like"])
def test_five_lines_differ(name):
    text = (ROOT / "examples" / name / "train.py").read_text()
    assert 0 < text.count("# changed") <= 5
    marked = [line for line in text.splitlines() if "EchoLoader" in line]
    assert all("# changed" in line for line in marked)


def test_a_loop_as_timms(tmp_path, capsys):
    pytest.importorskip("sklearn")
    main = load("timm_like")["main"]
    arguments = ["--epochs", "2", "--factor", "2"]  # 42 updates an epoch
    check_resume(main, arguments, tmp_path, stop=53)
    assert "update 84 of 84" in capsys.readouterr().out


def test_a_loop_as_nanogpts(tmp_path, capsys):
    main = load("nanogpt_like")["main"]
    pages = [str(ROOT / "docs" / page) for page in ("design.md", "metrics.md")]
    arguments = [*pages, "--fresh", "256", "--epochs", "2"]
    check_resume(main, arguments, tmp_path, stop=43)  # of 32 steps an epoch
    assert "step 43 of 64" in capsys.readouterr().out


def test_a_packed_language_model(tmp_path, capsys):
    main = load("packed_lm")["main"]
    arguments = ["--files", "12", "--delay-ms", "0", "--window", "64", "--epochs", "2"]
    check_resume(main, arguments, tmp_path, stop=53)
    assert "step 53, loss" in capsys.readouterr().out


def test_texts_that_share_a_row_do_not_see_each_other():
    names = load("packed_lm")
    texts = names["read_texts"](files=8)
    assert len({len(text) for text in texts}) > 10
    trainer = names["Trainer"](lr=1e-3)
    with names["make_loader"](names["SlowTexts"](texts, 0.0), 1, 32) as loader:
        batch = next(iter(loader))
    rows = batch.to_list()
    assert len(rows) > 3
    assert (batch.segment_ids > 1).any()
    # Bytes that are predicted: all but the first of each text.
    weights = [len(text) - 1 for text in rows]
    alone = [trainer.loss([one_row(text)]) * len(text[1:]) for text in rows]
    expected = sum(alone) / sum(weights)
    assert trainer.loss([batch]) == pytest.approx(expected, rel=1e-4)


def one_row(text):
    """Return a text as the only one of a row that it fills."""
    import torch

    import echobuf

    ids = torch.ones(1, len(text), dtype=torch.int32)
    positions = torch.arange(len(text), dtype=torch.int32)[None]
    return echobuf.Packed(text[None], ids, positions, torch.tensor([len(text)]))


def test_episodes_as_lerobots(tmp_path, capsys):
    pytest.importorskip("PIL")
    names = load("lerobot_like")
    folder, kept = tmp_path / "episodes", tmp_path / "last.pt"
    names["record"](folder, episodes=2, length=40)  # 64 examples, 8 steps an epoch
    whole = names["Trainer"](folder, 4, 64).train(14)
    first = names["Trainer"](folder, 4, 64)
    part = first.train(5)
    first.save(kept)
    again = names["Trainer"](folder, 4, 64)
    again.load(kept)
    assert part + again.train(9) == whole
    names["main"](["--data", str(folder), "--steps", "9", "--window", "64"])
    out = capsys.readouterr().out
    assert "R = " in out
    assert "times as fast" in out
