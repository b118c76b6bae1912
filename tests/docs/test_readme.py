"""README: its code runs, CI runs its second command, and its links lead on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import markdown

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


def blocks(language: str) -> list[str]:
    return markdown.blocks(README, language)


def test_the_first_two_commands_are_one_line_each():
    for block in blocks("sh")[:2]:
        assert len(block.splitlines()) == 1


def test_ci_runs_the_second_command_as_it_stands():
    assert blocks("sh")[1].strip() in (ROOT / ".ci" / "run").read_text().splitlines()


def test_it_fits_two_screens():
    text = README.read_text()
    assert len(text.splitlines()) <= 130
    assert len(text.split()) <= 950


def test_links_work_outside_of_the_repository():
    """PyPI shows README without the files beside it; test_links.py follows links."""
    found = re.findall(r"\]\(([^)\s]+)\)", README.read_text())
    assert len(found) > 10
    assert [link for link in found if not link.startswith("https://")] == []


def test_the_loader_example(capsys: pytest.CaptureFixture[str]):
    torch = pytest.importorskip("torch")
    torch_data = torch.utils.data
    data = torch_data.TensorDataset(torch.zeros(100, 3), torch.arange(100))
    steps: list[int] = []
    names = {
        "data_loader": torch_data.DataLoader(data, batch_size=10),
        "train_step": lambda images, labels: steps.append(len(labels)),
    }
    (code,) = blocks("python")
    exec(code, names)
    assert sum(steps) >= 10 * 100
    assert float(capsys.readouterr().out.splitlines()[0]) >= 1
