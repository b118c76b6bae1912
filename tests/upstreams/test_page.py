"""The table and the sections of docs/upstreams.md name the same upstreams."""

import re
from pathlib import Path

import pytest

import markdown
from upstream_checks import PAGE

FOLDERS = (Path(__file__).parent, Path(__file__).parents[1] / "slow" / "frameworks")


def anchor(title):
    """As GitHub makes it."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def test_the_table_has_a_row_for_each_section():
    rows = re.findall(r"^\| \[.*\]\(#(\S+)\)", PAGE.read_text(), re.M)
    assert len(rows) > 10
    assert rows == [anchor(title) for title in markdown.sections(PAGE)]


@pytest.mark.parametrize("title", markdown.sections(PAGE))
def test_each_section_has_a_test_that_runs_its_code(title):
    assert len(markdown.blocks_below(PAGE, title, "python")) == 1
    paths = [path for folder in FOLDERS for path in folder.glob("test_*.py")]
    tests = [path.read_text() for path in paths]
    run = re.compile(rf'run\(\s*"{re.escape(title)}"')
    assert any(run.search(text) for text in tests)
