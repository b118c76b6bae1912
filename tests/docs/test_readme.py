"""README: its code runs, CI runs its second command, and its links lead on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import markdown

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
SITE = "https://echobuf.github.io/echobuf/"
FILES = "https://github.com/echobuf/echobuf/blob/main/"
RAW = "https://raw.githubusercontent.com/echobuf/echobuf/main/"


def blocks(language: str) -> list[str]:
    return markdown.blocks(README, language)


def links(text: str) -> list[str]:
    """Return the targets of all links and pictures."""
    return re.findall(r"\]\(([^)\s]+)\)", text)


def leads_on(link: str) -> bool:
    """Return whether a link works outside of the repository, as on PyPI."""
    if link.startswith(SITE):
        page, slash, anchor = link.removeprefix(SITE).partition("/")
        return bool(slash) and not anchor and (ROOT / "docs" / f"{page}.md").is_file()
    for folder in (FILES, RAW):
        if link.startswith(folder):
            return (ROOT / link.removeprefix(folder)).is_file()
    return link.startswith("https://arxiv.org/abs/")


def test_the_first_two_commands_are_one_line_each():
    for block in blocks("sh")[:2]:
        assert len(block.splitlines()) == 1


def test_ci_runs_the_second_command_as_it_stands():
    assert blocks("sh")[1].strip() in (ROOT / ".ci" / "run").read_text().splitlines()


def test_it_fits_two_screens():
    text = README.read_text()
    assert len(text.splitlines()) <= 130
    assert len(text.split()) <= 950


def test_links_lead_to_pages_of_the_site_and_to_files():
    found = links(README.read_text())
    assert len(found) > 10
    assert [link for link in found if not leads_on(link)] == []


@pytest.mark.parametrize(
    "link",
    [
        "docs/start.md",
        SITE + "dream/",
        SITE + "start",
        SITE + "start/#dream",
        FILES + "dream.md",
        RAW + "docs/dream.png",
        "https://example.org/",
    ],
)
def test_links_that_lead_nowhere_are_found(link):
    assert links(f"[text]({link})") == [link]
    assert not leads_on(link)


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
