"""Figures: result files say how they were taken, and hold those of the pages."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no checkout"),
]

RESULTS = sorted(
    path
    for folder in ("bench/results", "bench/results/gpu", "experiments/results")
    for path in (ROOT / folder).glob("*.json")
)

SCALES = {
    "": (1,),
    "%": (1, 100),
    "s": (1,),
    "ms": (1, 1e3),
    "us": (1, 1e6),
    "million": (1e-6,),
}
UNITS = "ms|us|s|%|million"
NUMBER = re.compile(rf"(?<![\w.^])(\d[\d,]*(?:\.\d+)?)(?: ?({UNITS})(?!\w))?(?!\^)")


def what_is_missing(content):
    """Return what a result file does not say of how it was taken."""
    about = content.get("environment", {})
    missing = [
        name
        for name in ("commit", "date", "cpu", "cores", "python", "command")
        if not about.get(name)
    ]
    if about.get("uncommitted_changes") is not False:
        missing.append("a clean tree")
    versions = list(versions_in(content))
    if not versions or not all(versions):
        missing.append("versions")
    return missing


def versions_in(content):
    """All versions that a result names, at any depth; None where one was not found."""
    if isinstance(content, dict):
        for name, value in content.items():
            if name == "versions":
                yield from value.values()
            else:
                yield from versions_in(value)
    elif isinstance(content, list):
        for value in content:
            yield from versions_in(value)


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_result_says_how_it_was_taken(path):
    assert not what_is_missing(json.loads(path.read_text()))


def figures_in(content):
    """All numbers that a result file holds."""
    if isinstance(content, dict):
        for name, value in content.items():
            if name != "environment":
                yield from figures_in(value)
    elif isinstance(content, list):
        for value in content:
            yield from figures_in(value)
    elif isinstance(content, int | float) and not isinstance(content, bool):
        yield float(content)


def figures_without_file(row):
    """Return the numbers of a row of a page's table that its file does not hold."""
    cells = [cell.strip() for cell in row.strip("|").split(" | ")]
    folder, name = re.search(r"`python (bench|experiments)/(\w+)\.py", row).groups()
    path = ROOT / folder / "results" / f"{name}.json"
    held = set(figures_in(json.loads(path.read_text())))
    said = re.sub(r"`[^`]*`", "", cells[1])
    return [
        match[0]
        for match in NUMBER.finditer(said)
        if not is_held(match[1].replace(",", ""), match[2] or "", held)
    ]


def is_held(text, unit, held):
    """Say if a number is one of those held, or its reciprocal, rounded as written.

    A list such as "22.9 ms (OpenCV 90)" gives the unit once.
    """
    places = len(text.partition(".")[2])
    scales = (
        SCALES[unit] if unit else {scale for all_ in SCALES.values() for scale in all_}
    )
    values = {value * scale for value in held for scale in scales}
    if not unit:
        values |= {1 / value for value in held if value}
    return any(abs(round(value, places) - float(text)) < 1e-9 for value in values)


PAGES = {"README.md": 5, "docs/figures.md": 20, "docs/when_not.md": 8}
"""The pages with a table of figures, and how many rows they have at least."""


def rows(page):
    text = (ROOT / page).read_text()
    return re.findall(r"^\|.*`python (?:bench|experiments)/\w+\.py.*$", text, re.M)


@pytest.mark.parametrize("page", PAGES)
def test_pages_have_their_rows(page):
    found = rows(page)
    assert len(found) >= PAGES[page]
    assert len(found) == 5 or page != "README.md"


@pytest.mark.parametrize(
    "row",
    [row for page in PAGES for row in rows(page)] if RESULTS else [],
    ids=lambda row: row[2:40],
)
def test_figures_of_pages_are_in_the_file_that_their_command_writes(row):
    assert figures_without_file(row) == []


def test_the_demo_is_told_as_its_file_has_it():
    runs = json.loads((ROOT / "bench" / "results" / "demo.json").read_text())["runs"]
    page = (ROOT / "docs" / "figures.md").read_text()
    readme = (ROOT / "README.md").read_text()
    table = page.partition("\n## The demo\n")[2]
    found = re.findall(r"^\| [^|]+ \| ([\d.]+) \| ([\d,]+) \| (\d+) \|", table, re.M)
    assert found == [
        (f"{run['seconds']:.1f}", f"{run['fresh']:,}", str(run["steps"]))
        for run in runs
    ]
    slow, *fast = (run["seconds"] for run in runs)
    for text in (readme, (ROOT / "docs" / "index.md").read_text()):
        assert f"{slow:.1f} s" in text
        assert f"{min(fast):.1f} to {max(fast):.1f} s" in text
