"""The uses of carried leaves that docs/guide_objects.md shows, run and checked."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from test_pages import blocks, smaller

import echobuf.torch

pytestmark = pytest.mark.usefixtures("no_leaked_threads")


def code_of(number: int) -> str:
    return blocks("guide_objects")[number]


def test_the_page_has_no_other_code():
    assert len(blocks("guide_objects")) == 4


def test_a_batch_has_a_list(capsys: pytest.CaptureFixture[str]):
    names: dict[str, Any] = {}
    exec(code_of(0), names)
    assert capsys.readouterr().out.startswith("(4, 8, 8) ['")
    paths = [path for batch in names["loader"] for path in batch["path"]]
    assert sorted(paths) == sorted(2 * [each["path"] for each in names["examples"]])


def test_the_image_with_the_largest_loss(capsys: pytest.CaptureFixture[str]):
    photos = [
        {"image": torch.zeros(3), "label": int(i == 13), "path": f"{i}.png"}
        for i in range(40)
    ]
    means = []
    names = {
        "torch": torch,
        "photos": photos,
        "model": lambda images: images[:, :2] + torch.tensor([4.0, 0.0]),
        "train_step": means.append,
    }
    exec(smaller(code_of(1), window=32, batch_size=8), names)
    assert len(means) == 4 * 40 / 8
    assert eval(capsys.readouterr().out)[-1] == "13.png"


def test_texts_for_a_metric(capsys: pytest.CaptureFixture[str]):
    texts = ["one", "two words", "and three words"]
    recordings = [
        {
            "samples": np.full(4 + i, i, np.float32),
            "tokens": np.arange(i + 1),
            "text": texts[i % 3],
        }
        for i in range(30)
    ]

    def word_error_rate(said, heard):
        return float(
            np.mean([one != other for one, other in zip(said, heard, strict=True)])
        )

    def transcribe(samples):
        return [texts[int(sound[0]) % 3] for sound in samples.to_list()]

    names = {
        "echobuf": echobuf,
        "recordings": recordings,
        "train_step": lambda samples, tokens: None,
        "transcribe": transcribe,
        "word_error_rate": word_error_rate,
    }
    code = smaller(code_of(2), window=12, batch_size=4).replace("% 500", "% 5")
    exec(code, names)
    assert capsys.readouterr().out.split() == ["0.0"] * 3


def test_ids_of_hard_examples(tmp_path):
    data = [{"x": float(i), "y": 0, "id": f"n{i:03}"} for i in range(60)]
    names = {
        "loader": echobuf.torch.EchoLoader(data, batch_size=4, window=16, factor=2),
        "train_step": lambda x, y: x,
        "path": tmp_path / "hard.json",
    }
    exec(code_of(3).replace("1000", "10"), names)
    hard = json.loads((tmp_path / "hard.json").read_text())
    assert hard == [f"n{i:03}" for i in range(59, 49, -1)]
